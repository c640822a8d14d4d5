//! Compares the activity record of a device, written by `nuncio device audit --json` or `--export`, with an audit record.

use std::path::Path;

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_device::audit::ChainedAuditEntry;
use nuncio_engine::record::{ExplainedRecord, ReferencedRecord, ReferencedRecordState};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::output::{fault, items};

/// The entries of an exported device record, with the faults of each.
#[derive(Debug)]
pub(super) struct DeviceAuditExport {
    entries: Vec<(ChainedAuditEntry, Option<String>)>,
}

#[derive(Debug, Deserialize)]
struct DeviceExportEntry {
    hash: Digest,
    #[serde(flatten)]
    chained: ChainedAuditEntry,
}

impl DeviceAuditExport {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let unusable = |why: &dyn std::fmt::Display| {
            let message = format!(
                "{} is not an audit record of a device: {why}; write one with `nuncio device audit --json`",
                path.display()
            );
            fault(ErrorCode::BadRequest, message)
        };
        let text = std::fs::read_to_string(path).map_err(|why| unusable(&why))?;
        Self::parse(&text).map_err(|why| unusable(&why))
    }

    fn parse(text: &str) -> serde_json::Result<Self> {
        let whole = serde_json::from_str::<Value>(text).ok().map(|value| value["entries"].clone());
        let exported: Vec<DeviceExportEntry> = match whole.filter(Value::is_array) {
            Some(entries) => serde_json::from_value(entries)?,
            None => text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?,
        };
        let find_fault = |at: usize| {
            let DeviceExportEntry { hash, chained } = &exported[at];
            let computed = chained.hash();
            let next = exported.get(at + 1).map(|next| &next.chained);
            if computed != *hash {
                return Some(format!("its hash is {computed}, but was {hash}"));
            }
            next.filter(|next| next.prev_hash != computed)
                .map(|next| format!("entry {} does not follow from it", next.seq))
        };
        let faults: Vec<_> = (0..exported.len()).map(find_fault).collect();
        let entries = exported.into_iter().map(|exported| exported.chained).zip(faults).collect();
        Ok(Self { entries })
    }

    /// Compares the device's entries about the call of an audit record with it. The only result is `Missing` if
    /// messages carried the call and no entry is about it.
    pub(super) fn evidence(&self, explained: &ExplainedRecord) -> Vec<ReferencedRecord> {
        let record = &explained.record;
        let messages = items(&record["references"]["messages"]);
        let by_message = |chained: &ChainedAuditEntry| {
            messages
                .iter()
                .any(|message| chained.entry.message_id.as_ref().is_some_and(|id| message["id"] == id.as_str()))
        };
        let mut found: Vec<_> = self.entries.iter().filter(|(chained, _)| by_message(chained)).collect();
        if found.is_empty() {
            // Attempts of an execution have its id with a suffix as call id; on the device they are one call.
            let call = record["call"].as_str().unwrap_or_default();
            let is_attempt_of =
                |id: &str| call.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            found = self.entries.iter().filter(|(chained, _)| is_attempt_of(chained.entry.call_id.as_str())).collect();
        }
        if found.is_empty() && !messages.is_empty() {
            let says = "no entry is of a message that carried the call".to_owned();
            return vec![evidence("entry".to_owned(), ReferencedRecordState::Missing, says)];
        }
        let compare = |(chained, fault): &&(ChainedAuditEntry, Option<String>)| {
            let name = format!("entry {}", chained.seq);
            match fault.clone().or_else(|| disagreement(chained, explained, messages)) {
                Some(why) => evidence(name, ReferencedRecordState::Changed, why),
                None => evidence(name, ReferencedRecordState::Holds, describe_entry(chained)),
            }
        };
        found.iter().map(compare).collect()
    }
}

fn evidence(name: String, state: ReferencedRecordState, says: String) -> ReferencedRecord {
    ReferencedRecord { kept_by: "device".into(), name, state, says, hashes: Vec::new() }
}

