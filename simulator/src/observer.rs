//! What is seen from outside during a run, and the promises that it breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::execution::Execution;
use nuncio_core::ids::{ExecutionId, Incarnation, SessionId};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Change, ClaimedJob, NodeChange};

use crate::deliveries::SeenJobs;
use crate::scheduler::Scheduler;

#[derive(Debug, Default)]
pub(crate) struct Observations {
    /// The incarnation of each node.
    incarnations: BTreeMap<usize, Incarnation>,
    dead: BTreeSet<Incarnation>,
    /// How often each attempt of an execution and each call of a turn ran.
    pub(crate) runs: BTreeMap<String, usize>,
    /// The execution that was acknowledged for each idempotency key.
    pub(crate) acknowledged: BTreeMap<String, ExecutionId>,
    /// Executions as they were when first seen to be over.
    pub(crate) ended: BTreeMap<ExecutionId, Execution>,
    /// The user messages of each session whose turns were acknowledged.
    pub(crate) said: BTreeMap<SessionId, Vec<String>>,
    pub(crate) jobs: SeenJobs,
    violations: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Observer {
    scheduler: Scheduler,
    observations: Mutex<Observations>,
}

impl Observer {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, observations: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a commit that took effect.
    pub(crate) fn committed(&self, node: usize, changes: &[Change]) {
        let mut seen = self.lock();
        for change in changes {
            match change {
                Change::Node(NodeChange::Join(record)) => {
                    seen.incarnations.insert(node, record.incarnation.clone());
                }
                Change::Node(NodeChange::DeclareDead(dead)) => {
                    seen.dead.insert(dead.clone());
                }
                Change::Job(job) => seen.jobs.changed(job),
                _ => {}
            }
        }
        let own = changes.iter().any(|change| {
            matches!(change, Change::Node(NodeChange::DeclareDead(dead)) if seen.incarnations.get(&node) == Some(dead))
        });
        let is_dead = seen.incarnations.get(&node).is_some_and(|incarnation| seen.dead.contains(incarnation));
        drop(seen);
        if is_dead && !own {
            self.violation(2, format!("node {node} committed after it was declared dead"));
        }
    }

    /// Records that a node claimed jobs.
    pub(crate) fn claimed(&self, claimed: &[ClaimedJob], until: Timestamp) {
        self.lock().jobs.claimed(claimed, until);
    }

    /// Records that a job is being sent.
    pub(crate) fn sending(&self, job: &ClaimedJob) {
        let now = self.scheduler.now();
        let wrong = {
            let mut seen = self.lock();
            let Observations { jobs, dead, .. } = &mut *seen;
            jobs.sending(job, now, dead)
        };
        if let Some(wrong) = wrong {
            self.violation(11, wrong);
        }
    }

    /// Records that the request of a job was sent, and whether it arrived.
    pub(crate) fn sent(&self, job: &ClaimedJob, arrived: bool) {
        self.lock().jobs.sent(job, arrived);
    }

    /// Records that a tool runs.
    pub(crate) fn ran(&self, run: &str) {
        let count = {
            let mut seen = self.lock();
            let count = seen.runs.entry(run.to_owned()).or_default();
            *count += 1;
            *count
        };
        if count > 1 {
            self.violation(6, format!("{run} ran {count} times"));
        }
    }

    /// Records the answer to a submission.
    pub(crate) fn acknowledged(&self, key: &str, id: &ExecutionId) {
        let before = self.lock().acknowledged.insert(key.to_owned(), id.clone());
        if let Some(before) = before.filter(|before| before != id) {
            self.violation(9, format!("key {key} made two executions: {before} and {id}"));
        }
    }

    /// Records an execution that is over.
    pub(crate) fn ended(&self, execution: &Execution) {
        let before = self.lock().ended.insert(execution.id.clone(), execution.clone());
        if before.is_some_and(|before| before != *execution) {
            self.violation(6, format!("the ended execution {} changed", execution.id));
        }
    }

    /// Records that a promise of the design (`docs/several-nodes.md`) is broken.
    pub(crate) fn violation(&self, promise: u32, text: impl fmt::Display) {
        self.scheduler.note(format!("BROKEN promise {promise}: {text}"));
        self.lock().violations.push(format!("promise {promise}: {text}"));
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }
}
