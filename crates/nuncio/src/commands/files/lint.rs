//! `nuncio lint`: checks agent files and what they need from this machine.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anstream::println;
use nuncio_agent_file::{AgentFileFault, ParsedAgentFile};
use nuncio_confine::confinement;
use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_core::manifest::ScopePresets;
use nuncio_server::{
    AgentFilesSource, ServerReachability, check_environment, describe_confinement, fronts, load_agents, program_notes,
    reach_servers,
};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::until_interrupted;
use crate::commands::chat::clean::clean;
use crate::output::{AlreadyReportedError, counted, fault};

/// Checks agent files, prints all faults at once, and lists what each protocol cannot express. With `connect`, it also
/// starts or reaches the servers that the agents use.
pub(crate) async fn lint(path: PathBuf, connect: bool, json: bool) -> anyhow::Result<()> {
    let declared = load_agents(&AgentFilesSource::Path(path))?;
    for (file, declared) in &declared {
        for front in fronts() {
            front
                .check(&declared.agent, &ScopePresets::default())
                .map_err(|why| fault(ErrorCode::AgentFileInvalid, format!("{}: {why}", file.path.display())))?;
        }
    }
    check_skill_ids(declared.iter().map(|(_, declared)| &declared.agent))?;
    let (mut reports, mut faults) = (Vec::new(), Vec::new());
    for (file, declared) in declared {
        let findings = check_environment(&declared, &file.path);
        faults.extend(findings.faults);
        reports.push(AgentFileReport { path: file.path, declared, environment: findings.notes, servers: None });
    }
    if !faults.is_empty() {
        if !json {
            reports.iter().for_each(AgentFileReport::print_findings);
        }
        let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
        return Err(fault(ErrorCode::AgentFileInvalid, lines.join("\n")));
    }
    if connect {
        for report in &mut reports {
            report.servers = Some(reach(&report.declared.agent, &report.path).await?);
        }
    }
    if json {
        println!("{}", json!({"agents": reports.iter().map(AgentFileReport::to_json).collect::<Vec<_>>()}));
    } else {
        reports.iter().for_each(AgentFileReport::print);
    }
    let is_reached = |report: &AgentFileReport| report.servers.iter().flatten().all(|server| server.outcome.is_ok());
    if reports.iter().all(is_reached) { Ok(()) } else { Err(AlreadyReportedError.into()) }
}

async fn reach(agent: &Agent, file: &Path) -> anyhow::Result<Vec<ServerReachability>> {
    let file = std::path::absolute(file)?;
    let folder = file.parent().unwrap_or(&file).to_owned();
    Ok(until_interrupted(reach_servers(agent, folder, std::env::current_exe()?)).await??)
}

/// Findings about one agent file.
struct AgentFileReport {
    path: PathBuf,
    declared: ParsedAgentFile,
    /// What the agent needs and this machine does not have.
    environment: Vec<AgentFileFault>,
    /// The servers that the agent uses, as they were reached; `None` without `--connect`.
    servers: Option<Vec<ServerReachability>>,
}

impl AgentFileReport {
    fn to_json(&self) -> Value {
        let Self { path, declared, environment, servers } = self;
        let agent = &declared.agent;
        let texts = |faults: &[AgentFileFault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let programs = agent.programs().next().map(|_| {
            let notes = program_notes(agent, path);
            json!({"confined": confinement(), "says": describe_confinement(confinement()), "notes": notes})
        });
        let inexpressible: BTreeMap<_, _> =
            fronts().map(|front| (front.protocol().as_str(), front.inexpressible(agent))).collect();
        let mut report = json!({
            "file": path,
            "agent": agent.name,
            "notes": texts(&declared.notes),
            "environment": texts(environment),
            "unscoped": declared.unscoped.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "programs": programs,
            "unsaid": inexpressible,
        });
        if let Some(servers) = servers {
            let server = |server: &ServerReachability| {
                let (Ok(says) | Err(says)) = &server.outcome;
                json!({
                    "part": server.part,
                    "address": server.address,
                    "reachable": server.outcome.is_ok(),
                    "says": says,
                })
            };
            report["servers"] = servers.iter().map(server).collect();
        }
        report
    }

    fn print(&self) {
        let Self { path, declared, servers, .. } = self;
        let agent = &declared.agent;
        let tools = counted(agent.tools.len() as u64, "tool");
        println!("{} {}: agent {}, {tools}", "ok".green().bold(), path.display(), agent.name);
        self.print_findings();
        for ServerReachability { part, address, outcome } in servers.iter().flatten() {
            match outcome {
                Ok(says) => println!("{} {part}: {} {}", "reached".green().bold(), clean(address), clean(says)),
                Err(why) => println!("{} {part}: {} {}", "failed".red().bold(), clean(address), clean(why)),
            }
        }
    }

    /// Prints what the author may want to change.
    fn print_findings(&self) {
        let Self { path, declared, environment, .. } = self;
        let agent = &declared.agent;
        for note in declared.notes.iter().chain(environment) {
            println!("{} {}", "note:".yellow().bold(), clean(&note.to_string()));
        }
        if agent.programs().next().is_some() {
            println!("{} {}", "programs:".dimmed(), describe_confinement(confinement()));
        }
        for note in program_notes(agent, path) {
            println!("{} {note}", "note:".yellow().bold());
        }
        if !declared.unscoped.is_empty() {
            println!("{}", "Without a scope, so that every caller of the agent may use it:".dimmed());
            declared.unscoped.iter().for_each(|position| println!("  {}", clean(&position.to_string()).dimmed()));
        }
        for front in fronts() {
            let inexpressible = front.inexpressible(agent);
            if !inexpressible.is_empty() {
                println!("{}", format!("{} cannot express:", front.name()).dimmed());
                inexpressible.iter().for_each(|what| println!("  {}", clean(what).dimmed()));
            }
        }
    }
}

/// Refuses agents that use the same skill id: skill ids are unique on a server.
fn check_skill_ids<'a>(agents: impl Iterator<Item = &'a Agent>) -> anyhow::Result<()> {
    let (mut owners, mut duplicates) = (HashMap::new(), Vec::new());
    for agent in agents {
        for id in agent.skills().map(|skill| &skill.id) {
            let first = *owners.entry(id).or_insert(&agent.name);
            if first != &agent.name {
                duplicates.push(agent.skill_taken(id, first));
            }
        }
    }
    if duplicates.is_empty() { Ok(()) } else { Err(fault(ErrorCode::AgentFileInvalid, duplicates.join("\n"))) }
}
