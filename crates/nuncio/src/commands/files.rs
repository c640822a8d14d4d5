//! `nuncio init` and `nuncio lint`: writing and checking agent files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anstream::println;
use nuncio_agent_file::{STARTER, reference};
use nuncio_core::Code;
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::cli::Init;
use crate::commands::chat::clean::clean;
use crate::output::{counted, fault, shell_quote};

mod access;
mod device;
mod draft;
mod lint;
mod mcp;
mod openapi;
mod process;
mod sections;
mod start_progress;
mod toml;

pub(crate) use lint::lint;

/// Name of the JSON Schema beside an agent file, which editors read.
const SCHEMA_FILE: &str = ".agent.schema.json";

/// Writes an agent file to start from: the commented starter, or a file generated for the chosen start. Its JSON Schema
/// is written beside it and replaces an earlier one; no other file is ever replaced.
pub(crate) async fn init(options: &Init, json: bool) -> anyhow::Result<()> {
    let folder = &options.folder;
    let file = folder.join("agent.toml");
    let failed = |error: std::io::Error| write_fault(&file, &error);
    if file.exists() {
        return Err(failed(ErrorKind::AlreadyExists.into()));
    }
    let is_new_folder = !folder.exists();
    std::fs::create_dir_all(folder).map_err(failed)?;
    let draft = draft::make(options, json).await.inspect_err(|_| {
        // A folder that was created for a file that could not be generated is removed again.
        if is_new_folder {
            let _ = std::fs::remove_dir(folder);
        }
    })?;
    let text = draft.as_ref().map_or(STARTER, |draft| &draft.text);
    for (name, text) in draft.iter().flat_map(|draft| &draft.files) {
        write_new(&folder.join(name), text)?;
    }
    write_new(&file, &format!("#:schema ./{SCHEMA_FILE}\n\n{text}"))?;
    write_schema(folder).inspect_err(|_| {
        let _ = std::fs::remove_file(&file);
    })?;
    if json {
        println!("{}", json!({"written": file, "skipped": draft.map(|draft| draft.skipped).unwrap_or_default()}));
        return Ok(());
    }
    let tools = draft.as_ref().map(|draft| format!(", with {}", counted(draft.tools as u64, "tool")));
    println!("Wrote {}{}, and {SCHEMA_FILE} for editors beside it.", file.display().bold(), tools.unwrap_or_default());
    for (name, _) in draft.iter().flat_map(|draft| &draft.files) {
        println!("Wrote {}.", folder.join(name).display().bold());
    }
    for why in draft.iter().flat_map(|draft| &draft.skipped) {
        println!("{} {}", "left out:".yellow().bold(), clean(why));
    }
    println!("\nNext:");
    for variable in draft.iter().flat_map(|draft| &draft.secrets) {
        println!("  export {variable}=…     a secret that it needs");
    }
    let folder = shell_quote(&folder.display().to_string());
    println!("  nuncio lint {folder}     check it");
    println!("  nuncio serve {folder}    serve it at http://localhost:7400");
    Ok(())
}

/// Writes the JSON Schema that the first line of the agent file names. The file belongs to this program, so that one of
/// an earlier version is replaced.
fn write_schema(folder: &Path) -> anyhow::Result<()> {
    let file = folder.join(SCHEMA_FILE);
    std::fs::write(&file, format!("{:#}\n", reference::schema())).map_err(|error| write_fault(&file, &error))
}

/// Writes a file that must not exist yet.
fn write_new(file: &Path, text: &str) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| write_fault(file, &error);
    let mut out = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    out.write_all(text.as_bytes()).map_err(failed)
}

fn write_fault(file: &Path, error: &std::io::Error) -> anyhow::Error {
    let why = match error.kind() {
        ErrorKind::AlreadyExists => "it exists already; choose another folder".to_owned(),
        _ => error.to_string(),
    };
    fault(Code::AgentFileInvalid, format!("{} cannot be written: {why}", file.display()))
}
