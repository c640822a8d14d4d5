//! `nuncio audit explain`: what the records of server, ledger, relay and device say about one call.

use std::path::Path;

use anstream::println;
use nuncio_core::ErrorCode;
use nuncio_core::ids::CallId;
use nuncio_engine::record::{AuditFilter, CallExplanation, ExplainedRecord, ReferencedRecord, ReferencedRecordState};
use nuncio_server::admin::AdminCommand;
use nuncio_server::admin::replies::AuditRecordList;
use owo_colors::OwoColorize as _;

use super::operator::{carry_out, parsed};
use crate::cli::DataDirOption;
use crate::output::{AlreadyReportedError, cell, fault, text};

mod device;

use device::DeviceAuditExport;

pub(super) async fn explain(data: &DataDirOption, call: &str, with: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let mut call = parsed(CallId::parse(call))?;
    let device = with.map(DeviceAuditExport::read).transpose()?;
    let mut explanation = explanation_of(data, &call).await?;
    // A number is also tried as the id of a call, because clients choose the ids.
    if explanation.records.is_empty()
        && let Ok(seq) = call.as_str().parse()
        && let Some(listed) = call_of_record(data, seq).await?
    {
        explanation = explanation_of(data, &listed).await?;
        call = listed;
    }
    if explanation.records.is_empty() && explanation.chain_broken.is_none() {
        let message =
            format!("there is no audit record of the call {call}; `nuncio audit list --json` shows the calls");
        return Err(fault(ErrorCode::NotFound, message));
    }
    let mut changed = Vec::new();
    for record in &mut explanation.records {
        if let Some(device) = &device {
            record.evidence.extend(device.evidence(record));
        }
        let is_changed = |evidence: &&ReferencedRecord| {
            matches!(evidence.state, ReferencedRecordState::Changed | ReferencedRecordState::Missing)
        };
        changed.extend(record.evidence.iter().filter(is_changed).map(name));
    }
    // After a break elsewhere in the audit chain, the position of this record is no longer proven.
    if changed.is_empty()
        && let Some(broken) = &explanation.chain_broken
    {
        changed.push(format!("audit chain: {broken}"));
    }
    if json {
        let mut explanation = serde_json::to_value(&explanation)?;
        explanation["changed"] = changed.as_slice().into();
        println!("{explanation}");
    } else {
        show(&explanation, &changed);
    }
    if changed.is_empty() { Ok(()) } else { Err(AlreadyReportedError.into()) }
}

async fn explanation_of(data: &DataDirOption, call: &CallId) -> anyhow::Result<CallExplanation> {
    let reply = carry_out(data, AdminCommand::AuditExplain { call: call.clone() }).await?;
    Ok(serde_json::from_value(reply)?)
}

/// The call of the audit record with this number; `None` if there is no such record.
async fn call_of_record(data: &DataDirOption, seq: u64) -> anyhow::Result<Option<CallId>> {
    let Some(after) = seq.checked_sub(1) else { return Ok(None) };
    let command = AdminCommand::AuditList { after: Some(after), limit: 1, filter: AuditFilter::default() };
    let list: AuditRecordList = serde_json::from_value(carry_out(data, command).await?)?;
    let Some(numbered) = list.records.into_iter().find(|numbered| numbered.seq == seq) else { return Ok(None) };
    let id = numbered.record.as_ref().and_then(|record| record["call"].as_str());
    match id.and_then(|id| CallId::parse(id).ok()) {
        Some(call) => Ok(Some(call)),
        None => {
            let message = format!("audit record {seq} is not about a call; `nuncio audit list` shows the calls");
            Err(fault(ErrorCode::NotFound, message))
        }
    }
}

fn name(evidence: &ReferencedRecord) -> String {
    format!("{} {}", text(&evidence.kept_by), text(&evidence.name))
}

fn show(explanation: &CallExplanation, changed: &[String]) {
    for ExplainedRecord { record: call, evidence, .. } in &explanation.records {
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
        for evidence in evidence {
            let state = match evidence.state {
                ReferencedRecordState::Holds => "holds".green().to_string(),
                ReferencedRecordState::NotKept => "not kept".dimmed().to_string(),
                ReferencedRecordState::Changed => "changed".red().bold().to_string(),
                ReferencedRecordState::Missing => "missing".red().bold().to_string(),
            };
            println!("  {:<9} {}: {}", state, name(evidence), text(&evidence.says));
        }
    }
    if changed.is_empty() {
        println!("{} all stored records agree with each other.", "proved:".green().bold());
    } else {
        println!("{} {}", "changed:".red().bold(), changed.join("; "));
    }
}