fn describe_entry(chained: &ChainedAuditEntry) -> String {
    let entry = &chained.entry;
    let asked = if entry.asked { "the person was asked" } else { "the person was not asked" };
    let reason = entry.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{reason}, {asked}", entry.status)
}

/// The first difference between a device entry and an audit record; `None` if they agree.
fn disagreement(chained: &ChainedAuditEntry, explained: &ExplainedRecord, messages: &[Value]) -> Option<String> {
    let (entry, record) = (&chained.entry, &explained.record);
    let differs = |what: &str, device: &str, server: &Value| {
        let same = server.is_null() || *server == device;
        (!same).then(|| format!("its {what} is {device}, but the audit record has {}", server.as_str().unwrap_or("?")))
    };
    let message = entry.message_id.as_ref().map(|id| messages.iter().find(|message| message["id"] == id.as_str()));
    if !messages.is_empty() && !matches!(message, Some(Some(_))) {
        return Some("it names another message than the audit record".to_owned());
    }
    let envelope = message.flatten().map_or(&Value::Null, |message| &message["envelope"]);
    differs("tool", entry.tool_name.as_str(), &record["tool"])
        .or_else(|| differs("agent", entry.agent_id.as_str(), &record["agent"]))
        .or_else(|| differs("scope", entry.scope.as_str(), &record["scope"]))
        .or_else(|| match &entry.envelope_digest {
            Some(digest) => differs("envelope", &digest.to_string(), envelope),
            None => (!envelope.is_null()).then(|| "it names no envelope, and the audit record does".to_owned()),
        })
        .or_else(|| ledger_differs(chained, explained))
        .or_else(|| outcome_differs(&entry.status, record))
}

/// Compares the ledger entry that the device names. The device may have seen a later or an earlier entry than the
/// server; both refer to the same ledger if the server has that entry with that hash.
fn ledger_differs(chained: &ChainedAuditEntry, explained: &ExplainedRecord) -> Option<String> {
    let reference = chained.entry.ledger.as_ref()?;
    let ledger = explained.evidence.iter().find(|evidence| evidence.kept_by == "ledger")?;
    let index = usize::try_from(reference.seq.checked_sub(1)?).ok()?;
    let in_ledger = ledger.hashes.get(index) == Some(&reference.hash);
    let rule = &explained.record["references"]["rule"];
    let in_record = rule["seq"] != json!(reference.seq) || rule["hash"] == json!(reference.hash);
    // A changed ledger is reported itself; the device's entry is wrong only if it differs from the audit record too.
    let wrong = !in_record || (ledger.state == ReferencedRecordState::Holds && !in_ledger);
    wrong.then(|| {
        format!(
            "it names entry {} of the ledger with hash {}, which that entry never had",
            reference.seq, reference.hash
        )
    })
}

