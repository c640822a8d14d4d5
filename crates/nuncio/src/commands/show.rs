//! `nuncio show`: one skill or agent, as text for people.

use anstream::println;
use nuncio_anp::client::{AgentTarget, AnpClient};
use nuncio_skill::client::{ConsumerErrorReason, ResolvedSkill, SkillConsumerError, SkillTarget};
use nuncio_skill::wire::{AuthType, ParameterDefinition, SkillDescriptor};
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::chat::clean::clean;
use super::consumer::{consumer, print_note, print_notes, read_credential, wrapped};
use super::peer::{agent_overview, client, is_agent};
use crate::cli::ShowArguments;
use crate::output::table;

/// Number of agents of a host that are shown at once.
const MAX_SHOWN_AGENTS: usize = 10;

pub(crate) async fn run(options: &ShowArguments, json: bool) -> anyhow::Result<()> {
    let peers = client(&options.outbound, options.key.bearer(), &options.signer, &options.verification).await?;
    if is_agent(&options.target) {
        return agents(&peers, &[AgentTarget::parse(&options.target)?], json).await;
    }
    let target = SkillTarget::parse(&options.target)?;
    if let SkillTarget::Host(host) = &target
        && let Ok(listing) = peers.list(host).await
        && !listing.agents.is_empty()
    {
        let targets: Vec<_> = listing
            .agents
            .iter()
            .take(MAX_SHOWN_AGENTS)
            .map(|agent| AgentTarget::Description(agent.url.clone()))
            .collect();
        if listing.agents.len() > MAX_SHOWN_AGENTS {
            print_note(&format!("{} of {} agents are shown", targets.len(), listing.agents.len()));
        }
        return agents(&peers, &targets, json).await;
    }
    match skill(options, &target, json).await {
        Err(error) if may_be_an_agent(&error) => match AgentTarget::parse(&options.target) {
            Ok(peer) if peers.describe(&peer).await.is_ok() => agents(&peers, &[peer], json).await,
            _ => Err(error),
        },
        shown => shown,
    }
}

/// Whether the error means that the target is not a skill, but may be an agent.
fn may_be_an_agent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<SkillConsumerError>().is_some_and(|error| {
        matches!(error.reason, ConsumerErrorReason::InvalidDocument | ConsumerErrorReason::Incompatible)
    })
}

async fn agents(client: &AnpClient, targets: &[AgentTarget], json: bool) -> anyhow::Result<()> {
    let (mut output, mut verdict) = (Vec::new(), Ok(()));
    for (index, target) in targets.iter().enumerate() {
        let overview = agent_overview(client, target).await?;
        if json {
            output.push(overview.json());
        } else {
            if index > 0 {
                println!();
            }
            overview.print();
        }
        verdict = verdict.and(overview.verdict());
    }
    match output.as_slice() {
        [] => {}
        [agent] => println!("{agent}"),
        several => println!("{}", json!({"agents": several})),
    }
    verdict
}

async fn skill(options: &ShowArguments, target: &SkillTarget, json: bool) -> anyhow::Result<()> {
    let consumer = consumer(&options.outbound, print_notes(json))?;
    let credential = read_credential(&options.key);
    let described = consumer.describe(target, &credential).await?;
    if json {
        let ResolvedSkill { descriptor, url, notes, .. } = &described;
        println!("{}", json!({"url": url, "descriptor": descriptor, "notes": notes}));
        return Ok(());
    }
    print_skill(&described);
    Ok(())
}

fn print_skill(described: &ResolvedSkill) {
    let skill = &described.descriptor;
    println!("{}", clean(&skill.name).bold());
    println!("{}\n", wrapped(&skill.description, ""));
    print_fact("id", &skill.id);
    print_fact("version", &format!("{} (protocol {})", skill.version, skill.protocol.version));
    print_fact("type", skill.capability_type.as_str());
    print_fact("access", skill.access.as_str());
    let contact = skill.provider.contact.as_ref().or(skill.provider.url.as_ref());
    print_fact(
        "provider",
        &[Some(&skill.provider.name), contact].into_iter().flatten().cloned().collect::<Vec<_>>().join(", "),
    );
    print_fact("endpoint", &format!("{} {}", skill.endpoint.method.as_str(), described.endpoint));
    if let Some(limit) = &skill.endpoint.timeout_ms {
        print_fact("time limit", &format!("{:?}", limit.as_millis()));
    }
    print_fact("auth", &describe_auth(skill));
    if let Some(tags) = &skill.tags {
        print_fact("tags", &tags.join(", "));
    }
    if let Some(url) = &skill.documentation_url {
        print_fact("documents", url);
    }
    print_fact("descriptor", described.url.as_str());
    println!();
    if skill.inputs.is_empty() {
        println!("It takes no inputs.");
    } else {
        table(&["INPUT", "TYPE", "REQUIRED", "DEFAULT"], skill.inputs.iter().map(row));
        for input in &skill.inputs {
            println!("{}", wrapped(&format!("{}: {}", input.name, input.description), "  ").dimmed());
        }
    }
    let what = skill.output.description.as_deref().unwrap_or("see its schema with --json");
    println!("\n{}", wrapped(&format!("Output ({}): {what}", skill.output.content_type), ""));
}

fn print_fact(name: &str, value: &str) {
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

fn describe_auth(skill: &SkillDescriptor) -> String {
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
            let instructions = auth.custom.as_ref().map(|custom| custom.instructions.as_str()).unwrap_or_default();
            format!("its own: {instructions}")
        }
    };
    match &auth.description {
        Some(text) if auth.r#type != AuthType::Custom => format!("{how} ({text})"),
        _ => how,
    }
}
