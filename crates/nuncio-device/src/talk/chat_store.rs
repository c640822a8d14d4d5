//! Records of chat messages: positions, counts and deletion of the oldest.

use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, SealedRecordChange};
use serde::{Deserialize, Serialize};

use super::{
    ChatContent, ChatMessage, ChatMessageBatch, MAX_BYTES, MAX_MESSAGES, MessageDeliveryState, MessagePosition,
    StoredChatMessage,
};
use crate::record_store::RecordStore;

/// Limit of stored conversations per agent.
const MAX_PARTS: usize = 100;

/// Limit of remembered agents that sent a message without a relation.
const MAX_STRANGERS: usize = 20;

const STRANGERS: &str = "talk/strangers";

/// Stored summary of the messages with an agent: conversations, counts and the last key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentChatState {
    /// Conversations with the agent, oldest first.
    parts: Vec<ConversationId>,
    /// Whether the person has ever written to the agent.
    #[serde(default)]
    pub(super) begun: bool,
    /// Number of stored messages.
    lines: u64,
    /// Bytes of stored message text.
    bytes: u64,
    /// Digest of the key that signed the agent's last message.
    pub(super) key: Option<Digest>,
    /// Whether the last message was not sealed to this device.
    #[serde(default)]
    pub(super) elsewhere: bool,
}

impl AgentChatState {
    pub(super) fn load(records: &RecordStore, agent: &AgentId) -> Result<Self, KeyStoreError> {
        Ok(records.get(&name(agent))?.unwrap_or_default())
    }

    pub(super) fn put(&self, agent: &AgentId) -> SealedRecordChange {
        RecordStore::put(&name(agent), self)
    }

    /// Position of a message; `None` if the agent has too many conversations.
    pub(super) fn position(&mut self, conversation: &ConversationId, seq: u64) -> Option<MessagePosition> {
        let known = self.parts.iter().position(|part| part == conversation);
        let part = match known {
            Some(part) => part,
            None if self.parts.len() >= MAX_PARTS => return None,
            None => {
                self.parts.push(conversation.clone());
                self.parts.len() - 1
            }
        };
        Some(MessagePosition { part: u32::try_from(part).ok()?, seq })
    }
}

impl StoredChatMessage {
    /// Bytes of text that the message counts towards [`MAX_BYTES`].
    fn bytes(&self) -> u64 {
        match &self.content {
            ChatContent::Text { text, .. } => u64::try_from(text.len()).unwrap_or(u64::MAX),
            ChatContent::Refused { because, .. } => u64::try_from(because.len()).unwrap_or(u64::MAX),
            ChatContent::Other | ChatContent::Stranger => 0,
        }
    }
}

/// Message of the person that the relay has not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnsentMessage {
    pub(super) text: String,
    pub(super) at: Timestamp,
    pub(super) state: MessageDeliveryState,
}

fn name(agent: &AgentId) -> String {
    format!("talk/with/{agent}")
}

/// Prefix of the record names of an agent's messages.
fn messages_of(agent: &AgentId) -> String {
    format!("talk/line/{agent}/")
}

fn message_name(agent: &AgentId, position: MessagePosition) -> String {
    format!("{}{position}", messages_of(agent))
}

fn unsent_of(agent: &AgentId) -> String {
    format!("talk/out/{agent}/")
}

pub(super) fn unsent_name(agent: &AgentId, client_id: &ClientMessageId) -> String {
    format!("{}{client_id}", unsent_of(agent))
}

/// Name of the record that notes that a message was sent, so that it is not sent again.
fn sent_name(agent: &AgentId, client_id: &ClientMessageId) -> String {
    format!("talk/said/{agent}/{client_id}")
}

pub(super) fn was_sent(
    records: &RecordStore,
    agent: &AgentId,
    client_id: &ClientMessageId,
) -> Result<bool, KeyStoreError> {
    Ok(records.get::<String>(&sent_name(agent, client_id))?.is_some())
}

/// Positions of an agent's messages, oldest first.
fn positions(records: &RecordStore, agent: &AgentId) -> Result<Vec<MessagePosition>, KeyStoreError> {
    let prefix = messages_of(agent);
    let names = records.names(&prefix)?;
    let mut positions: Vec<MessagePosition> =
        names.iter().filter_map(|name| MessagePosition::parse(name.strip_prefix(&prefix)?)).collect();
    positions.sort_unstable();
    Ok(positions)
}

