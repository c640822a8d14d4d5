//! `direct.send`: a message to an agent, signed by whoever sends it. The turn it begins is on disk before it
//! is accepted; the agent's answer goes to the sender's message service the same way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::converse::{Idempotency, LiveTurn};
use nuncio_engine::publish::Served;
use serde_json::{Value, json};

use super::rpc::of_engine;
use super::{Anp, Reply};
use crate::wire::{ErrorCode, Request as AnpRequest, RpcError, TargetKind};

/// Says, inside what is signed, that a message is an agent's answer: it is taken, and not answered again, or
/// two agents would never stop.
pub(super) const IS_ANSWER: &str = "x_answers";

/// How often an answer is sent at most, and the pause before the second time; doubled each time.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_secs(5);

/// How long an id may be.
const MAX_ID: usize = 256;

impl Anp {
    /// Takes a message.
    pub(super) async fn direct(&self, caller: Option<Caller>, request: &AnpRequest) -> Result<Value, RpcError> {
        // By the proof inside it, or not at all: a message may have come by others' hands.
        let sender = match caller.map(|caller| (caller.principal.clone(), caller)) {
            Some((Principal::Did(did), caller)) if request.auth.is_some() => (did, caller),
            _ => return Err(RpcError::new(ErrorCode::Unauthorized).saying("direct.send needs an origin proof")),
        };
        let misshapen = |message: String| RpcError::new(ErrorCode::InvalidParamsShape).saying(message);
        let needed = |field: &Option<String>, name: &str| {
            let short = field.clone().filter(|text| text.len() <= MAX_ID);
            short.ok_or_else(|| misshapen(format!("params.meta.{name} must be a text of 1 to {MAX_ID} bytes")))
        };
        let operation_id = needed(&request.meta.operation_id, "operation_id")?;
        let message_id = needed(&request.meta.message_id, "message_id")?;
        let content_type = needed(&request.meta.content_type, "content_type")?;
        if request.meta.target.as_ref().is_some_and(|target| target.kind != TargetKind::Agent) {
            return Err(misshapen("params.meta.target.kind must be agent".to_owned()));
        }
        let text = text(request, &content_type)?;
        let served = self.addressee(request)?;
        if !served.agent.presence.conversation {
            return Err(RpcError::new(ErrorCode::PolicyViolation).saying("this agent takes no messages"));
        }
        let accepted = json!({
            "accepted": true,
            "message_id": message_id,
            "operation_id": operation_id,
            "target_did": request.meta.target.as_ref().map(|target| target.did.clone()),
            "accepted_at": self.engine.now(),
        });
        if request.raw_meta.contains_key(IS_ANSWER) {
            tracing::info!(from = sender.0, agent = %served.agent.name, message = message_id, "an answer came");
            return Ok(accepted);
        }
        let turn = self.begin(&served, &sender.1, text, &operation_id, request).await?;
        let (anp, to) = (self.clone(), sender.0);
        self.engine.spawn(async move { anp.answer(&served, &turn, &to, &message_id).await });
        Ok(accepted)
    }

    /// Begins the turn, or finds the one that the same operation began.
    async fn begin(
        &self,
        served: &Arc<Served>,
        caller: &Caller,
        text: String,
        operation: &str,
        request: &AnpRequest,
    ) -> Result<Arc<LiveTurn>, RpcError> {
        // One conversation for each sender, found again by its own key.
        let name = format!("anp/{}", served.agent.name);
        let always = Idempotency { key: name.clone(), body: Digest::of_bytes(name.as_bytes()) };
        let session =
            self.engine.begin_unattended(caller, served, Some(always)).await.map_err(|error| of_engine(&error))?;
        let signed = Digest::of_json(&json!([request.meta.message_id, request.body]));
        let once = Idempotency { key: format!("operation/{operation}"), body: signed };
        let begun = self.engine.say_unattended(caller, session.as_str(), text, Protocol::Anp, Some(once)).await;
        begun.map_err(|error| match error.code {
            Code::IdempotencyMismatch => RpcError::new(ErrorCode::IdempotencyConflict),
            Code::TurnRunning => {
                RpcError::new(ErrorCode::TemporarilyUnavailable).saying("the agent is still at your last message")
            }
            _ => of_engine(&error),
        })
    }

    /// Waits for the agent, and sends what it says.
    async fn answer(&self, served: &Served, turn: &LiveTurn, to: &str, message: &str) {
        turn.finished().await;
        let text = turn.answer().unwrap_or_else(|failure| failure.message);
        if text.is_empty() {
            return;
        }
        let reply = Reply { agent: served.agent.name.clone(), to: to.to_owned(), answers: message.to_owned(), text };
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS {
            let Err(why) = self.identities.send(&reply).await else { return };
            tracing::info!(to, attempt, why, "an answer could not be sent");
            if self.engine.is_closing() {
                break;
            }
            // The server does not stop before this is over.
            let over = self.engine.clock().sleep_until(self.engine.now().after(pause));
            select(pin!(self.engine.until_closing()), over).await;
            pause *= 2;
        }
        tracing::warn!(to, "an answer could not be sent; it is in the conversation");
    }
}

/// What is said: exactly one of three shapes, the one its type asks for (P3 §6).
fn text(request: &AnpRequest, content_type: &str) -> Result<String, RpcError> {
    let wrong = |message: &str| RpcError::new(ErrorCode::InvalidPayloadShape).saying(message);
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = kind == "text/plain";
    let is_json = kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
    if !is_text && !is_json {
        return Err(RpcError::new(ErrorCode::UnsupportedContentType).saying("only text and JSON are read here"));
    }
    let shapes = ["text", "payload", "payload_b64u"].map(|name| request.body.get(name));
    match shapes {
        [Some(Value::String(text)), None, None] if is_text && !text.is_empty() => Ok(text.clone()),
        [None, Some(payload @ Value::Object(_)), None] if is_json => Ok(payload.to_string()),
        [Some(_), None, None] | [None, Some(_), None] | [None, None, Some(_)] => Err(wrong(
            "params.body must have a text where it is text/plain, and a payload, an object, where it is JSON",
        )),
        _ => Err(wrong("params.body must have exactly one of text, payload and payload_b64u")),
    }
}
