//! Outgoing messages: sealed and stored before they are sent. Unsent messages of one process are sent by the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::references::SealedMessageReference;
use nuncio_core::backoff::Backoff;
use nuncio_core::conversation::{ContentType, MessageRef, MsgSubtype};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{ClientMessageId, ConversationId, MessageId};
use nuncio_core::time::Timestamp;
use nuncio_engine::relay::MessageToPost;
use nuncio_identity::seal::PlaintextMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell};

use super::InboundMessage;
use super::context::PeerContext;
use super::error::SendError;
use super::seal_keys::SealKeyService;
use super::send_permits::SendPermit;
use crate::client::RelayClientError;
use crate::wire::message::SealedBytes;

/// Prefix of the record names of messages that wait to be sent.
pub(super) const OUTBOX: &str = "peer/out/";

const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(400), Duration::from_secs(30));

/// Stored form of a sealed message until it is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OutgoingMessage {
    conversation: ConversationId,
    client_id: ClientMessageId,
    content_type: ContentType,
    subtype: Option<MsgSubtype>,
    envelope: SealedBytes,
    until: Timestamp,
}

/// Client message id of an outgoing message, and id of the message that it answers.
#[derive(Debug)]
pub(super) struct OutgoingMessageIds {
    pub(super) client_id: ClientMessageId,
    pub(super) in_reply_to: Option<MessageId>,
}

impl OutgoingMessageIds {
    /// Ids of the reply to a message. The client message id is derived from the message, so only one reply is accepted.
    pub(super) fn to(message: &InboundMessage) -> Result<Self, SendError> {
        let message_ref = MessageRef { conversation: message.conversation.clone(), seq: message.seq };
        let digest =
            Digest::of_bytes(format!("{}\n{}", message_ref.conversation, message_ref.seq).as_bytes()).to_string();
        let client_id =
            ClientMessageId::parse(&format!("r_{}", &digest[..32])).map_err(|why| SendError::Fault(why.to_string()))?;
        Ok(Self { client_id, in_reply_to: message_ref.id().ok() })
    }
}

impl OutgoingMessage {
    fn is_call(&self) -> bool {
        self.subtype == Some(MsgSubtype::ArtifactToolCall)
    }

    fn new_post(&self) -> MessageToPost {
        MessageToPost {
            client_id: self.client_id.clone(),
            content_type: self.content_type,
            subtype: self.subtype,
            envelope: Arc::clone(&self.envelope.0),
        }
    }
}

pub struct SealedMessageOutbox {
    pub(super) context: Arc<PeerContext>,
    pub(super) keys: Arc<SealKeyService>,
    /// Locks that order sending: see [`super::send_permits`].
    pub(super) send_locks: Mutex<HashMap<Option<ConversationId>, Arc<tokio::sync::Mutex<()>>>>,
    /// Set once the unsent messages of the previous process are sent.
    pub(super) leftovers: OnceCell<()>,
    /// Notified when the relay is reachable again.
    pub(super) back: Notify,
}

impl SealedMessageOutbox {
    /// Sends a message; `payload` is an object whose `type` is the content type. Returns the number of the message.
    pub async fn send(
        &self,
        conversation: &ConversationId,
        content_type: ContentType,
        payload: Value,
    ) -> Result<u64, SendError> {
        let send_permit = self.send_permit(conversation).await?;
        self.deliver(send_permit, content_type, None, payload).await
    }

    /// Sends an artifact whose payload has the subtype `subtype`. Returns the number of the message.
    pub async fn send_artifact(
        &self,
        conversation: &ConversationId,
        subtype: MsgSubtype,
        payload: Value,
    ) -> Result<u64, SendError> {
        let send_permit = self.send_permit(conversation).await?;
        self.deliver(send_permit, ContentType::Artifact, Some(subtype), payload).await
    }

    /// Replies to a message; repetitions send only one reply.
    pub async fn reply(&self, to: &InboundMessage, content_type: ContentType, payload: Value) -> Result<(), SendError> {
        let send_permit = self.send_permit(&to.conversation).await?;
        let outgoing = self.prepare(&send_permit, OutgoingMessageIds::to(to)?, content_type, None, payload).await?;
        self.send_answer(&send_permit, &outgoing).await
    }

