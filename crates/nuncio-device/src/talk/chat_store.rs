//! Records of conversations: positions, counts and deletion of the oldest.

use nuncio_core::bundle::SealMode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, RecordChange};
use serde::{Deserialize, Serialize};

use super::{ChatContent, ChatMessage, ChatPage, DeliveryState, MAX_BYTES, MAX_LINES, MessagePosition};
use crate::records::Records;

/// Limit of stored conversations per agent.
const MAX_PARTS: usize = 100;

/// Limit of remembered agents that wrote without a relation.
const MAX_STRANGERS: usize = 20;

const STRANGERS: &str = "talk/strangers";

/// Summary of all messages with an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChatSummary {
    /// Conversations with the agent, oldest first.
    parts: Vec<ConversationId>,
    /// Whether the person ever wrote to the agent.
    #[serde(default)]
    pub(super) begun: bool,
    lines: u64,
    /// Bytes of stored text of the conversation.
    bytes: u64,
    /// Digest of the agent's key in the last message.
    #[serde(default)]
    pub(super) key: Option<Digest>,
    /// Whether the last message was one not sealed to this device.
    #[serde(default)]
    pub(super) elsewhere: bool,
}

impl ChatSummary {
    pub(super) fn load(records: &Records, agent: &AgentId) -> Result<Self, KeyStoreError> {
        Ok(records.get(&name(agent))?.unwrap_or_default())
    }

    pub(super) fn put(&self, agent: &AgentId) -> RecordChange {
        Records::put(&name(agent), self)
    }

    /// Position of a message; `None` beyond the limit of conversations.
    pub(super) fn place(&mut self, conversation: &ConversationId, seq: u64) -> Option<MessagePosition> {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChatRecord {
    pub(super) mine: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_id: Option<ClientMessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<DeviceId>,
    pub(super) said: ChatContent,
    pub(super) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<SealMode>,
    #[serde(default)]
    pub(super) new_keys: bool,
}

impl ChatRecord {
    fn bytes(&self) -> u64 {
        match &self.said {
            ChatContent::Text { text, .. } => u64::try_from(text.len()).unwrap_or(u64::MAX),
            ChatContent::Refused { because, .. } => u64::try_from(because.len()).unwrap_or(u64::MAX),
            ChatContent::Other | ChatContent::Stranger => 0,
        }
    }

    fn at(self, place: MessagePosition) -> ChatMessage {
        let Self { mine, client_id, device, said, at, mode, new_keys } = self;
        ChatMessage {
            place: Some(place),
            client_id,
            mine,
            device,
            said,
            at,
            state: DeliveryState::Sent,
            mode,
            new_keys,
        }
    }
}

/// Message by the person that the relay has not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnsentMessage {
    pub(super) text: String,
    pub(super) at: Timestamp,
    pub(super) state: DeliveryState,
}

fn name(agent: &AgentId) -> String {
    format!("talk/with/{agent}")
}

/// Name prefix of an agent's messages.
fn lines_of(agent: &AgentId) -> String {
    format!("talk/line/{agent}/")
}

fn unsent_of(agent: &AgentId) -> String {
    format!("talk/out/{agent}/")
}

pub(super) fn unsent_name(agent: &AgentId, client_id: &ClientMessageId) -> String {
    format!("{}{client_id}", unsent_of(agent))
}

/// Name of the record that a message was sent, which makes repetition harmless.
fn said_name(agent: &AgentId, client_id: &ClientMessageId) -> String {
    format!("talk/said/{agent}/{client_id}")
}

/// Whether a message with that client id was sent.
pub(super) fn was_said(records: &Records, agent: &AgentId, client_id: &ClientMessageId) -> Result<bool, KeyStoreError> {
    Ok(records.get::<String>(&said_name(agent, client_id))?.is_some())
}

/// Positions of an agent's messages, oldest first.
fn places(records: &Records, agent: &AgentId) -> Result<Vec<MessagePosition>, KeyStoreError> {
    let prefix = lines_of(agent);
    let names = records.names(&prefix)?;
    let mut places: Vec<MessagePosition> =
        names.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse::<MessagePosition>().ok()).collect();
    places.sort_unstable();
    Ok(places)
}

