//! Which execution runs next, here. Held in memory; the store holds the truth.
//!
//! Each skill is a lane with so many places. In a lane the one with the earliest rank goes first: the
//! time it was accepted, with a handicap for what is less urgent, so that urgent ones overtake and
//! nobody waits for ever. A caller who has enough running is passed over until one of theirs is done.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::agent::{Run, Tool};
use nuncio_core::execution::{AcceptedInvocation, Execution, ExecutionState};
use nuncio_core::ids::{ExecutionId, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::skills::Offered;

/// How many executions at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionLimits {
    /// Unfinished, on the whole server.
    pub open: usize,
    /// Unfinished, of one skill.
    pub open_per_skill: usize,
    /// Unfinished, of one caller.
    pub open_per_caller: usize,
    /// Running at once, of one skill that does not say itself.
    pub running_per_skill: usize,
    /// Running at once, of one caller.
    pub running_per_caller: usize,
    /// How long one may take if its skill does not say.
    pub timeout: Duration,
    /// How long one is kept once it is over, if its skill does not say.
    pub keep: Duration,
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        Self {
            open: 100_000,
            open_per_skill: 20_000,
            open_per_caller: 10_000,
            running_per_skill: 32,
            running_per_caller: 256,
            timeout: Duration::from_secs(600),
            keep: Duration::from_secs(24 * 3600),
        }
    }
}

/// As many places as anyone could want: people work in their own time.
const PEOPLE: usize = usize::MAX;

/// How many that are over are kept in memory: whoever asked reads them back soon, mostly.
const ENDED: usize = 256;

/// About how many bytes one of those may take.
const ENDED_BYTES: usize = 4096;

/// How many of a skill's executions run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// People do it, or it is over at once: it takes no place.
    Endless,
    /// As many as its author says.
    Places(usize),
    /// As many as the operator says.
    Usual,
}

impl Room {
    fn of(offered: Option<&Offered>) -> Self {
        let Some(offered) = offered.filter(|offered| !offered.is_for_people()) else { return Self::Endless };
        match offered.skill().concurrency {
            Some(places) => Self::Places(places),
            None if offered.tool.as_deref().is_some_and(is_instant) => Self::Endless,
            None => Self::Usual,
        }
    }
}

/// Whether it is over as soon as it has begun: its answer is written down, and nobody has to be asked.
fn is_instant(tool: &Tool) -> bool {
    matches!(tool.run, Run::Answer(_)) && tool.scope.is_none() && !tool.human_authorization
}

/// An execution that is not over, held by this process. Whoever waits for it keeps it beyond that.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: ExecutionId,
    order: Arc<AcceptedInvocation>,
    execution: Mutex<Execution>,
    /// What it runs; none if that is no longer served.
    pub(crate) offered: Option<Arc<Offered>>,
    pub(crate) cancel: CancellationToken,
    room: Room,
    moved: Notify,
}

impl Live {
    pub(crate) fn new(execution: Execution, offered: Option<Arc<Offered>>, closed: &CancellationToken) -> Arc<Self> {
        let room = Room::of(offered.as_deref());
        let (id, order) = (execution.id.clone(), Arc::clone(&execution.order));
        let (execution, cancel) = (Mutex::new(execution), closed.child_token());
        Arc::new(Self { id, order, execution, offered, cancel, room, moved: Notify::new() })
    }

