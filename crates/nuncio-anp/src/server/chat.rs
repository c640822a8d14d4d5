//! Conversation over JSON-RPC: a request has one message, its response the agent's answer.

use std::sync::Arc;

use nuncio_core::policy::Protocol;
use nuncio_engine::Caller;
use nuncio_engine::publish::PublishedAgent;
use serde_json::{Map, Value, json};

use super::AnpServerState;
use super::rpc::invalid_params;
use crate::wire::{AnpErrorCode, RpcError};

impl AnpServerState {
    /// Sends a message to the agent and waits for the agent's answer. Tools run on behalf of this caller, who cannot
    /// be asked for permission, so calls that need approval wait for an approver. The argument `call` instead makes a
    /// call under a drafted protocol.
    pub(super) async fn chat(
        &self,
        served: &Arc<PublishedAgent>,
        caller: &Caller,
        mut arguments: Map<String, Value>,
    ) -> Result<Value, RpcError> {
        if let Some(call) = arguments.shift_remove("call") {
            return match arguments.keys().next() {
                Some(other) => Err(invalid_params(&format!("`call` cannot be combined with `{other}`"))),
                None => self.call_drafted(served, caller, call).await,
            };
        }
        let Some(Value::String(text)) = arguments.shift_remove("message") else {
            return Err(invalid_params("`message` must be a text"));
        };
        let session = match arguments.shift_remove("session") {
            None | Some(Value::Null) => None,
            Some(Value::String(session)) => Some(session),
            Some(_) => return Err(invalid_params("`session` must be a text")),
        };
        if let Some(unknown) = arguments.keys().next() {
            return Err(invalid_params(&format!("`{unknown}` is unknown; the arguments are message and session")));
        }
        let conversations = self.engine.conversations();
        let session = match session {
            Some(session) => {
                let session = conversations.session(caller, &session).await?;
                if session.agent != served.agent.name {
                    return Err(invalid_params(&format!("`session` belongs to a conversation with {}", session.agent)));
                }
                session.id
            }
            None => conversations.open_unattended_session(caller, served, None).await?,
        };
        let turn = conversations.begin_unattended_turn(caller, session.as_str(), text, Protocol::Anp, None).await?;
        turn.finished().await;
        turn.answer()
            .map(|text| json!({"text": text, "session": session}))
            .map_err(|failure| RpcError::new(AnpErrorCode::InternalError).with_message(failure.message))
    }
}
