//! Natural language by JSON-RPC: one message in, the agent's answer in the reply.

use std::sync::Arc;

use nuncio_core::agent::Run;
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::session::ToolRef;
use nuncio_core::turn::{StopReason, StreamMode, TurnInput};
use nuncio_engine::Caller;
use nuncio_engine::converse::{Idempotency, NewSession, SettingsPatch, TurnRequest};
use nuncio_engine::publish::Served;
use serde_json::{Map, Value, json};

use super::Anp;
use super::rpc::of_engine;
use crate::wire::{ErrorCode, RpcError};

impl Anp {
    /// Says something to the agent, and waits for its answer. Its tools are called through the chain, for
    /// this caller; nobody is there to be asked about each, so people are, where one must be.
    pub(super) async fn chat(
        &self,
        served: &Arc<Served>,
        caller: &Caller,
        mut arguments: Map<String, Value>,
    ) -> Result<Value, RpcError> {
        let wrong =
            |message: &str| RpcError::new(ErrorCode::InvalidParams).saying(format!("Invalid params: {message}"));
        let Some(Value::String(text)) = arguments.remove("message") else {
            return Err(wrong("`message` must be a text"));
        };
        let session = match arguments.remove("session") {
            None | Some(Value::Null) => None,
            Some(Value::String(session)) => Some(session),
            Some(_) => return Err(wrong("`session` must be a text")),
        };
        if let Some(unknown) = arguments.keys().next() {
            return Err(wrong(&format!("there is no `{unknown}`; it takes message and session")));
        }
        let session = match session {
            Some(session) => session,
            None => self.begin_session(served, caller, None).await?,
        };
        let request = TurnRequest {
            input: TurnInput::User(Message::user(text)),
            mode: StreamMode::None,
            settings: SettingsPatch::default(),
            protocol: Protocol::Anp,
        };
        let turn = self.engine.begin_turn(caller, &session, request, None).await.map_err(|error| of_engine(&error))?;
        turn.finished().await;
        let (stop, messages) = turn.read(|log| (log.stop(), log.messages()));
        match stop {
            Some(stop) if stop.stop_reason != StopReason::Error => {
                let said = messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
                Ok(json!({"text": said.map(Message::text).unwrap_or_default(), "session": session}))
            }
            Some(stop) => {
                let why = stop.error.map_or_else(|| "the agent failed".to_owned(), |error| error.message);
                Err(RpcError::new(ErrorCode::InternalError).saying(why))
            }
            None => Err(RpcError::new(ErrorCode::InternalError)),
        }
    }

    /// A conversation in which the agent may use what it has; the one begun with the same key before.
    pub(super) async fn begin_session(
        &self,
        served: &Served,
        caller: &Caller,
        once: Option<Idempotency>,
    ) -> Result<String, RpcError> {
        let usable = served.agent.exposed_tools().filter(|tool| !matches!(tool.run, Run::Human(_)));
        let tools = usable.map(|tool| ToolRef { name: tool.name.clone(), trust: Some(true) }).collect();
        let new = NewSession {
            agent: served.agent.name.to_string(),
            settings: SettingsPatch { tools: Some(tools), ..SettingsPatch::default() },
            messages: Vec::new(),
        };
        let session = self.engine.create_session(caller, new, once).await.map_err(|error| of_engine(&error))?;
        Ok(session.to_string())
    }
}
