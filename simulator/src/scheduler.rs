//! The scheduler: decides which task continues, when time passes and which port call fails.
//!
//! Every call of a port waits in the scheduler. When no task can run, one of the waiting calls is picked, so that the
//! seed alone decides the order. Time moves only here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use tokio::sync::{Notify, oneshot};

use crate::random::SeededRandom;

/// Steps after which a run is given up: a run that makes progress needs a fraction of them.
const MAX_STEPS: usize = 60_000;

/// Start of every run: 2026-11-15T11:00:00Z.
const START: i64 = 1_794_740_400_000;

/// Whether a port call succeeds, and for one that fails, whether it had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortCallFate {
    Succeeds,
    FailsBefore,
    FailsAfter,
}

/// Faults that may happen to a port call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PossiblePortFaults {
    None,
    /// The call may fail and then had no effect.
    Before,
    /// The call may also fail although it had its effect.
    BeforeOrAfter,
}

struct WaitingPortCall {
    node: usize,
    label: String,
    number: u64,
    faults: PossiblePortFaults,
    answer: oneshot::Sender<PortCallFate>,
}

struct SchedulerState {
    random: SeededRandom,
    now: Timestamp,
    steps: usize,
    number: u64,
    waiting: Vec<WaitingPortCall>,
    sleepers: BTreeMap<(Timestamp, u64), oneshot::Sender<()>>,
    /// Nodes whose calls are not picked.
    halted: Vec<usize>,
    /// One in this many calls fails; 0 means none.
    fault_chance: usize,
    history: Vec<String>,
    exhausted: bool,
}

/// Clones share one state.
#[derive(Clone)]
pub(crate) struct Scheduler {
    state: Arc<Mutex<SchedulerState>>,
    given_up: Arc<Notify>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SeededRandom::new(seed);
        let fault_chance = [0, 200, 40, 15][random.below(4)];
        let state = SchedulerState {
            random,
            now: Timestamp::from_millis(START),
            steps: 0,
            number: 0,
            waiting: Vec::new(),
            sleepers: BTreeMap::new(),
            halted: Vec::new(),
            fault_chance,
            history: Vec::new(),
            exhausted: false,
        };
        Self { state: Arc::new(Mutex::new(state)), given_up: Arc::default() }
    }

    /// Waits until the scheduler picks this call, and returns what happens to it.
    pub(crate) async fn call(&self, node: usize, label: String, faults: PossiblePortFaults) -> PortCallFate {
        let (answer, fate) = oneshot::channel();
        {
            let mut state = self.lock();
            state.number += 1;
            let number = state.number;
            state.waiting.push(WaitingPortCall { node, label, number, faults, answer });
        }
        match fate.await {
            Ok(fate) => fate,
            // The run is over.
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.lock().now
    }

    pub(crate) fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let woken = {
            let mut state = self.lock();
            (moment > state.now).then(|| {
                let (wake, woken) = oneshot::channel();
                state.number += 1;
                let number = state.number;
                state.sleepers.insert((moment, number), wake);
                woken
            })
        };
        async move {
            if let Some(woken) = woken
                && woken.await.is_err()
            {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) async fn sleep(&self, span: Duration) {
        let until = self.now().after(span);
        self.sleep_until(until).await;
    }

    pub(crate) fn random_below(&self, end: usize) -> usize {
        self.lock().random.below(end)
    }

    /// From now on, no call of this node is picked, as if its process were suspended.
    pub(crate) fn halt(&self, node: usize) {
        self.lock().halted.push(node);
    }

    pub(crate) fn resume(&self, node: usize) {
        self.lock().halted.retain(|halted| *halted != node);
    }

    pub(crate) fn end_faults(&self) {
        self.lock().fault_chance = 0;
    }

    pub(crate) fn note(&self, event: impl AsRef<str>) {
        self.lock().note(event.as_ref());
    }

    pub(crate) fn history(&self) -> Vec<String> {
        self.lock().history.clone()
    }

    /// Waits until the run is given up because it takes too many steps.
    pub(crate) async fn given_up(&self) {
        while !self.lock().exhausted {
            self.given_up.notified().await;
        }
    }

    /// Lets one task continue. Called when no task can run.
    pub(crate) fn step(&self) {
        let mut state = self.lock();
        if state.exhausted {
            return;
        }
        state.steps += 1;
        if state.steps > MAX_STEPS {
            state.exhausted = true;
            state.note("given up: too many steps");
            self.given_up.notify_one();
            return;
        }
        state.step();
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SchedulerState {
    fn step(&mut self) {
        self.waiting.retain(|call| !call.answer.is_closed());
        self.sleepers.retain(|_, wake| !wake.is_closed());
        let halted = &self.halted;
        let mut ready: Vec<usize> =
            (0..self.waiting.len()).filter(|place| !halted.contains(&self.waiting[*place].node)).collect();
        // The order of arrival may depend on more than the seed; the order of names does not.
        ready.sort_by(|a, b| {
            let (a, b) = (&self.waiting[*a], &self.waiting[*b]);
            (a.node, &a.label, a.number).cmp(&(b.node, &b.label, b.number))
        });
        let sleeps = !self.sleepers.is_empty();
        if (ready.is_empty() || (sleeps && self.random.one_in(50)))
            && let Some((moment, _)) = self.sleepers.keys().next().copied()
        {
            self.now = self.now.max(moment);
            self.wake_sleepers();
            return;
        }
        if ready.is_empty() {
            return;
        }
        let chosen = ready[self.random.below(ready.len())];
        let call = self.waiting.swap_remove(chosen);
        let fate = self.fate(call.faults);
        self.now = self.now.after(Duration::from_millis(1));
        let outcome = if fate == PortCallFate::Succeeds { String::new() } else { format!(": {fate:?}") };
        self.note(&format!("node {} {}{outcome}", call.node, call.label));
        let _ = call.answer.send(fate);
        self.wake_sleepers();
    }

    fn fate(&mut self, faults: PossiblePortFaults) -> PortCallFate {
        if faults == PossiblePortFaults::None || self.fault_chance == 0 || !self.random.one_in(self.fault_chance) {
            return PortCallFate::Succeeds;
        }
        match faults {
            PossiblePortFaults::BeforeOrAfter if self.random.one_in(4) => PortCallFate::FailsAfter,
            _ => PortCallFate::FailsBefore,
        }
    }

    fn wake_sleepers(&mut self) {
        while let Some(entry) = self.sleepers.first_entry()
            && entry.key().0 <= self.now
        {
            let _ = entry.remove().send(());
        }
    }

    fn note(&mut self, event: &str) {
        let millis = self.now.as_millis() - START;
        self.history.push(format!("{millis:>8} ms  {event}"));
    }
}