    /// Sends a reply; a reply that was sent before counts as success.
    pub(super) async fn send_answer(
        &self,
        send_permit: &SendPermit,
        outgoing: &OutgoingMessage,
    ) -> Result<(), SendError> {
        match self.send_sealed(send_permit, outgoing).await {
            // The previous process has already sent the reply.
            Err(SendError::Relay(RelayClientError::Refused { code: ErrorCode::MessageClash, .. })) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Seals a message for all members of a conversation and sends it, with retries until `send_permit.until`. Returns
    /// the number of the message.
    pub(super) async fn deliver(
        &self,
        send_permit: SendPermit,
        content_type: ContentType,
        subtype: Option<MsgSubtype>,
        payload: Value,
    ) -> Result<u64, SendError> {
        let new = OutgoingMessageIds { client_id: self.context.new_client_id()?, in_reply_to: None };
        let outgoing = self.prepare(&send_permit, new, content_type, subtype, payload).await?;
        self.send_sealed(&send_permit, &outgoing).await
    }

    /// Seals and sends a tool call. Returns the message's reference; `None` if the relay's ids are too long for one.
    pub(super) async fn deliver_call(
        &self,
        send_permit: SendPermit,
        payload: Value,
    ) -> Result<Option<SealedMessageReference>, SendError> {
        let new = OutgoingMessageIds { client_id: self.context.new_client_id()?, in_reply_to: None };
        let subtype = Some(MsgSubtype::ArtifactToolCall);
        let outgoing = self.prepare(&send_permit, new, ContentType::Artifact, subtype, payload).await?;
        let seq = self.send_sealed(&send_permit, &outgoing).await?;
        let envelope = Digest::of_bytes(&outgoing.envelope.0);
        let id = MessageRef { conversation: outgoing.conversation, seq }.id().ok();
        Ok(id.map(|id| SealedMessageReference { envelope, id }))
    }

    /// Seals and stores a message for all members of a conversation.
    pub(super) async fn prepare(
        &self,
        send_permit: &SendPermit,
        OutgoingMessageIds { client_id, in_reply_to }: OutgoingMessageIds,
        content_type: ContentType,
        subtype: Option<MsgSubtype>,
        payload: Value,
    ) -> Result<OutgoingMessage, SendError> {
        let conversation = self.context.conversation(&send_permit.conversation).await?;
        let plaintext = PlaintextMessage {
            conversation: conversation.id.clone(),
            conversation_type: conversation.kind,
            client_id,
            content_type,
            subtype,
            in_reply_to,
            created_at: self.context.now(),
            payload,
        };
        let until = send_permit.until;
        let sealed = self.keys.seal_for(&conversation, move |seal_identity, to| {
            let mut outgoing = None;
            // The message is stored in the same write as the new key state.
            seal_identity.seal_and_save(&plaintext, to, |envelope| {
                let stored = outgoing.insert(OutgoingMessage {
                    conversation: plaintext.conversation.clone(),
                    client_id: plaintext.client_id.clone(),
                    content_type: plaintext.content_type,
                    subtype: plaintext.subtype,
                    envelope: SealedBytes(envelope.into()),
                    until,
                });
                let record = serde_json::to_vec(stored).unwrap_or_default();
                vec![(format!("{OUTBOX}{}", stored.client_id), Some(record))]
            })?;
            Ok(outgoing)
        });
        sealed.await?.ok_or_else(|| SendError::Fault("nothing was sealed".to_owned()))
    }

    /// Sends a sealed message with retries until its deadline, deletes it from the store when it was sent or has
    /// finally failed, and returns its number. A rate-limited tool call is not retried here: the caller seals it again
    /// later, so that other messages can go first.
    pub(super) async fn send_sealed(&self, _: &SendPermit, outgoing: &OutgoingMessage) -> Result<u64, SendError> {
        self.post(outgoing).await
    }

    async fn post(&self, outgoing: &OutgoingMessage) -> Result<u64, SendError> {
        let mut failures = BACKOFF.start();
        let sent = loop {
            let wait = match self.context.relay.post(&outgoing.conversation, outgoing.new_post()).await {
                Err(RelayClientError::TooMany { seconds, .. }) if !outgoing.is_call() => {
                    Duration::from_secs(seconds.max(1))
                }
                Err(error) if error.is_retryable() => failures.next_delay(),
                done => break done,
            };
            let again = self.context.now().after(wait);
            if again >= outgoing.until {
                break Err(RelayClientError::Unreachable("it could not be sent in time".to_owned()));
            }
            tokio::select! {
                () = self.context.clock.sleep_until(again) => {}
                () = self.back.notified() => {}
            }
        };
        self.delete_stored(&outgoing.client_id).await?;
        Ok(sent?)
    }

    /// Deletes a stored message that was sent or has finally failed.
    async fn delete_stored(&self, client_id: &ClientMessageId) -> Result<(), SendError> {
        let name = format!("{OUTBOX}{client_id}");
        let key_store = Arc::clone(&self.context.key_store);
        let saved = tokio::task::spawn_blocking(move || key_store.save(vec![(name, None)])).await;
        Ok(saved.map_err(|_| SendError::Fault("the storage task was aborted".to_owned()))??)
    }

    /// Sends the messages that the previous process left. Expired messages, and tool calls, whose callers no longer
    /// exist, are deleted instead.
    pub(super) async fn send_leftovers(&self) -> Result<(), SendError> {
        for name in self.context.key_store.names(OUTBOX)? {
            let record = self.context.key_store.load(&name)?;
            let outgoing = record.and_then(|record| serde_json::from_slice::<OutgoingMessage>(&record).ok());
            match outgoing {
                Some(outgoing) if outgoing.until > self.context.now() && !outgoing.is_call() => {
                    if let Err(error) = self.post(&outgoing).await {
                        tracing::warn!(conversation = %outgoing.conversation, %error, "cannot send a message of the previous process");
                    }
                }
                _ => self.context.key_store.save(vec![(name, None)])?,
            }
        }
        Ok(())
    }
}
