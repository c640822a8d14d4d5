//! Webhooks of agents: bodies of webhook calls, and delivery logs for owners.

use nuncio_core::conversation::{ContentType, ConversationMessage, MsgSubtype, SenderType};
use nuncio_core::ids::{ClientMessageId, ConversationId, MessageId};
use nuncio_core::notification::{QueuedNotification, RelayParty, WebhookState};
use nuncio_core::opaque_debug;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{Event, EventKind};
use super::message::{SealedBytes, WireMessage};

pub const VERSION: &str = "v1";

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct WebhookBody {
    /// Event type, or `artifact_response` for a message that answers a tool call.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of the webhook format, always [`VERSION`].
    pub version: String,
    /// Sealed bytes, if the event is a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_envelope: Option<SealedBytes>,
    pub metadata: WebhookMetadata,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum WebhookMetadata {
    Message(Box<WebhookMessageMetadata>),
    Event(Value),
}

/// Fields of a message that are not sealed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WebhookMessageMetadata {
    pub conversation_id: ConversationId,
    pub sender_id: String,
    pub sender_type: SenderType,
    pub created_at: Timestamp,
    /// Message id chosen by the server.
    pub message_id: MessageId,
    /// Message id chosen by the sender.
    pub client_message_id: ClientMessageId,
    /// Number of the message in its conversation.
    pub conversation_seq: u64,
    pub content_type: ContentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
}

impl WebhookBody {
    /// Body of the webhook call for an event; `None` if its message was deleted.
    #[must_use]
    pub fn of(
        recipient: &RelayParty,
        mailed: QueuedNotification,
        message: Option<ConversationMessage>,
    ) -> Option<Self> {
        let event = Event::of(recipient, mailed, message)?;
        let created_at = event.created_at;
        if let EventKind::MessageNew(message) = event.what {
            return Some(Self::of_message(*message, created_at));
        }
        let mut fields = serde_json::to_value(event).ok()?;
        let Value::String(kind) = fields.as_object_mut()?.shift_remove("type")? else { return None };
        let metadata = WebhookMetadata::Event(fields);
        Some(Self { kind, version: VERSION.to_owned(), wire_envelope: None, metadata })
    }

    fn of_message(message: WireMessage, created_at: Timestamp) -> Self {
        let kind = match message.msg_subtype {
            Some(MsgSubtype::ArtifactResponse) => "artifact_response",
            Some(MsgSubtype::ArtifactToolCall) | None => "message.new",
        };
        let metadata = WebhookMessageMetadata {
            conversation_id: message.conversation_id,
            sender_id: message.sender_id,
            sender_type: message.sender_type,
            created_at,
            message_id: message.message_id,
            client_message_id: message.client_message_id,
            conversation_seq: message.conversation_seq,
            content_type: message.content_type,
            msg_subtype: message.msg_subtype,
        };
        Self {
            kind: kind.to_owned(),
            version: VERSION.to_owned(),
            wire_envelope: Some(message.encrypted_payload),
            metadata: WebhookMetadata::Message(Box::new(metadata)),
        }
    }
}

/// Secret in a response body; hidden in debug output.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

opaque_debug!(SecretText);

/// Response of `POST /a2h/agents/{id}/webhook-secret:rotate`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WebhookSecretView {
    /// Secret that signs webhook calls from now on; not shown again later.
    pub webhook_secret: SecretText,
}

