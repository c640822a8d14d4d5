//! A device's record, as `nuncio device audit --json` or `--export` wrote it, held against an audit record.

use std::path::Path;

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_device::audit::ChainedEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::output::{fault, items};

/// The entries of an exported device record, with the faults of each.
#[derive(Debug)]
pub(super) struct DeviceRecord {
    entries: Vec<(ChainedEntry, Option<String>)>,
}

#[derive(Debug, Deserialize)]
struct DeviceExport {
    hash: Digest,
    #[serde(flatten)]
    chained: ChainedEntry,
}

impl DeviceRecord {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let unusable = |why: &dyn std::fmt::Display| {
            let message = format!(
                "{} is no record of a device: {why}; write one with `nuncio device audit --json`",
                path.display()
            );
            fault(Code::BadRequest, message)
        };
        let text = std::fs::read_to_string(path).map_err(|why| unusable(&why))?;
        Self::parse(&text).map_err(|why| unusable(&why))
    }

    fn parse(text: &str) -> serde_json::Result<Self> {
        let whole = serde_json::from_str::<Value>(text).ok().map(|value| value["entries"].clone());
        let exported: Vec<DeviceExport> = match whole.filter(Value::is_array) {
            Some(entries) => serde_json::from_value(entries)?,
            None => text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?,
        };
        let wrong = |at: usize| {
            let DeviceExport { hash, chained } = &exported[at];
            let real = chained.hash();
            let next = exported.get(at + 1).map(|next| &next.chained);
            if real != *hash {
                return Some(format!("its hash is {real}, but was {hash}"));
            }
            next.filter(|next| next.prev_hash != real).map(|next| format!("entry {} does not follow from it", next.seq))
        };
        let wrongs: Vec<_> = (0..exported.len()).map(wrong).collect();
        let entries = exported.into_iter().map(|exported| exported.chained).zip(wrongs).collect();
        Ok(Self { entries })
    }

    /// The device's entries about the call of an audit record.
    pub(super) fn evidence(&self, explained: &Value) -> Vec<Value> {
        let record = &explained["record"];
        let messages = items(&record["references"]["messages"]);
        let by_message = |chained: &ChainedEntry| {
            messages
                .iter()
                .any(|message| chained.entry.message_id.as_ref().is_some_and(|id| message["id"] == id.as_str()))
        };
        let mut found: Vec<_> = self.entries.iter().filter(|(chained, _)| by_message(chained)).collect();
        if found.is_empty() {
            // An execution is one call on the device, whatever number of attempts the server made.
            let call = record["call"].as_str().unwrap_or_default();
            let attempt = |id: &str| call.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            found = self.entries.iter().filter(|(chained, _)| attempt(chained.entry.call_id.as_str())).collect();
        }
        if found.is_empty() && !messages.is_empty() {
            return vec![evidence("entry", "missing", "no entry is of a message that carried the call")];
        }
        let one = |(chained, wrong): &&(ChainedEntry, Option<String>)| {
            let name = format!("entry {}", chained.seq);
            match wrong.clone().or_else(|| disagreement(chained, explained, messages)) {
                Some(why) => evidence(&name, "changed", &why),
                None => evidence(&name, "holds", &describe_entry(chained)),
            }
        };
        found.iter().map(one).collect()
    }
}

fn evidence(name: &str, state: &str, says: &str) -> Value {
    json!({"kept_by": "device", "name": name, "state": state, "says": says})
}

fn describe_entry(chained: &ChainedEntry) -> String {
    let entry = &chained.entry;
    let asked = if entry.asked { "the person was asked" } else { "the person was not asked" };
    let reason = entry.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{reason}, {asked}", entry.status)
}

