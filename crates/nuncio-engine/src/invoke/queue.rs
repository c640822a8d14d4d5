//! In-memory queue of executions; the store is authoritative.
//!
//! Each skill is a lane with a number of slots. In a lane the lowest rank goes first: the time of acceptance plus a
//! handicap for `normal` and `low` priority, so that urgent ones overtake and none waits for ever. A caller at its
//! limit of running executions is skipped until one ends.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nuncio_core::agent::{Tool, ToolRunSpec};
use nuncio_core::execution::{AcceptedInvocation, Execution, ExecutionState};
use nuncio_core::ids::{ExecutionId, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits::ExecutionLimits;
use crate::skills::PublishedSkill;

/// Slots for human work, which people do in their own time.
const HUMAN_SLOTS: usize = usize::MAX;

/// Number of ended executions kept in memory, because callers usually read the result soon.
const MAX_ENDED_IN_MEMORY: usize = 256;

/// Approximate maximum size of an ended execution that is kept in memory, in bytes.
const ENDED_BYTES: usize = 4096;

/// Number of executions of a skill that may run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkillConcurrencyLimit {
    /// No limit, for human work and instant answers, which need no slot.
    Endless,
    /// Number of concurrent executions set in the agent file.
    Places(usize),
    /// Number of concurrent executions set by the operator for skills without their own limit.
    Usual,
}

impl SkillConcurrencyLimit {
    fn of(offered: Option<&PublishedSkill>) -> Self {
        let Some(offered) = offered.filter(|offered| !offered.is_for_people()) else { return Self::Endless };
        match offered.skill().concurrency {
            Some(places) => Self::Places(places),
            None if offered.tool.as_deref().is_some_and(is_instant) => Self::Endless,
            None => Self::Usual,
        }
    }
}

/// Whether the tool ends immediately: a fixed answer without scope or approval.
fn is_instant(tool: &Tool) -> bool {
    matches!(tool.run, ToolRunSpec::Answer(_)) && tool.scope.is_none() && !tool.human_authorization
}

/// An unfinished execution of this process; waiters may hold it after its end.
#[derive(Debug)]
pub(crate) struct LiveExecution {
    pub(crate) id: ExecutionId,
    order: Arc<AcceptedInvocation>,
    execution: Mutex<Execution>,
    /// The skill; `None` if it is no longer published.
    pub(crate) offered: Option<Arc<PublishedSkill>>,
    pub(crate) cancel: CancellationToken,
    room: SkillConcurrencyLimit,
    moved: Notify,
}

impl LiveExecution {
    pub(crate) fn new(
        execution: Execution,
        offered: Option<Arc<PublishedSkill>>,
        closed: &CancellationToken,
    ) -> Arc<Self> {
        let room = SkillConcurrencyLimit::of(offered.as_deref());
        let (id, order) = (execution.id.clone(), Arc::clone(&execution.order));
        let (execution, cancel) = (Mutex::new(execution), closed.child_token());
        Arc::new(Self { id, order, execution, offered, cancel, room, moved: Notify::new() })
    }

    /// Copy of the execution in its current state.
    pub(crate) fn now(&self) -> Execution {
        lock(&self.execution).clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        lock(&self.execution).state.is_over()
    }

    pub(crate) fn order(&self) -> &AcceptedInvocation {
        &self.order
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Execution) -> T) -> T {
        read(&lock(&self.execution))
    }

    /// Applies a change that was stored, and wakes waiters.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Execution)) {
        change(&mut lock(&self.execution));
        self.moved.notify_waiters();
    }

    pub(crate) async fn wait_until_over(&self) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Registered before the state is read, so that no change in between is missed.
            moved.as_mut().enable();
            if self.is_over() {
                return;
            }
            moved.await;
        }
    }

    /// Whether the execution completed and is small enough to keep in memory.
    fn is_read_back(&self) -> bool {
        let execution = lock(&self.execution);
        let ExecutionState::Completed { output } = &execution.state else { return false };
        let mut left = ENDED_BYTES;
        fits(output, &mut left) && self.order.inputs.values().all(|input| fits(input, &mut left))
    }

    pub(crate) fn caller(&self) -> &Principal {
        &self.order.caller.principal
    }

    fn skill(&self) -> &SkillId {
        &self.order.skill
    }

    /// Sort key of the execution among those that wait for the same skill.
    fn rank(&self) -> (Timestamp, ExecutionId) {
        (self.order.created_at.after(self.order.priority.handicap()), self.id.clone())
    }

    /// Sort key of the execution among all that wait: its deadline.
    fn deadline(&self) -> (Timestamp, ExecutionId) {
        (self.order.deadline(), self.id.clone())
    }
}

