//! `nuncio discover`: lists what a host offers over any protocol.

use anstream::println;
use nuncio_anp::client::{AgentTarget as Peer, ClientError, HostListing, Reason as PeerReason};
use nuncio_core::address;
use nuncio_skill::client::{ConsumerError, Discovery, FailureCode, SkillTarget};
use nuncio_skill::wire::ErrorCode;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{consumer, for_discovery, note, notes, wrapped};
use super::peer::{agent_overview, client, is_agent};
use crate::cli::{Discover, OutboundOptions};
use crate::output::{AlreadyReported, readable_error, shell_quote};

/// Lists a host's skills and agents.
pub(crate) async fn run(options: &Discover, json: bool) -> anyhow::Result<()> {
    let peers = client(&options.reach, options.sight.api_key.as_ref().or(options.sight.token.as_ref()), &options.who)?;
    if is_agent(&options.target) {
        let sight = agent_overview(&peers, &Peer::parse(&options.target)?).await?;
        if json {
            println!("{}", json!({"agents": [sight.json()]}));
        } else {
            sight.people();
        }
        return sight.verdict();
    }
    let target = SkillTarget::parse(&options.target)?;
    let consumer = consumer(&options.reach, notes(json))?;
    let credential = for_discovery(options.sight.api_key.as_ref(), options.sight.token.as_ref());
    let skills = consumer.discover(&target, options.only, &credential).await;
    // Only skills have types.
    let agents = match options.only {
        Some(_) => None,
        None => Some(peers.list(&target.host()).await),
    };
    let (found, odd) = sorted(skills, agents)?;
    if json {
        programs(&found, &odd);
    } else {
        odd.iter().for_each(|odd| note(&odd.message));
        found.people(&target, &options.reach);
    }
    let closed = odd.iter().any(|odd| odd.closed);
    if closed || (!odd.is_empty() && found.is_nothing()) { Err(AlreadyReported.into()) } else { Ok(()) }
}

struct HostOffers {
    skills: Option<Discovery>,
    agents: Option<HostListing>,
}

/// A part of the discovery that failed.
struct DiscoveryProblem {
    message: String,
    /// Whether the host refused the credential or requires one.
    closed: bool,
}

/// Separates offers from problems. A host need not support every protocol; one that supports none is an error.
fn sorted(
    skills: Result<Discovery, ConsumerError>,
    agents: Option<Result<HostListing, ClientError>>,
) -> Result<(HostOffers, Vec<DiscoveryProblem>), anyhow::Error> {
    let (skills, agents) = match (skills, agents) {
        (Err(error), None) => return Err(error.into()),
        (Err(first), Some(Err(second))) if has_no_skills(&first) && !has_no_agents(&second) => {
            return Err(second.into());
        }
        (Err(first), Some(Err(_))) => return Err(first.into()),
        (skills, agents) => (skills, agents.transpose()),
    };
    let mut odd = Vec::new();
    if let Err(error) = &skills
        && !has_no_skills(error)
    {
        let closed = [ErrorCode::AuthRequired, ErrorCode::PermissionDenied].map(FailureCode::Protocol);
        odd.push(DiscoveryProblem {
            message: readable_error(&error.to_string()),
            closed: closed.contains(&error.code),
        });
    }
    if let Err(error) = &agents
        && !has_no_agents(error)
    {
        let closed = matches!(error.reason, PeerReason::IdentityNeeded | PeerReason::Forbidden);
        odd.push(DiscoveryProblem { message: readable_error(&error.to_string()), closed });
    }
    Ok((HostOffers { skills: skills.ok(), agents: agents.ok().flatten() }, odd))
}

/// Whether the host simply has no index of skills.
fn has_no_skills(error: &ConsumerError) -> bool {
    matches!(error.status, Some(404 | 410))
}

/// Whether the host simply has no list of agents.
fn has_no_agents(error: &ClientError) -> bool {
    matches!(error.status, Some(404 | 410))
}

fn programs(found: &HostOffers, odd: &[DiscoveryProblem]) {
    let mut told = json!({});
    if let Some(found) = &found.skills {
        told = json!({"url": found.url, "index": found.index, "notes": found.notes});
    }
    if let Some(found) = &found.agents {
        told["anp"] = json!({"url": found.url, "agents": found.agents, "notes": found.notes});
    }
    if !odd.is_empty() {
        told["odd"] = odd.iter().map(|odd| odd.message.as_str()).collect::<Value>();
    }
    println!("{told}");
}

impl HostOffers {
    fn is_nothing(&self) -> bool {
        let skills = self.skills.as_ref().is_none_or(|found| found.index.skills.is_empty());
        skills && self.agents.as_ref().is_none_or(|found| found.agents.is_empty())
    }

    fn people(&self, target: &SkillTarget, reach: &OutboundOptions) {
        if let Some(found) = &self.skills {
            people(target, found, reach);
        }
        if let Some(found) = self.agents.as_ref().filter(|found| !found.agents.is_empty() || self.skills.is_none()) {
            if self.skills.is_some() {
                println!();
            }
            list(found, reach);
        }
    }
}

fn people(target: &SkillTarget, found: &Discovery, reach: &OutboundOptions) {
    found.notes.iter().for_each(|odd| note(odd));
    let skills = &found.index.skills;
    println!("{}: {}", clean(&found.index.provider.name).bold(), count(skills.len(), "skill"));
    for skill in skills {
        let facts = format!("{}, {}, version {}", skill.capability_type.as_str(), skill.access.as_str(), skill.version);
        println!("\n{}  {}", clean(&skill.id).bold(), facts.dimmed());
        println!("{}", wrapped(&format!("{}: {}", skill.name, skill.description), "  "));
    }
    if let Some(skill) = skills.first() {
        // A host alone means https:, and http: on this machine; where it is not that, the address says more.
        let host = target.host();
        let is_usual = address::read(&address::authority(&host)).is_ok_and(|usual| usual == host);
        let one = match is_usual {
            true => format!("{}@{}", skill.id, address::authority(&host)),
            false => skill.descriptor_url.clone(),
        };
        next(&one, reach);
    }
}

fn list(found: &HostListing, reach: &OutboundOptions) {
    found.notes.iter().for_each(|odd| note(odd));
    let host = clean(found.url.host_str().unwrap_or_default()).into_owned();
    println!("{}: {}", host.bold(), count(found.agents.len(), "agent"));
    for agent in &found.agents {
        println!("\n{}", clean(agent.name.as_deref().unwrap_or("?")).bold());
        println!("  {}", clean(agent.url.as_str()).cyan());
    }
    if let Some(agent) = found.agents.first() {
        next(agent.url.as_str(), reach);
    }
}

fn next(target: &str, reach: &OutboundOptions) {
    println!("\n{} nuncio show {}{}", "next:".dimmed(), shell_quote(&clean(target)), reach.as_flags());
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
