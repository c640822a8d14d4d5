//! Incoming chat messages. Each is stored before it is acknowledged; messages of agents without a relation are not.

use std::time::Duration;

use nuncio_a2h::peer::{InboundMessage, IncomingStreamEvent, IncomingStreamEventKind, UnopenableMessage};
use nuncio_core::ErrorCode;
use nuncio_core::backoff::Backoff;
use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::OpenError;
use tokio::sync::broadcast;

use super::chat_store::{self, AgentChatState};
use super::{
    AgentMessageService, ChatContent, MessageOpenFailure, StoredChatMessage, StreamedReply, StreamedReplyEvent,
    StreamedReplyProgress, sanitise,
};
use crate::device_events::DeviceEvent;
use crate::error::DeviceError;
use crate::known_agents;

const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30));

impl AgentMessageService {
    /// Stores a message that is not a tool call. Returns when the message is stored or rejected.
    pub(crate) async fn receive(&self, message: InboundMessage) {
        if message.conversation_type != ConversationType::H2a {
            return;
        }
        let mine = message.sender == *self.context.peer.me();
        let agent = match &message.sender {
            RelayParty::Agent(agent) => Some(agent.clone()),
            RelayParty::Person(_) if mine => self.agent_of(&message.conversation).await,
            RelayParty::Person(_) => None,
        };
        let Some(agent) = agent else { return };
        let record = StoredChatMessage {
            device: Some(message.device.clone()),
            mode: Some(message.mode),
            ..StoredChatMessage::new(mine, content(&message), message.at)
        };
        let key = if mine { None } else { self.key_of(&agent, &message).await };
        self.store_message(&agent, (&message.conversation, message.seq), record, key).await;
    }

    /// Stores a placeholder for a message that could not be opened.
    pub(crate) async fn store_unopened(&self, refused: UnopenableMessage) {
        let mine = refused.sender == *self.context.peer.me();
        let Some(agent) = self.agent_of(&refused.conversation).await else { return };
        let theirs = refused.sender == RelayParty::Agent(agent.clone());
        if !mine && !theirs {
            return;
        }
        let content = ChatContent::Refused {
            why: open_failure(&refused.why),
            because: nuncio_core::text::plain(&refused.why.to_string()),
        };
        let record = StoredChatMessage::new(mine, content, self.context.now());
        self.store_message(&agent, (&refused.conversation, refused.seq), record, None).await;
    }

    /// Passes an event of a streamed reply to subscribers; nothing is stored.
    pub(crate) fn forward_stream(&self, event: IncomingStreamEvent) {
        let RelayParty::Agent(agent) = event.sender else { return };
        let (writing, stream) = (&self.writing, event.stream);
        match event.what {
            IncomingStreamEventKind::Begun => {
                if self.is_known(&agent).unwrap_or_default() {
                    writing.begin(agent, stream);
                }
            }
            IncomingStreamEventKind::Delta(text) => writing.add(&agent, &stream, &text),
            IncomingStreamEventKind::Done { .. } => writing.end(&agent, &stream, StreamedReplyProgress::Done),
            IncomingStreamEventKind::Aborted => writing.end(&agent, &stream, StreamedReplyProgress::Aborted),
        }
    }

    /// Subscribes to streamed replies, and returns the texts of the current ones so far.
    #[must_use]
    pub fn live(&self) -> (broadcast::Receiver<StreamedReplyEvent>, Vec<StreamedReply>) {
        self.writing.listen()
    }

    /// Agent in the person's two-party conversation; `None` for other conversations.
    pub(super) async fn agent_of(&self, conversation: &ConversationId) -> Option<AgentId> {
        let mut failures = BACKOFF.start();
        loop {
            let pause = failures.next_delay();
            match self.context.peer.conversation(conversation).await {
                Ok(known) if known.kind == ConversationType::H2a => {
                    return match known.other(self.context.peer.me()) {
                        Some(RelayParty::Agent(agent)) => Some(agent.clone()),
                        _ => None,
                    };
                }
                Ok(_) => return None,
                Err(error) if !error.is_retryable() => return None,
                Err(error) => {
                    tracing::info!(%conversation, %error, "cannot look up a conversation; retrying in {pause:?}");
                }
            }
            self.context.pause(pause).await;
        }
    }

    /// Digest of the pinned key that signed an agent's message.
    async fn key_of(&self, agent: &AgentId, message: &InboundMessage) -> Option<Digest> {
        let pinned = self.context.peer.keys().pinned(&RelayParty::Agent(agent.clone())).await.unwrap_or_default();
        let signed = pinned.iter().find(|bundle| bundle.keys.device_id == message.device)?;
        Some(Digest::of_bytes(signed.keys.signing_key.as_bytes()))
    }

