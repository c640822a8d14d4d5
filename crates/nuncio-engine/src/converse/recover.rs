//! Closes the turns and calls that a dead incarnation was running, and marks them as interrupted. Nothing is run again.

use std::collections::HashSet;

use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord, AuditReferences};
use nuncio_core::digest::Digest;
use nuncio_core::event::{ModelOutputKind, TurnEventLog};
use nuncio_core::execution::{CallAuthorization, Execution, InvocationTarget};
use nuncio_core::ids::{CallId, Incarnation};
use nuncio_core::message::{Block, Content, Message, ToolCall};
use nuncio_core::session::Session;
use nuncio_core::turn::{Turn, TurnOutcome};
use serde_json::Value;

use super::turn::{failed, reply_is_due};
use crate::call_failure::{INTERRUPTED_RESULT, NOT_RUN};
use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::ports::store::{
    AuditChange, CallChange, Change, Conflict, EncodedMessage, ExecutionChange, ResultTarget, SessionChange,
    StartedCall, StoreError, StoredMessage,
};

impl ConversationService {
    /// Closes the turns and calls that a dead incarnation left open, and returns their numbers. What another node closed
    /// first stays as it is.
    pub(crate) async fn close_work_of(&self, node: &Incarnation) -> Result<(usize, usize), EngineError> {
        let turns = self.store.running_turns(node).await?;
        let calls = self.call_store.started_calls(node).await?;
        for turn in &turns {
            let message = "the server stopped while the turn was running; what was done is in the history";
            let stop = failed(&turn.session, turn.number, None, ErrorCode::Interrupted, message);
            let calls = calls.iter().filter(|call| call.belongs_to(turn)).collect();
            unless_closed(self.close_turn(turn, calls, stop, None).await)?;
        }
        // Calls without a turn, or whose turn was closed by other means.
        for call in self.call_store.started_calls(node).await? {
            let changes = self.close_call(&call);
            let is_result = |change: &&Change| matches!(change, Change::Session(SessionChange::AppendMessage { .. }));
            let without_result: Vec<_> = changes.iter().filter(|change| !is_result(change)).cloned().collect();
            unless_closed(self.records.store_end(changes, || without_result).await)?;
        }
        let begun = self.call_store.begun_calls(node).await?;
        for (execution, authorization) in &begun {
            unless_closed(self.context.commit(self.close_attempt(execution, node, authorization)).await)?;
        }
        Ok((turns.len(), calls.len() + begun.len()))
    }

    fn close_call(&self, call: &StartedCall) -> Vec<Change> {
        let outcome = AuditOutcome::Failed { code: ErrorCode::Interrupted };
        let record = AuditRecord { outcome, ended_at: self.context.now(), ..call.record.clone() };
        let mut changes = vec![AuditChange::AppendCall(record).into(), CallChange::Finish(call.key.clone()).into()];
        if let Some(place) = call.target.as_ref().and_then(ResultTarget::message) {
            changes.push(place.result(Content::from(INTERRUPTED_RESULT)).append_to(&place.session));
        }
        changes
    }

    /// Changes that record an interrupted attempt of an execution. The execution itself runs again.
    fn close_attempt(
        &self,
        execution: &Execution,
        owner: &Incarnation,
        authorization: &CallAuthorization,
    ) -> Vec<Change> {
        let order = &execution.order;
        let finish = ExecutionChange::FinishAttempt {
            id: execution.id.clone(),
            owner: owner.clone(),
            attempt: execution.attempt,
            started: authorization.started,
        }
        .into();
        let InvocationTarget::Tool(tool) = &order.target else { return vec![finish] };
        let record = AuditRecord {
            agent: order.agent.clone(),
            arguments_digest: Digest::of_json(&Value::Object(order.inputs.clone())),
            asked_at: authorization.at,
            call: execution.call_id(execution.attempt),
            caller: order.caller.principal.clone(),
            decision: AuditDecision::Allowed { by: authorization.by.clone() },
            ended_at: self.context.now(),
            outcome: if authorization.started {
                AuditOutcome::Failed { code: ErrorCode::Interrupted }
            } else {
                AuditOutcome::NotRun
            },
            protocol: order.protocol,
            references: authorization.references.clone(),
            request: order.caller.request.clone(),
            scope: authorization.scope.clone(),
            session: None,
            started_at: authorization.started.then_some(execution.updated_at),
            tool: tool.clone(),
            turn: None,
        };
        vec![AuditChange::AppendCall(record).into(), finish]
    }

