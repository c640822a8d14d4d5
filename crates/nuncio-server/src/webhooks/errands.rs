//! Calling others: each receiver in its turn, a few at a time, and each again when it is due. What is owed
//! is in the store; here is only what is due now.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{FetchError, Incoming};
use nuncio_engine::{Engine, EngineError};
use tokio_util::sync::CancellationToken;

/// How much of an answer is read: nobody looks at it.
pub(crate) const ANSWER: usize = 16 * 1024;

/// How many are called at a time.
const AT_ONCE: usize = 64;

/// How many of them at the same receiver, so that one that dawdles holds up nobody else.
const PER_RECEIVER: usize = 4;

/// How many are looked up at a time.
pub(crate) const PAGE: usize = 64;

/// How many of one receiver are held before no more are looked up.
const ENOUGH: usize = 32;

/// How long to wait when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(30);

/// Something owed to others.
pub(crate) trait Errands {
    /// Names an errand.
    type Key: Clone + Eq + Hash;
    /// Whom it is to.
    type Receiver: Clone + Eq + Hash;
    /// What is to be done.
    type Errand;

    /// Whose it is.
    fn engine(&self) -> &Engine;

    /// What is due and not known yet, and when to look again.
    async fn look(&self, held: &Held<Self::Key, Self::Receiver>) -> Result<Found<Self>, EngineError>;

    /// Waits until there may be something new.
    async fn owed(&self);

    /// Does one, and notes what came of it.
    async fn run(&self, errand: Self::Errand);
}

/// What was found, each with its name and its receiver; and when to look again.
pub(crate) struct Found<E: Errands + ?Sized> {
    pub(crate) due: Vec<(E::Key, E::Receiver, E::Errand)>,
    pub(crate) next: Option<Timestamp>,
}

/// Does what is owed. Begins nothing once `stop` is cancelled; what is under way may finish until `closed` is.
/// What is not done then is done by the next process.
pub(crate) async fn run<E: Errands>(errands: E, stop: CancellationToken, closed: CancellationToken) {
    let engine = errands.engine();
    let mut queue = Queue::<E>::default();
    let mut under_way = FuturesUnordered::new();
    loop {
        let found = tokio::select! {
            found = insist(engine, || errands.look(&queue.held)) => found,
            () = stop.cancelled() => break,
        };
        for (key, receiver, errand) in found.due {
            queue.add(key, receiver, errand);
        }
        while under_way.len() < AT_ONCE
            && let Some((ticket, errand)) = queue.next()
        {
            let work = errands.run(errand);
            under_way.push(async {
                work.await;
                ticket
            });
        }
        let pause = engine.clock().sleep_until(found.next.unwrap_or(Timestamp::LAST));
        tokio::select! {
            Some(ticket) = under_way.next() => queue.done(&ticket),
            () = pause, if found.next.is_some() => {}
            () = errands.owed() => {}
            () = stop.cancelled() => break,
        }
    }
    tokio::select! {
        () = async { while under_way.next().await.is_some() {} } => {}
        () = closed.cancelled() => {}
    }
}

/// Does it until the store lets us.
pub(crate) async fn insist<T, F: Future<Output = Result<T, EngineError>>>(engine: &Engine, work: impl Fn() -> F) -> T {
    loop {
        match work().await {
            Ok(done) => return done,
            Err(error) => tracing::error!(%error, "others cannot be told now what they are owed"),
        }
        engine.clock().sleep_until(engine.now().after(STORE_PAUSE)).await;
    }
}

/// The status of an answer. One that is longer than anyone reads is an answer.
pub(crate) fn status(answer: Result<Incoming, FetchError>) -> Result<u16, FetchError> {
    match answer {
        Ok(answer) => Ok(answer.status),
        Err(FetchError::TooLarge { status, .. }) => Ok(status),
        Err(error) => Err(error),
    }
}

/// What waits or is under way.
pub(crate) struct Held<K, R> {
    known: HashSet<K>,
    by_receiver: HashMap<R, usize>,
}

impl<K, R: Clone> Held<K, R> {
    pub(crate) fn known(&self) -> &HashSet<K> {
        &self.known
    }

    /// The receivers of whom enough is held.
    pub(crate) fn full(&self) -> Vec<R> {
        let full = self.by_receiver.iter().filter(|(_, count)| **count >= ENOUGH);
        full.map(|(receiver, _)| receiver.clone()).collect()
    }
}

/// Names an errand that is under way.
struct Ticket<E: Errands> {
    key: E::Key,
    receiver: E::Receiver,
}

/// What waits of one receiver.
type Waiting<E> = VecDeque<(<E as Errands>::Key, <E as Errands>::Errand)>;

/// What is to be done, receiver by receiver in turn.
struct Queue<E: Errands> {
    held: Held<E::Key, E::Receiver>,
    waiting: VecDeque<(E::Receiver, Waiting<E>)>,
    /// How many of each receiver are under way.
    busy: HashMap<E::Receiver, usize>,
}

impl<E: Errands> Default for Queue<E> {
    fn default() -> Self {
        let held = Held { known: HashSet::new(), by_receiver: HashMap::new() };
        Self { held, waiting: VecDeque::new(), busy: HashMap::new() }
    }
}

impl<E: Errands> Queue<E> {
    fn add(&mut self, key: E::Key, receiver: E::Receiver, errand: E::Errand) {
        if !self.held.known.insert(key.clone()) {
            return;
        }
        *self.held.by_receiver.entry(receiver.clone()).or_default() += 1;
        match self.waiting.iter_mut().find(|(other, _)| *other == receiver) {
            Some((_, errands)) => errands.push_back((key, errand)),
            None => self.waiting.push_back((receiver, VecDeque::from([(key, errand)]))),
        }
    }

    /// The next one whose receiver is not busy.
    fn next(&mut self) -> Option<(Ticket<E>, E::Errand)> {
        let is_free =
            |(receiver, _): &(E::Receiver, _)| self.busy.get(receiver).is_none_or(|busy| *busy < PER_RECEIVER);
        let (receiver, mut errands) = self.waiting.remove(self.waiting.iter().position(is_free)?)?;
        let (key, errand) = errands.pop_front()?;
        *self.busy.entry(receiver.clone()).or_default() += 1;
        if !errands.is_empty() {
            self.waiting.push_back((receiver.clone(), errands));
        }
        Some((Ticket { key, receiver }, errand))
    }

    fn done(&mut self, ticket: &Ticket<E>) {
        self.held.known.remove(&ticket.key);
        one_less(&mut self.held.by_receiver, &ticket.receiver);
        one_less(&mut self.busy, &ticket.receiver);
    }
}

fn one_less<R: Eq + Hash>(counts: &mut HashMap<R, usize>, receiver: &R) {
    if let Some(count) = counts.get_mut(receiver) {
        *count -= 1;
        if *count == 0 {
            counts.remove(receiver);
        }
    }
}
