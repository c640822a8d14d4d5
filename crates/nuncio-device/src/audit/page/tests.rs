use std::sync::Arc;

use nuncio_core::audit::ChainHead;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::ids::{CallId, ToolName};
use nuncio_identity::seal::{KeyStore as _, MemoryKeyStore};
use serde_json::{Value, json};

use super::*;
use crate::record_store::RecordStore;

/// Audit log of twelve calls by two agents, one per hour, with alternating outcomes.
fn log() -> (Arc<MemoryKeyStore>, AuditLog) {
    let key_store = Arc::new(MemoryKeyStore::new());
    let records = RecordStore::new(Arc::clone(&key_store) as _);
    let log = AuditLog::new(records.clone());
    for number in 0..12_u32 {
        let status = AuditedCallStatus::ALL[number as usize % 4];
        let entry = CallAuditEntry {
            call_id: CallId::parse(&format!("call_{number}")).unwrap(),
            agent_id: AgentId::parse(if number % 2 == 0 { "agt_even" } else { "agt_odd" }).unwrap(),
            tool_name: ToolName::parse("read_file").unwrap(),
            scope: ScopeId::parse(if number < 6 { "filesystem:read" } else { "location:read" }).unwrap(),
            arguments_digest: "00".to_owned(),
            status: status.as_str().to_owned(),
            reason: None,
            asked: false,
            timestamp: Timestamp::from_millis(i64::from(number) * 3_600_000),
            message_id: None,
            envelope_digest: None,
            ledger: None,
        };
        records.save(log.append(entry).unwrap()).unwrap();
    }
    (key_store, log)
}

fn numbers(page: &AuditEntriesPage) -> Vec<u64> {
    page.entries.iter().map(|chained| chained.seq).collect()
}

#[test]
fn audit_page_lists_newest_entries_first_and_pages_backwards() {
    let (_, log) = log();
    let all = AuditFilter::default();
    let first = log.page(&all, None, 5);
    assert_eq!((numbers(&first), first.more, first.fitting), (vec![12, 11, 10, 9, 8], true, 12));
    assert_eq!(first.proof, Ok(12));
    assert_eq!(first.agents.iter().map(AgentId::as_str).collect::<Vec<_>>(), ["agt_even", "agt_odd"]);
    assert_eq!(first.scopes.len(), 2);
    let last = log.page(&all, Some(3), 5);
    assert_eq!((numbers(&last), last.more), (vec![2, 1], false));
    let whole = log.page(&all, Some(6), 5);
    assert_eq!((numbers(&whole), whole.more), (vec![5, 4, 3, 2, 1], false), "exactly one page is left");
    assert_eq!(numbers(&log.page(&all, Some(0), 5)), Vec::<u64>::new());
}

#[test]
fn audit_filter_selects_entries_and_the_whole_log_is_still_verified() {
    let (_, log) = log();
    let shown = |filter: AuditFilter| {
        let page = log.page(&filter, None, 50);
        assert_eq!(page.proof, Ok(12));
        assert_eq!(page.fitting, page.entries.len());
        numbers(&page)
    };
    let even = AgentId::parse("agt_even").unwrap();
    assert_eq!(shown(AuditFilter { agent: Some(even.clone()), ..AuditFilter::default() }), [11, 9, 7, 5, 3, 1]);
    assert_eq!(shown(AuditFilter { status: Some(AuditedCallStatus::Refused), ..AuditFilter::default() }), [10, 6, 2]);
    let scope = ScopeId::parse("filesystem:read").unwrap();
    let both = AuditFilter { agent: Some(even), scope: Some(scope), ..AuditFilter::default() };
    assert_eq!(shown(both), [5, 3, 1]);
    let hour = |number: i64| Some(Timestamp::from_millis(number * 3_600_000));
    assert_eq!(shown(AuditFilter { from: hour(2), until: hour(4), ..AuditFilter::default() }), [4, 3]);
}

#[test]
fn changed_missing_or_added_audit_entry_is_reported_as_broken_chain() {
    let (key_store, log) = log();
    let at = |seq: u64| format!("device/audit/{seq:020}");
    let original = key_store.load(&at(7)).unwrap().unwrap();

    key_store.save(vec![(at(7), Some(b"{".to_vec()))]).unwrap();
    let page = log.page(&AuditFilter::default(), None, 50);
    assert_eq!(
        (page.proof.clone(), page.entries.len()),
        (Err(AuditChainError::InvalidEntry(7)), 11),
        "one cannot be read"
    );

    // An entry copied to another number is not accepted there.
    key_store.save(vec![(at(7), key_store.load(&at(6)).unwrap())]).unwrap();
    assert_eq!(log.page(&AuditFilter::default(), None, 50).proof, Err(AuditChainError::InvalidEntry(7)));

    key_store.save(vec![(at(7), None)]).unwrap();
    assert_eq!(
        log.page(&AuditFilter::default(), None, 50).proof,
        Err(AuditChainError::InvalidEntry(8)),
        "one is missing"
    );
    key_store.save(vec![(at(7), Some(original))]).unwrap();
    assert_eq!(log.page(&AuditFilter::default(), None, 50).proof, Ok(12));

    let forged =
        String::from_utf8(key_store.load(&at(12)).unwrap().unwrap()).unwrap().replace("\"seq\":12", "\"seq\":13");
    key_store.save(vec![(at(13), Some(forged.into_bytes()))]).unwrap();
    assert_eq!(
        log.page(&AuditFilter::default(), None, 50).proof,
        Err(AuditChainError::InvalidEntry(13)),
        "one was put in at the end"
    );
    assert_eq!(log.verify(), Err(AuditChainError::InvalidEntry(13)));
}

#[test]
fn exported_audit_lines_form_a_verifiable_hash_chain() {
    let (_, log) = log();
    let lines = log.lines();
    let mut head = ChainHead::START;
    for line in lines.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let hash = line.as_object_mut().unwrap().shift_remove("hash").unwrap();
        assert_eq!(line["prev_hash"], json!(head.hash));
        head = ChainHead { seq: head.seq + 1, hash: Digest::of_bytes(&canonical(&line)) };
        assert_eq!((&hash, line["seq"].as_u64()), (&json!(head.hash), Some(head.seq)));
    }
    assert_eq!(head.seq, 12);
}