/// Limit because of which another execution is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueLimitReached {
    #[error("you have too many executions that are not over; wait for some")]
    Caller,
    #[error("this skill has too many executions that are not over")]
    Skill,
    #[error("this server has too many executions that are not over")]
    Server,
}

#[derive(Debug)]
pub(crate) struct ExecutionQueue {
    limits: ExecutionLimits,
    inner: Mutex<ExecutionQueueState>,
    /// Notified when an execution starts to wait.
    pub(crate) entered: Notify,
}

#[derive(Debug, Default)]
struct ExecutionQueueState {
    live: HashMap<ExecutionId, Arc<LiveExecution>>,
    /// Ended executions that are still kept in `live`, oldest first.
    ended: VecDeque<ExecutionId>,
    /// Number of reserved or accepted executions that are not over.
    open: usize,
    lanes: HashMap<SkillId, SkillQueueState>,
    callers: HashMap<Principal, CallerExecutionCounts>,
    /// Waiting executions, ordered by deadline.
    deadlines: BTreeSet<(Timestamp, ExecutionId)>,
}

#[derive(Debug, Default)]
struct SkillQueueState {
    open: usize,
    running: usize,
    places: usize,
    waiting: HashMap<Principal, BTreeSet<(Timestamp, ExecutionId)>>,
}

#[derive(Debug, Default)]
struct CallerExecutionCounts {
    open: usize,
    running: usize,
}

impl ExecutionQueue {
    pub(crate) fn new(limits: ExecutionLimits) -> Self {
        Self { limits, inner: Mutex::default(), entered: Notify::new() }
    }

    pub(crate) fn limits(&self) -> &ExecutionLimits {
        &self.limits
    }

    /// Reserves capacity before an execution is accepted. Released by [`ExecutionQueue::give_up`],
    /// [`ExecutionQueue::withdraw`], [`ExecutionQueue::expired`], or [`ExecutionQueue::leave`] at its end.
    pub(crate) fn reserve(&self, caller: &Principal, skill: &SkillId) -> Result<(), QueueLimitReached> {
        let mut inner = lock(&self.inner);
        let of_caller = inner.callers.get(caller).map_or(0, |share| share.open);
        let of_skill = inner.lanes.get(skill).map_or(0, |lane| lane.open);
        match () {
            () if inner.open >= self.limits.open => Err(QueueLimitReached::Server),
            () if of_skill >= self.limits.open_per_skill => Err(QueueLimitReached::Skill),
            () if of_caller >= self.limits.open_per_caller => Err(QueueLimitReached::Caller),
            () => {
                inner.take(caller, skill);
                Ok(())
            }
        }
    }

    /// Reserves capacity for an execution accepted before a restart, beyond the limits if necessary.
    pub(crate) fn reserve_accepted(&self, caller: &Principal, skill: &SkillId) {
        lock(&self.inner).take(caller, skill);
    }

    /// Makes an execution findable before it is stored.
    pub(crate) fn announce(&self, live: &Arc<LiveExecution>) {
        lock(&self.inner).live.insert(live.id.clone(), Arc::clone(live));
    }

    /// Removes an execution that was not accepted.
    pub(crate) fn give_up(&self, live: &LiveExecution) {
        let mut inner = lock(&self.inner);
        inner.live.remove(&live.id);
        inner.free(live.caller(), live.skill());
    }

    /// Takes a slot at once, if one is free and no other execution of the skill waits.
    #[must_use]
    pub(crate) fn enter_at_once(&self, live: &LiveExecution) -> bool {
        let (mut inner, per_caller) = (lock(&self.inner), self.limits.running_per_caller);
        let inner = &mut *inner;
        let places = self.slot_limit(live.room);
        let (Some(lane), Some(share)) = (inner.lanes.get_mut(live.skill()), inner.callers.get_mut(live.caller()))
        else {
            return false;
        };
        lane.places = places;
        let free = lane.waiting.is_empty() && lane.running < places;
        if !free || (live.room != SkillConcurrencyLimit::Endless && share.running >= per_caller) {
            return false;
        }
        lane.running += 1;
        if live.room != SkillConcurrencyLimit::Endless {
            share.running += 1;
        }
        true
    }

