//! Runs webhook deliveries that are due: round-robin by receiver, with limits in total and per receiver.
//! The store holds all pending deliveries; memory holds only those due now.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{FetchError, FetchResponse};
use nuncio_engine::{Engine, EngineError};
use tokio_util::sync::CancellationToken;

/// Limit of a response body in bytes; its content is not used.
pub(crate) const ANSWER: usize = 16 * 1024;

/// Limit of concurrent deliveries.
const AT_ONCE: usize = 64;

/// Limit of concurrent deliveries to one receiver, so that a slow one does not delay others.
const PER_RECEIVER: usize = 4;

/// Number of deliveries read from the store at once.
pub(crate) const PAGE: usize = 64;

/// Number of deliveries of one receiver in memory above which no more are read.
const ENOUGH: usize = 32;

/// Pause after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(30);

pub(crate) trait DeliverySource {
    /// Names an errand.
    type Key: Clone + Eq + Hash;
    type Receiver: Clone + Eq + Hash;
    type Job;

    fn engine(&self) -> &Engine;

    /// Reads due jobs that are not in memory yet, and the time of the next one.
    async fn find_due(&self, held: &InFlight<Self::Key, Self::Receiver>) -> Result<DueJobs<Self>, EngineError>;

    /// Waits until a new job may be due.
    async fn wait_for_due(&self);

    /// Runs a job and stores its outcome.
    async fn run(&self, job: Self::Job);
}

/// Due jobs with key and receiver, and the time to look again.
pub(crate) struct DueJobs<E: DeliverySource + ?Sized> {
    pub(crate) due: Vec<(E::Key, E::Receiver, E::Job)>,
    pub(crate) next: Option<Timestamp>,
}

/// Runs jobs. Starts none once `stop` is cancelled; running ones may finish until `closed` is. The next process
/// runs the rest.
pub(crate) async fn run<E: DeliverySource>(jobs: E, stop: CancellationToken, closed: CancellationToken) {
    let engine = jobs.engine();
    let mut queue = JobQueue::<E>::default();
    let mut under_way = FuturesUnordered::new();
    loop {
        let found = tokio::select! {
            found = retry_until_stored(engine, || jobs.find_due(&queue.held)) => found,
            () = stop.cancelled() => break,
        };
        for (key, receiver, job) in found.due {
            queue.add(key, receiver, job);
        }
        while under_way.len() < AT_ONCE
            && let Some((ticket, job)) = queue.next()
        {
            let work = jobs.run(job);
            under_way.push(async {
                work.await;
                ticket
            });
        }
        let pause = engine.clock().sleep_until(found.next.unwrap_or(Timestamp::LAST));
        tokio::select! {
            Some(ticket) = under_way.next() => queue.done(&ticket),
            () = pause, if found.next.is_some() => {}
            () = jobs.wait_for_due() => {}
            () = stop.cancelled() => break,
        }
    }
    tokio::select! {
        () = async { while under_way.next().await.is_some() {} } => {}
        () = closed.cancelled() => {}
    }
}

pub(crate) async fn retry_until_stored<T, F: Future<Output = Result<T, EngineError>>>(
    engine: &Engine,
    work: impl Fn() -> F,
) -> T {
    loop {
        match work().await {
            Ok(done) => return done,
            Err(error) => tracing::error!(%error, "pending deliveries cannot be read or stored now"),
        }
        engine.clock().sleep_until(engine.now().after(STORE_PAUSE)).await;
    }
}

/// The status of a response, also of one over the size limit.
pub(crate) fn status(answer: Result<FetchResponse, FetchError>) -> Result<u16, FetchError> {
    match answer {
        Ok(answer) => Ok(answer.status),
        Err(FetchError::TooLarge { status, .. }) => Ok(status),
        Err(error) => Err(error),
    }
}

pub(crate) struct InFlight<K, R> {
    known: HashSet<K>,
    by_receiver: HashMap<R, usize>,
}

impl<K, R: Clone> InFlight<K, R> {
    pub(crate) fn known(&self) -> &HashSet<K> {
        &self.known
    }

    pub(crate) fn full(&self) -> Vec<R> {
        let full = self.by_receiver.iter().filter(|(_, count)| **count >= ENOUGH);
        full.map(|(receiver, _)| receiver.clone()).collect()
    }
}

/// Names an errand that is under way.
struct RunningJob<E: DeliverySource> {
    key: E::Key,
    receiver: E::Receiver,
}

type WaitingJobs<E> = VecDeque<(<E as DeliverySource>::Key, <E as DeliverySource>::Job)>;

/// Waiting jobs, taken round-robin by receiver.
struct JobQueue<E: DeliverySource> {
    held: InFlight<E::Key, E::Receiver>,
    waiting: VecDeque<(E::Receiver, WaitingJobs<E>)>,
    /// Number of running jobs per receiver.
    busy: HashMap<E::Receiver, usize>,
}

impl<E: DeliverySource> Default for JobQueue<E> {
    fn default() -> Self {
        let held = InFlight { known: HashSet::new(), by_receiver: HashMap::new() };
        Self { held, waiting: VecDeque::new(), busy: HashMap::new() }
    }
}

impl<E: DeliverySource> JobQueue<E> {
    fn add(&mut self, key: E::Key, receiver: E::Receiver, job: E::Job) {
        if !self.held.known.insert(key.clone()) {
            return;
        }
        *self.held.by_receiver.entry(receiver.clone()).or_default() += 1;
        match self.waiting.iter_mut().find(|(other, _)| *other == receiver) {
            Some((_, jobs)) => jobs.push_back((key, job)),
            None => self.waiting.push_back((receiver, VecDeque::from([(key, job)]))),
        }
    }

    /// Takes the next job whose receiver is below its limit.
    fn next(&mut self) -> Option<(RunningJob<E>, E::Job)> {
        let is_free =
            |(receiver, _): &(E::Receiver, _)| self.busy.get(receiver).is_none_or(|busy| *busy < PER_RECEIVER);
        let (receiver, mut jobs) = self.waiting.remove(self.waiting.iter().position(is_free)?)?;
        let (key, job) = jobs.pop_front()?;
        *self.busy.entry(receiver.clone()).or_default() += 1;
        if !jobs.is_empty() {
            self.waiting.push_back((receiver.clone(), jobs));
        }
        Some((RunningJob { key, receiver }, job))
    }

    fn done(&mut self, ticket: &RunningJob<E>) {
        self.held.known.remove(&ticket.key);
        decrement(&mut self.held.by_receiver, &ticket.receiver);
        decrement(&mut self.busy, &ticket.receiver);
    }
}

fn decrement<R: Eq + Hash>(counts: &mut HashMap<R, usize>, receiver: &R) {
    if let Some(count) = counts.get_mut(receiver) {
        *count -= 1;
        if *count == 0 {
            counts.remove(receiver);
        }
    }
}
