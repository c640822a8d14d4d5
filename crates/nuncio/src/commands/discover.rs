//! `nuncio discover`: lists what a host offers over any protocol.

use anstream::println;
use nuncio_anp::client::{AgentTarget, ClientError, ClientErrorReason, HostAgentList};
use nuncio_core::address;
use nuncio_skill::client::{ConsumerFailureCode, DiscoveredIndex, SkillConsumerError, SkillTarget};
use nuncio_skill::wire::SkillErrorCode;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{consumer, print_note, print_notes, read_credential, wrapped};
use super::peer::{agent_overview, client, is_agent};
use crate::cli::{DiscoverArguments, OutboundOptions};
use crate::output::{AlreadyReportedError, counted, readable_error, shell_quote};

pub(crate) async fn run(options: &DiscoverArguments, json: bool) -> anyhow::Result<()> {
    let peers = client(&options.outbound, options.key.bearer(), &options.signer, &options.verification).await?;
    if is_agent(&options.target) {
        let overview = agent_overview(&peers, &AgentTarget::parse(&options.target)?).await?;
        if json {
            println!("{}", json!({"agents": [overview.json()]}));
        } else {
            overview.print();
        }
        return overview.verdict();
    }
    let target = SkillTarget::parse(&options.target)?;
    let consumer = consumer(&options.outbound, print_notes(json))?;
    let credential = read_credential(&options.key);
    let skills = consumer.discover(&target, options.only, &credential).await;
    // `--type` selects among skills; agents have no type.
    let agents = match options.only {
        Some(_) => None,
        None => Some(peers.list(&target.host()).await),
    };
    let (found, problems) = separate_problems(skills, agents)?;
    if json {
        print_json(&found, &problems);
    } else {
        problems.iter().for_each(|problem| print_note(&problem.message));
        found.print(&target, &options.outbound);
    }
    let closed = problems.iter().any(|problem| problem.closed);
    if closed || (!problems.is_empty() && found.is_empty()) { Err(AlreadyReportedError.into()) } else { Ok(()) }
}

/// The skills and agents that a host offers; `None` where it does not support the protocol.
struct HostOffers {
    skills: Option<DiscoveredIndex>,
    agents: Option<HostAgentList>,
}

/// A part of the discovery that failed.
struct DiscoveryProblem {
    message: String,
    /// Whether the host refused the credential or requires one.
    closed: bool,
}

/// Separates offers from problems. A host need not support every protocol; one that supports none is an error.
fn separate_problems(
    skills: Result<DiscoveredIndex, SkillConsumerError>,
    agents: Option<Result<HostAgentList, ClientError>>,
) -> Result<(HostOffers, Vec<DiscoveryProblem>), anyhow::Error> {
    let (skills, agents) = match (skills, agents) {
        (Err(error), None) => return Err(error.into()),
        (Err(first), Some(Err(second))) if is_unsupported(first.status) && !is_unsupported(second.status) => {
            return Err(second.into());
        }
        (Err(first), Some(Err(_))) => return Err(first.into()),
        (skills, agents) => (skills, agents.transpose()),
    };
    let mut problems = Vec::new();
    if let Err(error) = &skills
        && !is_unsupported(error.status)
    {
        let closed =
            [SkillErrorCode::AuthRequired, SkillErrorCode::PermissionDenied].map(ConsumerFailureCode::Protocol);
        problems.push(DiscoveryProblem {
            message: readable_error(&error.to_string()),
            closed: closed.contains(&error.code),
        });
    }
    if let Err(error) = &agents
        && !is_unsupported(error.status)
    {
        let closed = matches!(error.reason, ClientErrorReason::IdentityNeeded | ClientErrorReason::Forbidden);
        problems.push(DiscoveryProblem { message: readable_error(&error.to_string()), closed });
    }
    Ok((HostOffers { skills: skills.ok(), agents: agents.ok().flatten() }, problems))
}

/// Whether this HTTP status means that the host does not support the requested protocol.
fn is_unsupported(status: Option<u16>) -> bool {
    matches!(status, Some(404 | 410))
}

fn print_json(found: &HostOffers, problems: &[DiscoveryProblem]) {
    let mut output = json!({});
    if let Some(found) = &found.skills {
        output = json!({"url": found.url, "index": found.index, "notes": found.notes});
    }
    if let Some(found) = &found.agents {
        output["anp"] = json!({"url": found.url, "agents": found.agents, "notes": found.notes});
    }
    if !problems.is_empty() {
        output["odd"] = problems.iter().map(|problem| problem.message.as_str()).collect::<Value>();
    }
    println!("{output}");
}

impl HostOffers {
    fn is_empty(&self) -> bool {
        let skills = self.skills.as_ref().is_none_or(|found| found.index.skills.is_empty());
        skills && self.agents.as_ref().is_none_or(|found| found.agents.is_empty())
    }

    fn print(&self, target: &SkillTarget, outbound: &OutboundOptions) {
        if let Some(found) = &self.skills {
            print_skills(target, found, outbound);
        }
        if let Some(found) = self.agents.as_ref().filter(|found| !found.agents.is_empty() || self.skills.is_none()) {
            if self.skills.is_some() {
                println!();
            }
            print_agents(found, outbound);
        }
    }
}

fn print_skills(target: &SkillTarget, found: &DiscoveredIndex, outbound: &OutboundOptions) {
    found.notes.iter().for_each(|text| print_note(text));
    let skills = &found.index.skills;
    println!("{}: {}", clean(&found.index.provider.name).bold(), counted(skills.len() as u64, "skill"));
    for skill in skills {
        let facts = format!("{}, {}, version {}", skill.capability_type.as_str(), skill.access.as_str(), skill.version);
        println!("\n{}  {}", clean(&skill.id).bold(), facts.dimmed());
        println!("{}", wrapped(&format!("{}: {}", skill.name, skill.description), "  "));
    }
    if let Some(skill) = skills.first() {
        // `SKILL@HOST` means https:, or http: on this machine; for another address the URL of the descriptor is needed.
        let host = target.host();
        let is_usual = address::read(&address::authority(&host)).is_ok_and(|usual| usual == host);
        let example = match is_usual {
            true => format!("{}@{}", skill.id, address::authority(&host)),
            false => skill.descriptor_url.clone(),
        };
        print_next(&example, outbound);
    }
}

fn print_agents(found: &HostAgentList, outbound: &OutboundOptions) {
    found.notes.iter().for_each(|text| print_note(text));
    let host = clean(found.url.host_str().unwrap_or_default()).into_owned();
    println!("{}: {}", host.bold(), counted(found.agents.len() as u64, "agent"));
    for agent in &found.agents {
        println!("\n{}", clean(agent.name.as_deref().unwrap_or("?")).bold());
        println!("  {}", clean(agent.url.as_str()).cyan());
    }
    if let Some(agent) = found.agents.first() {
        print_next(agent.url.as_str(), outbound);
    }
}

fn print_next(target: &str, outbound: &OutboundOptions) {
    println!("\n{} nuncio show {}{}", "next:".dimmed(), shell_quote(&clean(target)), outbound.as_flags());
}
