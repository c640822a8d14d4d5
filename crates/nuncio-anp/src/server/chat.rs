//! Conversation over JSON-RPC: one message in, the agent's answer in the response. Also calls under a drafted protocol.

use std::sync::Arc;

use nuncio_core::policy::Protocol;
use nuncio_engine::Caller;
use nuncio_engine::publish::PublishedAgent;
use serde_json::{Map, Value, json};

use super::Anp;
use super::rpc::of_engine;
use crate::wire::{ErrorCode, RpcError};

impl Anp {
    /// Sends a message to the agent and waits for the agent's answer. Tools run through the call chain on behalf of
    /// this caller, who cannot be asked about permissions, so calls that need approval wait for an approver.
    pub(super) async fn chat(
        &self,
        served: &Arc<PublishedAgent>,
        caller: &Caller,
        mut arguments: Map<String, Value>,
    ) -> Result<Value, RpcError> {
        let wrong =
            |message: &str| RpcError::new(ErrorCode::InvalidParams).with_message(format!("Invalid params: {message}"));
        if let Some(call) = arguments.remove("call") {
            return match arguments.keys().next() {
                Some(other) => Err(wrong(&format!("`call` stands alone, without `{other}`"))),
                None => self.call_drafted(served, caller, call).await,
            };
        }
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
            Some(session) => match self.engine.conversations().session(caller, &session).await {
                Ok(found) if found.agent != served.agent.name => {
                    return Err(wrong(&format!("`session` is one with {}", found.agent)));
                }
                found => found.map(|session| session.id),
            },
            None => self.engine.conversations().open_unattended_session(caller, served, None).await,
        }
        .map_err(|error| of_engine(&error))?;
        let turn = self
            .engine
            .conversations()
            .begin_unattended_turn(caller, session.as_str(), text, Protocol::Anp, None)
            .await
            .map_err(|error| of_engine(&error))?;
        turn.finished().await;
        let answer = turn.answer();
        answer
            .map(|text| json!({"text": text, "session": session}))
            .map_err(|failure| RpcError::new(ErrorCode::InternalError).with_message(failure.message))
    }
}
