use std::sync::Arc;

use nuncio_identity::seal::MemoryKeyStore;

use super::*;

const HOUR: i64 = 3_600_000;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_millis(hours * HOUR)
}

#[test]
fn consent_window_closes_a_day_after_last_use_or_with_a_new_ledger_entry() {
    let records = RecordStore::new(Arc::new(MemoryKeyStore::new()));
    let (agent, scope) = (AgentId::parse("agt_1").unwrap(), ScopeId::parse("filesystem:read").unwrap());
    let conversation = ConversationId::parse("cnv_1").unwrap();
    let by = DeviceId::parse("dev_1").unwrap();
    let window_key =
        ConsentWindowKey { agent: &agent, by: &by, conversation: &conversation, scope: &scope, source: None };
    let open = |now: Timestamp, ledger| is_open(&records, window_key, ledger, now).unwrap();
    assert!(!open(at(100), 1), "the call was not approved");
    records.save(vec![used(window_key, 1, at(100))]).unwrap();
    let last = Timestamp::from_millis(124 * HOUR - 1);
    assert_eq!([open(at(100), 1), open(last, 1), open(at(124), 1)], [true, true, false]);
    assert!(!open(at(99), 1), "before it was opened");
    assert!(!open(at(101), 2), "the person said something new since");
    records.save(vec![used(window_key, 1, at(120))]).unwrap();
    assert_eq!([open(at(143), 1), open(at(144), 1)], [true, false], "from the last use");
}

#[test]
fn consent_window_is_bound_to_one_agent_agent_device_scope_conversation_and_source() {
    let records = RecordStore::new(Arc::new(MemoryKeyStore::new()));
    let agents = ["agt_1", "agt_2"].map(|id| AgentId::parse(id).unwrap());
    let scopes = ["filesystem:read", "clipboard:read"].map(|id| ScopeId::parse(id).unwrap());
    let conversations = ["cnv_1", "cnv_2"].map(|id| ConversationId::parse(id).unwrap());
    let devices = ["dev_1", "dev_2"].map(|id| DeviceId::parse(id).unwrap());
    let window_key = |agent: usize, scope: usize, conversation: usize| ConsentWindowKey {
        agent: &agents[agent],
        by: &devices[0],
        conversation: &conversations[conversation],
        scope: &scopes[scope],
        source: None,
    };
    let open = |window_key| is_open(&records, window_key, 1, at(1)).unwrap();
    records.save(vec![used(window_key(0, 0, 0), 1, at(0)), used(window_key(1, 0, 0), 1, at(0))]).unwrap();
    assert!(open(window_key(0, 0, 0)) && !open(window_key(0, 1, 0)) && !open(window_key(0, 0, 1)));
    assert!(!open(ConsentWindowKey { by: &devices[1], ..window_key(0, 0, 0) }), "another device of the same agent");
    let (app, other_app) = (Some(Digest::of_bytes(b"app")), Some(Digest::of_bytes(b"other app")));
    let from = |source| ConsentWindowKey { source, ..window_key(0, 0, 0) };
    assert!(!open(from(app)), "a call with a source needs its own yes");
    records.save(vec![used(from(app), 1, at(0))]).unwrap();
    assert!(open(from(app)) && !open(from(other_app)), "another app needs its own yes");
    records.save(close(&records, &agents[0]).unwrap()).unwrap();
    assert!(!open(from(app)), "the windows of its apps are closed too");
    assert!(!open(window_key(0, 0, 0)) && open(window_key(1, 0, 0)), "only that agent's are closed");
}
