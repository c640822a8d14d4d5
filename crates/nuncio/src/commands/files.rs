//! `nuncio init` and `nuncio lint`: writing and checking agent files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use anstream::println;
use nuncio_core::Code;
use nuncio_core::declaration::STARTER;
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::cli::Init;
use crate::commands::chat::clean::clean;
use crate::output::fault;

mod access;
mod draft;
mod lint;
mod toml;

pub(crate) use lint::lint;

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
