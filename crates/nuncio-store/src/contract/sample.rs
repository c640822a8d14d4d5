//! Sample values for the contract checks.

use std::collections::BTreeMap;

use nuncio_core::approval::{Approval, ApprovalQuestion, ApprovalState, Approver};
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord, AuditReferences};
use nuncio_core::digest::Digest;
use nuncio_core::grant::{Grant, GrantTerm, KeyScopes};
use nuncio_core::ids::{
    AgentName, ApprovalId, CallId, GrantId, Incarnation, KeyId, OptionName, PersonName, ScopeId, SessionId, ToolName,
};
use nuncio_core::message::{Message, ToolCall};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::{
    AwaitedAnswer, ClientTool, EnabledTool, PendingCall, Session, SessionSettings, StoredOptionValue,
};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{StopReason, StreamMode, TokenUsage, TurnOutcome, turn_id};
use nuncio_engine::ports::store::{ApiKey, Change, IdempotencyRecord, KeyKind, KeyRole, SessionChange};
use serde_json::{Map, json};

/// Time of all sample records that need no particular one.
pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The incarnation that runs all sample work that needs no particular one.
#[must_use]
pub fn here() -> Incarnation {
    node("here")
}

#[must_use]
pub fn node(name: &str) -> Incarnation {
    Incarnation::parse(name).unwrap()
}

#[must_use]
pub fn later(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

#[must_use]
pub fn session_id(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

#[must_use]
pub fn owner() -> Principal {
    Principal::Key(KeyId::parse("key_ada").unwrap())
}

#[must_use]
pub fn stranger() -> Principal {
    Principal::Key(KeyId::parse("key_eve").unwrap())
}

#[must_use]
pub fn session(id: &str) -> Session {
    Session {
        id: session_id(id),
        owner: owner(),
        agent: AgentName::parse("hotel").unwrap(),
        settings: SessionSettings::default(),
        pending: Vec::new(),
        turns: 0,
        running: false,
        next_message: 0,
        summary: None,
        created_at: NOW,
    }
}

#[must_use]
pub fn create(id: &str) -> Change {
    Change::from(SessionChange::Create { session: session(id), messages: Vec::new() })
}

#[must_use]
pub fn settings() -> SessionSettings {
    let option = |name: &str| OptionName::parse(name).unwrap();
    SessionSettings {
        tools: Some(vec![EnabledTool { name: ToolName::parse("book").unwrap(), trust: Some(true) }]),
        options: BTreeMap::from([
            (option("language"), StoredOptionValue::Plain("中文".into())),
            (option("token"), StoredOptionValue::Sealed("v1.c2VhbGVk".into())),
        ]),
        client_tools: vec![ClientTool {
            name: ToolName::parse("locate").unwrap(),
            title: Some("Where am I?".into()),
            description: "Finds the device.".into(),
            parameters: json!({"type": "object"}),
            extra: Map::from_iter([("x".to_owned(), json!([1, null]))]),
        }],
    }
}

#[must_use]
pub fn pending(call: &str) -> PendingCall {
    let input = Map::from_iter([("room".to_owned(), json!("101"))]);
    PendingCall {
        arguments_digest: Digest::of_json(&json!(input)),
        call: ToolCall { id: CallId::parse(call).unwrap(), name: ToolName::parse("book").unwrap(), input },
        awaits: AwaitedAnswer::Permission,
        elsewhere: false,
    }
}

#[must_use]
pub fn begin(session: &str, number: u64) -> Change {
    Change::from(SessionChange::BeginTurn {
        session: session_id(session),
        number,
        node: here(),
        mode: StreamMode::Delta,
        protocol: Protocol::Anp,
        at: NOW,
        settings: None,
    })
}

#[must_use]
pub fn end(session: &str, number: u64) -> Change {
    Change::from(SessionChange::EndTurn {
        session: session_id(session),
        number,
        at: later(9),
        stop: stop(session, number),
        events: vec![0, 159, 146, 150, u8::MAX],
    })
}

#[must_use]
pub fn stop(session: &str, number: u64) -> TurnOutcome {
    TurnOutcome {
        stop_reason: StopReason::EndTurn,
        turn_id: turn_id(&session_id(session), number),
        cancelled: true,
        usage: Some(TokenUsage { input_tokens: 3, output_tokens: 5 }),
        error: None,
    }
}

#[must_use]
pub fn append(session: &str, turn: u64, number: u64, text: &str) -> Change {
    Change::from(SessionChange::AppendMessage {
        session: session_id(session),
        turn,
        number,
        message: Message::user(text),
    })
}

#[must_use]
pub fn idempotency_record(session: &str, key: &str) -> IdempotencyRecord {
    IdempotencyRecord {
        owner: owner(),
        request: "sessions".to_owned(),
        key: key.to_owned(),
        body: Digest::of_bytes(key.as_bytes()),
        session: session_id(session),
        turn: None,
    }
}

#[must_use]
pub fn record(call: &str) -> AuditRecord {
    AuditRecord {
        caller: owner(),
        protocol: Protocol::Aap,
        references: AuditReferences::default(),
        agent: AgentName::parse("hotel").unwrap(),
        tool: ToolName::parse("book").unwrap(),
        scope: Some(ScopeId::parse("booking:write").unwrap()),
        call: CallId::parse(call).unwrap(),
        session: None,
        turn: Some(1),
        request: None,
        arguments_digest: Digest::ZERO,
        decision: AuditDecision::Allowed { by: vec!["policy".into()] },
        outcome: AuditOutcome::Completed,
        asked_at: NOW,
        started_at: Some(NOW),
        ended_at: later(1),
    }
}

#[must_use]
pub fn key(id: &str, created_at: Timestamp) -> ApiKey {
    ApiKey {
        role: KeyRole::Operator,
        id: KeyId::parse(id).unwrap(),
        kind: KeyKind::Bearer,
        name: Some(format!("the key {id}")),
        digest: Digest::of_bytes(id.as_bytes()),
        scopes: KeyScopes::Only(vec![ScopeId::parse("booking:read").unwrap()]),
        person: Some(PersonName::parse("ada").unwrap()),
        created_at,
        rotated_at: None,
        expires_at: None,
        lifetime_seconds: None,
        previous: None,
        revoked_at: None,
    }
}

#[must_use]
pub fn grant(id: &str, given_at: Timestamp) -> Grant {
    Grant {
        id: GrantId::parse(id).unwrap(),
        principal: owner(),
        agent: AgentName::parse("hotel").unwrap(),
        scopes: vec![ScopeId::parse("booking:write").unwrap()],
        term: GrantTerm::Once,
        given_by: Principal::Operator,
        given_at,
    }
}

#[must_use]
pub fn approval(id: &str, asked_at: Timestamp) -> Approval {
    let arguments = json!({"room": "101", "nights": 2});
    Approval {
        id: ApprovalId::parse(id).unwrap(),
        question: ApprovalQuestion {
            call: CallId::parse("c1").unwrap(),
            arguments_digest: Digest::of_json(&arguments),
            arguments,
            caller: owner(),
            agent: AgentName::parse("hotel").unwrap(),
            tool: ToolName::parse("book").unwrap(),
            scope: None,
            session: Some(session_id("s")),
        },
        asked_of: Approver::Device(PersonName::parse("ada").unwrap()),
        asked_at,
        expires_at: later(60_000),
        state: ApprovalState::Pending,
    }
}
