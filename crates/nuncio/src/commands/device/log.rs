//! `nuncio device audit` and `nuncio device status`.

use std::fmt::Display;
use std::path::Path;

use anstream::{eprintln, println};
use nuncio_core::ErrorCode;
use nuncio_device::tools::confinement;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out};
use super::home::{folder_of, home_flag};
use super::storage::describe;
use super::texts::{DeviceTexts, confinement_text, fill};
use super::{socket, write_private_file};
use crate::cli::DeviceHomeOptions;
use crate::output::{cell, fault, items, padded, show, table};

pub(super) async fn audit(home: &DeviceHomeOptions, export: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let texts = DeviceTexts::of_environment();
    let answer = carry_out(home, DeviceCommand::Audit).await?;
    let entries = items(&answer["entries"]);
    let count = cell(&answer["verified"]);
    if let Some(file) = export {
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        let unusable = |why| fault(ErrorCode::DataDirUnusable, format!("{} cannot be written: {why}", file.display()));
        write_private_file(file, &lines).map_err(unusable)?;
        show(json, &json!({"verified": answer["verified"], "file": file}), |_| {
            let text = if entries.len() == 1 { texts.one_exported } else { texts.exported };
            println!("{}", fill(text, &[("count", &count), ("file", &file.display())]));
        });
        return Ok(());
    }
    show(json, &answer, |_| {
        let row = |entry: &Value| {
            let why = if entry["reason"].is_null() { &entry["status"] } else { &entry["reason"] };
            vec![cell(&entry["timestamp"]), cell(&entry["tool_name"]), cell(why)]
        };
        table(&[texts.when_heading, texts.tool_heading, texts.outcome_heading], entries.iter().map(row));
        let text = if entries.len() == 1 { texts.one_verified } else { texts.all_verified };
        eprintln!("{}", fill(text, &[("count", &count)]).dimmed());
    });
    Ok(())
}

pub(super) async fn status(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    let folder = folder_of(home)?;
    let is_running = socket::ask(&folder, &DeviceCommand::Ping).await?.is_some();
    let mut answer = carry_out(home, DeviceCommand::Status).await?;
    answer["home"] = folder.display().to_string().into();
    answer["programs"] = json!(confinement());
    let (sealed_by, value) = describe(&folder);
    answer["sealed_by"] = value;
    show(json, &answer, |answer| {
        let texts = DeviceTexts::of_environment();
        let line = |label: &str, value: &dyn Display| println!("{}{value}", padded(label, 10).dimmed());
        let shown = [
            (texts.person, "person"),
            (texts.device, "device"),
            (texts.url, "url"),
            (texts.home, "home"),
            (texts.agents, "agents"),
            (texts.audit, "audit"),
        ];
        for (label, name) in shown {
            line(label, &cell(&answer[name]));
        }
        line(texts.programs, &confinement_text(&texts, confinement()));
        line(texts.sealed_by, &sealed_by);
        line(texts.server, &texts.value(&cell(&answer["server"])));
        if let Some(advice) = connection_advice(answer["server"].as_str()) {
            eprintln!("{}", advice.red());
        }
        if !is_running {
            eprintln!("{}", fill(texts.not_running, &[("home_flag", &home_flag(home))]).yellow());
        }
    });
    Ok(())
}

/// What the person can do about a connection to the server that does not work.
pub(super) fn connection_advice(state: Option<&str>) -> Option<&'static str> {
    let texts = DeviceTexts::of_environment();
    match state? {
        "unreachable" => Some(texts.unreachable_advice),
        "removed" => Some(texts.removed_advice),
        _ => None,
    }
}
