//! Messages that local agents send.

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::ports::store::{PendingReply, SentDirectMessage};
use serde_json::json;

use super::AnpServerState;
use super::direct::IS_ANSWER;
use crate::wire::{AnpRequest, DirectMessageBody, RequestMeta, RequestTarget, RequestTargetKind, method, profile};

/// A message from a local agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingDirectMessage {
    pub agent: AgentName,
    /// DID of the message's recipient.
    pub to: String,
    /// Message id. Sending the same id again repeats the same message.
    pub id: String,
    /// Id of the message to which this one replies.
    pub answers: Option<String>,
    pub text: String,
}

impl OutgoingDirectMessage {
    /// Creates the message for an agent's reply; its id is derived from the message that it answers.
    #[must_use]
    pub(super) fn answer(reply: &PendingReply, text: String) -> Self {
        let PendingReply { agent, to, answers, .. } = reply;
        let id = Digest::of_json(&json!([agent, to, answers])).to_string();
        let (agent, to, answers) = (agent.clone(), to.clone(), Some(answers.clone()));
        Self { agent, to, id: format!("answer-{}", &id[..32]), answers, text }
    }

    /// The request that carries the message, without its origin proof.
    #[must_use]
    pub fn request(&self, from: &str, now: Timestamp) -> AnpRequest {
        let meta = RequestMeta {
            sender_did: Some(from.to_owned()),
            target: Some(RequestTarget { kind: RequestTargetKind::Agent, did: self.to.clone() }),
            operation_id: Some(self.id.clone()),
            message_id: Some(self.id.clone()),
            content_type: Some("text/plain".to_owned()),
            created_at: Some(now),
            ..RequestMeta::new(profile::DIRECT)
        };
        let body = DirectMessageBody { text: self.text.clone(), reply_to_message_id: self.answers.clone() };
        let mut request = AnpRequest::new(self.id.clone(), method::DIRECT_SEND, meta, &body);
        if let Some(answers) = &self.answers {
            request.raw_meta.insert(IS_ANSWER.to_owned(), json!(answers));
        }
        request
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectMessageDeliveryFailure {
    pub why: String,
    /// Whether a later delivery attempt may succeed.
    pub later: bool,
}

impl DirectMessageDeliveryFailure {
    #[must_use]
    pub fn retryable(why: impl Into<String>) -> Self {
        Self { why: why.into(), later: true }
    }

    #[must_use]
    pub fn permanent(why: impl Into<String>) -> Self {
        Self { why: why.into(), later: false }
    }
}

impl AnpServerState {
    /// Sends a message: to a local agent directly, to others through their message service.
    pub(super) async fn send(&self, message: &OutgoingDirectMessage) -> Result<(), DirectMessageDeliveryFailure> {
        let request = self.identities.signed_message(message).map_err(DirectMessageDeliveryFailure::permanent)?;
        if !self.identities.is_ours(&message.to) {
            return self.identities.post(message, &request).await;
        }
        let request = AnpRequest::read(request.to_string().as_bytes())
            .map_err(|it| DirectMessageDeliveryFailure::permanent(it.1.message))?;
        let taken = Box::pin(self.dispatch(None, request)).await;
        taken.map(drop).map_err(|error| {
            let later = error.known_code().is_none_or(crate::wire::AnpErrorCode::is_retryable);
            DirectMessageDeliveryFailure { why: error.message, later }
        })
    }

    /// Sends a message on behalf of an agent and records it, so that the reply can be matched to the message.
    pub async fn say(&self, message: &OutgoingDirectMessage) -> Result<SentDirectMessage, EngineError> {
        let sent =
            self.engine.direct_messages().record_direct_message(&message.agent, &message.id, &message.to).await?;
        self.send(message).await.map_err(|failed| {
            EngineError::new(ErrorCode::EndpointUnreachable, format!("the message could not be sent: {}", failed.why))
        })?;
        Ok(sent)
    }
}
