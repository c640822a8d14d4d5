//! What the nodes send to others when jobs are due, and what the receivers see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::backoff::Backoff;
use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;
use nuncio_engine::jobs::{JobHandler, JobRetries};
use nuncio_engine::ports::store::{ClaimedJob, JobChange, JobClaim, JobKind};
use nuncio_engine::{Engine, EngineError};

use crate::observer::Observer;
use crate::scheduler::{PortCallFate, PossiblePortFaults, Scheduler};

/// More attempts than may fail in a run, and pauses shorter than the time after its end.
const RETRIES: JobRetries =
    JobRetries { attempts: 100, backoff: Backoff::doubling(Duration::from_millis(100), Duration::from_secs(2)) };

/// Receives what a node sends. A request may fail, also after it arrived.
#[derive(Clone)]
pub(crate) struct SimulatedReceiver {
    pub(crate) scheduler: Scheduler,
    pub(crate) node: usize,
    pub(crate) observer: Arc<Observer>,
    pub(crate) engine: Engine,
}

#[async_trait]
impl JobHandler for SimulatedReceiver {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let (kind, key) = (job.job.kind, &job.job.key);
        if kind == JobKind::Callback && self.engine.executions().execution_of_callback(job).await?.is_none() {
            self.observer.violation(6, format!("the callback of {key} was stored without its end"));
        }
        self.scheduler.call(self.node, format!("sends the {kind} {key}"), PossiblePortFaults::None).await;
        self.observer.sending(job);
        let label = format!("sent the {kind} {key}");
        let fate = self.scheduler.call(self.node, label, PossiblePortFaults::BeforeOrAfter).await;
        self.observer.sent(job, fate != PortCallFate::FailsBefore);
        match fate {
            PortCallFate::Succeeds => self.engine.jobs().end(job).await,
            PortCallFate::FailsBefore | PortCallFate::FailsAfter => {
                self.engine.jobs().retry(job, RETRIES).await.map(drop)
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SeenJobs {
    /// Time until which each claim holds.
    claims: Vec<(JobClaim, Timestamp)>,
    /// Claims of the jobs that are being sent, by lane.
    sending: BTreeMap<String, Vec<JobClaim>>,
    /// Numbers of the ended jobs of each lane.
    ended: BTreeMap<String, BTreeSet<u64>>,
    /// Keys of what arrived at a receiver.
    pub(crate) arrived: BTreeSet<String>,
    /// Keys of the acknowledged jobs in lanes.
    pub(crate) acknowledged: BTreeSet<String>,
}

/// Key of a job in a lane.
pub(crate) fn key_in_lane(lane: &str, seq: u64) -> String {
    format!("{lane}/{seq}")
}

impl SeenJobs {
    pub(crate) fn claimed(&mut self, claimed: &[ClaimedJob], until: Timestamp) {
        self.claims.extend(claimed.iter().map(|claimed| (claimed.claim.clone(), until)));
    }

    /// Records a change that took effect.
    pub(crate) fn changed(&mut self, change: &JobChange) {
        match change {
            JobChange::Renew { claim, now, lasts } => self.claims.push((claim.clone(), now.after(*lasts))),
            JobChange::End(claim) => {
                if let Some((lane, seq)) = claim.key.split_once('/')
                    && let Ok(seq) = seq.parse()
                {
                    self.ended.entry(lane.to_owned()).or_default().insert(seq);
                }
            }
            _ => {}
        }
    }

    /// Records that a job is being sent. Returns what is wrong about it. What a node sends after its claim ended is
    /// ignored: it was suspended and cannot know.
    pub(crate) fn sending(&mut self, job: &ClaimedJob, now: Timestamp, dead: &BTreeSet<Incarnation>) -> Option<String> {
        let lane = job.job.lane.as_ref()?;
        let claims = &self.claims;
        let holds = |claim: &JobClaim| {
            let until = claims.iter().rev().find(|(known, _)| known == claim).map(|(_, until)| *until);
            !dead.contains(&claim.by) && until.is_some_and(|until| until > now)
        };
        if !holds(&job.claim) {
            return None;
        }
        let sending = self.sending.entry(lane.name.clone()).or_default();
        sending.retain(|claim| holds(claim));
        sending.push(job.claim.clone());
        if sending.len() > 1 {
            return Some(format!("{} jobs of the lane {} are sent at once: {sending:?}", sending.len(), lane.name));
        }
        let ended = self.ended.entry(lane.name.clone()).or_default();
        let missing = (1..lane.seq).find(|seq| !ended.contains(seq))?;
        Some(format!("job {} of the lane {} is sent before job {missing} ended", lane.seq, lane.name))
    }

    pub(crate) fn sent(&mut self, job: &ClaimedJob, arrived: bool) {
        if let Some(lane) = &job.job.lane {
            self.sending.entry(lane.name.clone()).or_default().retain(|claim| *claim != job.claim);
        }
        if arrived {
            self.arrived.insert(job.job.key.clone());
        }
    }
}
