//! Messages that their sender names, and how they come back: a device keeps what its person said, and must know what
//! of it got through.

use nuncio_core::Code;
use nuncio_core::conversation::{ContentType, Posted};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use serde_json::Value;

use super::Peer;
use super::error::SendError;
use super::outbox::{Answers, OUTBOX};
use crate::client::RelayError;

/// A message that this very device sent, as the relay has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Where.
    pub conversation: ConversationId,
    /// Its number there.
    pub seq: u64,
    /// The device's name for it.
    pub client_id: ClientMessageId,
    /// When the relay took it.
    pub at: Timestamp,
}

impl Peer {
    /// Sends a message under a name. However often that is done, by this process or a later one, one gets through.
    /// Its number in the conversation; none where one got through before, which
    /// [`OnMessage::on_sent`](super::OnMessage::on_sent) tells.
    ///
    /// # Errors
    /// It was not taken.
    pub async fn send_as(
        &self,
        client_id: ClientMessageId,
        conversation: &ConversationId,
        content_type: ContentType,
        payload: Value,
    ) -> Result<Option<u64>, SendError> {
        let turn = self.turn(conversation).await?;
        let sealed = self.inner.keep.load(&format!("{OUTBOX}{client_id}"))?;
        let leaving = match sealed.and_then(|record| serde_json::from_slice(&record).ok()) {
            // Sealed before: the same bytes get the same number.
            Some(leaving) => leaving,
            None => {
                let named = Answers { client_id, in_reply_to: None };
                self.prepare(&turn, named, content_type, None, payload).await?
            }
        };
        match self.send_off(&turn, &leaving).await {
            Err(SendError::Relay(RelayError::Refused { code: Code::MessageClash, .. })) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Takes what the person behind this device sent: told if this device did, opened if another of theirs did.
    pub(super) async fn receive_own(&self, posted: Posted) -> Result<(), SendError> {
        let this = self.with_party(|party| party.named().map(|(_, device)| device.clone())).await?;
        if this.is_some() && posted.post.device == this {
            let Posted { conversation, seq, at, post } = posted;
            let sent = Sent { conversation, seq, client_id: post.client_id, at };
            self.inner.handler.on_sent(self, sent).await;
            return Ok(());
        }
        self.receive_message(posted).await
    }
}
