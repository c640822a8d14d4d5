//! Who listens to streams, and what waits for each: little, and never longer than it takes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nuncio_core::happening::Recipient;
use tokio::sync::Notify;

use super::{StreamEnd, StreamTold, StreamWhat};

/// How much may wait for one who listens.
const QUEUE: usize = 64;

/// Everyone who listens.
#[derive(Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<Recipient, Vec<Weak<Ear>>>>>);

#[derive(Debug, Default)]
struct Ear {
    waiting: Mutex<VecDeque<StreamTold>>,
    told: Notify,
}

/// One who listens, as a stream sees them.
#[derive(Debug)]
pub(super) struct WeakEar(Weak<Ear>);

/// One who listens. Hears no more once it is dropped.
#[derive(Debug)]
pub struct StreamEar {
    ear: Arc<Ear>,
    reader: Recipient,
    all: Streams,
}

impl Streams {
    pub(super) fn listen(&self, reader: &Recipient) -> StreamEar {
        let ear = Arc::new(Ear::default());
        lock(&self.0).entry(reader.clone()).or_default().push(Arc::downgrade(&ear));
        StreamEar { ear, reader: reader.clone(), all: Self(Arc::clone(&self.0)) }
    }

    /// Those who listen for somebody now.
    pub(super) fn ears(&self, reader: &Recipient) -> Vec<WeakEar> {
        lock(&self.0).get(reader).into_iter().flatten().cloned().map(WeakEar).collect()
    }
}

impl StreamEar {
    /// What is told next. Nothing is lost when it is not waited for to the end.
    pub async fn next(&self) -> StreamTold {
        loop {
            if let Some(told) = self.waiting() {
                return told;
            }
            self.ear.told.notified().await;
        }
    }

    /// What waits to be heard, if anything does.
    #[must_use]
    pub fn waiting(&self) -> Option<StreamTold> {
        lock(&self.ear.waiting).pop_front()
    }
}

impl Drop for StreamEar {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(ears) = all.get_mut(&self.reader) {
            ears.retain(|ear| !std::ptr::eq(ear.as_ptr(), Arc::as_ptr(&self.ear)));
            if ears.is_empty() {
                all.remove(&self.reader);
            }
        }
    }
}

impl WeakEar {
    /// Tells something. False when they hear no more of that stream: they left, or cannot keep up and are told so.
    pub(super) fn tell(&self, told: &StreamTold) -> bool {
        let Some(ear) = self.0.upgrade() else { return false };
        let keeps_up = {
            let mut waiting = lock(&ear.waiting);
            let keeps_up = waiting.len() < QUEUE;
            match keeps_up {
                true => waiting.push_back(told.clone()),
                false => give_up(&mut waiting, told),
            }
            keeps_up
        };
        ear.told.notify_one();
        keeps_up
    }
}

/// Takes out what waits of a stream, and says that there is no more of it unless it was never heard of.
fn give_up(waiting: &mut VecDeque<StreamTold>, told: &StreamTold) {
    let of_it = |one: &StreamTold| (&one.conversation, &one.stream) == (&told.conversation, &told.stream);
    let begins = |one: &StreamTold| of_it(one) && matches!(one.what, StreamWhat::Started { .. });
    let unheard = begins(told) || waiting.iter().any(begins);
    waiting.retain(|one| !of_it(one));
    if !unheard {
        waiting.push_back(StreamTold { what: StreamWhat::Aborted(StreamEnd::Slow), ..told.clone() });
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

    fn ada() -> Recipient {
        Recipient::Person(PersonName::parse("ada").unwrap())
    }

    fn told(stream: &str, what: StreamWhat) -> StreamTold {
        let conversation = ConversationId::parse("cnv_1").unwrap();
        StreamTold { conversation, stream: ClientMessageId::parse(stream).unwrap(), what }
    }

    fn piece(stream: &str, seq: u64) -> StreamTold {
        told(stream, StreamWhat::Piece(StreamPiece { seq, sealed: [1].as_slice().into() }))
    }

    fn start(stream: &str) -> StreamTold {
        let (at, envelope) = (nuncio_core::time::Timestamp::from_millis(0), [1].as_slice().into());
        told(stream, StreamWhat::Started { sender: ada(), at, envelope })
    }

    fn heard(ear: &StreamEar) -> Vec<StreamTold> {
        std::iter::from_fn(|| ear.next().now_or_never()).collect()
    }

    #[test]
    fn everyone_who_listens_hears_it_in_order_and_nobody_else_does() {
        let all = Streams::default();
        let (one, two) = (all.listen(&ada()), all.listen(&ada()));
        let bob = all.listen(&Recipient::Person(PersonName::parse("bob").unwrap()));
        let ears = all.ears(&ada());
        let late = all.listen(&ada());
        for said in [start("s"), piece("s", 1), piece("s", 2)] {
            assert!(ears.iter().all(|ear| ear.tell(&said)));
        }
        for ear in [&one, &two] {
            assert_eq!(heard(ear), [start("s"), piece("s", 1), piece("s", 2)]);
        }
        assert!(heard(&bob).is_empty() && heard(&late).is_empty());
        drop(one);
        assert_eq!(ears.iter().map(|ear| ear.tell(&piece("s", 3))).collect::<Vec<_>>(), [false, true]);
        drop((two, bob, late));
        assert!(lock(&all.0).is_empty());
    }

    #[test]
    fn one_who_is_slow_loses_the_stream_and_is_told_so() {
        let all = Streams::default();
        let ear = all.listen(&ada());
        let weak = all.ears(&ada()).remove(0);
        let other = all.ears(&ada()).remove(0);
        assert!(weak.tell(&start("s")) && other.tell(&start("o")));
        assert_eq!(heard(&ear).len(), 2);
        assert!(other.tell(&piece("o", 1)));
        let most = u64::try_from(QUEUE).unwrap();
        assert!((1..most).all(|seq| weak.tell(&piece("s", seq))));
        assert!(!weak.tell(&piece("s", most)));
        // What waited of it went with it; another stream has room again.
        assert!(other.tell(&piece("o", 2)));
        let slow = told("s", StreamWhat::Aborted(StreamEnd::Slow));
        assert_eq!(heard(&ear), [piece("o", 1), slow, piece("o", 2)]);
    }

    #[test]
    fn what_was_never_heard_of_is_not_given_up() {
        let all = Streams::default();
        let ear = all.listen(&ada());
        let weak = all.ears(&ada()).remove(0);
        let most = u64::try_from(QUEUE).unwrap();
        weak.tell(&start("s"));
        assert!((1..most).all(|seq| weak.tell(&piece("s", seq))));
        assert!(!weak.tell(&start("o")), "there is no room for another");
        assert!(!weak.tell(&piece("s", most)));
        assert!(heard(&ear).is_empty());
    }
}