/// Changes that store a message; none if the message is stored already. The caller must hold the state lock and save
/// the changes together.
pub(super) fn put(
    records: &RecordStore,
    agent: &AgentId,
    mut summary: AgentChatState,
    position: MessagePosition,
    message: &StoredChatMessage,
) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
    let name = message_name(agent, position);
    if records.get::<StoredChatMessage>(&name)?.is_some() {
        return Ok(Vec::new());
    }
    summary.lines += 1;
    summary.bytes += message.bytes();
    let mut changes = vec![RecordStore::put(&name, message)];
    if let Some(client_id) = &message.client_id {
        changes.push(RecordStore::put(&sent_name(agent, client_id), &position.to_string()));
    }
    if summary.lines > MAX_MESSAGES || summary.bytes > MAX_BYTES {
        for oldest in positions(records, agent)? {
            if summary.lines <= MAX_MESSAGES && summary.bytes <= MAX_BYTES {
                break;
            }
            let name = message_name(agent, oldest);
            let Some(deleted) = records.get::<StoredChatMessage>(&name)? else { continue };
            summary.lines = summary.lines.saturating_sub(1);
            summary.bytes = summary.bytes.saturating_sub(deleted.bytes());
            changes.push(RecordStore::delete(&name));
            changes.extend(deleted.client_id.iter().map(|client_id| RecordStore::delete(&sent_name(agent, client_id))));
        }
    }
    changes.push(summary.put(agent));
    Ok(changes)
}

/// Unsent messages to an agent, oldest first.
pub(super) fn unsent(
    records: &RecordStore,
    agent: &AgentId,
) -> Result<Vec<(ClientMessageId, UnsentMessage)>, KeyStoreError> {
    let prefix = unsent_of(agent);
    let mut all = Vec::new();
    for name in records.names(&prefix)? {
        let client_id = name.strip_prefix(&prefix).and_then(|id| ClientMessageId::parse(id).ok());
        if let (Some(client_id), Some(unsent)) = (client_id, records.get::<UnsentMessage>(&name)?) {
            all.push((client_id, unsent));
        }
    }
    all.sort_by(|(one, first), (other, second)| (first.at, one).cmp(&(second.at, other)));
    Ok(all)
}

pub(super) fn all_unsent(records: &RecordStore) -> Result<Vec<(AgentId, ClientMessageId)>, KeyStoreError> {
    let names = records.names("talk/out/")?;
    let parsed = names.iter().filter_map(|name| {
        let (agent, client_id) = name.strip_prefix("talk/out/")?.split_once('/')?;
        Some((AgentId::parse(agent).ok()?, ClientMessageId::parse(client_id).ok()?))
    });
    Ok(parsed.collect())
}

/// The last `limit` messages before a position; without a position, the latest, followed by the unsent ones.
pub(super) fn read(
    records: &RecordStore,
    agent: &AgentId,
    before: Option<MessagePosition>,
    limit: usize,
) -> Result<ChatMessageBatch, KeyStoreError> {
    let mut positions = positions(records, agent)?;
    positions.retain(|position| before.is_none_or(|before| *position < before));
    let older = positions.len().saturating_sub(limit);
    let mut messages = Vec::new();
    for position in &positions[older..] {
        let record = records.get::<StoredChatMessage>(&message_name(agent, *position))?;
        let sent = |record| ChatMessage { position: Some(*position), state: MessageDeliveryState::Sent, record };
        messages.extend(record.map(sent));
    }
    if before.is_none() {
        messages.extend(unsent(records, agent)?.into_iter().map(|(client_id, unsent)| {
            let content = ChatContent::Text { text: unsent.text, cut: false };
            let record =
                StoredChatMessage { client_id: Some(client_id), ..StoredChatMessage::new(true, content, unsent.at) };
            ChatMessage { position: None, state: unsent.state, record }
        }));
        if messages.is_empty()
            && let Some((_, at)) = strangers(records)?.into_iter().find(|(stranger, _)| stranger == agent)
        {
            let record = StoredChatMessage::new(false, ChatContent::Stranger, at);
            messages.push(ChatMessage { position: None, state: MessageDeliveryState::Sent, record });
        }
    }
    Ok(ChatMessageBatch { messages, more: older > 0 })
}

/// Agents that sent a message without a relation, each with the time of its last message; oldest first.
pub(super) fn strangers(records: &RecordStore) -> Result<Vec<(AgentId, Timestamp)>, KeyStoreError> {
    Ok(records.get(STRANGERS)?.unwrap_or_default())
}

/// Change that remembers an agent that sent a message without a relation.
pub(super) fn stranger(
    records: &RecordStore,
    agent: &AgentId,
    at: Timestamp,
) -> Result<SealedRecordChange, KeyStoreError> {
    let mut all = strangers(records)?;
    all.retain(|(known, _)| known != agent);
    all.push((agent.clone(), at));
    let many = all.len().saturating_sub(MAX_STRANGERS);
    Ok(RecordStore::put(STRANGERS, &all.split_off(many)))
}