    /// How it is now, on disk.
    pub(crate) fn now(&self) -> Execution {
        lock(&self.execution).clone()
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.execution).state.is_over()
    }

    /// What was asked for.
    pub(crate) fn order(&self) -> &AcceptedInvocation {
        &self.order
    }

    /// Looks at it as it is now, on disk.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Execution) -> T) -> T {
        look(&lock(&self.execution))
    }

    /// Shows what is on disk now.
    pub(crate) fn show(&self, change: impl FnOnce(&mut Execution)) {
        change(&mut lock(&self.execution));
        self.moved.notify_waiters();
    }

    /// Ends when the execution is over.
    pub(crate) async fn over(&self) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Registered before looking, so that nothing is missed in between.
            moved.as_mut().enable();
            if self.is_over() {
                return;
            }
            moved.await;
        }
    }

    /// Whether it is over and small enough to be kept until it is read back.
    fn is_read_back(&self) -> bool {
        let execution = lock(&self.execution);
        let ExecutionState::Completed { output } = &execution.state else { return false };
        let mut left = ENDED_BYTES;
        fits(output, &mut left) && self.order.inputs.values().all(|input| fits(input, &mut left))
    }

    pub(crate) fn caller(&self) -> &Principal {
        &self.order.caller
    }

    fn skill(&self) -> &SkillId {
        &self.order.skill
    }

    /// Its place among those that wait.
    fn rank(&self) -> (Timestamp, ExecutionId) {
        (self.order.created_at.after(self.order.priority.handicap()), self.id.clone())
    }

    /// Its place among those that run out of time.
    fn deadline(&self) -> (Timestamp, ExecutionId) {
        (self.order.deadline(), self.id.clone())
    }
}

/// Why one more cannot be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The caller has enough.
    Caller,
    /// The skill has enough.
    Skill,
    /// The server has enough.
    Server,
}

#[derive(Debug)]
pub(crate) struct Queue {
    limits: ExecutionLimits,
    inner: Mutex<Inner>,
    /// Told when something new waits.
    pub(crate) entered: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    live: HashMap<ExecutionId, Arc<Live>>,
    /// Those of them that are over, the oldest first.
    ended: VecDeque<ExecutionId>,
    /// Accepted or about to be, not over.
    open: usize,
    lanes: HashMap<SkillId, Lane>,
    callers: HashMap<Principal, Share>,
    /// What waits, by the time it must be over.
    deadlines: BTreeSet<(Timestamp, ExecutionId)>,
}

#[derive(Debug, Default)]
struct Lane {
    open: usize,
    running: usize,
    places: usize,
    waiting: HashMap<Principal, BTreeSet<(Timestamp, ExecutionId)>>,
}

#[derive(Debug, Default)]
struct Share {
    open: usize,
    running: usize,
}

impl Queue {
    pub(crate) fn new(limits: ExecutionLimits) -> Self {
        Self { limits, inner: Mutex::default(), entered: Notify::new() }
    }

    pub(crate) fn limits(&self) -> &ExecutionLimits {
        &self.limits
    }

    /// Keeps room for one more, before it is accepted. Given back by [`Queue::give_up`], by
    /// [`Queue::withdraw`], or by [`Queue::leave`] once it is over.
    pub(crate) fn reserve(&self, caller: &Principal, skill: &SkillId) -> Result<(), Full> {
        let mut inner = lock(&self.inner);
        let of_caller = inner.callers.get(caller).map_or(0, |share| share.open);
        let of_skill = inner.lanes.get(skill).map_or(0, |lane| lane.open);
        match () {
            () if inner.open >= self.limits.open => Err(Full::Server),
            () if of_skill >= self.limits.open_per_skill => Err(Full::Skill),
            () if of_caller >= self.limits.open_per_caller => Err(Full::Caller),
            () => {
                inner.take(caller, skill);
                Ok(())
            }
        }
    }

    /// Keeps room for one that was accepted before, whatever the limits say now.
    pub(crate) fn take_back(&self, caller: &Principal, skill: &SkillId) {
        lock(&self.inner).take(caller, skill);
    }

    /// It is about to be accepted: whoever finds it on disk finds it here too.
    pub(crate) fn announce(&self, live: &Arc<Live>) {
        lock(&self.inner).live.insert(live.id.clone(), Arc::clone(live));
    }

    /// It was not accepted after all.
    pub(crate) fn give_up(&self, live: &Live) {
        let mut inner = lock(&self.inner);
        inner.live.remove(&live.id);
        inner.free(live.caller(), live.skill());
    }