    /// Adds an accepted execution to the queue; returns the executions that can run now.
    #[must_use]
    pub(crate) fn enter(&self, live: &Arc<LiveExecution>) -> Vec<Arc<LiveExecution>> {
        let mut inner = lock(&self.inner);
        let lane = inner.lanes.entry(live.skill().clone()).or_default();
        lane.places = self.slot_limit(live.room);
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

    /// Removes an execution that ran; returns the executions that can run now.
    #[must_use]
    pub(crate) fn leave(&self, live: &LiveExecution) -> Vec<Arc<LiveExecution>> {
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
        if let Some(share) =
            inner.callers.get_mut(live.caller()).filter(|_| live.room != SkillConcurrencyLimit::Endless)
        {
            share.running = share.running.saturating_sub(1);
        }
        inner.free(live.caller(), live.skill());
        inner.next(self.limits.running_per_caller)
    }

    /// Removes a waiting execution; false if it does not wait. It stays findable until [`ExecutionQueue::forget`].
    pub(crate) fn withdraw(&self, live: &LiveExecution) -> bool {
        let mut inner = lock(&self.inner);
        let waited = inner.stop_waiting(live);
        if waited {
            inner.free(live.caller(), live.skill());
        }
        waited
    }

    /// Forgets a withdrawn execution once its end is stored.
    pub(crate) fn forget(&self, live: &LiveExecution) {
        lock(&self.inner).live.remove(&live.id);
    }

    /// Removes waiting executions past their deadline. They stay findable until [`ExecutionQueue::forget`].
    pub(crate) fn expired(&self, now: Timestamp) -> Vec<Arc<LiveExecution>> {
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

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        lock(&self.inner).deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn find(&self, id: &ExecutionId) -> Option<Arc<LiveExecution>> {
        lock(&self.inner).live.get(id).cloned()
    }

    pub(crate) fn open(&self) -> usize {
        lock(&self.inner).open
    }

    fn slot_limit(&self, room: SkillConcurrencyLimit) -> usize {
        match room {
            SkillConcurrencyLimit::Endless => HUMAN_SLOTS,
            SkillConcurrencyLimit::Places(places) => places,
            SkillConcurrencyLimit::Usual => self.limits.running_per_skill,
        }
    }
}

impl ExecutionQueueState {
    /// Keeps an ended execution in memory; over the limit, the oldest of these is dropped.
    fn keep(&mut self, id: &ExecutionId) {
        self.ended.push_back(id.clone());
        if self.ended.len() > MAX_ENDED_IN_MEMORY
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

    fn stop_waiting(&mut self, live: &LiveExecution) -> bool {
        self.deadlines.remove(&live.deadline());
        let Some(lane) = self.lanes.get_mut(live.skill()) else { return false };
        let Some(waiting) = lane.waiting.get_mut(live.caller()) else { return false };
        let waited = waiting.remove(&live.rank());
        if waiting.is_empty() {
            lane.waiting.remove(live.caller());
        }
        waited
    }

    /// Starts all executions that can run now, of every skill, the lowest rank first.
    fn next(&mut self, per_caller: usize) -> Vec<Arc<LiveExecution>> {
        let mut ready = Vec::new();
        loop {
            let lanes = self.lanes.iter().filter(|(_, lane)| !lane.waiting.is_empty());
            let heads = lanes.filter_map(|(skill, _)| self.first_of(skill, per_caller));
            let Some((_, id)) = heads.min() else { return ready };
            ready.push(self.begin(&id));
        }
    }

    fn next_of(&mut self, skill: &SkillId, per_caller: usize) -> Vec<Arc<LiveExecution>> {
        let mut ready = Vec::new();
        while let Some((_, id)) = self.first_of(skill, per_caller) {
            ready.push(self.begin(&id));
        }
        ready
    }

    /// Moves a waiting execution to running.
    fn begin(&mut self, id: &ExecutionId) -> Arc<LiveExecution> {
        let live = Arc::clone(self.live.get(id).expect("what waits is there"));
        self.stop_waiting(&live);
        if let Some(lane) = self.lanes.get_mut(live.skill()) {
            lane.running += 1;
        }
        if live.room != SkillConcurrencyLimit::Endless {
            self.callers.entry(live.caller().clone()).or_default().running += 1;
        }
        live
    }

    /// First execution of a lane with a free slot whose caller is below its limit.
    fn first_of(&self, skill: &SkillId, per_caller: usize) -> Option<(Timestamp, ExecutionId)> {
        let lane = self.lanes.get(skill).filter(|lane| lane.running < lane.places)?;
        let callers = lane.waiting.iter().filter(|(caller, _)| {
            // Human work does not count towards the caller's limit either.
            lane.places == HUMAN_SLOTS || self.callers.get(*caller).is_none_or(|share| share.running < per_caller)
        });
        callers.filter_map(|(_, waiting)| waiting.first()).min().cloned()
    }
}

/// Whether the approximate size of a value is at most `left`.
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

/// Ends an execution in memory; a second end is logged.
pub(crate) fn ends(execution: &mut Execution, state: ExecutionState, at: Timestamp) {
    if let Err(illegal) = execution.end(state, at) {
        tracing::error!(execution = %execution.id, %illegal, "an execution that had ended was ended again");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is safe to use: counts and sets are consistent wherever a panic could occur.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
