//! Incoming messages: each is opened once, stored until it is handled, and handled in the order of its conversation.

use nuncio_core::conversation::{ContentType, ConversationMessage, ConversationType, SubmittedMessage};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{ConversationId, DeviceId};
use nuncio_identity::seal::{OpenError, PlaintextMessage, RelayMetadata};

use super::error::SendError;
use super::{InboundMessage, Peer, UnopenableMessage, lock};
use crate::client::{RelayEvent, RelayEventKind};
use crate::wire::artifact::{Artifact, ArtifactPayload};

/// Prefix of the record names of opened messages that are not handled yet.
const INBOX: &str = "peer/in/";

impl Peer {
    /// Handles a relay event. After an error the event is not acknowledged, so the relay delivers it again.
    pub(super) async fn receive(&self, delivered: RelayEvent) -> Result<(), SendError> {
        match delivered.what {
            RelayEventKind::Message(posted) if posted.post.sender != *self.me() => {
                return self.receive_message(*posted).await;
            }
            RelayEventKind::Message(posted) => return self.receive_own(*posted).await,
            RelayEventKind::Stream(news) => self.receive_stream(*news).await,
            other => {
                if let RelayEventKind::KeysChanged(owner) = &other {
                    self.state.keys.keys_changed(owner);
                }
                self.state.handler.on_event(self, &other).await;
            }
        }
        Ok(())
    }

    pub(super) async fn receive_message(&self, posted: ConversationMessage) -> Result<(), SendError> {
        let conversation = match self.conversation(&posted.conversation).await {
            Ok(conversation) => conversation,
            // This peer is not, or no longer, a member of the conversation.
            Err(SendError::Relay(crate::client::RelayClientError::Refused { .. })) => return Ok(()),
            Err(other) => return Err(other),
        };
        let mut opened = self.open(conversation.kind, &posted).await?;
        if matches!(opened, Err(OpenError::UnknownSender { .. } | OpenError::StaleBundle { .. })) {
            self.state.keys.keys_changed(&posted.post.sender);
            ignore_permanent(self.state.keys.fetch_and_review_keys(&posted.post.sender).await.map(drop))?;
            opened = self.open(conversation.kind, &posted).await?;
        }
        match opened {
            Ok(Some(inbound)) => self.handle(inbound),
            Ok(None) | Err(OpenError::Replayed) => {}
            Err(OpenError::SessionLost { device }) => {
                self.rekey(&posted, conversation.kind, device.clone()).await?;
                // The agent sends tool calls again; other lost messages are reported.
                if posted.post.content_type != ContentType::Artifact {
                    self.refuse(posted, OpenError::SessionLost { device }).await;
                }
            }
            Err(OpenError::KeyStore(why)) => return Err(why.into()),
            Err(why) => self.refuse(posted, why).await,
        }
        Ok(())
    }

    async fn refuse(&self, posted: ConversationMessage, why: OpenError) {
        let ConversationMessage { conversation, seq, post: SubmittedMessage { sender, content_type, .. }, .. } = posted;
        match why {
            // For example, a message from before the enrolment of this device.
            OpenError::NotForUs => {
                tracing::debug!(%conversation, seq, "skipped a message that is not sealed to this device");
            }
            _ => tracing::warn!(%conversation, seq, %why, "refused a message"),
        }
        let to_read = match content_type {
            ContentType::System => false,
            // Answers to calls by the person's other devices are not reported.
            ContentType::Artifact => sender != *self.me(),
            _ => true,
        };
        if to_read {
            let refused = UnopenableMessage { conversation, seq, sender, content_type, why };
            self.state.handler.on_refused(self, refused).await;
        }
    }

