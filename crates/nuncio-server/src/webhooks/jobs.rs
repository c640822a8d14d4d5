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
pub(crate) const MAX_RESPONSE: usize = 16 * 1024;

/// Limit of concurrent deliveries in total.
const MAX_RUNNING: usize = 64;

/// Limit of concurrent deliveries to one receiver, so that a slow one does not delay others.
const MAX_RUNNING_PER_RECEIVER: usize = 4;

/// Number of deliveries read from the store at once.
pub(crate) const PAGE: usize = 64;

/// Number of deliveries of one receiver in memory above which no more are read.
const MAX_WAITING_PER_RECEIVER: usize = 32;

/// Pause after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(30);

pub(crate) trait DeliverySource {
    type Key: Clone + Eq + Hash;
    type Receiver: Clone + Eq + Hash;
    type Job;

    fn engine(&self) -> &Engine;

    /// Reads due jobs that are not in memory yet, and the time of the next one.
    async fn find_due(&self, in_flight: &JobsInFlight<Self::Key, Self::Receiver>)
    -> Result<DueJobs<Self>, EngineError>;

    /// Waits until a new job may be due.
    async fn wait_for_due(&self);

    /// Runs a job and stores its outcome.
    async fn run(&self, job: Self::Job);
}

/// Due jobs with key and receiver, and the time when the next job is due.
pub(crate) struct DueJobs<E: DeliverySource + ?Sized> {
    pub(crate) due: Vec<(E::Key, E::Receiver, E::Job)>,
    pub(crate) next: Option<Timestamp>,
}

/// Runs due jobs. Starts none after `stop` is cancelled; running jobs may finish until `closed` is cancelled. The next
/// process runs the rest.
pub(crate) async fn run<E: DeliverySource>(jobs: E, stop: CancellationToken, closed: CancellationToken) {
    let engine = jobs.engine();
    let mut queue = JobQueue::<E>::default();
    let mut running = FuturesUnordered::new();
    loop {
        let found = tokio::select! {
            found = retry_until_stored(engine, || jobs.find_due(&queue.in_flight)) => found,
            () = stop.cancelled() => break,
        };
        for (key, receiver, job) in found.due {
            queue.add(key, receiver, job);
        }
        while running.len() < MAX_RUNNING
            && let Some((ticket, job)) = queue.next()
        {
            let work = jobs.run(job);
            running.push(async {
                work.await;
                ticket
            });
        }
        let pause = engine.clock().sleep_until(found.next.unwrap_or(Timestamp::LAST));
        tokio::select! {
            Some(ticket) = running.next() => queue.done(&ticket),
            () = pause, if found.next.is_some() => {}
            () = jobs.wait_for_due() => {}
            () = stop.cancelled() => break,
        }
    }
    tokio::select! {
        () = async { while running.next().await.is_some() {} } => {}
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

pub(crate) struct JobsInFlight<K, R> {
    pub(crate) keys: HashSet<K>,
    by_receiver: HashMap<R, usize>,
}

impl<K, R: Clone> JobsInFlight<K, R> {
    pub(crate) fn full(&self) -> Vec<R> {
        let full = self.by_receiver.iter().filter(|(_, count)| **count >= MAX_WAITING_PER_RECEIVER);
        full.map(|(receiver, _)| receiver.clone()).collect()
    }
}

/// Identifies a running job.
struct RunningJob<E: DeliverySource> {
    key: E::Key,
    receiver: E::Receiver,
}

type WaitingJobs<E> = VecDeque<(<E as DeliverySource>::Key, <E as DeliverySource>::Job)>;

/// Waiting jobs, taken round-robin by receiver.
struct JobQueue<E: DeliverySource> {
    in_flight: JobsInFlight<E::Key, E::Receiver>,
    waiting: VecDeque<(E::Receiver, WaitingJobs<E>)>,
    /// Number of running jobs per receiver.
    busy: HashMap<E::Receiver, usize>,
}

impl<E: DeliverySource> Default for JobQueue<E> {
    fn default() -> Self {
        let in_flight = JobsInFlight { keys: HashSet::new(), by_receiver: HashMap::new() };
        Self { in_flight, waiting: VecDeque::new(), busy: HashMap::new() }
    }
}

impl<E: DeliverySource> JobQueue<E> {
    fn add(&mut self, key: E::Key, receiver: E::Receiver, job: E::Job) {
        if !self.in_flight.keys.insert(key.clone()) {
            return;
        }
        *self.in_flight.by_receiver.entry(receiver.clone()).or_default() += 1;
        match self.waiting.iter_mut().find(|(other, _)| *other == receiver) {
            Some((_, jobs)) => jobs.push_back((key, job)),
            None => self.waiting.push_back((receiver, VecDeque::from([(key, job)]))),
        }
    }

    /// Takes the next job whose receiver is below its limit.
    fn next(&mut self) -> Option<(RunningJob<E>, E::Job)> {
        let is_free = |(receiver, _): &(E::Receiver, _)| {
            self.busy.get(receiver).is_none_or(|busy| *busy < MAX_RUNNING_PER_RECEIVER)
        };
        let (receiver, mut jobs) = self.waiting.remove(self.waiting.iter().position(is_free)?)?;
        let (key, job) = jobs.pop_front()?;
        *self.busy.entry(receiver.clone()).or_default() += 1;
        if !jobs.is_empty() {
            self.waiting.push_back((receiver.clone(), jobs));
        }
        Some((RunningJob { key, receiver }, job))
    }

    fn done(&mut self, ticket: &RunningJob<E>) {
        self.in_flight.keys.remove(&ticket.key);
        decrement(&mut self.in_flight.by_receiver, &ticket.receiver);
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