    /// Gives it a place to run in at once, if there is one and nobody waits for it.
    #[must_use]
    pub(crate) fn enter_at_once(&self, live: &Live) -> bool {
        let (mut inner, per_caller) = (lock(&self.inner), self.limits.running_per_caller);
        let inner = &mut *inner;
        let places = self.places(live.room);
        let (Some(lane), Some(share)) = (inner.lanes.get_mut(live.skill()), inner.callers.get_mut(live.caller()))
        else {
            return false;
        };
        lane.places = places;
        let free = lane.waiting.is_empty() && lane.running < places;
        if !free || (live.room != Room::Endless && share.running >= per_caller) {
            return false;
        }
        lane.running += 1;
        if live.room != Room::Endless {
            share.running += 1;
        }
        true
    }

    /// It is accepted: it waits, or is among those returned, which are to run now.
    #[must_use]
    pub(crate) fn enter(&self, live: &Arc<Live>) -> Vec<Arc<Live>> {
        let mut inner = lock(&self.inner);
        let lane = inner.lanes.entry(live.skill().clone()).or_default();
        lane.places = self.places(live.room);
        lane.waiting.entry(live.caller().clone()).or_default().insert(live.rank());
        inner.deadlines.insert(live.deadline());
        inner.live.insert(live.id.clone(), Arc::clone(live));
        let ready = inner.next_of(live.skill(), self.limits.running_per_caller);
        drop(inner);
        if ready.is_empty() {
            self.entered.notify_one();
        }
        ready
    }

    /// It is over and was running, or left to another process: those returned are to run now.
    #[must_use]
    pub(crate) fn leave(&self, live: &Live) -> Vec<Arc<Live>> {
        let is_read_back = live.is_read_back();
        let mut inner = lock(&self.inner);
        if is_read_back {
            inner.keep(&live.id);
        } else {
            inner.live.remove(&live.id);
        }
        if let Some(lane) = inner.lanes.get_mut(live.skill()) {
            lane.running = lane.running.saturating_sub(1);
        }
        if let Some(share) = inner.callers.get_mut(live.caller()).filter(|_| live.room != Room::Endless) {
            share.running = share.running.saturating_sub(1);
        }
        inner.free(live.caller(), live.skill());
        inner.next(self.limits.running_per_caller)
    }

    /// Takes one that waits out of the queue; false if it does not wait (any more). It is still found
    /// until [`Queue::forget`].
    pub(crate) fn withdraw(&self, live: &Live) -> bool {
        let mut inner = lock(&self.inner);
        let waited = inner.stop_waiting(live);
        if waited {
            inner.free(live.caller(), live.skill());
        }
        waited
    }

    /// What was taken out is over, and on disk.
    pub(crate) fn forget(&self, live: &Live) {
        lock(&self.inner).live.remove(&live.id);
    }

    /// Takes out everything that waits and has no time left. It is still found until
    /// [`Queue::forget`].
    pub(crate) fn expired(&self, now: Timestamp) -> Vec<Arc<Live>> {
        let mut inner = lock(&self.inner);
        let mut late = Vec::new();
        while let Some((deadline, id)) = inner.deadlines.first().cloned() {
            if deadline > now {
                break;
            }
            inner.deadlines.remove(&(deadline, id.clone()));
            let Some(live) = inner.live.get(&id).cloned() else { continue };
            inner.stop_waiting(&live);
            inner.free(live.caller(), live.skill());
            late.push(live);
        }
        late
    }

    /// The time at which the next one that waits must be over.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        lock(&self.inner).deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn find(&self, id: &ExecutionId) -> Option<Arc<Live>> {
        lock(&self.inner).live.get(id).cloned()
    }

    /// How many are not over.
    pub(crate) fn open(&self) -> usize {
        lock(&self.inner).open
    }

    /// How many run at once.
    fn places(&self, room: Room) -> usize {
        match room {
            Room::Endless => PEOPLE,
            Room::Places(places) => places,
            Room::Usual => self.limits.running_per_skill,
        }
    }
}