    /// Opens a message and stores it in the same write as the new key state. An answer to a tool call is not stored but
    /// passed to the waiting call.
    async fn open(
        &self,
        kind: ConversationType,
        posted: &ConversationMessage,
    ) -> Result<Result<Option<InboundMessage>, OpenError>, SendError> {
        let (conversation, posted, now) = (&posted.conversation, posted.clone(), self.state.context.now());
        let metadata = RelayMetadata {
            conversation: posted.conversation.clone(),
            conversation_type: kind,
            sender: posted.post.sender.clone(),
            sender_device: posted.post.device.clone(),
            client_id: posted.post.client_id.clone(),
            content_type: posted.post.content_type,
            subtype: posted.post.subtype,
        };
        let opened = self
            .state
            .keys
            .with_seal_identity(move |seal_identity| {
                let mut answer = None;
                let mut arrived = None;
                let opened = seal_identity.open_and_save(&metadata, &posted.post.envelope, now, |opened| {
                    if opened.header.content_type == ContentType::System {
                        return Vec::new();
                    }
                    if let Ok(ArtifactPayload::Artifact { artifact: Artifact::ToolResponse(response) }) =
                        serde_json::from_value(opened.payload.clone())
                    {
                        answer = Some(response);
                        return Vec::new();
                    }
                    let message = InboundMessage {
                        conversation: posted.conversation.clone(),
                        conversation_type: kind,
                        seq: posted.seq,
                        sender: posted.post.sender.clone(),
                        device: opened.header.sender_device_id.clone(),
                        content_type: opened.header.content_type,
                        payload: opened.payload.clone(),
                        envelope: Some(Digest::of_bytes(&posted.post.envelope)),
                        mode: opened.mode,
                        sealed_at: opened.header.created_at,
                        at: posted.at,
                    };
                    let record = serde_json::to_vec(&message).unwrap_or_default();
                    let name = name(&message.conversation, message.seq);
                    arrived = Some(message);
                    vec![(name, Some(record))]
                })?;
                Ok::<_, OpenError>((answer, arrived, opened.rekeyed))
            })
            .await?;
        Ok(opened.map(|(answer, arrived, rekeyed)| {
            if let Some(response) = answer {
                self.state.calls.resolve_call(conversation, response);
            }
            // The other side had lost the session and could not open earlier calls, so these are sent again.
            if rekeyed {
                self.state.calls.call_again(conversation);
            }
            arrived
        }))
    }

    /// Sends a device a notice that the session is lost, so that the next message starts a new session. Sent once, even
    /// if several messages of the lost session arrive.
    async fn rekey(
        &self,
        posted: &ConversationMessage,
        kind: ConversationType,
        device: DeviceId,
    ) -> Result<(), SendError> {
        let last = lock(&self.state.rekeyed).get(&device).cloned();
        if last.is_some_and(|(conversation, seq)| conversation == posted.conversation && posted.seq < seq) {
            return Ok(());
        }
        let owner = posted.post.sender.clone();
        tracing::warn!(%owner, %device, "the session with a device is lost; starting a new one");
        let (peer_owner, peer_device) = (owner.clone(), device.clone());
        let keys = &self.state.keys;
        keys.with_seal_identity(move |seal_identity| seal_identity.rekey(&peer_owner, &peer_device)).await??;
        let client_id = self.state.context.new_client_id()?;
        let plaintext = PlaintextMessage::rekey(posted.conversation.clone(), kind, client_id, self.state.context.now());
        let send_permit = self.state.outbox.send_permit(&posted.conversation).await?;
        let sent = self.state.outbox.deliver(send_permit, plaintext.content_type, None, plaintext.payload).await;
        if let Ok(seq) = sent {
            let mut rekeyed = lock(&self.state.rekeyed);
            if rekeyed.len() >= 256 {
                rekeyed.clear();
            }
            rekeyed.insert(device, (posted.conversation.clone(), seq));
        }
        ignore_permanent(sent.map(drop))
    }

    /// Passes a message to the handler after the earlier messages of its conversation.
    fn handle(&self, inbound: InboundMessage) {
        let (peer, conversation) = (self.clone(), inbound.conversation.clone());
        let mut handling = lock(&self.state.handling);
        if handling.len() >= 256 {
            handling.retain(|_, last| !last.is_finished());
        }
        let before = handling.remove(&conversation);
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            let name = name(&inbound.conversation, inbound.seq);
            let handler = std::sync::Arc::clone(&peer.state.handler);
            handler.on_message(&peer, inbound).await;
            let key_store = std::sync::Arc::clone(&peer.state.context.key_store);
            let forgotten = tokio::task::spawn_blocking(move || key_store.save(vec![(name, None)])).await;
            if !matches!(forgotten, Ok(Ok(()))) {
                tracing::error!("cannot delete a handled message; it will be handled again after a restart");
            }
        });
        handling.insert(conversation, task);
    }

    /// Passes the messages that the previous process stored, but did not finish handling, to the handler.
    pub(super) fn handle_leftovers(&self) -> Result<(), SendError> {
        for name in self.state.context.key_store.names(INBOX)? {
            let record = self.state.context.key_store.load(&name)?;
            match record.and_then(|record| serde_json::from_slice::<InboundMessage>(&record).ok()) {
                Some(arrived) => self.handle(arrived),
                None => self.state.context.key_store.save(vec![(name, None)])?,
            }
        }
        Ok(())
    }
}

/// Drops errors that no retry can fix, so that one message that always fails does not block all others.
fn ignore_permanent(done: Result<(), SendError>) -> Result<(), SendError> {
    match done {
        Err(error) if !error.is_retryable() => {
            tracing::warn!(%error, "skipped a message that cannot be handled");
            Ok(())
        }
        other => other,
    }
}

/// Record name of an opened message; the names of a conversation's messages sort in their order.
fn name(conversation: &ConversationId, seq: u64) -> String {
    format!("{INBOX}{conversation}/{seq:020}")
}
