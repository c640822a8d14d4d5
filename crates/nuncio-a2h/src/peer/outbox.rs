//! Outgoing messages: sealed and stored before they are sent. Messages of a previous process are sent by the next.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::audit::references::MessageReference;
use nuncio_core::backoff::Backoff;
use nuncio_core::bundle::{KeyBundle, OneTimeKey};
use nuncio_core::conversation::{ContentType, Conversation, MessageRef, MsgSubtype};
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{ClientMessageId, ConversationId, DeviceId, MessageId};
use nuncio_core::time::Timestamp;
use nuncio_engine::relay::NewPost;
use nuncio_identity::seal::{Addressee, KeyReview, PlaintextMessage, SealError, SealIdentity};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::SendError;
use super::send_slots::SendSlot;
use super::{InboundMessage, Peer, lock};
use crate::client::RelayError;
use crate::wire::message::Sealed;

/// Name prefix of messages that wait to be sent.
pub(super) const OUTBOX: &str = "peer/out/";

/// Delays between retries.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(400), Duration::from_secs(30));

/// How often a message is sealed again because a session must start or ended meanwhile.
const SEAL_AGAIN: usize = 3;

/// Stored form of a sealed message until it is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OutgoingMessage {
    conversation: ConversationId,
    client_id: ClientMessageId,
    content_type: ContentType,
    subtype: Option<MsgSubtype>,
    envelope: Sealed,
    until: Timestamp,
}

/// Client message id, and the message that is answered.
#[derive(Debug)]
pub(super) struct MessageIds {
    pub(super) client_id: ClientMessageId,
    pub(super) in_reply_to: Option<MessageId>,
}

impl MessageIds {
    /// Id of the only reply to a message, derived from it.
    pub(super) fn to(message: &InboundMessage) -> Result<Self, SendError> {
        let place = MessageRef { conversation: message.conversation.clone(), seq: message.seq };
        let named = Digest::of_bytes(format!("{}\n{}", place.conversation, place.seq).as_bytes()).to_string();
        let client_id =
            ClientMessageId::parse(&format!("r_{}", &named[..32])).map_err(|why| SendError::Fault(why.to_string()))?;
        Ok(Self { client_id, in_reply_to: place.id().ok() })
    }
}

impl OutgoingMessage {
    fn is_call(&self) -> bool {
        self.subtype == Some(MsgSubtype::ArtifactToolCall)
    }

    fn new_post(&self) -> NewPost {
        NewPost {
            client_id: self.client_id.clone(),
            content_type: self.content_type,
            subtype: self.subtype,
            envelope: Arc::clone(&self.envelope.0),
        }
    }
}

impl Peer {
    /// Sends a message: an object whose `type` is the content type. Returns its number in the conversation.
    pub async fn send(
        &self,
        conversation: &ConversationId,
        content_type: ContentType,
        payload: Value,
    ) -> Result<u64, SendError> {
        let send_slot = self.send_slot(conversation).await?;
        self.deliver(send_slot, content_type, None, payload).await
    }

    /// Replies to a message. However often that is done, one reply is sent.
    pub async fn reply(&self, to: &InboundMessage, content_type: ContentType, payload: Value) -> Result<(), SendError> {
        let send_slot = self.send_slot(&to.conversation).await?;
        let leaving = self.prepare(&send_slot, MessageIds::to(to)?, content_type, None, payload).await?;
        self.send_answer(&send_slot, &leaving).await
    }

