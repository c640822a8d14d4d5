//! The tool `ask`: the whole agent, text in and answer out. A handle continues the conversation.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::event::{TurnEventLog, TurnLogEvent};
use nuncio_core::ids::SessionId;
use nuncio_core::message::ToolCall;
use nuncio_core::policy::Protocol;
use nuncio_engine::EngineError;
use nuncio_engine::converse::LiveTurn;
use serde_json::{Value, json};

use super::AdmittedRequest;
use super::refuse::McpFailure;
use super::respond::PendingResult;
use crate::project;
use crate::wire::JsonObject;

/// Number of pieces of text after which progress is reported even if nothing else happened.
const PIECES_PER_REPORT: usize = 50;

/// Arguments of the tool.
struct Question {
    text: String,
    conversation: Option<String>,
}

impl Question {
    fn read(mut arguments: JsonObject) -> Result<Self, &'static str> {
        let Some(Value::String(text)) = arguments.shift_remove("text") else { return Err("`text` must be a string") };
        let conversation = match arguments.shift_remove("conversation") {
            None | Some(Value::Null) => None,
            Some(Value::String(conversation)) => Some(conversation),
            Some(_) => return Err("`conversation` must be a string"),
        };
        match arguments.is_empty() {
            true => Ok(Self { text, conversation }),
            false => Err("the arguments are `text` and `conversation`"),
        }
    }
}

/// Begins a turn of the agent.
pub(super) async fn begin(
    of: &AdmittedRequest,
    arguments: JsonObject,
    progress_token: Option<Value>,
) -> Result<PendingResult, McpFailure> {
    let question = match Question::read(arguments) {
        Ok(question) => question,
        Err(why) => return Ok(of.failed(&format!("Invalid arguments: {why}"))),
    };
    let engine = &of.mcp.engine;
    let begun = async {
        let session = find_conversation(of, question.conversation).await?;
        let (conversations, id) = (engine.conversations(), session.as_str());
        conversations.begin_unattended_turn(&of.caller, id, question.text, Protocol::Mcp, None).await
    };
    let turn = match begun.await {
        Ok(turn) => turn,
        Err(error)
            if matches!(error.code, ErrorCode::SessionNotFound | ErrorCode::TurnRunning | ErrorCode::BadRequest) =>
        {
            return Ok(of.failed(&error.message));
        }
        Err(error) => return Err(error.into()),
    };
    let cancel = engine.calls().new_cancellation();
    let (watched, cancelled) = (Arc::clone(&turn), cancel.clone());
    engine.spawn(async move {
        tokio::select! {
            () = watched.finished() => {}
            () = cancelled.cancelled() => watched.cancel(),
        }
    });
    let progress = progress_token.map(|token| TurnProgress { turn: Arc::clone(&turn), token, next: 0, reported: 0 });
    let (form, agent) = (of.form(), Arc::clone(&of.served.agent));
    let outcome = Box::pin(async move {
        turn.finished().await;
        let result = project::answer_result(&turn.answer(), turn.session.as_str());
        Ok(project::completed(form, &agent, result))
    });
    Ok(PendingResult { outcome, progress, requests: None, cancel })
}

/// The conversation to continue, or a new one.
async fn find_conversation(of: &AdmittedRequest, id: Option<String>) -> Result<SessionId, EngineError> {
    let conversations = of.mcp.engine.conversations();
    let Some(id) = id else { return conversations.open_unattended_session(&of.caller, &of.served, None).await };
    let unknown = || {
        let message = "the conversation is unknown; leave `conversation` out to begin a new one";
        EngineError::new(ErrorCode::SessionNotFound, message)
    };
    match conversations.session(&of.caller, &id).await {
        Ok(session) if session.agent == of.served.agent.name => Ok(session.id),
        Ok(_) => Err(unknown()),
        Err(error) if error.code == ErrorCode::SessionNotFound => Err(unknown()),
        Err(error) => Err(error),
    }
}

impl AdmittedRequest {
    /// A result that says, for the model, why nothing ran.
    fn failed(&self, why: &str) -> PendingResult {
        let result = project::completed(self.form(), &self.served.agent, project::failed_call(why));
        PendingResult::ready(Ok(result), self.mcp.engine.calls().new_cancellation())
    }
}

/// Reports what a turn does: `notifications/progress` with the number of its events.
pub(super) struct TurnProgress {
    turn: Arc<LiveTurn>,
    token: Value,
    /// Index of the next event in the log.
    next: usize,
    /// Number of events that were reported.
    reported: usize,
}

impl TurnProgress {
    /// The next notification; none after the end of the turn.
    pub(super) async fn next(&mut self) -> Value {
        loop {
            self.turn.wait_for(self.next).await;
            let turn = Arc::clone(&self.turn);
            let (message, is_finished) = turn.read(|log| (self.read(log), log.is_finished()));
            if is_finished {
                return std::future::pending().await;
            }
            if message.is_some() || self.next - self.reported >= PIECES_PER_REPORT || self.reported == 0 {
                self.reported = self.next;
                return self.notification(message);
            }
        }
    }

    /// Reads the new events; returns what the last call of a tool says to people.
    fn read(&mut self, log: &TurnEventLog) -> Option<String> {
        let mut message = None;
        for (index, event) in log.from(self.next) {
            self.next = index + 1;
            if let TurnLogEvent::ToolCall(call) = event
                && let Ok(call) = serde_json::from_str::<ToolCall>(call)
            {
                message = Some(format!("Calls {}", call.name));
            }
        }
        message
    }

    fn notification(&self, message: Option<String>) -> Value {
        let mut params = json!({"progressToken": self.token, "progress": self.next});
        if let Some(message) = message {
            params["message"] = json!(message);
        }
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    }
}
