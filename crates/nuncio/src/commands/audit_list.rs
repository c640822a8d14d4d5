//! `nuncio audit list`: the audit records as a table.

use std::io::IsTerminal as _;

use anstream::println;
use nuncio_core::audit::{AuditDecision, AuditEventRecord, AuditOutcome, AuditRecord};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use nuncio_server::admin::replies::{AuditRecordList, NumberedAuditRecord};
use serde::Deserialize as _;

use super::operator::{moment, span_seconds};
use crate::output::{cell, fitted_list, fitted_table, text, text_of_all, text_or_dash};

/// Cell of a record that is not about a call.
const NO_CALL: &str = "-";

/// Parses the time of the earliest record: a duration back from now, a day or a time.
pub(super) fn earliest(text: &str) -> Result<Timestamp, String> {
    match span_seconds(text) {
        Some(seconds) => Ok(SystemClock.now().before(std::time::Duration::from_secs(seconds))),
        None => moment(text).map_err(|_| {
            format!("--since {text:?}: write a duration such as 90m, 12h or 3d, a day such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z")
        }),
    }
}

pub(super) fn print(list: &AuditRecordList, is_filtered: bool) {
    match (list.records.is_empty(), is_filtered) {
        (true, true) => println!("No record matches."),
        (true, false) => println!("No tool has been called."),
        (false, _) => {
            let headings = ["#", "WHEN (UTC)", "CALLER", "AGENT", "TOOL OR SUBJECT", "OUTCOME", "CALL"];
            let rows = list.records.iter().map(audit_row);
            // The number and the time are never split. A terminal has no room for a column of ids.
            match (std::io::stdout().is_terminal(), headings.split_last()) {
                (true, Some((_, headings))) => fitted_list(headings, 2, rows.map(with_call_below)),
                _ => fitted_table(&headings, 2, rows),
            }
        }
    }
}

/// The row without its last cell, the id of the call, and a line for that id.
fn with_call_below(mut row: Vec<String>) -> (Vec<String>, String) {
    let call = row.pop().filter(|id| id != NO_CALL);
    (row, call.map(|id| format!("call: {id}")).unwrap_or_default())
}

/// A time to the second, without the letters of RFC 3339.
fn moment_text(at: Timestamp) -> String {
    at.to_string().chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// Table row of an audit record: a tool call, or a change of permissions, accounts or data.
fn audit_row(numbered: &NumberedAuditRecord) -> Vec<String> {
    let seq = numbered.seq.to_string();
    let caller = |principal: &Principal| numbered.caller_name.as_ref().map_or_else(|| text(principal), text);
    let record = numbered.record.clone().unwrap_or_default();
    if let Ok(event) = AuditEventRecord::deserialize(&record) {
        let by = std::iter::once(caller(&event.by)).chain(event.account);
        let action = event.action.map(|action| format!("{action}: ")).unwrap_or_default();
        // Commands of operators are ordered, and then done or failed.
        let happened = cell(&record["happened"]).replace("operator_ordered", "ordered").replace("operator_order_", "");
        let outcome = format!("{action}{happened}").replace('_', " ");
        let subject = numbered.subject_name.clone().or(event.subject).or(event.person.map(|person| person.to_string()));
        let subject = subject.map(text).unwrap_or_default();
        return vec![
            seq,
            moment_text(event.at),
            text_of_all(by),
            text_or_dash(event.agent),
            subject,
            outcome,
            "-".to_owned(),
        ];
    }
    let Ok(call) = AuditRecord::deserialize(&record) else {
        let none = || NO_CALL.to_owned();
        return vec![seq, none(), none(), none(), none(), "unreadable".to_owned(), none()];
    };
    let outcome = match (call.decision, call.outcome) {
        (AuditDecision::Refused { code, .. }, _) => format!("refused: {code}"),
        (AuditDecision::Allowed { .. }, AuditOutcome::Failed { code }) => format!("failed: {code}"),
        (AuditDecision::Allowed { .. }, AuditOutcome::Completed) => "completed".to_owned(),
        (AuditDecision::Allowed { .. }, AuditOutcome::NotRun) => "not run".to_owned(),
    };
    let (when, by) = (moment_text(call.ended_at), caller(&call.caller));
    vec![seq, when, by, text(call.agent), text(call.tool), outcome, text(call.call)]
}