    /// Sends a reply that may have been sent before.
    pub(super) async fn send_answer(&self, send_slot: &SendSlot, leaving: &OutgoingMessage) -> Result<(), SendError> {
        match self.send_sealed(send_slot, leaving).await {
            // The previous process sent it.
            Err(SendError::Relay(RelayError::Refused { code: Code::MessageClash, .. })) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Seals a message for all members of a conversation and sends it, with retries until `send_slot.until`.
    pub(super) async fn deliver(
        &self,
        send_slot: SendSlot,
        content_type: ContentType,
        subtype: Option<MsgSubtype>,
        payload: Value,
    ) -> Result<u64, SendError> {
        let new = MessageIds { client_id: self.new_client_id()?, in_reply_to: None };
        let leaving = self.prepare(&send_slot, new, content_type, subtype, payload).await?;
        self.send_sealed(&send_slot, &leaving).await
    }

    /// Seals and sends a tool call. Returns no reference if the relay's ids are too long for a message id.
    pub(super) async fn deliver_call(
        &self,
        send_slot: SendSlot,
        payload: Value,
    ) -> Result<Option<MessageReference>, SendError> {
        let new = MessageIds { client_id: self.new_client_id()?, in_reply_to: None };
        let subtype = Some(MsgSubtype::ArtifactToolCall);
        let leaving = self.prepare(&send_slot, new, ContentType::Artifact, subtype, payload).await?;
        let seq = self.send_sealed(&send_slot, &leaving).await?;
        let envelope = Digest::of_bytes(&leaving.envelope.0);
        let id = MessageRef { conversation: leaving.conversation, seq }.id().ok();
        Ok(id.map(|id| MessageReference { envelope, id }))
    }

    /// Seals and stores a message for all members of a conversation.
    pub(super) async fn prepare(
        &self,
        send_slot: &SendSlot,
        MessageIds { client_id, in_reply_to }: MessageIds,
        content_type: ContentType,
        subtype: Option<MsgSubtype>,
        payload: Value,
    ) -> Result<OutgoingMessage, SendError> {
        let conversation = self.conversation(&send_slot.conversation).await?;
        let plaintext = PlaintextMessage {
            conversation: conversation.id.clone(),
            conversation_type: conversation.kind,
            client_id,
            content_type,
            subtype,
            in_reply_to,
            created_at: self.now(),
            payload,
        };
        let until = send_slot.until;
        let sealed = self.seal_for(&conversation, move |party, to| {
            let mut leaving = None;
            // Stored in the same write as the new key state.
            party.seal_and_save(&plaintext, to, |envelope| {
                let stored = leaving.insert(OutgoingMessage {
                    conversation: plaintext.conversation.clone(),
                    client_id: plaintext.client_id.clone(),
                    content_type: plaintext.content_type,
                    subtype: plaintext.subtype,
                    envelope: Sealed(envelope.into()),
                    until,
                });
                let record = serde_json::to_vec(stored).unwrap_or_default();
                vec![(format!("{OUTBOX}{}", stored.client_id), Some(record))]
            })?;
            Ok(leaving)
        });
        sealed.await?.ok_or_else(|| SendError::Fault("nothing was sealed".to_owned()))
    }

    /// Seals something for the trusted devices of all members of a conversation: again with one-time keys if a session
    /// must start.
    pub(super) async fn seal_for<T: Send + 'static>(
        &self,
        conversation: &Conversation,
        seal: impl Fn(&mut SealIdentity, &[Addressee<'_>]) -> Result<T, SealError> + Send + Sync + 'static,
    ) -> Result<T, SendError> {
        let seal = Arc::new(seal);
        let mut to = self.trusted_devices(conversation).await?;
        let mut again = 0..SEAL_AGAIN;
        loop {
            let seal = Arc::clone(&seal);
            let (tried, sealed) = self
                .with_party(move |party| {
                    let devices = to.iter().map(|(bundle, key)| Addressee { bundle, one_time_key: key.as_ref() });
                    let sealed = seal(party, &devices.collect::<Vec<_>>());
                    (to, sealed)
                })
                .await?;
            to = tried;
            match sealed {
                Err(SealError::NeedsOneTimeKey(devices)) if again.next().is_some() => {
                    for (bundle, key) in &mut to {
                        let id = bundle.keys.id();
                        if devices.iter().any(|(owner, device)| *owner == id.owner && *device == id.device) {
                            *key = Some(self.inner.relay.one_time_key(&id).await?);
                        }
                    }
                }
                done => return Ok(done?),
            }
        }
    }

    /// Sends a sealed message with retries until its deadline. A rate-limited call is not retried here: it is sealed
    /// again later, and other messages may go first.
    pub(super) async fn send_sealed(&self, _: &SendSlot, leaving: &OutgoingMessage) -> Result<u64, SendError> {
        self.post(leaving).await
    }

    async fn post(&self, leaving: &OutgoingMessage) -> Result<u64, SendError> {
        let mut failures = BACKOFF.start();
        let sent = loop {
            let wait = match self.inner.relay.post(&leaving.conversation, leaving.new_post()).await {
                Err(RelayError::TooMany { seconds, .. }) if !leaving.is_call() => Duration::from_secs(seconds.max(1)),
                Err(error) if error.is_retryable() => failures.next_delay(),
                done => break done,
            };
            let again = self.now().after(wait);
            if again >= leaving.until {
                break Err(RelayError::Unreachable("it could not be sent in time".to_owned()));
            }
            tokio::select! {
                () = self.inner.clock.sleep_until(again) => {}
                () = self.inner.back.notified() => {}
            }
        };
        self.left(&leaving.client_id).await?;
        Ok(sent?)
    }

    /// Deletes the stored message, because it was sent or never will be.
    async fn left(&self, client_id: &ClientMessageId) -> Result<(), SendError> {
        let name = format!("{OUTBOX}{client_id}");
        let keep = Arc::clone(&self.inner.keep);
        let saved = tokio::task::spawn_blocking(move || keep.save(vec![(name, None)])).await;
        Ok(saved.map_err(|_| SendError::Fault("the storage task was aborted".to_owned()))??)
    }

    /// Sends the messages of the previous process, except calls: nobody waits for their answers any more.
    pub(super) async fn send_leftovers(&self) -> Result<(), SendError> {
        for name in self.inner.keep.names(OUTBOX)? {
            let record = self.inner.keep.load(&name)?;
            let leaving = record.and_then(|record| serde_json::from_slice::<OutgoingMessage>(&record).ok());
            match leaving {
                Some(leaving) if leaving.until > self.now() && !leaving.is_call() => {
                    if let Err(error) = self.post(&leaving).await {
                        tracing::warn!(conversation = %leaving.conversation, %error, "cannot send a message of the previous process");
                    }
                }
                _ => self.inner.keep.save(vec![(name, None)])?,
            }
        }
        Ok(())
    }

    /// Trusted devices of all members of a conversation, without one-time keys.
    async fn trusted_devices(
        &self,
        conversation: &Conversation,
    ) -> Result<Vec<(KeyBundle, Option<OneTimeKey>)>, SendError> {
        let mut all = Vec::new();
        for member in &conversation.members {
            let bundles = match member == self.me() {
                false => self.trusted(member).await?,
                // The person's other devices get a copy; an agent has one device.
                true if matches!(member, Recipient::Agent(_)) => continue,
                true => self.trusted(member).await.unwrap_or_default(),
            };
            all.extend(bundles.into_iter().map(|bundle| (bundle, None)));
        }
        Ok(all)
    }

    /// Trusted devices of a recipient.
    async fn trusted(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, SendError> {
        if let Some(known) = lock(&self.inner.met).get(owner) {
            return Ok(known.clone());
        }
        let (bundles, meeting) = self.meet(owner).await?;
        let trusted: Vec<_> =
            bundles.into_iter().filter(|bundle| meeting.trusted.contains(&bundle.keys.device_id)).collect();
        match (trusted.is_empty(), meeting.distrusted.is_empty()) {
            (false, _) => {
                lock(&self.inner.met).insert(owner.clone(), trusted.clone());
                Ok(trusted)
            }
            (true, true) => Err(SendError::NoDevice(owner.clone())),
            (true, false) => Err(SendError::KeysChanged { owner: owner.clone(), devices: meeting.distrusted }),
        }
    }

    pub(super) async fn meet(&self, owner: &Recipient) -> Result<(Vec<KeyBundle>, KeyReview), SendError> {
        let bundles = self.inner.relay.keys_of(owner).await?;
        let (asked, shown) = (owner.clone(), bundles.clone());
        let meeting = self.with_party(move |party| party.review_keys(&asked, &shown, None)).await??;
        for change in &meeting.changes {
            tracing::info!(%owner, ?change, "keys changed");
        }
        for (device, why) in &meeting.distrusted {
            tracing::warn!(%owner, %device, %why, "a published device key is not trusted");
        }
        Ok((bundles, meeting))
    }

    /// Accepts a device's keys on the operator's decision, whatever its keys were before.
    pub async fn accept_keys(&self, owner: &Recipient, device: &DeviceId) -> Result<(), SendError> {
        let (asked, accepted) = (owner.clone(), device.clone());
        self.with_party(move |party| party.accept(&asked, &accepted)).await??;
        self.keys_changed(owner);
        Ok(())
    }

    pub(super) fn keys_changed(&self, owner: &Recipient) {
        lock(&self.inner.met).remove(owner);
    }
}
