//! Calls that other devices of the person's took: there is nothing to ask about them any more.

use std::collections::VecDeque;

use nuncio_core::ids::MessageId;
use tokio::sync::watch;

/// How many are remembered: more than are being asked about at a time.
const MOST: usize = 256;

/// Calls that other devices took, the last ones.
#[derive(Debug)]
pub(crate) struct Taken(watch::Sender<VecDeque<MessageId>>);

impl Taken {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(VecDeque::new()))
    }

    /// Another device took that one.
    pub(crate) fn add(&self, message: MessageId) {
        self.0.send_modify(|taken| {
            taken.truncate(MOST - 1);
            taken.push_front(message);
        });
    }

    /// Waits until that one is taken. The word of it may have come before the question was asked.
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
    async fn what_was_taken_before_anyone_asked_is_known_and_so_is_what_is_taken_after() {
        let taken = Taken::new();
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
