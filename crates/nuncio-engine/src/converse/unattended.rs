//! Conversations without an app that could approve tool calls, for protocols that send one text and get one answer.
//! Grants of the caller and people's approvals decide what the agent may use.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::agent::ToolRunSpec;
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::session::EnabledTool;
use nuncio_core::turn::{StopReason, StreamMode, TurnInput};

use super::{IdempotencyKey, LiveTurn, NewSession, PermissionResponder, SessionSettingsPatch, TurnRequest};
use crate::access::Caller;
use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::publish::PublishedAgent;

impl ConversationService {
    /// Opens a session with all exposed tools except human work enabled, or returns the one opened with the same key.
    pub async fn open_unattended_session(
        &self,
        caller: &Caller,
        served: &PublishedAgent,
        once: Option<IdempotencyKey>,
    ) -> Result<SessionId, EngineError> {
        let usable = served.agent.exposed_tools().filter(|tool| !matches!(tool.run, ToolRunSpec::Human(_)));
        let tools = usable.map(|tool| EnabledTool { name: tool.name.clone(), trust: Some(true) }).collect();
        let new = NewSession {
            agent: served.agent.name.to_string(),
            settings: SessionSettingsPatch { tools: Some(tools), ..SessionSettingsPatch::default() },
            messages: Vec::new(),
        };
        self.create_session(caller, new, once).await
    }

    /// Sends a text to an unattended session. The turn runs whether or not anyone waits for it.
    pub async fn begin_unattended_turn(
        self: &Arc<Self>,
        caller: &Caller,
        session: &str,
        text: impl Into<String>,
        protocol: Protocol,
        once: Option<IdempotencyKey>,
    ) -> Result<Arc<LiveTurn>, EngineError> {
        let request = TurnRequest {
            input: TurnInput::User(Message::user(text)),
            mode: StreamMode::None,
            settings: SessionSettingsPatch::default(),
            protocol,
            prompts: PermissionResponder::Absent,
        };
        self.begin_turn(caller, session, request, once).await
    }
}

impl LiveTurn {
    /// Final answer of a finished turn, or why there is none.
    pub fn answer(&self) -> Result<String, ExecutionFailure> {
        let failed = |code, message| Err(ExecutionFailure { code, message });
        let (stop, messages) = self.read(|log| (log.stop(), log.messages()));
        let Some(stop) = stop else {
            return failed(ErrorCode::BrainFailed, "the agent did not finish".to_owned());
        };
        if stop.stop_reason == StopReason::EndTurn {
            let said = messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
            return Ok(said.map(Message::text).unwrap_or_default());
        }
        match stop.error {
            Some(error) => failed(error.code, error.message),
            None => failed(ErrorCode::BrainFailed, format!("the agent stopped: {}", stop.stop_reason.as_str())),
        }
    }
}