/// Changes that store a message; none if the message is stored already. The caller holds the state lock and saves the
/// changes together.
pub(super) fn put(
    records: &Records,
    agent: &AgentId,
    mut thread: ChatSummary,
    place: MessagePosition,
    line: &ChatRecord,
) -> Result<Vec<RecordChange>, KeyStoreError> {
    let name = format!("{}{place}", lines_of(agent));
    if records.get::<ChatRecord>(&name)?.is_some() {
        return Ok(Vec::new());
    }
    thread.lines += 1;
    thread.bytes += line.bytes();
    let mut changes = vec![Records::put(&name, line)];
    if let Some(client_id) = &line.client_id {
        changes.push(Records::put(&said_name(agent, client_id), &place.to_string()));
    }
    if thread.lines > MAX_LINES || thread.bytes > MAX_BYTES {
        for oldest in places(records, agent)? {
            if thread.lines <= MAX_LINES && thread.bytes <= MAX_BYTES {
                break;
            }
            let name = format!("{}{oldest}", lines_of(agent));
            let Some(gone) = records.get::<ChatRecord>(&name)? else { continue };
            thread.lines = thread.lines.saturating_sub(1);
            thread.bytes = thread.bytes.saturating_sub(gone.bytes());
            changes.push(Records::gone(&name));
            changes.extend(gone.client_id.iter().map(|client_id| Records::gone(&said_name(agent, client_id))));
        }
    }
    changes.push(thread.put(agent));
    Ok(changes)
}

/// Unsent messages, oldest first.
pub(super) fn unsent(
    records: &Records,
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

pub(super) fn all_unsent(records: &Records) -> Result<Vec<(AgentId, ClientMessageId)>, KeyStoreError> {
    let names = records.names("talk/out/")?;
    let parsed = names.iter().filter_map(|name| {
        let (agent, client_id) = name.strip_prefix("talk/out/")?.split_once('/')?;
        Some((AgentId::parse(agent).ok()?, ClientMessageId::parse(client_id).ok()?))
    });
    Ok(parsed.collect())
}

/// The last `limit` messages before a position; without a position, followed by the unsent ones.
pub(super) fn read(
    records: &Records,
    agent: &AgentId,
    before: Option<MessagePosition>,
    limit: usize,
) -> Result<ChatPage, KeyStoreError> {
    let mut places = places(records, agent)?;
    places.retain(|place| before.is_none_or(|before| *place < before));
    let older = places.len().saturating_sub(limit);
    let mut lines = Vec::new();
    for place in &places[older..] {
        let kept = records.get::<ChatRecord>(&format!("{}{place}", lines_of(agent)))?;
        lines.extend(kept.map(|kept| kept.at(*place)));
    }
    if before.is_none() {
        lines.extend(unsent(records, agent)?.into_iter().map(|(client_id, unsent)| ChatMessage {
            place: None,
            client_id: Some(client_id),
            mine: true,
            device: None,
            said: ChatContent::Text { text: unsent.text, cut: false },
            at: unsent.at,
            state: unsent.state,
            mode: None,
            new_keys: false,
        }));
        if lines.is_empty()
            && let Some((_, at)) = strangers(records)?.into_iter().find(|(stranger, _)| stranger == agent)
        {
            lines.push(stranger_line(at));
        }
    }
    Ok(ChatPage { lines, more: older > 0 })
}

fn stranger_line(at: Timestamp) -> ChatMessage {
    ChatMessage {
        place: None,
        client_id: None,
        mine: false,
        device: None,
        said: ChatContent::Stranger,
        at,
        state: DeliveryState::Sent,
        mode: None,
        new_keys: false,
    }
}

/// Agents that wrote without a relation, with the time of the last message; oldest first.
pub(super) fn strangers(records: &Records) -> Result<Vec<(AgentId, Timestamp)>, KeyStoreError> {
    Ok(records.get(STRANGERS)?.unwrap_or_default())
}

/// Change that records an agent without a relation.
pub(super) fn stranger(records: &Records, agent: &AgentId, at: Timestamp) -> Result<RecordChange, KeyStoreError> {
    let mut all = strangers(records)?;
    all.retain(|(known, _)| known != agent);
    all.push((agent.clone(), at));
    let many = all.len().saturating_sub(MAX_STRANGERS);
    Ok(Records::put(STRANGERS, &all.split_off(many)))
}