    /// Stores a message, with retries as long as needed, because a sealed message cannot be opened twice.
    async fn store_message(
        &self,
        agent: &AgentId,
        (conversation, seq): (&ConversationId, u64),
        record: StoredChatMessage,
        key: Option<Digest>,
    ) {
        let mut failures = BACKOFF.start();
        loop {
            let pause = failures.next_delay();
            let related = match record.mine {
                true => Ok(true),
                false => self.has_contact(agent).await,
            };
            let stored = related.and_then(|related| match related {
                true => self.store_message_once(agent, (conversation, seq), record.clone(), key),
                false => self.put_stranger(agent, record.at),
            });
            match stored {
                Ok(()) => break,
                Err(error) => tracing::error!(%agent, %error, "cannot store a message; retrying in {pause:?}"),
            }
            self.context.pause(pause).await;
        }
        self.context.notify(DeviceEvent::Talk { agent: agent.clone() });
    }

    fn store_message_once(
        &self,
        agent: &AgentId,
        (conversation, seq): (&ConversationId, u64),
        mut record: StoredChatMessage,
        key: Option<Digest>,
    ) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let mut summary = AgentChatState::load(&self.context.records, agent)?;
        // A message that the person sent from another device also counts.
        summary.begun |= record.mine;
        if let Some(key) = key {
            record.new_keys = summary.key.is_some_and(|before| before != key);
            summary.key = Some(key);
        }
        let Some(position) = summary.position(conversation, seq) else { return Ok(()) };
        // Messages from before this device was enrolled cannot be opened; of several in a row only the first is stored.
        let elsewhere = matches!(record.content, ChatContent::Refused { why: MessageOpenFailure::NotForUs, .. });
        if std::mem::replace(&mut summary.elsewhere, elsewhere) && elsewhere {
            return Ok(self.context.records.save(vec![summary.put(agent)])?);
        }
        Ok(self.context.records.save(chat_store::put(&self.context.records, agent, summary, position, &record)?)?)
    }

    fn put_stranger(&self, agent: &AgentId, at: Timestamp) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let change = chat_store::stranger(&self.context.records, agent, at)?;
        Ok(self.context.records.save(vec![change])?)
    }

    /// Whether the stored records show a relation with the agent, or a message of the person to it.
    fn is_known(&self, agent: &AgentId) -> Result<bool, DeviceError> {
        let person = &self.context.identity.person;
        let known = || known_agents::load(&self.context.records, agent);
        Ok(AgentChatState::load(&self.context.records, agent)?.begun
            || known()?.is_some_and(|known| known.standing(person).is_some()))
    }

    /// Whether the person has a relation with the agent, also according to the relay, or has written to it.
    async fn has_contact(&self, agent: &AgentId) -> Result<bool, DeviceError> {
        let person = &self.context.identity.person;
        if self.is_known(agent)? {
            return Ok(true);
        }
        // Another device may have granted a scope a moment ago.
        let unknown = known_agents::load(&self.context.records, agent)?.is_none();
        match self.consents.refresh(agent).await {
            Ok(known) if known.standing(person).is_some() => Ok(true),
            Ok(_) => {
                // The lookup must not leave a record of an agent without a relation.
                if unknown {
                    let _lock = self.context.state_lock();
                    self.context.records.save(vec![known_agents::delete(agent)])?;
                }
                Ok(false)
            }
            Err(error) if matches!(error.code, ErrorCode::EndpointUnreachable | ErrorCode::RateLimited) => Err(error),
            Err(_) => Ok(false),
        }
    }
}

/// Content of an opened message, in the form that is stored.
fn content(message: &InboundMessage) -> ChatContent {
    // Agents use either of these field names for the text.
    let text = ["text", "content"].iter().find_map(|name| message.payload[name].as_str());
    match text.filter(|_| message.content_type == ContentType::Text) {
        Some(text) => {
            let (text, cut) = sanitise(text);
            ChatContent::Text { text, cut }
        }
        None => ChatContent::Other,
    }
}

const fn open_failure(why: &OpenError) -> MessageOpenFailure {
    match why {
        OpenError::UnknownSender { .. } | OpenError::Untrusted { .. } | OpenError::StaleBundle { .. } => {
            MessageOpenFailure::Untrusted
        }
        OpenError::SessionLost { .. } => MessageOpenFailure::Lost,
        OpenError::NotForUs | OpenError::Unnamed => MessageOpenFailure::NotForUs,
        OpenError::Downgraded | OpenError::WrongWrap => MessageOpenFailure::Weaker,
        OpenError::Malformed(_)
        | OpenError::Mislabelled { .. }
        | OpenError::BadSignature
        | OpenError::Tampered
        | OpenError::Mismatched(_)
        | OpenError::Replayed
        | OpenError::FromTheFuture
        | OpenError::KeyStore(_) => MessageOpenFailure::Changed,
    }
}