/// Compares the outcome on the device with the recorded one. A server may give up before the device's answer comes, so
/// `ok` contradicts only a refusal that comes from the device.
fn outcome_differs(status: &str, record: &Value) -> Option<String> {
    let outcome = &record["outcome"];
    let completed = outcome["result"] == "completed";
    let refused = ["denied", "approval_expired", "scope_not_granted"].iter().any(|code| outcome["code"] == *code);
    let differs = match status {
        "ok" => refused,
        "denied" | "error" => completed,
        _ => false,
    };
    differs.then(|| format!("it has {status}, but the audit record has {outcome}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: &str, prev_hash: Digest, seq: u64) -> ChainedAuditEntry {
        serde_json::from_value(json!({
            "seq": seq, "prev_hash": prev_hash, "call_id": "c1", "agent_id": "hotel", "tool_name": "read_file",
            "scope": "filesystem:read", "arguments_digest": "00", "status": status, "asked": true,
            "timestamp": "2026-01-01T00:00:00.000Z", "message_id": "msg_a-1", "envelope_digest": Digest::ZERO,
            "ledger": {"hash": Digest::ZERO, "relation": "rel_1", "seq": 1},
        }))
        .unwrap()
    }

    fn explained(code: Option<&str>) -> ExplainedRecord {
        let outcome = match code {
            Some(code) => json!({"result": "failed", "code": code}),
            None => json!({"result": "completed"}),
        };
        serde_json::from_value(json!({
            "seq": 1,
            "record": {
                "call": "c1", "agent": "hotel", "tool": "read_file", "scope": "filesystem:read", "outcome": outcome,
                "references": {
                    "messages": [{"id": "msg_a-1", "envelope": Digest::ZERO}],
                    "rule": {"by": "ledger", "hash": Digest::ZERO, "relation": "rel_1", "seq": 1},
                },
            },
            "evidence": [{"kept_by": "ledger", "name": "rel_1", "state": "holds", "says": "", "hashes": [Digest::ZERO]}],
        }))
        .unwrap()
    }

    fn states(text: &str, code: Option<&str>) -> Vec<(String, ReferencedRecordState)> {
        let evidence = DeviceAuditExport::parse(text).unwrap().evidence(&explained(code));
        evidence.into_iter().map(|evidence| (evidence.name, evidence.state)).collect()
    }

    fn chain(status: &str) -> String {
        let first = entry(status, Digest::ZERO, 1);
        let mut second = entry("ok", first.hash(), 2);
        second.entry.message_id = None;
        json!({"verified": 2, "entries": [first.with_hash(), second.with_hash()]}).to_string()
    }

    #[test]
    fn device_entry_that_agrees_with_the_audit_record_is_valid() {
        assert_eq!(states(&chain("ok"), None), [("entry 1".to_owned(), ReferencedRecordState::Holds)]);
        assert_eq!(states(&chain("denied"), Some("denied")), [("entry 1".to_owned(), ReferencedRecordState::Holds)]);
        assert_eq!(
            states(&chain("ok"), Some("tool_timeout")),
            [("entry 1".to_owned(), ReferencedRecordState::Holds)],
            "the answer came too late"
        );
    }

    #[test]
    fn changed_device_entry_is_reported_as_changed() {
        let text = chain("ok");
        for (from, to) in [
            (r#""asked":true"#, r#""asked":false"#),
            (r#""tool_name":"read_file""#, r#""tool_name":"other""#),
            (r#""seq":1}"#, r#""seq":2}"#),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(
                states(&text.replacen(from, to, 1), None),
                [("entry 1".to_owned(), ReferencedRecordState::Changed)],
                "{to}"
            );
        }
    }

    #[test]
    fn rehashed_device_entry_that_contradicts_the_audit_record_is_reported_as_changed() {
        assert_eq!(states(&chain("ok"), Some("denied")), [("entry 1".to_owned(), ReferencedRecordState::Changed)]);
        assert_eq!(states(&chain("denied"), None), [("entry 1".to_owned(), ReferencedRecordState::Changed)]);
        let mut other = entry("ok", Digest::ZERO, 1);
        other.entry.envelope_digest = Some(Digest::of_bytes(b"other"));
        let text = json!({"entries": [other.with_hash()]}).to_string();
        assert_eq!(states(&text, None), [("entry 1".to_owned(), ReferencedRecordState::Changed)]);
        other.entry.message_id = Some(nuncio_core::ids::MessageId::parse("msg_a-2").unwrap());
        let text = json!({"entries": [other.with_hash()]}).to_string();
        assert_eq!(states(&text, None), [("entry 1".to_owned(), ReferencedRecordState::Changed)]);
    }

    #[test]
    fn device_record_without_an_entry_for_the_call_is_reported_as_missing() {
        assert_eq!(states(r#"{"entries": []}"#, None), [("entry".to_owned(), ReferencedRecordState::Missing)]);
    }
}
