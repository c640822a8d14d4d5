//! Calls claimed by the person's other devices, so that prompts about them end.

use std::collections::VecDeque;

use nuncio_core::ids::MessageId;
use tokio::sync::watch;

/// Number of remembered claims; more than there are prompts at a time.
const MOST: usize = 256;

/// The latest claims of other devices.
#[derive(Debug)]
pub(crate) struct ClaimedCalls(watch::Sender<VecDeque<MessageId>>);

impl ClaimedCalls {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(VecDeque::new()))
    }

    pub(crate) fn add(&self, message: MessageId) {
        self.0.send_modify(|taken| {
            taken.truncate(MOST - 1);
            taken.push_front(message);
        });
    }

    /// Waits until another device claims the call; returns at once if one has.
    pub(crate) async fn wait_for(&self, message: &MessageId) {
        if self.0.subscribe().wait_for(|taken| taken.contains(message)).await.is_err() {
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
    async fn waiting_for_a_claim_ends_when_the_call_was_or_is_claimed() {
        let taken = ClaimedCalls::new();
        (0..=MOST).for_each(|number| taken.add(id(number)));
        taken.wait_for(&id(1)).await;
        taken.wait_for(&id(MOST)).await;
        assert!(!taken.0.borrow().contains(&id(0)), "the oldest is forgotten");
        let (later, ()) = tokio::join!(
            async {
                taken.wait_for(&id(MOST + 1)).await;
                true
            },
            async { taken.add(id(MOST + 1)) }
        );
        assert!(later);
    }
}
