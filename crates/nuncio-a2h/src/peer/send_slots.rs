//! Orders sending. Receivers keep the session keys of only a few steps, so sealed messages must arrive about in the
//! order they were sealed: one message is sealed and in transit at a time, and those of the previous process go first.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::happening::Recipient;
use nuncio_core::ids::ConversationId;
use nuncio_core::time::Timestamp;
use tokio::sync::OwnedMutexGuard;

use super::error::SendError;
use super::{Peer, lock};
use crate::client::RelayError;

/// Number of locks after which unused ones are removed.
const SWEEP: usize = 256;

/// How long a message that is no call is retried.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Permission to seal and send one message; released on drop.
#[derive(Debug)]
pub(super) struct SendSlot {
    pub(super) conversation: ConversationId,
    /// Deadline for sending the message.
    pub(super) until: Timestamp,
    _line: OwnedMutexGuard<()>,
}

impl Peer {
    /// Waits until a message may be sealed and sent in a conversation.
    pub(super) async fn send_slot(&self, conversation: &ConversationId) -> Result<SendSlot, SendError> {
        self.send_slot_until(conversation, self.now().after(PATIENCE)).await
    }

    /// [`Self::send_slot`] with a deadline.
    pub(super) async fn send_slot_until(
        &self,
        conversation: &ConversationId,
        until: Timestamp,
    ) -> Result<SendSlot, SendError> {
        // A person's devices share sessions across conversations; an agent has one session per person.
        let line = match self.me() {
            Recipient::Person(_) => None,
            Recipient::Agent(_) => Some(conversation.clone()),
        };
        let next = async {
            self.inner.leftovers.get_or_try_init(|| self.send_leftovers()).await?;
            let line = {
                let mut lines = lock(&self.inner.lines);
                if lines.len() >= SWEEP {
                    lines.retain(|_, line| Arc::strong_count(line) > 1);
                }
                Arc::clone(lines.entry(line).or_default())
            };
            Ok(SendSlot { conversation: conversation.clone(), until, _line: line.lock_owned().await })
        };
        tokio::select! {
            send_slot = next => send_slot,
            () = self.inner.clock.sleep_until(until) => {
                Err(RelayError::Unreachable("it could not be sent in time".to_owned()).into())
            }
        }
    }
}
