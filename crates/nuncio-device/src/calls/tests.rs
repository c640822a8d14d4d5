use std::sync::Arc;

use nuncio_core::ids::{CallId, ScopeId, ToolName};
use nuncio_identity::seal::MemoryKeyStore;
use serde_json::Value;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall {
        call_id: CallId::parse(id).unwrap(),
        tool_name: ToolName::parse("read_file").unwrap(),
        arguments,
        permission_scope: ScopeId::parse("filesystem:read").unwrap(),
        timeout_ms: 5000,
        source: None,
    }
}

struct CallRecordsFixture {
    records: RecordStore,
    agent: AgentId,
    other: AgentId,
    conversation: ConversationId,
}

impl CallRecordsFixture {
    fn new() -> Self {
        Self {
            records: RecordStore::new(Arc::new(MemoryKeyStore::new())),
            agent: AgentId::parse("agt_1").unwrap(),
            other: AgentId::parse("agt_2").unwrap(),
            conversation: ConversationId::parse("cnv_1").unwrap(),
        }
    }

    fn origin<'a>(&'a self, agent: &'a AgentId) -> CallOrigin<'a> {
        CallOrigin { agent, conversation: &self.conversation, seq: 7, envelope: None }
    }

    fn take(&self, call: &ToolCall) -> CallArrival {
        take(&self.records, self.origin(&self.agent), call, at(1)).unwrap()
    }

    fn moved(&self, call: &ToolCall, state: CallState) {
        self.records.save(vec![moved(self.origin(&self.agent), call, state, at(2))]).unwrap();
    }
}

fn done() -> ToolOutcome {
    ToolOutcome::Ok { result: json!({"content": "x"}) }
}

fn over() -> CallState {
    CallState::Over { outcome: done(), sent: false }
}

/// Unanswered calls: those that had ended if `over`, otherwise those that were open.
fn unanswered_where(scene: &CallRecordsFixture, over: bool) -> Vec<(CallRecord, ToolOutcome)> {
    let mut all = unanswered(&scene.records).unwrap();
    all.retain(|(record, _)| matches!(record.state, CallState::Over { .. }) == over);
    all
}

#[test]
fn ended_call_is_listed_as_unanswered_until_marked_as_sent() {
    let scene = CallRecordsFixture::new();
    let call = call("call_1", json!({"path": "a"}));
    scene.moved(&call, CallState::Running);
    assert!(unanswered_where(&scene, true).is_empty());
    scene.moved(&call, over());
    let left = unanswered_where(&scene, true);
    assert_eq!(left.iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), [&done()]);
    mark_answer_sent(&scene.records, &scene.agent, &left[0].0.call).unwrap();
    assert!(unanswered_where(&scene, true).is_empty());
    assert_eq!(scene.take(&call), CallArrival::Repeated(done()), "it is the same call still");
}

#[test]
fn repeated_call_is_recognised_by_its_agent_id_and_content() {
    let scene = CallRecordsFixture::new();
    let call = call("call_1", json!({"path": "a", "mode": 1}));
    assert_eq!(scene.take(&call), CallArrival::New);
    assert_eq!(scene.take(&call), CallArrival::Pending, "the person is asked");
    scene.moved(&call, CallState::Running);
    assert_eq!(scene.take(&call), CallArrival::Pending, "it runs");
    scene.moved(&call, over());
    assert_eq!(scene.take(&call), CallArrival::Repeated(done()));
    // The order of the argument names does not matter.
    let rewritten = ToolCall { arguments: serde_json::from_str(r#"{"mode":1,"path":"a"}"#).unwrap(), ..call.clone() };
    assert_eq!(scene.take(&rewritten), CallArrival::Repeated(done()));
    // The same id from another agent is a different call.
    assert_eq!(take(&scene.records, scene.origin(&scene.other), &call, at(3)), Ok(CallArrival::New));
}

#[test]
fn call_id_reused_with_other_tool_arguments_or_scope_is_detected() {
    let scene = CallRecordsFixture::new();
    let first = call("call_1", json!({"path": "a"}));
    scene.take(&first);
    let other_arguments = call("call_1", json!({"path": "b"}));
    let other_tool = ToolCall { tool_name: ToolName::parse("write_file").unwrap(), ..first.clone() };
    let other_scope = ToolCall { permission_scope: ScopeId::parse("location:read").unwrap(), ..first.clone() };
    for other in [&other_arguments, &other_tool, &other_scope] {
        assert_eq!(scene.take(other), CallArrival::IdReused);
    }
    scene.moved(&first, over());
    assert_eq!(scene.take(&other_arguments), CallArrival::IdReused, "also when it is over");
}

#[test]
fn open_calls_of_previous_process_get_error_answers() {
    let scene = CallRecordsFixture::new();
    let ids = ["call_asked", "call_running", "call_over", "call_elsewhere"];
    let states = [CallState::Asked, CallState::Running, over(), CallState::Elsewhere];
    for (id, state) in ids.into_iter().zip(states) {
        scene.moved(&call(id, json!({"path": "a"})), state);
    }
    let mut left: Vec<_> = unanswered_where(&scene, false)
        .into_iter()
        .map(|(record, outcome)| {
            let ToolOutcome::Error { error_code, message } = outcome else { panic!("{outcome:?}") };
            assert_eq!(record.seq, 7);
            (record.call.call_id.to_string(), error_code, message.unwrap())
        })
        .collect();
    left.sort_by(|one, other| one.0.cmp(&other.0));
    let [(asked, unavailable, _), (running, broken, why)] = &left[..] else { panic!("{left:?}") };
    assert_eq!((asked.as_str(), unavailable), ("call_asked", &ToolErrorCode::Unavailable));
    assert_eq!((running.as_str(), broken), ("call_running", &ToolErrorCode::PlatformError));
    assert!(why.contains("may or may not"), "{why}");
}

#[test]
fn ended_call_is_stored_without_arguments_and_deleted_when_old() {
    let scene = CallRecordsFixture::new();
    let (ended, open) = (call("call_1", json!({"path": "secret"})), call("call_2", json!({"path": "secret"})));
    scene.moved(&ended, over());
    scene.moved(&open, CallState::Asked);
    let kept: CallRecord = scene.records.get(&name(&scene.agent, &ended)).unwrap().unwrap();
    assert_eq!(kept.call.arguments, Value::Null);
    assert_eq!(forget(&scene.records, at(2)).unwrap().len(), 0);
    let gone = forget(&scene.records, at(3)).unwrap();
    assert_eq!(gone.len(), 1, "what is open stays");
    scene.records.save(gone).unwrap();
    assert_eq!(scene.take(&open), CallArrival::Pending);
}
