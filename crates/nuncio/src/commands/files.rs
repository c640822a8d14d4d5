//! `nuncio init` and `nuncio lint`: writing and checking agent files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anstream::println;
use nuncio_agent_file::reference;
use nuncio_core::ErrorCode;
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::cli::InitArguments;
use crate::commands::chat::clean::clean;
use crate::output::{counted, fault, shell_quote, wrong_usage};
use sections::NeededSecret;

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
pub(crate) async fn init(options: &InitArguments, json: bool) -> anyhow::Result<()> {
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
    write_schema(folder)?;
    // A program of the author's stays as it is.
    let (kept, new): (Vec<_>, Vec<_>) = draft.files.iter().partition(|(name, _)| folder.join(name).exists());
    for (name, text) in &new {
        write_new(&folder.join(name), text)?;
    }
    write_new(&file, &format!("#:schema ./{SCHEMA_FILE}\n\n{}", draft.text))?;
    if json {
        println!("{}", json!({"written": file, "skipped": draft.skipped}));
        return Ok(());
    }
    let tools = draft.tools.map(|tools| format!(", with {}", counted(tools as u64, "tool")));
    println!("Wrote {}{}, and {SCHEMA_FILE} for editors beside it.", file.display().bold(), tools.unwrap_or_default());
    for (name, _) in new {
        println!("Wrote {}.", folder.join(name).display().bold());
    }
    for (name, _) in kept {
        println!("Kept {}, which exists already.", folder.join(name).display().bold());
    }
    for why in &draft.skipped {
        println!("{} {}", "left out:".yellow().bold(), clean(why));
    }
    for sentence in &draft.access {
        println!("{} {}", "files:".cyan().bold(), clean(sentence));
    }
    println!("\nNext:");
    for NeededSecret { name, form } in &draft.secrets {
        let form = if form.is_empty() { String::new() } else { format!(" ({form})") };
        println!("  export {name}=…     a secret that it needs{form}");
    }
    let shown = shell_quote(&folder.display().to_string());
    println!("  nuncio lint {shown}     check it");
    println!("  nuncio serve {shown}{}    serve it at http://localhost:7400", data_option(folder));
    for line in &draft.next {
        println!("  {line}");
    }
    Ok(())
}

/// Option of `nuncio serve` for an agent in this folder; empty unless [`outside_data_name`] names a data directory.
fn data_option(folder: &Path) -> String {
    let name = outside_data_name(folder);
    name.map_or_else(String::new, |name| format!(" --data {}", shell_quote(&format!("../{name}"))))
}

/// Name of a data directory beside the current folder, if that is the agent's and would contain the default one. Programs
/// cannot list a folder that contains the data directory; Python programs, for example, could not import their modules.
fn outside_data_name(folder: &Path) -> Option<String> {
    let current = std::env::current_dir().ok()?;
    let is_current = std::path::absolute(folder).is_ok_and(|folder| folder == current);
    let name = current.file_name().filter(|_| is_current && std::env::var_os("NUNCIO_DATA").is_none())?;
    Some(format!("{}-data", name.to_string_lossy()))
}

/// Waits for `work`, or ends it when the user interrupts the command, so that what it made is removed.
async fn until_interrupted<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => Ok(done),
        _ = tokio::signal::ctrl_c() => Err(wrong_usage("interrupted")),
    }
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
        ErrorKind::AlreadyExists => "it exists already; delete it, or choose another folder".to_owned(),
        _ => error.to_string(),
    };
    fault(ErrorCode::AgentFileInvalid, format!("{} cannot be written: {why}", file.display()))
}
