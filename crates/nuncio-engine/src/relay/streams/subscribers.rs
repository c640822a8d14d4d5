//! Subscribers to streams, each with a short bounded queue.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nuncio_core::notification::RelayParty;
use tokio::sync::Notify;

use super::{StreamAbortReason, StreamUpdate, StreamUpdateKind};

/// Maximum number of queued updates per subscriber.
const MAX_QUEUE_LENGTH: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct StreamSubscribers(Arc<Mutex<HashMap<RelayParty, Vec<Weak<SubscriberQueue>>>>>);

#[derive(Debug, Default)]
struct SubscriberQueue {
    waiting: Mutex<VecDeque<StreamUpdate>>,
    wake: Notify,
}

/// Reference of a stream to a subscriber, which may have left.
#[derive(Debug)]
pub(super) struct WeakSubscriber(Weak<SubscriberQueue>);

/// A subscription to streams; it ends when dropped.
#[derive(Debug)]
pub struct StreamSubscriber {
    subscriber: Arc<SubscriberQueue>,
    reader: RelayParty,
    all: StreamSubscribers,
}

impl StreamSubscribers {
    pub(super) fn listen(&self, reader: &RelayParty) -> StreamSubscriber {
        let subscriber = Arc::new(SubscriberQueue::default());
        lock(&self.0).entry(reader.clone()).or_default().push(Arc::downgrade(&subscriber));
        StreamSubscriber { subscriber, reader: reader.clone(), all: Self(Arc::clone(&self.0)) }
    }

    /// Current subscribers of a recipient.
    pub(super) fn subscribers(&self, reader: &RelayParty) -> Vec<WeakSubscriber> {
        lock(&self.0).get(reader).into_iter().flatten().cloned().map(WeakSubscriber).collect()
    }
}

impl StreamSubscriber {
    /// Waits for the next stream update. Cancel safe.
    pub async fn next(&self) -> StreamUpdate {
        loop {
            if let Some(update) = self.waiting() {
                return update;
            }
            self.subscriber.wake.notified().await;
        }
    }

    /// The next queued stream update, without waiting.
    #[must_use]
    pub fn waiting(&self) -> Option<StreamUpdate> {
        lock(&self.subscriber.waiting).pop_front()
    }
}

impl Drop for StreamSubscriber {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(subscribers) = all.get_mut(&self.reader) {
            subscribers.retain(|subscriber| !std::ptr::eq(subscriber.as_ptr(), Arc::as_ptr(&self.subscriber)));
            if subscribers.is_empty() {
                all.remove(&self.reader);
            }
        }
    }
}

impl WeakSubscriber {
    /// Queues an update. Returns false if the subscriber left or is too slow; a slow one loses the stream.
    pub(super) fn send(&self, update: &StreamUpdate) -> bool {
        let Some(subscriber) = self.0.upgrade() else { return false };
        let keeps_up = {
            let mut waiting = lock(&subscriber.waiting);
            let keeps_up = waiting.len() < MAX_QUEUE_LENGTH;
            match keeps_up {
                true => waiting.push_back(update.clone()),
                false => give_up(&mut waiting, update),
            }
            keeps_up
        };
        subscriber.wake.notify_one();
        keeps_up
    }
}

