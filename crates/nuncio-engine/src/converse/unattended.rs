//! Talking to an agent where no app is there to be asked about its calls: for protocols that put one text in
//! and take one answer out. What the agent may use is decided by the grants of the caller and by people, as
//! everywhere outside AAP.

use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::agent::Run;
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::session::ToolRef;
use nuncio_core::turn::{StopReason, StreamMode, TurnInput};

use super::{Idempotency, LiveTurn, NewSession, SettingsPatch, TurnRequest};
use crate::Engine;
use crate::access::Caller;
use crate::error::EngineError;
use crate::publish::Served;

impl Engine {
    /// A conversation in which the agent may use what machines do for it; the one begun with the same key
    /// before.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn begin_unattended(
        &self,
        caller: &Caller,
        served: &Served,
        once: Option<Idempotency>,
    ) -> Result<SessionId, EngineError> {
        let usable = served.agent.exposed_tools().filter(|tool| !matches!(tool.run, Run::Human(_)));
        let tools = usable.map(|tool| ToolRef { name: tool.name.clone(), trust: Some(true) }).collect();
        let new = NewSession {
            agent: served.agent.name.to_string(),
            settings: SettingsPatch { tools: Some(tools), ..SettingsPatch::default() },
            messages: Vec::new(),
        };
        self.create_session(caller, new, once).await
    }

    /// Says something in such a conversation. The turn goes on whether or not anyone waits for it.
    ///
    /// # Errors
    /// The caller has no such conversation, or it is busy.
    pub async fn say_unattended(
        &self,
        caller: &Caller,
        session: &str,
        text: impl Into<String>,
        protocol: Protocol,
        once: Option<Idempotency>,
    ) -> Result<Arc<LiveTurn>, EngineError> {
        let request = TurnRequest {
            input: TurnInput::User(Message::user(text)),
            mode: StreamMode::None,
            settings: SettingsPatch::default(),
            protocol,
        };
        self.begin_turn(caller, session, request, once).await
    }
}

impl LiveTurn {
    /// What the agent said last in a turn that is over, or why it did not.
    ///
    /// # Errors
    /// The turn failed, or stopped before its end.
    pub fn answer(&self) -> Result<String, ExecutionFailure> {
        let failed = |code, message| Err(ExecutionFailure { code, message });
        let (stop, messages) = self.read(|log| (log.stop(), log.messages()));
        let Some(stop) = stop else {
            return failed(Code::BrainFailed, "the agent did not come to an end".to_owned());
        };
        if stop.stop_reason == StopReason::EndTurn {
            let said = messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
            return Ok(said.map(Message::text).unwrap_or_default());
        }
        match stop.error {
            Some(error) => failed(error.code, error.message),
            None => failed(Code::BrainFailed, format!("the agent stopped: {}", stop.stop_reason.as_str())),
        }
    }
}
