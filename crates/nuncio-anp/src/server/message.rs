//! Messages that our agents send: to whom, how they are written, and by which way they go.

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::ports::peers::{Letter, OwedAnswer};
use serde_json::{Value, json};

use super::Anp;
use super::direct::IS_ANSWER;
use crate::wire::{Request as AnpRequest, profile};

/// A message of an agent of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectMessage {
    /// Who sends it.
    pub agent: AgentName,
    /// The DID it is for.
    pub to: String,
    /// Names it. Sent again, it is the same message.
    pub id: String,
    /// The message it answers, where it is an answer.
    pub answers: Option<String>,
    /// What it says.
    pub text: String,
}

impl DirectMessage {
    /// An agent's answer. Its id follows from the message it answers.
    #[must_use]
    pub(super) fn answer(owed: &OwedAnswer, text: String) -> Self {
        let OwedAnswer { agent, to, answers, .. } = owed;
        let id = Digest::of_json(&json!([agent, to, answers])).to_string();
        let (agent, to, answers) = (agent.clone(), to.clone(), Some(answers.clone()));
        Self { agent, to, id: format!("answer-{}", &id[..32]), answers, text }
    }

    /// What is signed of the request that carries it: `meta` and `body`.
    #[must_use]
    pub fn parts(&self, from: &str, now: Timestamp) -> (Value, Value) {
        let mut meta = json!({
            "profile": profile::DIRECT,
            "security_profile": "transport-protected",
            "sender_did": from,
            "target": {"kind": "agent", "did": self.to},
            "operation_id": self.id,
            "message_id": self.id,
            "content_type": "text/plain",
            "created_at": now,
        });
        let mut body = json!({"text": self.text});
        if let Some(answers) = &self.answers {
            meta[IS_ANSWER] = json!(answers);
            body["reply_to_message_id"] = json!(answers);
        }
        (meta, body)
    }
}

/// Why a message did not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// In words.
    pub why: String,
    /// Whether it may arrive later.
    pub later: bool,
}

impl NotSent {
    /// It may arrive later.
    #[must_use]
    pub fn now(why: impl Into<String>) -> Self {
        Self { why: why.into(), later: true }
    }

    /// It never will.
    #[must_use]
    pub fn ever(why: impl Into<String>) -> Self {
        Self { why: why.into(), later: false }
    }
}

impl Anp {
    /// Sends a message: to an agent served here by the same door, without the network in between; to others by
    /// their message service.
    pub(super) async fn send(&self, message: &DirectMessage) -> Result<(), NotSent> {
        let request = self.identities.signed_message(message).map_err(NotSent::ever)?;
        if !self.identities.is_ours(&message.to) {
            return self.identities.post(message, &request).await;
        }
        let request = AnpRequest::read(request.to_string().as_bytes()).map_err(|it| NotSent::ever(it.1.message))?;
        let taken = Box::pin(self.dispatch(None, request)).await;
        taken.map(drop).map_err(|error| {
            let later = error.known().is_none_or(crate::wire::ErrorCode::is_retryable);
            NotSent { why: error.message, later }
        })
    }

    /// Sends what someone says for an agent, and remembers it, so that the answer finds it.
    ///
    /// # Errors
    /// It cannot be sent, or the store cannot be used.
    pub async fn say(&self, message: &DirectMessage) -> Result<Letter, EngineError> {
        let letter = self.engine.send_letter(&message.agent, &message.id, &message.to).await?;
        self.send(message).await.map_err(|failed| {
            EngineError::new(Code::EndpointUnreachable, format!("the message could not be sent: {}", failed.why))
        })?;
        Ok(letter)
    }
}
