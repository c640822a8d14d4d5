//! Store of jobs: deferred work, the time at which it is due, and the incarnation that runs it.

use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::string_enum;
use nuncio_core::time::Timestamp;

use super::StoreError;

string_enum! {
    /// What a job does. The rows that a job is about are stored apart from it.
    pub enum JobKind {
        /// Reports the end of an execution. The key is the execution.
        Callback = "callback",
        /// Delivers a notification to the webhook of an agent. The key is the recipient and the number of the
        /// notification, the lane its conversation.
        Delivery = "delivery",
        /// Probes an unreachable webhook. The key is the recipient.
        Probe = "probe",
        /// Sends the reply to a direct message. The key is the pending reply, the receiver its session.
        Reply = "reply",
        /// Reads the skills of a followed domain. The key is the domain, the receiver its host.
        Visit = "visit",
        /// Verifies a listed agent of another host. The key is the URL of its description, the receiver its authority.
        Check = "check",
        /// Registers an agent at a directory of another host. The key is the agent and the directory, the receiver the
        /// authority of the directory.
        Register = "register",
        /// Deletes old data. The key is the name of the sweep. The job is repeated.
        Sweep = "sweep",
    }
}

/// Work to do at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub kind: JobKind,
    /// Identifies the job among those of its kind.
    pub key: String,
    /// Whom the job is for. The jobs of one receiver that run at once are limited.
    pub receiver: String,
    /// Place among jobs that must run in order; `None` if the job needs no order.
    pub lane: Option<JobLane>,
    /// The job does not run before this time.
    pub due: Timestamp,
    /// Number of failed attempts so far.
    pub attempts: u32,
}

/// Place in a lane. The jobs of a receiver in one lane run one at a time, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLane {
    pub name: String,
    pub seq: u64,
}

/// The right of an incarnation to run a job. It ends with the job, with its delay, with the death of the incarnation,
/// or when another claim replaces it after its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobClaim {
    pub kind: JobKind,
    pub key: String,
    pub by: Incarnation,
    /// Number of claims of the job so far, this one included.
    pub term: u64,
}

/// A job that an incarnation runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    pub job: Job,
    pub claim: JobClaim,
}

impl ClaimedJob {
    /// Change that removes the job, because it is done or given up.
    #[must_use]
    pub fn end(&self) -> JobChange {
        JobChange::End(self.claim.clone())
    }

    /// Change that makes the job run again at `due`.
    #[must_use]
    pub fn delay(&self, due: Timestamp, attempts: u32) -> JobChange {
        JobChange::Delay { claim: self.claim.clone(), due, attempts }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    /// Creates a job. One that exists gets the new receiver, time and attempts; its claim and its lane stay.
    Put(Job),
    /// Removes a job. `Moved` unless the claim holds.
    End(JobClaim),
    /// Ends a claim and sets the next time. `Moved` unless the claim holds.
    Delay { claim: JobClaim, due: Timestamp, attempts: u32 },
    /// Extends a claim to `lasts` from now on. `Moved` unless it holds.
    Renew { claim: JobClaim, now: Timestamp, lasts: Duration },
    /// Makes jobs due at `due` or earlier; those behind the first of a lane may keep their time. No conflict if there
    /// are none.
    Hasten { kind: JobKind, jobs: JobSelection, due: Timestamp },
    /// Ends all claims of an incarnation that is dead.
    Release(Incarnation),
}

impl JobChange {
    /// Whether jobs may be due earlier than before.
    #[must_use]
    pub fn may_be_due(&self) -> bool {
        matches!(self, Self::Put(_) | Self::Hasten { .. } | Self::Release(_))
    }
}

/// Some of the jobs of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSelection {
    All,
    Key(String),
    Receiver(String),
}

/// Which jobs an incarnation claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobClaimRequest {
    pub kind: JobKind,
    pub by: Incarnation,
    /// Jobs that are due by then are claimed.
    pub now: Timestamp,
    /// Time for which nobody else can claim the jobs. A store that several nodes share measures it with its own clock, so
    /// that nodes whose clocks differ agree on the end of a claim.
    pub lasts: Duration,
    /// Maximum number of jobs.
    pub limit: usize,
    /// Maximum number of running jobs of one receiver, those of `running` included.
    pub per_receiver: usize,
    /// Key and receiver of the jobs that run already. They are not claimed again, even if their claims expired.
    pub running: Vec<(String, String)>,
}

/// When the jobs of a kind can be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobTimes {
    pub kind: JobKind,
    /// Whether a job is due that is not claimed.
    pub is_due: bool,
    /// Due time of the earliest job that is due later.
    pub next: Option<Timestamp>,
}

#[async_trait]
pub trait JobStore: Send + Sync {
    /// Claims jobs that are due and not claimed, or whose claim expired, the longest due first. Of each lane only the
    /// first job can be claimed. Like a commit, it fails with `Fenced` if the incarnation was declared dead.
    async fn claim_jobs(&self, request: JobClaimRequest) -> Result<Vec<ClaimedJob>, StoreError>;
    /// When jobs of these kinds can be claimed, of lanes their first jobs; in the order of `kinds`.
    async fn job_times(&self, kinds: &[JobKind], now: Timestamp) -> Result<Vec<JobTimes>, StoreError>;
    /// At most `limit` jobs of a kind, claimed or not, earliest first. Of each lane only the first job is listed.
    async fn next_jobs(&self, kind: JobKind, limit: usize) -> Result<Vec<Job>, StoreError>;
}
