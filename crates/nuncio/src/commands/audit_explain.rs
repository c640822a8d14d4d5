//! `nuncio audit explain`: what the records of server, ledger, relay and device say about one call.

use std::path::Path;

use anstream::println;
use nuncio_core::Code;
use nuncio_core::ids::CallId;
use nuncio_server::admin::AdminCommand;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::operator::{carry_out, parsed};
use crate::output::{AlreadyReported, cell, fault, items};

mod device;

use device::DeviceRecord;

/// `nuncio audit explain CALL [--with FILE]`
pub(super) async fn explain(data: &Path, call: &str, with: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let call = parsed(CallId::parse(call))?;
    let device = with.map(DeviceRecord::read).transpose()?;
    let mut answer = carry_out(data, AdminCommand::AuditExplain { call: call.clone() }).await?;
    let records = answer["records"].as_array_mut().map(std::mem::take).unwrap_or_default();
    if records.is_empty() && answer["chain_broken"].is_null() {
        let message =
            format!("there is no audit record of the call {call}; `nuncio audit list --json` shows the calls");
        return Err(fault(Code::NotFound, message));
    }
    let mut changed = Vec::new();
    let mut explained = Vec::new();
    for mut record in records {
        if let Some(device) = &device {
            let evidence = device.evidence(&record);
            record["evidence"].as_array_mut().into_iter().for_each(|all| all.extend(evidence.clone()));
        }
        let evidence = items(&record["evidence"]);
        let is_changed = |one: &&Value| ["changed", "missing"].iter().any(|state| one["state"] == *state);
        changed.extend(evidence.iter().filter(is_changed).map(name));
        explained.push(record);
    }
    // A break elsewhere in the chain leaves open whether this record stands where it was written.
    if changed.is_empty()
        && let Some(broken) = answer["chain_broken"].as_str()
    {
        changed.push(format!("audit chain: {broken}"));
    }
    answer["records"] = explained.into();
    answer["changed"] = json!(changed);
    if json {
        println!("{answer}");
    } else {
        show(&answer, &changed);
    }
    if changed.is_empty() { Ok(()) } else { Err(AlreadyReported.into()) }
}

fn name(evidence: &Value) -> String {
    format!("{} {}", cell(&evidence["kept_by"]), cell(&evidence["name"]))
}

fn show(answer: &Value, changed: &[String]) {
    for record in items(&answer["records"]) {
        let call = &record["record"];
        println!("{}", format!("{} of {}", cell(&call["tool"]), cell(&call["agent"])).bold());
        let outcome = [&call["decision"]["code"], &call["outcome"]["code"], &call["outcome"]["result"]];
        let outcome = outcome.into_iter().find(|value| !value.is_null()).map(cell).unwrap_or_default();
        for (title, value) in [
            ("caller", cell(&call["caller"])),
            ("asked", cell(&call["asked_at"])),
            ("rule", cell(&call["references"]["rule"]["by"])),
            ("decided by", cell(&call["decision"]["by"])),
            ("outcome", outcome),
        ] {
            println!("  {:<11}{value}", title.dimmed());
        }
        for evidence in items(&record["evidence"]) {
            let state = match cell(&evidence["state"]).as_str() {
                "holds" => "holds".green().to_string(),
                "not_kept" => "not kept".dimmed().to_string(),
                other => other.red().bold().to_string(),
            };
            println!("  {:<9} {}: {}", state, name(evidence), cell(&evidence["says"]));
        }
    }
    if changed.is_empty() {
        println!("{} every record that is kept is what the others say of it.", "proved:".green().bold());
    } else {
        println!("{} {}", "changed:".red().bold(), changed.join("; "));
    }
}
