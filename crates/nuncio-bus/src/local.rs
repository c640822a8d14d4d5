//! The bus within one process.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use nuncio_engine::ports::bus::{Bus, BusNotice};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// Number of notices by which a listener may fall behind before it misses some.
const MAX_QUEUED_NOTICES: usize = 256;

/// Notice that keys or grants were changed by an unknown process.
fn access() -> BusNotice {
    BusNotice::Access { by: Arc::from("") }
}

/// Notices for a listener that missed some: one of each kind except `GrantUsed`, whose listeners read all grants on
/// `Access`.
fn every() -> [BusNotice; 4] {
    [BusNotice::Approvals, access(), BusNotice::Tasks, BusNotice::Mail(Arc::from([]))]
}

/// A bus within one process. Subscriptions end when it is dropped.
#[derive(Debug)]
pub struct LocalBus {
    notices: Sender<BusNotice>,
}

impl LocalBus {
    #[must_use]
    pub fn new() -> Self {
        Self { notices: Sender::new(MAX_QUEUED_NOTICES) }
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Bus for LocalBus {
    async fn publish(&self, notice: BusNotice) {
        // Sending fails only without listeners.
        let _ = self.notices.send(notice);
    }

    fn subscribe(&self) -> BoxStream<'static, BusNotice> {
        let listener = BusSubscription { notices: self.notices.subscribe(), missed: VecDeque::new() };
        stream::unfold(listener, |mut listener| async move { Some((listener.next().await?, listener)) }).boxed()
    }
}

struct BusSubscription {
    notices: Receiver<BusNotice>,
    missed: VecDeque<BusNotice>,
}

impl BusSubscription {
    async fn next(&mut self) -> Option<BusNotice> {
        if let Some(notice) = self.missed.pop_front() {
            return Some(notice);
        }
        match self.notices.recv().await {
            Ok(notice) => Some(notice),
            Err(RecvError::Closed) => None,
            // The missed notices may include the last of any kind, so deliver one of each: a notice only
            // says that reading the store is worthwhile.
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
    fn new_notice_kind_does_not_compile_until_considered_for_lagging_listeners() {
        for notice in every() {
            // A new kind does not compile here; add it to `every`.
            match notice {
                BusNotice::Approvals
                | BusNotice::Access { .. }
                | BusNotice::GrantUsed(_)
                | BusNotice::Tasks
                | BusNotice::Mail(_) => {}
            }
        }
    }

    #[tokio::test]
    async fn subscription_ends_when_bus_is_dropped() {
        let bus = LocalBus::new();
        let mut notices = bus.subscribe();
        bus.publish(access()).await;
        drop(bus);
        assert_eq!(notices.next().await, Some(access()));
        assert_eq!(notices.next().await, None);
    }
}