    /// Audit record of a call that was announced and never started.
    fn never_ran(&self, session: &Session, turn: &Turn, call: &ToolCall) -> AuditRecord {
        AuditRecord {
            caller: session.owner.clone(),
            protocol: turn.protocol,
            references: AuditReferences::default(),
            agent: session.agent.clone(),
            tool: call.name.clone(),
            scope: None,
            call: call.id.clone(),
            session: Some(session.id.clone()),
            turn: Some(turn.number),
            request: None,
            arguments_digest: Digest::of_json(&Value::Object(call.input.clone())),
            decision: AuditDecision::Refused { by: "policy".to_owned(), code: ErrorCode::Interrupted },
            outcome: AuditOutcome::NotRun,
            asked_at: turn.started_at,
            started_at: None,
            ended_at: self.context.now(),
        }
    }

    /// Ends a turn in the store, with its started and announced calls. Without `events`, the event log is rebuilt from
    /// the history.
    pub(super) async fn close_turn(
        &self,
        turn: &Turn,
        started: Vec<&StartedCall>,
        stop: TurnOutcome,
        events: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let Some(session) = self.store.session(&turn.session).await? else { return Ok(()) };
        let messages = self.store.messages(&turn.session, 0).await?;
        let mut messages: Vec<_> = messages.iter().map(EncodedMessage::decode).collect::<Result<_, _>>()?;
        let mut changes: Vec<Change> = started.iter().flat_map(|call| self.close_call(call)).collect();
        let mut next = session.next_message;
        for place in started.iter().filter_map(|call| call.target.as_ref()?.message()) {
            messages.push(place.result(Content::from(INTERRUPTED_RESULT)));
            next = next.max(place.number + 1);
        }
        messages.sort_by_key(|stored| stored.number);
        for call in unanswered(&messages) {
            // Calls of client tools are not recorded by this server.
            if session.settings.client_tool(call.name.as_str()).is_none() {
                changes.push(AuditChange::AppendCall(self.never_ran(&session, turn, &call)).into());
            }
            let message = Message::tool(call.id, Content::from(NOT_RUN));
            let stored = StoredMessage { number: next, turn: turn.number, message };
            changes.push(stored.clone().append_to(&turn.session));
            messages.push(stored);
            next += 1;
        }
        let said = messages.iter().filter(|stored| stored.turn == turn.number).map(|stored| &stored.message);
        let ran = started.iter().map(|call| &call.record.call).collect();
        let events = events.unwrap_or_else(|| retold(said, &ran, &stop).to_bytes());
        let at = self.context.now();
        changes.push(reply_is_due(&turn.session, at));
        changes.push(
            SessionChange::EndTurn { session: turn.session.clone(), number: turn.number, at, stop, events }.into(),
        );
        self.context.commit(changes).await
    }
}

/// Ignores a conflict that shows that another node closed the turn or call first, or that its session is gone.
fn unless_closed(closed: Result<(), StoreError>) -> Result<(), StoreError> {
    match closed {
        Err(StoreError::Conflict(
            Conflict::NoSession | Conflict::TurnOver | Conflict::Exists | Conflict::Missing | Conflict::OwnerChanged,
        )) => Ok(()),
        other => other,
    }
}

/// Tool calls of this server without an answer, in order. A call id may occur again in a later exchange, so each answer
/// closes the call before it. Messages imported by the client are ignored.
fn unanswered(messages: &[StoredMessage]) -> Vec<ToolCall> {
    let mut open: Vec<&ToolCall> = Vec::new();
    for stored in messages {
        if let Message::Tool { tool_call_id, .. } = &stored.message {
            open.retain(|call| call.id != *tool_call_id);
        }
        if stored.turn > 0 {
            open.extend(stored.message.tool_calls());
        }
    }
    open.into_iter().cloned().collect()
}

/// Rebuilds the event log of a turn from its history.
fn retold<'a>(messages: impl Iterator<Item = &'a Message>, ran: &HashSet<&CallId>, stop: &TurnOutcome) -> TurnEventLog {
    let mut log = TurnEventLog::rebuilt();
    let mut spoken = false;
    for message in messages {
        spoken |= matches!(message, Message::Assistant { .. });
        // Results before the agent's first message were sent by the app, unless this server ran the call.
        if !spoken && !matches!(message, Message::Tool { tool_call_id, .. } if ran.contains(tool_call_id)) {
            continue;
        }
        let retold = match message {
            Message::Assistant { content, .. } => content.blocks().iter().try_for_each(|block| match block {
                Block::Text { text, .. } => log.delta(ModelOutputKind::Text, text),
                Block::Thinking { thinking, .. } => log.delta(ModelOutputKind::Thinking, thinking),
                Block::ToolUse { call, .. } => log.tool_call(call),
                Block::Image { .. } => Ok(()),
            }),
            Message::Tool { tool_call_id, content, .. } => log.tool_result(tool_call_id.as_str(), content),
            Message::System { .. } | Message::User { .. } => Ok(()),
        };
        if retold.is_err() {
            break;
        }
    }
    log.stopped(stop);
    log
}
