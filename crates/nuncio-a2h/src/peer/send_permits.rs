//! Orders the sending of messages. Receivers keep only a few old session keys, so messages must arrive about in the
//! order of sealing: one message is sealed and in transit at a time, and those of the previous process go first.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ids::ConversationId;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use tokio::sync::OwnedMutexGuard;

use super::error::SendError;
use super::lock;
use super::outbox::SealedMessageOutbox;
use crate::client::RelayClientError;

/// Number of send locks above which unused ones are removed.
const SLOTS_BEFORE_CLEANUP: usize = 256;

/// How long sending is retried for a message that is not a tool call.
const MAX_SLOT_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Permission to seal and send one message; released on drop.
#[derive(Debug)]
pub(super) struct SendPermit {
    pub(super) conversation: ConversationId,
    pub(super) until: Timestamp,
    _line: OwnedMutexGuard<()>,
}

impl SealedMessageOutbox {
    /// Waits until a message may be sealed and sent in a conversation.
    pub(super) async fn send_permit(&self, conversation: &ConversationId) -> Result<SendPermit, SendError> {
        self.send_permit_until(conversation, self.context.now().after(MAX_SLOT_WAIT)).await
    }

    /// Like [`Self::send_permit`], but fails after `until`.
    pub(super) async fn send_permit_until(
        &self,
        conversation: &ConversationId,
        until: Timestamp,
    ) -> Result<SendPermit, SendError> {
        // A device uses a session in several conversations, so it has one lock; an agent has one per conversation.
        let send_lock = match self.context.me() {
            RelayParty::Person(_) => None,
            RelayParty::Agent(_) => Some(conversation.clone()),
        };
        let next = async {
            self.leftovers.get_or_try_init(|| self.send_leftovers()).await?;
            let send_lock = {
                let mut send_locks = lock(&self.send_locks);
                if send_locks.len() >= SLOTS_BEFORE_CLEANUP {
                    send_locks.retain(|_, send_lock| Arc::strong_count(send_lock) > 1);
                }
                Arc::clone(send_locks.entry(send_lock).or_default())
            };
            Ok(SendPermit { conversation: conversation.clone(), until, _line: send_lock.lock_owned().await })
        };
        tokio::select! {
            send_permit = next => send_permit,
            () = self.context.clock.sleep_until(until) => {
                Err(RelayClientError::Unreachable("it could not be sent in time".to_owned()).into())
            }
        }
    }
}