/// Response of `GET /a2h/agents/{id}/deliveries`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WebhookDeliveriesView {
    /// Finished deliveries, newest event first.
    pub data: Vec<WebhookDeliveryView>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    /// State of the agent's webhook; `null` if it has none.
    pub webhook: Option<WebhookHealthView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WebhookDeliveryView {
    /// Number of the event among the agent's events.
    pub seq: u64,
    /// Value of the headers `X-Hashee-Delivery-Id` and `webhook-id` in every attempt.
    pub delivery_id: String,
    /// The `type` of the webhook body.
    #[serde(rename = "type")]
    pub kind: String,
    pub at: Timestamp,
    pub attempts: u32,
    pub delivered: bool,
    /// Response to the last attempt, or why there was none.
    pub outcome: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WebhookHealthView {
    pub state: WebhookState,
    /// Time since which every webhook call has failed; `null` after a success.
    pub failing_since: Option<Timestamp>,
    /// Time of the next probe; `null` unless the webhook is unreachable.
    pub probe_at: Option<Timestamp>,
    /// Oldest delivery that still waits; `null` if none does.
    pub waiting: Option<WaitingWebhookDeliveryView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WaitingWebhookDeliveryView {
    /// Value of the headers `X-Hashee-Delivery-Id` and `webhook-id` in every attempt.
    pub delivery_id: String,
    pub created_at: Timestamp,
    pub attempts: u32,
    /// Time of the next delivery attempt, if the webhook is reachable.
    pub next_attempt_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nuncio_core::conversation::SubmittedMessage;
    use nuncio_core::ids::{AgentId, DeviceId, PersonName};
    use nuncio_core::notification::Notification;
    use serde_json::json;

    use super::*;

    fn agent() -> RelayParty {
        RelayParty::Agent(AgentId::parse("agt_1").unwrap())
    }

    fn sample_body(content_type: ContentType, subtype: Option<MsgSubtype>) -> Option<WebhookBody> {
        let conversation = ConversationId::parse("cnv_1").unwrap();
        let at = Timestamp::from_millis(1_794_740_400_000);
        let post = SubmittedMessage {
            client_id: ClientMessageId::parse("m1").unwrap(),
            sender: RelayParty::Person(PersonName::parse("ada").unwrap()),
            device: Some(DeviceId::parse("dev_1").unwrap()),
            content_type,
            subtype,
            envelope: Arc::from(*b"??>"),
        };
        let posted = ConversationMessage { conversation: conversation.clone(), seq: 3, at, post };
        let mailed = QueuedNotification { seq: 9, at, notification: Notification::Message { conversation, seq: 3 } };
        WebhookBody::of(&agent(), mailed, Some(posted))
    }

    #[test]
    fn webhook_body_of_a_message_has_its_type_sealed_bytes_and_metadata() {
        let body = sample_body(ContentType::Artifact, Some(MsgSubtype::ArtifactResponse)).unwrap();
        let written = json!({
            "type": "artifact_response",
            "version": "v1",
            "wire_envelope": "Pz8+",
            "metadata": {
                "conversation_id": "cnv_1",
                "sender_id": "ada",
                "sender_type": "human",
                "created_at": "2026-11-15T11:00:00.000Z",
                "message_id": "msg_1-3",
                "client_message_id": "m1",
                "conversation_seq": 3,
                "content_type": "artifact",
                "msg_subtype": "artifact_response",
            },
        });
        assert_eq!(serde_json::to_value(&body).unwrap(), written);
        assert_eq!(serde_json::from_value::<WebhookBody>(written).unwrap(), body);
        let plain = serde_json::to_value(sample_body(ContentType::Text, None).unwrap()).unwrap();
        assert_eq!(plain["type"], "message.new");
        assert_eq!(plain["metadata"].get("msg_subtype"), None);
    }

    #[test]
    fn webhook_body_of_other_events_has_their_fields_as_metadata() {
        let notification = Notification::KeysChanged { owner: RelayParty::Person(PersonName::parse("ada").unwrap()) };
        let mailed = QueuedNotification { seq: 4, at: Timestamp::from_millis(0), notification };
        let body = serde_json::to_value(WebhookBody::of(&agent(), mailed, None).unwrap()).unwrap();
        let event_id = body["metadata"]["event_id"].clone();
        assert_eq!(
            body,
            json!({"type": "keys.changed", "version": "v1", "metadata": {
                "owner_id": "ada", "owner_type": "human",
                "seq": 4, "event_id": event_id, "created_at": "1970-01-01T00:00:00.000Z",
            }})
        );
        let conversation = ConversationId::parse("cnv_1").unwrap();
        let forgotten = QueuedNotification {
            seq: 5,
            at: Timestamp::from_millis(0),
            notification: Notification::Message { conversation, seq: 1 },
        };
        assert_eq!(WebhookBody::of(&agent(), forgotten, None), None);
    }

    #[test]
    fn webhook_secret_is_serialised_but_hidden_in_debug_output() {
        let view = WebhookSecretView { webhook_secret: SecretText("whsec_abc".to_owned()) };
        assert_eq!(serde_json::to_value(&view).unwrap(), json!({"webhook_secret": "whsec_abc"}));
        assert!(!format!("{view:?}").contains("abc"));
    }
}
