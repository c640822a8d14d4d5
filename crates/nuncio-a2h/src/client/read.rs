//! Parses the JSON that a relay sends.

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{Conversation, ConversationMessage, ConversationType, SenderType, SubmittedMessage};
use nuncio_core::ids::{AgentId, DeviceId, MessageId, PersonName, RelationId};
use nuncio_core::notification::RelayParty;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{RelayClientError, RelayEvent, RelayEventKind};
use crate::wire::conversation::ConversationView;
use crate::wire::message::MessageView;

pub(super) fn kind_of_two(one: &RelayParty, other: &RelayParty) -> Result<ConversationType, RelayClientError> {
    Conversation::type_of_two(one, other).ok_or_else(|| RelayClientError::Refused {
        code: ErrorCode::BadRequest,
        message: "a conversation of two agents is not supported".to_owned(),
    })
}

pub(super) fn read<T: DeserializeOwned>(value: Value) -> Result<T, RelayClientError> {
    serde_json::from_value(value).map_err(|why| garbled(&why.to_string()))
}

/// JSON of a request or frame to send.
pub(super) fn body(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

pub(super) fn garbled(why: &str) -> RelayClientError {
    let why: String = why.chars().take(200).collect();
    RelayClientError::Unreachable(format!("its response cannot be parsed: {why}"))
}

fn recipient(kind: SenderType, id: &str) -> Result<RelayParty, RelayClientError> {
    let bad = |_| garbled("a member has an invalid id");
    match kind {
        SenderType::Human => PersonName::parse(id).map(RelayParty::Person).map_err(bad),
        SenderType::Agent => AgentId::parse(id).map(RelayParty::Agent).map_err(bad),
    }
}

pub(super) fn conversation(view: ConversationView) -> Conversation {
    let ConversationView { id, kind, members, created_by, created_at, .. } = view;
    let mut members: Vec<RelayParty> = members.into_iter().map(Into::into).collect();
    members.sort();
    Conversation { id, kind, members, created_by: created_by.into(), created_at, revision: 0 }
}

pub(super) fn message(value: Value) -> Result<ConversationMessage, RelayClientError> {
    let MessageView { message, created_at } = read(value)?;
    Ok(ConversationMessage {
        conversation: message.conversation_id,
        seq: message.conversation_seq,
        at: created_at,
        post: SubmittedMessage {
            client_id: message.client_message_id,
            sender: recipient(message.sender_type, &message.sender_id)?,
            device: message.sender_device_id,
            content_type: message.content_type,
            subtype: message.msg_subtype,
            envelope: message.encrypted_payload.0,
        },
    })
}

/// Parses an event; `None` if the JSON is no event, such as a frame about the connection.
pub(super) fn event(value: Value) -> Result<Option<RelayEvent>, RelayClientError> {
    let Some(kind) = value["type"].as_str().map(str::to_owned) else { return Ok(None) };
    if kind.starts_with("stream.") {
        // Stream events are transient, so one that cannot be parsed is skipped.
        let news = serde_json::from_value(value).ok().map(|news| RelayEventKind::Stream(Box::new(news)));
        return Ok(news.map(|what| RelayEvent { seq: 0, what }));
    }
    let Some(seq) = value["seq"].as_u64() else { return Ok(None) };
    let what = match kind.as_str() {
        // A message that cannot be parsed was damaged in transit; it is skipped so that later events arrive.
        "message.new" => message(value)
            .map_or_else(|_| RelayEventKind::Other(kind), |posted| RelayEventKind::Message(Box::new(posted))),
        "keys.changed" => {
            let id = value["owner_id"].as_str().unwrap_or_default();
            RelayEventKind::KeysChanged(recipient(read(value["owner_type"].clone())?, id)?)
        }
        "message.claimed" => {
            let message = value["message_id"].as_str().and_then(|id| MessageId::parse(id).ok());
            let device = value["device_id"].as_str().and_then(|id| DeviceId::parse(id).ok());
            let claimed = message.zip(device);
            claimed.map_or(RelayEventKind::Other(kind), |(message, device)| RelayEventKind::Claimed { message, device })
        }
        _ => match value["relation_id"].as_str().and_then(|id| RelationId::parse(id).ok()) {
            Some(relation) => RelayEventKind::Relation(relation),
            None => RelayEventKind::Other(kind),
        },
    };
    Ok(Some(RelayEvent { seq, what }))
}

/// Parses the body of a webhook call whose event is not a message.
pub(crate) fn hooked_event(body: &Value) -> Result<RelayEventKind, RelayClientError> {
    let Value::Object(mut said) = body["metadata"].clone() else { return Err(garbled("it has no metadata")) };
    said.insert("type".to_owned(), body["type"].clone());
    let event = event(Value::Object(said))?;
    event.map(|event| event.what).ok_or_else(|| garbled("it has no number"))
}

pub(crate) fn hooked_message(body: &Value) -> Result<ConversationMessage, RelayClientError> {
    let Value::Object(mut said) = body["metadata"].clone() else { return Err(garbled("it has no metadata")) };
    said.insert("encrypted_payload".to_owned(), body["wire_envelope"].clone());
    message(Value::Object(said))
}
