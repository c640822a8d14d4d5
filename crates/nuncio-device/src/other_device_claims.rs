//! Remembers calls that the person's other devices claimed, so that prompts about them end here.

use std::collections::VecDeque;

use nuncio_core::ids::MessageId;
use tokio::sync::watch;

/// Number of remembered claims; more than there are ever prompts at a time.
const MAX_CLAIMED_CALLS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct CallsClaimedByOtherDevices(watch::Sender<VecDeque<MessageId>>);

impl CallsClaimedByOtherDevices {
    pub(crate) fn add(&self, message: MessageId) {
        self.0.send_modify(|claims| {
            claims.truncate(MAX_CLAIMED_CALLS - 1);
            claims.push_front(message);
        });
    }

    /// Waits until another device claims the call with this message id; returns at once if one already has.
    pub(crate) async fn wait_for(&self, message: &MessageId) {
        if self.0.subscribe().wait_for(|claims| claims.contains(message)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> MessageId {
        MessageId::parse(&format!("msg_{number}")).unwrap()
    }

    #[tokio::test]
    async fn wait_for_claim_ends_for_earlier_and_later_claims_and_old_claims_are_dropped() {
        let claims = CallsClaimedByOtherDevices::default();
        (0..=MAX_CLAIMED_CALLS).for_each(|number| claims.add(id(number)));
        claims.wait_for(&id(1)).await;
        claims.wait_for(&id(MAX_CLAIMED_CALLS)).await;
        assert!(!claims.0.borrow().contains(&id(0)), "the oldest is forgotten");
        let (later, ()) = tokio::join!(
            async {
                claims.wait_for(&id(MAX_CLAIMED_CALLS + 1)).await;
                true
            },
            async { claims.add(id(MAX_CLAIMED_CALLS + 1)) }
        );
        assert!(later);
    }
}