/// Removes the queued updates of a stream and queues an abort, unless the subscriber never saw its start.
fn give_up(waiting: &mut VecDeque<StreamUpdate>, update: &StreamUpdate) {
    let of_it = |one: &StreamUpdate| (&one.conversation, &one.stream) == (&update.conversation, &update.stream);
    let begins = |one: &StreamUpdate| of_it(one) && matches!(one.what, StreamUpdateKind::Started { .. });
    let unreceived = begins(update) || waiting.iter().any(begins);
    waiting.retain(|one| !of_it(one));
    if !unreceived {
        waiting.push_back(StreamUpdate { what: StreamUpdateKind::Aborted(StreamAbortReason::Slow), ..update.clone() });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use nuncio_core::ids::{ClientMessageId, ConversationId, PersonName};

    use super::*;
    use crate::relay::streams::StreamPiece;

    fn ada() -> RelayParty {
        RelayParty::Person(PersonName::parse("ada").unwrap())
    }

    fn update(stream: &str, what: StreamUpdateKind) -> StreamUpdate {
        let conversation = ConversationId::parse("cnv_1").unwrap();
        StreamUpdate { conversation, stream: ClientMessageId::parse(stream).unwrap(), what }
    }

    fn piece(stream: &str, seq: u64) -> StreamUpdate {
        update(stream, StreamUpdateKind::Piece(StreamPiece { seq, sealed: [1].as_slice().into() }))
    }

    fn start(stream: &str) -> StreamUpdate {
        let (at, envelope) = (nuncio_core::time::Timestamp::from_millis(0), [1].as_slice().into());
        update(stream, StreamUpdateKind::Started { sender: ada(), at, envelope })
    }

    fn received(subscriber: &StreamSubscriber) -> Vec<StreamUpdate> {
        std::iter::from_fn(|| subscriber.next().now_or_never()).collect()
    }

    #[test]
    fn updates_reach_only_subscribers_present_at_stream_start_in_order() {
        let all = StreamSubscribers::default();
        let (one, two) = (all.listen(&ada()), all.listen(&ada()));
        let bob = all.listen(&RelayParty::Person(PersonName::parse("bob").unwrap()));
        let subscribers = all.subscribers(&ada());
        let late = all.listen(&ada());
        for said in [start("s"), piece("s", 1), piece("s", 2)] {
            assert!(subscribers.iter().all(|subscriber| subscriber.send(&said)));
        }
        for subscriber in [&one, &two] {
            assert_eq!(received(subscriber), [start("s"), piece("s", 1), piece("s", 2)]);
        }
        assert!(received(&bob).is_empty() && received(&late).is_empty());
        drop(one);
        assert_eq!(
            subscribers.iter().map(|subscriber| subscriber.send(&piece("s", 3))).collect::<Vec<_>>(),
            [false, true]
        );
        drop((two, bob, late));
        assert!(lock(&all.0).is_empty());
    }

    #[test]
    fn subscriber_with_full_queue_loses_the_stream_and_receives_its_abort() {
        let all = StreamSubscribers::default();
        let subscriber = all.listen(&ada());
        let weak = all.subscribers(&ada()).remove(0);
        let other = all.subscribers(&ada()).remove(0);
        assert!(weak.send(&start("s")) && other.send(&start("o")));
        assert_eq!(received(&subscriber).len(), 2);
        assert!(other.send(&piece("o", 1)));
        let most = u64::try_from(MAX_QUEUE_LENGTH).unwrap();
        assert!((1..most).all(|seq| weak.send(&piece("s", seq))));
        assert!(!weak.send(&piece("s", most)));
        // The queued updates of the lost stream were removed, so those of another stream fit again.
        assert!(other.send(&piece("o", 2)));
        let slow = update("s", StreamUpdateKind::Aborted(StreamAbortReason::Slow));
        assert_eq!(received(&subscriber), [piece("o", 1), slow, piece("o", 2)]);
    }

    #[test]
    fn subscriber_that_never_received_a_stream_start_receives_no_abort() {
        let all = StreamSubscribers::default();
        let subscriber = all.listen(&ada());
        let weak = all.subscribers(&ada()).remove(0);
        let most = u64::try_from(MAX_QUEUE_LENGTH).unwrap();
        weak.send(&start("s"));
        assert!((1..most).all(|seq| weak.send(&piece("s", seq))));
        assert!(!weak.send(&start("o")), "there is no room for another");
        assert!(!weak.send(&piece("s", most)));
        assert!(received(&subscriber).is_empty());
    }
}
