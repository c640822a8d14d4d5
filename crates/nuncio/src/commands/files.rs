//! `nuncio init` and `nuncio lint`: the author's tools.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anstream::println;
use nuncio_core::Code;
use nuncio_core::declaration::STARTER;
use nuncio_server::{AgentSource, load_agents};
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::output::fault;

/// Writes a commented starter. A file that is there is left alone.
pub(crate) fn init(folder: &Path, json: bool) -> anyhow::Result<()> {
    let file = folder.join("agent.toml");
    let failed = |error: std::io::Error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists => "it exists already; choose another folder".to_owned(),
            _ => error.to_string(),
        };
        fault(Code::AgentFileInvalid, format!("{} cannot be written: {why}", file.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut out = OpenOptions::new().write(true).create_new(true).open(&file).map_err(failed)?;
    out.write_all(STARTER.as_bytes()).map_err(failed)?;
    if json {
        println!("{}", json!({"written": file}));
        return Ok(());
    }
    println!("Wrote {}.\n\nNext:", file.display().bold());
    println!("  nuncio lint {}     check it", folder.display());
    println!("  nuncio serve {}    serve it at http://localhost:7400", folder.display());
    Ok(())
}

/// Checks agent files, all faults at once, and says what each protocol leaves out.
pub(crate) fn lint(path: PathBuf, json: bool) -> anyhow::Result<()> {
    let declared = load_agents(&AgentSource::Path(path))?;
    if json {
        let agents: Vec<_> = declared
            .iter()
            .map(|(file, declared)| {
                let notes: Vec<_> = declared.notes.iter().map(ToString::to_string).collect();
                json!({
                    "file": file.path,
                    "agent": declared.agent.name,
                    "notes": notes,
                    "unsaid": {"aap": nuncio_aap::unsaid(&declared.agent)},
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
            println!("{} {note}", "note:".yellow().bold());
        }
        let unsaid = nuncio_aap::unsaid(agent);
        if !unsaid.is_empty() {
            println!("{}", "AAP cannot express:".dimmed());
            unsaid.iter().for_each(|what| println!("  {}", what.dimmed()));
        }
    }
    Ok(())
}