impl Inner {
    /// It is over, and found here for a while yet.
    fn keep(&mut self, id: &ExecutionId) {
        self.ended.push_back(id.clone());
        if self.ended.len() > ENDED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.live.remove(&oldest);
        }
    }

    fn take(&mut self, caller: &Principal, skill: &SkillId) {
        self.open += 1;
        self.callers.entry(caller.clone()).or_default().open += 1;
        self.lanes.entry(skill.clone()).or_default().open += 1;
    }

    fn free(&mut self, caller: &Principal, skill: &SkillId) {
        self.open = self.open.saturating_sub(1);
        if let Some(share) = self.callers.get_mut(caller) {
            share.open = share.open.saturating_sub(1);
            if share.open == 0 {
                self.callers.remove(caller);
            }
        }
        if let Some(lane) = self.lanes.get_mut(skill) {
            lane.open = lane.open.saturating_sub(1);
            if lane.open == 0 {
                self.lanes.remove(skill);
            }
        }
    }

    fn stop_waiting(&mut self, live: &Live) -> bool {
        self.deadlines.remove(&live.deadline());
        let Some(lane) = self.lanes.get_mut(live.skill()) else { return false };
        let Some(waiting) = lane.waiting.get_mut(live.caller()) else { return false };
        let waited = waiting.remove(&live.rank());
        if waiting.is_empty() {
            lane.waiting.remove(live.caller());
        }
        waited
    }

    /// Everything that can run now, in every lane. A caller whose last place was free uses it for
    /// what has waited longest, in whichever lane that is.
    fn next(&mut self, per_caller: usize) -> Vec<Arc<Live>> {
        let mut ready = Vec::new();
        loop {
            let lanes = self.lanes.iter().filter(|(_, lane)| !lane.waiting.is_empty());
            let heads = lanes.filter_map(|(skill, _)| self.first_of(skill, per_caller));
            let Some((_, id)) = heads.min() else { return ready };
            ready.push(self.begin(&id));
        }
    }

    fn next_of(&mut self, skill: &SkillId, per_caller: usize) -> Vec<Arc<Live>> {
        let mut ready = Vec::new();
        while let Some((_, id)) = self.first_of(skill, per_caller) {
            ready.push(self.begin(&id));
        }
        ready
    }

    /// One that waits takes its places.
    fn begin(&mut self, id: &ExecutionId) -> Arc<Live> {
        let live = Arc::clone(self.live.get(id).expect("what waits is there"));
        self.stop_waiting(&live);
        if let Some(lane) = self.lanes.get_mut(live.skill()) {
            lane.running += 1;
        }
        if live.room != Room::Endless {
            self.callers.entry(live.caller().clone()).or_default().running += 1;
        }
        live
    }

    /// The first in a lane that has a free place, of a caller who has.
    fn first_of(&self, skill: &SkillId, per_caller: usize) -> Option<(Timestamp, ExecutionId)> {
        let lane = self.lanes.get(skill).filter(|lane| lane.running < lane.places)?;
        let callers = lane.waiting.iter().filter(|(caller, _)| {
            // People's work takes no place of its caller's either.
            lane.places == PEOPLE || self.callers.get(*caller).is_none_or(|share| share.running < per_caller)
        });
        callers.filter_map(|(_, waiting)| waiting.first()).min().cloned()
    }
}

/// Whether a value takes about as much as is left, or less.
fn fits(value: &Value, left: &mut usize) -> bool {
    let own = 32 + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(map) => map.iter().all(|(name, item)| {
            *left = left.saturating_sub(name.len());
            fits(item, left)
        }),
        _ => true,
    }
}

/// Whether an execution may be shown as over.
pub(crate) fn ends(execution: &mut Execution, state: ExecutionState, at: Timestamp) {
    if let Err(illegal) = execution.end(state, at) {
        tracing::error!(execution = %execution.id, %illegal, "an execution was to end twice");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counts and sets are whole between any two statements that could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
