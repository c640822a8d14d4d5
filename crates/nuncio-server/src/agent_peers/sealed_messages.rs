//! Passes sealed messages of people to a served agent and sends its answers back sealed: streamed where possible,
//! and as a whole message at the end.

use async_trait::async_trait;
use nuncio_a2h::peer::{InboundMessage, Peer, PeerHandler, SendError};
use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_core::notification::RelayParty;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_engine::{AuthenticationMethod, Caller, Engine, EngineError};
use serde_json::json;

use super::preview::StreamedReplyPreview;

/// Passes sealed messages to one served agent.
#[derive(Debug)]
pub(super) struct SealedMessageHandler {
    pub(super) engine: Engine,
    pub(super) agent: AgentName,
}

#[async_trait]
impl PeerHandler for SealedMessageHandler {
    async fn on_message(&self, agent: &Peer, message: InboundMessage) {
        let conversation = &message.conversation;
        let mut preview = StreamedReplyPreview::new(agent, &message);
        let answer = match self.answer(&message, &mut preview).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(agent = %self.agent, %conversation, %error, "a sealed message was not answered");
                preview.writer = None;
                format!("({error})")
            }
        };
        if let Err(error) = send(agent, &message, preview, &answer).await {
            tracing::warn!(agent = %self.agent, %conversation, at = message.seq, %error, "an answer was not sent");
        }
    }
}

async fn send(
    agent: &Peer,
    message: &InboundMessage,
    preview: StreamedReplyPreview<'_>,
    answer: &str,
) -> Result<(), SendError> {
    let payload = json!({"type": "text", "text": answer});
    match preview.writer {
        Some(writer) => writer.finish(ContentType::Text, payload).await,
        None => agent.outbox().reply(message, ContentType::Text, payload).await,
    }
}

impl SealedMessageHandler {
    /// The answer of the agent; `None` for messages that are not texts of a person to this agent alone.
    async fn answer(
        &self,
        message: &InboundMessage,
        preview: &mut StreamedReplyPreview<'_>,
    ) -> Result<Option<String>, EngineError> {
        let RelayParty::Person(person) = &message.sender else { return Ok(None) };
        if message.conversation_type != ConversationType::H2a || message.content_type != ContentType::Text {
            return Ok(None);
        }
        // Clients send the text as `text` or as `content`.
        let text = ["text", "content"].iter().find_map(|name| message.payload[name].as_str());
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
        let caller = Caller {
            authentication: AuthenticationMethod::Device(message.device.clone()),
            person: Some(person.clone()),
            ..Caller::new(Principal::Person(person.clone()))
        };
        let served = self.engine.agents().agent(self.agent.as_str())?;
        // The idempotency keys give each conversation one session and each message one turn, also after a restart.
        let idempotency = |key: String| IdempotencyKey { body: Digest::of_bytes(key.as_bytes()), key };
        let session_key = idempotency(format!("a2h/{}", message.conversation));
        let session = self.engine.conversations().open_unattended_session(&caller, &served, Some(session_key)).await?;
        let turn_key = idempotency(format!("a2h/{}/{}", message.conversation, message.seq));
        let turn = self
            .engine
            .conversations()
            .begin_unattended_turn(&caller, session.as_str(), text, Protocol::A2h, Some(turn_key))
            .await?;
        preview.follow(&turn).await;
        match turn.answer() {
            Ok(text) => Ok(Some(text)),
            Err(failure) => Err(EngineError::new(failure.code, failure.message)),
        }
    }
}
