//! The bus inside one process.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use nuncio_engine::ports::bus::{Bus, Notice};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// How many notices a listener may be behind before it misses some.
const BEHIND: usize = 256;

/// Every kind of notice.
fn every() -> [Notice; 4] {
    [Notice::Approvals, Notice::Access, Notice::Tasks, Notice::Mail(Arc::from([]))]
}

/// A bus for those in the same process. The streams end when it is dropped.
#[derive(Debug)]
pub struct LocalBus {
    notices: Sender<Notice>,
}

impl LocalBus {
    /// A bus that nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self { notices: Sender::new(BEHIND) }
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Bus for LocalBus {
    async fn publish(&self, notice: Notice) {
        // It fails when nobody listens, and then there is nobody to tell.
        let _ = self.notices.send(notice);
    }

    fn subscribe(&self) -> BoxStream<'static, Notice> {
        let listener = Listener { notices: self.notices.subscribe(), missed: VecDeque::new() };
        stream::unfold(listener, |mut listener| async move { Some((listener.next().await?, listener)) }).boxed()
    }
}

/// One who listens.
struct Listener {
    notices: Receiver<Notice>,
    missed: VecDeque<Notice>,
}

impl Listener {
    async fn next(&mut self) -> Option<Notice> {
        if let Some(notice) = self.missed.pop_front() {
            return Some(notice);
        }
        match self.notices.recv().await {
            Ok(notice) => Some(notice),
            Err(RecvError::Closed) => None,
            // What was missed may have been the last of its kind, and a notice only says that it is
            // worth looking: look everywhere.
            Err(RecvError::Lagged(_)) => {
                self.missed.extend(every());
                self.missed.pop_front()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_the_list() {
        for notice in every() {
            // A new kind does not compile here until it is thought of; then add it to the list.
            match notice {
                Notice::Approvals | Notice::Access | Notice::Tasks | Notice::Mail(_) => {}
            }
        }
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_bus() {
        let bus = LocalBus::new();
        let mut notices = bus.subscribe();
        bus.publish(Notice::Access).await;
        drop(bus);
        assert_eq!(notices.next().await, Some(Notice::Access));
        assert_eq!(notices.next().await, None);
    }
}
