//! Messages with a client message id chosen by the caller, and the confirmation that the relay has such a message.

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{ContentType, ConversationMessage};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::SealIdentity;
use serde_json::Value;

use super::Peer;
use super::error::SendError;
use super::outbox::{OUTBOX, OutgoingMessageIds, SealedMessageOutbox};
use crate::client::RelayClientError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessageConfirmation {
    pub conversation: ConversationId,
    pub seq: u64,
    pub client_id: ClientMessageId,
    pub at: Timestamp,
}

impl SealedMessageOutbox {
    /// Sends a message under a client message id; repetitions, also by a later process, send only one message. Returns
    /// the number of the message, or `None` if an earlier attempt was accepted, which
    /// [`PeerHandler::on_sent`](super::PeerHandler::on_sent) reports.
    pub async fn send_as(
        &self,
        client_id: ClientMessageId,
        conversation: &ConversationId,
        content_type: ContentType,
        payload: Value,
    ) -> Result<Option<u64>, SendError> {
        let send_permit = self.send_permit(conversation).await?;
        let sealed = self.context.key_store.load(&format!("{OUTBOX}{client_id}"))?;
        let outgoing = match sealed.and_then(|record| serde_json::from_slice(&record).ok()) {
            // An earlier attempt sealed the message; the relay gives the same bytes the same number.
            Some(outgoing) => outgoing,
            None => {
                let ids = OutgoingMessageIds { client_id, in_reply_to: None };
                self.prepare(&send_permit, ids, content_type, None, payload).await?
            }
        };
        match self.send_sealed(&send_permit, &outgoing).await {
            Err(SendError::Relay(RelayClientError::Refused { code: ErrorCode::MessageClash, .. })) => Ok(None),
            other => other.map(Some),
        }
    }
}

impl Peer {
    /// Handles a message sent by this peer's person or agent: a confirmation if this device sent it, else to be opened.
    pub(super) async fn receive_own(&self, posted: ConversationMessage) -> Result<(), SendError> {
        let device = |keys: &mut SealIdentity| keys.owner_device().map(|(_, device)| device.clone());
        let this = self.state.keys.with_seal_identity(device).await?;
        if this.is_some() && posted.post.device == this {
            let ConversationMessage { conversation, seq, at, post } = posted;
            let sent = SentMessageConfirmation { conversation, seq, client_id: post.client_id, at };
            self.state.handler.on_sent(self, sent).await;
            return Ok(());
        }
        self.receive_message(posted).await
    }
}
