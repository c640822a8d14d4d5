//! `direct.send`: a signed message to an agent. The turn is stored before the message is accepted; the reply is sent
//! with `direct.send` to the sender's message service.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::json::{essence, is_json};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_engine::direct_messages::{IncomingMessage, ReplyAddress};
use nuncio_engine::publish::PublishedAgent;
use serde_json::{Value, json};

use super::AnpServerState;
use super::rpc::with_reason;
use crate::wire::{AnpErrorCode, AnpRequest, DirectMessageReceipt, RequestTargetKind, RpcError};

/// Member of the signed `meta` that marks a message as a reply. Replies are not answered, because two agents would
/// reply to each other without end.
pub(super) const IS_ANSWER: &str = "x_answers";

const MAX_ID_BYTES: usize = 256;

impl AnpServerState {
    pub(super) async fn direct(&self, caller: Option<Caller>, request: &AnpRequest) -> Result<Value, RpcError> {
        // Only an origin proof identifies the sender, because the message may have been forwarded.
        let sender = match caller.map(|caller| (caller.principal.clone(), caller)) {
            Some((Principal::Did(did), caller)) if request.auth.is_some() => (did, caller),
            _ => {
                return Err(RpcError::new(AnpErrorCode::Unauthorized).with_message("direct.send needs an origin proof"));
            }
        };
        let misshapen = |message: String| RpcError::new(AnpErrorCode::InvalidParamsShape).with_message(message);
        let needed = |field: &Option<String>, name: &str| {
            let short = field.clone().filter(|text| text.len() <= MAX_ID_BYTES);
            short.ok_or_else(|| misshapen(format!("params.meta.{name} must be a text of 1 to {MAX_ID_BYTES} bytes")))
        };
        let operation_id = needed(&request.meta.operation_id, "operation_id")?;
        let message_id = needed(&request.meta.message_id, "message_id")?;
        let content_type = needed(&request.meta.content_type, "content_type")?;
        if request.meta.target.as_ref().is_some_and(|target| target.kind != RequestTargetKind::Agent) {
            return Err(misshapen("params.meta.target.kind must be agent".to_owned()));
        }
        let text = text(request, &content_type)?;
        let served = self.addressee(request)?;
        if !served.agent.presence.conversation {
            return Err(
                RpcError::new(AnpErrorCode::PolicyViolation).with_message("this agent does not accept messages")
            );
        }
        let accepted = json!(DirectMessageReceipt {
            accepted: true,
            message_id: message_id.clone(),
            operation_id: operation_id.clone(),
            target_did: request.meta.target.as_ref().map(|target| target.did.clone()),
            accepted_at: self.engine.now(),
        });
        if let Some(answers) = request.raw_meta.get(IS_ANSWER) {
            let answers = answers.as_str().unwrap_or_default();
            let matched =
                self.engine.direct_messages().record_direct_reply(&served.agent.name, answers, &sender.0, text).await?;
            tracing::info!(from = sender.0, agent = %served.agent.name, message = message_id, matched, "received a reply");
            return Ok(accepted);
        }
        let from = ReplyAddress { to: sender.0, answers: message_id };
        self.begin(&served, &sender.1, text, &operation_id, request, from).await?;
        Ok(accepted)
    }

    /// Starts the turn of a direct message, or finds the turn that an earlier request with the same operation id
    /// started. A reply is then pending.
    async fn begin(
        &self,
        served: &Arc<PublishedAgent>,
        caller: &Caller,
        text: String,
        operation: &str,
        request: &AnpRequest,
        from: ReplyAddress,
    ) -> Result<(), RpcError> {
        // There is one conversation per sender and agent, found by its idempotency key.
        let name = format!("anp/{}", served.agent.name);
        let always = IdempotencyKey { key: name.clone(), body: Digest::of_bytes(name.as_bytes()) };
        let session = self.engine.conversations().open_unattended_session(caller, served, Some(always)).await?;
        let signed = Digest::of_json(&json!([request.meta.message_id, request.body]));
        let once = IdempotencyKey { key: format!("operation/{operation}"), body: signed };
        let incoming = IncomingMessage { session, text, once, from, protocol: Protocol::Anp };
        let begun = self.engine.direct_messages().receive_direct_message(caller, served, incoming).await;
        begun.map_err(|error| match error.code {
            ErrorCode::IdempotencyMismatch => with_reason(AnpErrorCode::IdempotencyConflict, error.message, error.code),
            _ => error.into(),
        })
    }
}

/// Text of a message: exactly one of the three body members, matching the content type (P3 §6).
fn text(request: &AnpRequest, content_type: &str) -> Result<String, RpcError> {
    let wrong = |message: &str| RpcError::new(AnpErrorCode::InvalidPayloadShape).with_message(message);
    let is_text = essence(content_type).eq_ignore_ascii_case("text/plain");
    let is_json = is_json(content_type);
    if !is_text && !is_json {
        return Err(RpcError::new(AnpErrorCode::UnsupportedContentType)
            .with_message("only the content type text/plain and JSON types are supported"));
    }
    let shapes = ["text", "payload", "payload_b64u"].map(|name| request.body.get(name));
    match shapes {
        [Some(Value::String(text)), None, None] if is_text && !text.is_empty() => Ok(text.clone()),
        [None, Some(payload @ Value::Object(_)), None] if is_json => Ok(payload.to_string()),
        [Some(_), None, None] | [None, Some(_), None] | [None, None, Some(_)] => Err(wrong(
            "params.body must have `text` if the content type is text/plain, and `payload`, an object, if it is JSON",
        )),
        _ => Err(wrong("params.body must have exactly one of text, payload and payload_b64u")),
    }
}