/// The first difference between a device entry and an audit record.
fn disagreement(chained: &ChainedEntry, explained: &Value, messages: &[Value]) -> Option<String> {
    let (entry, record) = (&chained.entry, &explained["record"]);
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

/// The device may have seen a later entry of the ledger than the server, or an earlier one; it is the same ledger if
/// the server has that entry with that hash.
fn ledger_differs(chained: &ChainedEntry, explained: &Value) -> Option<String> {
    let reference = chained.entry.ledger.as_ref()?;
    let evidence = explained["evidence"].as_array()?.iter().find(|one| one["kept_by"] == "ledger")?;
    let place = usize::try_from(reference.seq.checked_sub(1)?).ok()?;
    let same = evidence["hashes"][place] == json!(reference.hash);
    let named = &explained["record"]["references"]["rule"];
    let same_name = named["seq"] != json!(reference.seq) || named["hash"] == json!(reference.hash);
    // A changed ledger is named as such; the device's entry is wrong only if it differs from the audit record too.
    let ledger_holds = evidence["state"] == "holds";
    let wrong = !same_name || (ledger_holds && !same);
    wrong.then(|| {
        format!(
            "it names entry {} of the ledger with hash {}, which that entry never had",
            reference.seq, reference.hash
        )
    })
}

/// What the device answered is what the server recorded. A server may give up on an answer that came, so `ok` is at
/// odds only with a refusal that the device gives.
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

    fn entry(status: &str, prev_hash: Digest, seq: u64) -> ChainedEntry {
        serde_json::from_value(json!({
            "seq": seq, "prev_hash": prev_hash, "call_id": "c1", "agent_id": "hotel", "tool_name": "read_file",
            "scope": "filesystem:read", "arguments_digest": "00", "status": status, "asked": true,
            "timestamp": "2026-01-01T00:00:00.000Z", "message_id": "msg_a-1", "envelope_digest": Digest::ZERO,
            "ledger": {"hash": Digest::ZERO, "relation": "rel_1", "seq": 1},
        }))
        .unwrap()
    }

    fn explained(code: Option<&str>) -> Value {
        let outcome = match code {
            Some(code) => json!({"result": "failed", "code": code}),
            None => json!({"result": "completed"}),
        };
        json!({
            "record": {
                "call": "c1", "agent": "hotel", "tool": "read_file", "scope": "filesystem:read", "outcome": outcome,
                "references": {
                    "messages": [{"id": "msg_a-1", "envelope": Digest::ZERO}],
                    "rule": {"by": "ledger", "hash": Digest::ZERO, "relation": "rel_1", "seq": 1},
                },
            },
            "evidence": [{"kept_by": "ledger", "state": "holds", "hashes": [Digest::ZERO]}],
        })
    }

    fn states(text: &str, code: Option<&str>) -> Vec<(String, String)> {
        let evidence = DeviceRecord::parse(text).unwrap().evidence(&explained(code));
        let word = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
        evidence.iter().map(|one| (word(one, "name"), word(one, "state"))).collect()
    }

    fn chain(status: &str) -> String {
        let first = entry(status, Digest::ZERO, 1);
        let mut second = entry("ok", first.hash(), 2);
        second.entry.message_id = None;
        json!({"verified": 2, "entries": [first.with_hash(), second.with_hash()]}).to_string()
    }

    fn named(name: &str, state: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), state.to_owned())]
    }

    #[test]
    fn device_entry_that_matches_the_server_record_is_valid() {
        assert_eq!(states(&chain("ok"), None), named("entry 1", "holds"));
        assert_eq!(states(&chain("denied"), Some("denied")), named("entry 1", "holds"));
        assert_eq!(states(&chain("ok"), Some("tool_timeout")), named("entry 1", "holds"), "the answer came too late");
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
            assert_eq!(states(&text.replacen(from, to, 1), None), named("entry 1", "changed"), "{to}");
        }
    }

    #[test]
    fn rehashed_device_entry_that_contradicts_the_server_record_is_reported() {
        assert_eq!(states(&chain("ok"), Some("denied")), named("entry 1", "changed"));
        assert_eq!(states(&chain("denied"), None), named("entry 1", "changed"));
        let mut other = entry("ok", Digest::ZERO, 1);
        other.entry.envelope_digest = Some(Digest::of_bytes(b"other"));
        let text = json!({"entries": [other.with_hash()]}).to_string();
        assert_eq!(states(&text, None), named("entry 1", "changed"));
        other.entry.message_id = Some(nuncio_core::ids::MessageId::parse("msg_a-2").unwrap());
        let text = json!({"entries": [other.with_hash()]}).to_string();
        assert_eq!(states(&text, None), named("entry 1", "changed"));
    }

    #[test]
    fn missing_device_entry_is_reported() {
        assert_eq!(states(r#"{"entries": []}"#, None), named("entry", "missing"));
    }
}
