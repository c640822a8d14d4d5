//! `nuncio discover`: what a host offers, by whichever protocol.

use anstream::println;
use nuncio_anp::client::{ClientError, Listing, Reason as PeerReason, Target as Peer};
use nuncio_skill::client::{ConsumerError, Discovery, Reason, Target};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{consumer, for_discovery, note, notes, wrapped};
use super::peer::{client, is_agent, sight};
use crate::cli::Discover;

/// Lists a host's skills and agents.
pub(crate) async fn run(options: &Discover, json: bool) -> anyhow::Result<()> {
    let peers = client(&options.reach, options.sight.api_key.as_ref().or(options.sight.token.as_ref()), &options.who)?;
    if is_agent(&options.target) {
        let sight = sight(&peers, &Peer::parse(&options.target)?).await?;
        if json {
            println!("{}", json!({"agents": [sight.json()]}));
        } else {
            sight.people();
        }
        return sight.verdict();
    }
    let target = Target::parse(&options.target)?;
    let consumer = consumer(&options.reach, notes(json))?;
    let credential = for_discovery(options.sight.api_key.as_ref(), options.sight.token.as_ref());
    let skills = consumer.discover(&target, options.only, &credential).await;
    // Only skills have types.
    let agents = match options.only {
        Some(_) => None,
        None => Some(peers.list(&target.host()).await),
    };
    show(&target, skills, agents, json)
}

fn show(
    target: &Target,
    skills: Result<Discovery, ConsumerError>,
    agents: Option<Result<Listing, ClientError>>,
    json: bool,
) -> anyhow::Result<()> {
    let (mut odd, mut told) = (Vec::new(), json!({}));
    let agents = match agents {
        Some(Ok(agents)) => Some(agents),
        Some(Err(error)) if matters(&error) => {
            odd.push(error.message.clone());
            None
        }
        _ => None,
    };
    let skills = match skills {
        Ok(skills) => Some(skills),
        Err(error) if agents.is_none() => return Err(error.into()),
        Err(error) => {
            if matches!(error.reason, Reason::InvalidDocument | Reason::Incompatible | Reason::TooLarge) {
                odd.push(error.message.clone());
            }
            None
        }
    };
    if json {
        if let Some(found) = &skills {
            told = json!({"url": found.url, "index": found.index, "notes": found.notes});
        }
        if let Some(found) = &agents {
            told["anp"] = json!({"url": found.url, "agents": found.agents, "notes": found.notes});
        }
        if !odd.is_empty() {
            told["odd"] = Value::from(odd);
        }
        println!("{told}");
        return Ok(());
    }
    odd.iter().for_each(|message| note(message));
    if let Some(found) = &skills {
        people(target, found);
    }
    if let Some(found) = agents.filter(|found| !found.agents.is_empty() || skills.is_none()) {
        if skills.is_some() {
            println!();
        }
        list(&found);
    }
    Ok(())
}

/// Whether someone is there who speaks ANP, badly.
fn matters(error: &ClientError) -> bool {
    matches!(error.reason, PeerReason::InvalidDocument | PeerReason::TooLarge)
}

fn people(target: &Target, found: &Discovery) {
    found.notes.iter().for_each(|odd| note(odd));
    let skills = &found.index.skills;
    println!("{}: {} skills", clean(&found.index.provider.name).bold(), skills.len());
    for skill in skills {
        let facts = format!("{}, {}, version {}", skill.capability_type.as_str(), skill.access.as_str(), skill.version);
        println!("\n{}  {}", clean(&skill.id).bold(), facts.dimmed());
        println!("{}", wrapped(&format!("{}: {}", skill.name, skill.description), "  "));
    }
    if let Some(skill) = skills.first() {
        let host = target.host();
        let port = host.port().map(|port| format!(":{port}")).unwrap_or_default();
        let one = format!("{}@{}{port}", skill.id, host.host_str().unwrap_or_default());
        println!("\n{} nuncio show {}", "next:".dimmed(), clean(&one));
    }
}

fn list(found: &Listing) {
    found.notes.iter().for_each(|odd| note(odd));
    println!("{}: {} agents", clean(found.url.host_str().unwrap_or_default()).bold(), found.agents.len());
    for agent in &found.agents {
        println!("\n{}", clean(agent.name.as_deref().unwrap_or("?")).bold());
        println!("  {}", clean(agent.url.as_str()).cyan());
    }
    if let Some(agent) = found.agents.first() {
        println!("\n{} nuncio show {}", "next:".dimmed(), clean(agent.url.as_str()));
    }
}
