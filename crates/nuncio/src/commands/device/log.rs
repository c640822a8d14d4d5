//! `nuncio device audit` and `nuncio device status`.

use std::path::Path;

use anstream::{eprintln, println};
use nuncio_core::Code;
use nuncio_device::tools::confinement;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out};
use super::home::folder_of;
use super::storage::describe;
use super::write_private_file;
use crate::cli::DeviceHomeOptions;
use crate::output::{cell, fault, items, show, table};

pub(super) async fn audit(home: &DeviceHomeOptions, export: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let answer = carry_out(home, DeviceCommand::Audit).await?;
    let entries = items(&answer["entries"]);
    let count = cell(&answer["verified"]);
    if let Some(file) = export {
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        let unusable = |why| fault(Code::DataDirUnusable, format!("{} cannot be written: {why}", file.display()));
        write_private_file(file, &lines).map_err(unusable)?;
        show(json, &json!({"verified": answer["verified"], "file": file}), |_| {
            println!("{count} entries are verified and are in {}.", file.display());
        });
        return Ok(());
    }
    show(json, &answer, |_| {
        let row = |entry: &Value| {
            let why = if entry["reason"].is_null() { &entry["status"] } else { &entry["reason"] };
            vec![cell(&entry["timestamp"]), cell(&entry["tool_name"]), cell(why)]
        };
        table(&["WHEN", "TOOL", "WHAT BECAME OF IT"], entries.iter().map(row));
        eprintln!("{}", format!("{count} entries, all verified.").dimmed());
    });
    Ok(())
}

pub(super) async fn status(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    let mut answer = carry_out(home, DeviceCommand::Status).await?;
    answer["home"] = folder_of(home)?.display().to_string().into();
    answer["programs"] = json!(confinement());
    let (sealed_by, value) = describe(&folder_of(home)?);
    answer["sealed_by"] = value;
    show(json, &answer, |answer| {
        for name in ["person", "device", "url", "home", "agents", "audit"] {
            println!("{:<10}{}", name.dimmed(), cell(&answer[name]));
        }
        println!("{:<10}{}", "programs".dimmed(), confinement());
        println!("{:<10}{sealed_by}", "sealed by".dimmed());
        println!("{:<10}{}", "server".dimmed(), cell(&answer["server"]));
        if let Some(advice) = connection_advice(answer["server"].as_str()) {
            eprintln!("{}", advice.red());
        }
    });
    Ok(())
}

/// What the person can do about a connection to the server that does not work.
pub(super) fn connection_advice(state: Option<&str>) -> Option<&'static str> {
    match state? {
        "unreachable" => Some(
            "The server cannot be reached, so agents get no answer from this device. Check the network, or ask the \
             operator of the server.",
        ),
        "removed" => Some(
            "This device was removed from your account: agents can no longer use it. Ask the operator of the server \
             if you did not expect this. To use this machine again, get a new invite and join in another folder: \
             nuncio device join LINK --home DIR",
        ),
        _ => None,
    }
}
