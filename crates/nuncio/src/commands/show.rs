//! `nuncio show`: one skill or agent, as text for people.

use anstream::println;
use nuncio_anp::client::{AgentTarget as Peer, AnpClient};
use nuncio_skill::client::{ConsumerError, Reason, ResolvedSkill, SkillTarget};
use nuncio_skill::wire::{AuthType, ParameterDefinition, SkillDescriptor};
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::chat::clean::clean;
use super::consumer::{consumer, for_discovery, note, notes, wrapped};
use super::peer::{agent_overview, client, is_agent};
use crate::cli::Show;
use crate::output::table;

/// Number of agents of a host that are shown at once.
const MOST: usize = 10;

/// Shows a skill or an agent.
pub(crate) async fn run(options: &Show, json: bool) -> anyhow::Result<()> {
    let peers = client(&options.reach, options.sight.api_key.as_ref().or(options.sight.token.as_ref()), &options.who)?;
    if is_agent(&options.target) {
        return agents(&peers, &[Peer::parse(&options.target)?], json).await;
    }
    let target = SkillTarget::parse(&options.target)?;
    if let SkillTarget::Host(host) = &target
        && let Ok(listing) = peers.list(host).await
        && !listing.agents.is_empty()
    {
        let some: Vec<_> = listing.agents.iter().take(MOST).map(|it| Peer::Description(it.url.clone())).collect();
        if listing.agents.len() > MOST {
            note(&format!("{} of {} agents are shown", some.len(), listing.agents.len()));
        }
        return agents(&peers, &some, json).await;
    }
    match skill(options, &target, json).await {
        Err(error) if may_be_an_agent(&error) => match Peer::parse(&options.target) {
            Ok(peer) if peers.describe(&peer).await.is_ok() => agents(&peers, &[peer], json).await,
            _ => Err(error),
        },
        shown => shown,
    }
}

/// Whether the error means that the target is not a skill.
fn may_be_an_agent(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<ConsumerError>()
        .is_some_and(|error| matches!(error.reason, Reason::InvalidDocument | Reason::Incompatible))
}

async fn agents(client: &AnpClient, targets: &[Peer], json: bool) -> anyhow::Result<()> {
    let (mut told, mut verdict) = (Vec::new(), Ok(()));
    for (place, target) in targets.iter().enumerate() {
        let sight = agent_overview(client, target).await?;
        if json {
            told.push(sight.json());
        } else {
            if place > 0 {
                println!();
            }
            sight.people();
        }
        verdict = verdict.and(sight.verdict());
    }
    match told.as_slice() {
        [] => {}
        [one] => println!("{one}"),
        several => println!("{}", json!({"agents": several})),
    }
    verdict
}

async fn skill(options: &Show, target: &SkillTarget, json: bool) -> anyhow::Result<()> {
    let consumer = consumer(&options.reach, notes(json))?;
    let credential = for_discovery(options.sight.api_key.as_ref(), options.sight.token.as_ref());
    let described = consumer.describe(target, &credential).await?;
    if json {
        let ResolvedSkill { descriptor, url, notes, .. } = &described;
        println!("{}", json!({"url": url, "descriptor": descriptor, "notes": notes}));
        return Ok(());
    }
    people(&described);
    Ok(())
}

fn people(described: &ResolvedSkill) {
    let skill = &described.descriptor;
    println!("{}", clean(&skill.name).bold());
    println!("{}\n", wrapped(&skill.description, ""));
    fact("id", &skill.id);
    fact("version", &format!("{} (protocol {})", skill.version, skill.protocol.version));
    fact("type", skill.capability_type.as_str());
    fact("access", skill.access.as_str());
    let contact = skill.provider.contact.as_ref().or(skill.provider.url.as_ref());
    fact(
        "provider",
        &[Some(&skill.provider.name), contact].into_iter().flatten().cloned().collect::<Vec<_>>().join(", "),
    );
    fact("endpoint", &format!("{} {}", skill.endpoint.method.as_str(), described.endpoint));
    if let Some(limit) = &skill.endpoint.timeout_ms {
        fact("time limit", &format!("{:?}", limit.as_millis()));
    }
    fact("auth", &auth(skill));
    if let Some(tags) = &skill.tags {
        fact("tags", &tags.join(", "));
    }
    if let Some(url) = &skill.documentation_url {
        fact("documents", url);
    }
    fact("descriptor", described.url.as_str());
    println!();
    if skill.inputs.is_empty() {
        println!("It takes no inputs.");
    } else {
        let rows: Vec<_> = skill.inputs.iter().map(row).collect();
        table(&["INPUT", "TYPE", "REQUIRED", "DEFAULT"], &rows);
        for input in &skill.inputs {
            println!("{}", wrapped(&format!("{}: {}", input.name, input.description), "  ").dimmed());
        }
    }
    let what = skill.output.description.as_deref().unwrap_or("see its schema with --json");
    println!("\n{}", wrapped(&format!("Output ({}): {what}", skill.output.content_type), ""));
}

fn fact(name: &str, value: &str) {
    println!("{:<12}{}", name.dimmed(), clean(value));
}

fn row(input: &ParameterDefinition) -> Vec<String> {
    let default = input.default.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let default = if default.chars().count() > 30 { "see --json".to_owned() } else { default };
    let required = if input.required { "yes" } else { "no" };
    vec![
        clean(&input.name).into_owned(),
        clean(&input.r#type).into_owned(),
        required.to_owned(),
        clean(&default).into_owned(),
    ]
}

fn auth(skill: &SkillDescriptor) -> String {
    let auth = &skill.auth;
    let how = match auth.r#type {
        AuthType::None => "none".to_owned(),
        AuthType::ApiKey => format!("API key in the header {}", auth.header.as_deref().unwrap_or("X-API-Key")),
        AuthType::OAuth2 => match &auth.oauth2 {
            Some(oauth2) => {
                let scopes: Vec<_> = oauth2.scopes.keys().map(String::as_str).collect();
                format!("OAuth 2.0 at {}, scopes {}", oauth2.token_url, scopes.join(" "))
            }
            None => "OAuth 2.0".to_owned(),
        },
        AuthType::Custom => {
            let said = auth.custom.as_ref().map(|custom| custom.instructions.as_str()).unwrap_or_default();
            format!("its own: {said}")
        }
    };
    match &auth.description {
        Some(text) if auth.r#type != AuthType::Custom => format!("{how} ({text})"),
        _ => how,
    }
}
