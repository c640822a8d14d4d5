//! `nuncio init` and `nuncio lint`: writing and checking agent files.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use anstream::println;
use nuncio_confine::confinement;
use nuncio_core::Code;
use nuncio_core::agent::Agent;
use nuncio_core::declaration::STARTER;
use nuncio_core::manifest::Presets;
use nuncio_server::{AgentSource, describe_confinement, fronts, load_agents, program_notes};
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::cli::Init;
use crate::commands::chat::clean::clean;
use crate::output::fault;

mod access;
mod draft;
mod toml;

/// Writes an agent file to start from: the commented starter, or a file generated for an MCP server or a model. An
/// existing file is never replaced.
pub(crate) async fn init(options: &Init, json: bool) -> anyhow::Result<()> {
    let folder = &options.folder;
    let file = folder.join("agent.toml");
    let failed = |error: std::io::Error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists => "it exists already; choose another folder".to_owned(),
            _ => error.to_string(),
        };
        fault(Code::AgentFileInvalid, format!("{} cannot be written: {why}", file.display()))
    };
    if file.exists() {
        return Err(failed(ErrorKind::AlreadyExists.into()));
    }
    let is_new_folder = !folder.exists();
    std::fs::create_dir_all(folder).map_err(failed)?;
    let draft = draft::make(options).await.inspect_err(|_| {
        // A folder that was created for a file that could not be generated is removed again.
        if is_new_folder {
            let _ = std::fs::remove_dir(folder);
        }
    })?;
    let text = draft.as_ref().map_or(STARTER, |draft| &draft.text);
    let mut out = OpenOptions::new().write(true).create_new(true).open(&file).map_err(failed)?;
    out.write_all(text.as_bytes()).map_err(failed)?;
    if json {
        println!("{}", json!({"written": file, "skipped": draft.map(|draft| draft.skipped).unwrap_or_default()}));
        return Ok(());
    }
    println!("Wrote {}.", file.display().bold());
    for why in draft.iter().flat_map(|draft| &draft.skipped) {
        println!("{} {}", "left out:".yellow().bold(), clean(why));
    }
    println!("\nNext:");
    if let Some(variable) = draft.as_ref().and_then(|draft| draft.key) {
        println!("  export {variable}=…     the key to the model");
    }
    println!("  nuncio lint {}     check it", folder.display());
    println!("  nuncio serve {}    serve it at http://localhost:7400", folder.display());
    Ok(())
}

/// Checks agent files, prints all faults at once, and lists what each protocol cannot express.
pub(crate) fn lint(path: PathBuf, json: bool) -> anyhow::Result<()> {
    let declared = load_agents(&AgentSource::Path(path))?;
    for (file, declared) in &declared {
        nuncio_a2h::project::checked(&declared.agent, &Presets::default()).map_err(|faults| {
            let message = format!("{}: the tools for people's devices make no manifest: {faults}", file.path.display());
            fault(Code::AgentFileInvalid, message)
        })?;
    }
    check_skill_ids(declared.iter().map(|(_, declared)| &declared.agent))?;
    if json {
        let agents: Vec<_> = declared
            .iter()
            .map(|(file, declared)| {
                let notes: Vec<_> = declared.notes.iter().map(ToString::to_string).collect();
                let programs = declared.agent.programs().next().map(|_| {
                    let notes = program_notes(&declared.agent, &file.path);
                    json!({"confined": confinement(), "says": describe_confinement(confinement()), "notes": notes})
                });
                let inexpressible: BTreeMap<_, _> =
                    fronts().map(|front| (front.protocol().as_str(), front.inexpressible(&declared.agent))).collect();
                json!({
                    "file": file.path,
                    "agent": declared.agent.name,
                    "notes": notes,
                    "programs": programs,
                    "unsaid": inexpressible,
                })
            })
            .collect();
        println!("{}", json!({"agents": agents}));
        return Ok(());
    }
    for (file, declared) in &declared {
        let agent = &declared.agent;
        println!("{} {}: agent {}, {} tools", "ok".green().bold(), file.path.display(), agent.name, agent.tools.len());
        for note in &declared.notes {
            println!("{} {}", "note:".yellow().bold(), clean(&note.to_string()));
        }
        if agent.programs().next().is_some() {
            println!("{} {}", "programs:".dimmed(), describe_confinement(confinement()));
        }
        for note in program_notes(agent, &file.path) {
            println!("{} {note}", "note:".yellow().bold());
        }
        for front in fronts() {
            let inexpressible = front.inexpressible(agent);
            if !inexpressible.is_empty() {
                println!("{}", format!("{} cannot express:", front.name()).dimmed());
                inexpressible.iter().for_each(|what| println!("  {}", clean(what).dimmed()));
            }
        }
    }
    Ok(())
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
    if duplicates.is_empty() { Ok(()) } else { Err(fault(Code::AgentFileInvalid, duplicates.join("\n"))) }
}
