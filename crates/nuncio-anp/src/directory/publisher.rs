//! Registers local agents with the configured directories: at start, when an agent's description changes, and once a
//! day. Each registration is a job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::backoff::Backoff;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;
use nuncio_engine::follow::ServerOrigin;
use nuncio_engine::jobs::{JobHandler, JobRetries};
use nuncio_engine::ports::store::{ClaimedJob, Job, JobKind};
use nuncio_engine::{Engine, EngineError};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::client::{AgentSignerLookup, AnpClient, DirectoryRegistrationReceipt};
use crate::project::HostDocumentSettings;
use crate::wire::canonical;

const RENEWAL_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// A failed registration is tried again without end.
const RETRIES: JobRetries = JobRetries {
    attempts: u32::MAX,
    backoff: Backoff::doubling(Duration::from_secs(30), Duration::from_secs(6 * 60 * 60)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRegistrationStatus {
    pub agent: AgentName,
    pub directory: ServerOrigin,
    /// Time of the last successful registration.
    pub registered: Option<Timestamp>,
    /// Id of the entry that the directory assigned.
    pub id: Option<String>,
    /// Time of the next registration attempt.
    pub next: Timestamp,
    /// Number of consecutive failed registration attempts.
    pub failures: u32,
    /// Error of the last registration attempt, if it failed.
    pub problem: Option<String>,
    /// Digest of the description for which a registration was last scheduled.
    #[serde(skip, default = "unknown_description")]
    description: Digest,
}

fn unknown_description() -> Digest {
    Digest::ZERO
}

impl RemoteRegistrationStatus {
    fn key(&self) -> (AgentName, ServerOrigin) {
        (self.agent.clone(), self.directory.clone())
    }

    fn job_key(&self) -> String {
        format!("{} {}", self.agent, self.directory)
    }
}

/// Registers local agents with remote directories, as handler of the jobs of the kind [`JobKind::Register`]. Clones are
/// cheap and share their state.
#[derive(Debug, Clone)]
pub struct RemoteDirectoryRegistrar {
    state: Arc<RemoteDirectoryRegistrarState>,
}

#[derive(Debug)]
struct RemoteDirectoryRegistrarState {
    engine: Engine,
    client: AnpClient,
    signers: Arc<dyn AgentSignerLookup>,
    host: HostDocumentSettings,
    directories: Vec<ServerOrigin>,
    statuses: Mutex<BTreeMap<(AgentName, ServerOrigin), RemoteRegistrationStatus>>,
}

impl RemoteDirectoryRegistrar {
    #[must_use]
    pub fn new(
        engine: Engine,
        client: AnpClient,
        signers: Arc<dyn AgentSignerLookup>,
        host: HostDocumentSettings,
        directories: Vec<ServerOrigin>,
    ) -> Self {
        let statuses = Mutex::default();
        Self { state: Arc::new(RemoteDirectoryRegistrarState { engine, client, signers, host, directories, statuses }) }
    }

    /// Registrations that this process scheduled, with the results of those that it ran.
    #[must_use]
    pub fn statuses(&self) -> Vec<RemoteRegistrationStatus> {
        self.state.statuses().values().cloned().collect()
    }

    /// Schedules the registration of agents whose description is new or has changed. Agents that are not publicly listed
    /// are skipped.
    pub async fn schedule_changed(&self) {
        let changed = self.state.note_changed();
        if let Err(error) = self.state.engine.jobs().schedule(changed.iter().map(job)).await {
            tracing::error!(%error, "agents could not be registered with directories; the next change or start tries again");
            self.state.forget_descriptions(&changed);
        }
    }
}

#[async_trait]
impl JobHandler for RemoteDirectoryRegistrar {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let jobs = self.state.engine.jobs();
        let Some(status) = self.state.status_of(&job.job.key) else {
            // The agent is not served or not listed any more, or the directory is not in the settings any more.
            return jobs.end(job).await;
        };
        let outcome = self.state.register(&status).await;
        let now = self.state.engine.now();
        let after = match outcome {
            Ok(receipt) => {
                if status.registered.is_none() || status.failures > 0 {
                    tracing::info!(agent = %status.agent, directory = %status.directory, "registered with a directory");
                }
                // A description that changed meanwhile may not be the one that the directory read.
                let is_current =
                    self.state.status_of(&job.job.key).is_some_and(|it| it.description == status.description);
                let next = if is_current { now.after(RENEWAL_INTERVAL) } else { now };
                jobs.repeat_at(job, next).await?;
                let registered = Some(now);
                RemoteRegistrationStatus { registered, id: receipt.id, next, failures: 0, problem: None, ..status }
            }
            Err(why) => {
                if status.failures == 0 {
                    tracing::warn!(agent = %status.agent, directory = %status.directory, why, "cannot register with a directory");
                }
                let next = jobs.retry(job, RETRIES).await?.unwrap_or(now);
                let failures = job.job.attempts.saturating_add(1);
                RemoteRegistrationStatus { next, failures, problem: Some(why), ..status }
            }
        };
        self.state.record(after);
        Ok(())
    }
}

impl RemoteDirectoryRegistrarState {
    fn statuses(&self) -> MutexGuard<'_, BTreeMap<(AgentName, ServerOrigin), RemoteRegistrationStatus>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the agents whose description is new or has changed, before their jobs can run.
    fn note_changed(&self) -> Vec<RemoteRegistrationStatus> {
        let now = self.engine.now();
        let mut statuses = self.statuses();
        let agents = self.engine.agents().list();
        let agents: Vec<_> = agents.iter().filter(|agent| agent.presence.listed).collect();
        statuses.retain(|(name, _), _| agents.iter().any(|agent| agent.name == *name));
        let mut changed = Vec::new();
        for agent in agents {
            let did = self.signers.signer(&agent.name).map(|signer| signer.did().to_string());
            let description = Digest::of_bytes(&canonical(&self.host.description(agent, did.as_deref())));
            for directory in &self.directories {
                let known = statuses.get(&(agent.name.clone(), directory.clone()));
                if known.is_some_and(|known| known.description == description) {
                    continue;
                }
                changed.push(RemoteRegistrationStatus {
                    agent: agent.name.clone(),
                    directory: directory.clone(),
                    registered: known.and_then(|known| known.registered),
                    id: known.and_then(|known| known.id.clone()),
                    next: now,
                    failures: 0,
                    problem: known.and_then(|known| known.problem.clone()),
                    description,
                });
            }
        }
        statuses.extend(changed.iter().map(|status| (status.key(), status.clone())));
        changed
    }

    fn forget_descriptions(&self, unscheduled: &[RemoteRegistrationStatus]) {
        let mut statuses = self.statuses();
        for key in unscheduled.iter().map(RemoteRegistrationStatus::key) {
            statuses.entry(key).and_modify(|status| status.description = unknown_description());
        }
    }

    fn status_of(&self, key: &str) -> Option<RemoteRegistrationStatus> {
        self.statuses().values().find(|status| status.job_key() == key).cloned()
    }

    /// Keeps the result of a registration, unless its agent was withdrawn meanwhile.
    fn record(&self, after: RemoteRegistrationStatus) {
        if let Some(status) = self.statuses().get_mut(&after.key()) {
            *status = RemoteRegistrationStatus { description: status.description, ..after };
        }
    }

    async fn register(&self, status: &RemoteRegistrationStatus) -> Result<DirectoryRegistrationReceipt, String> {
        match (self.signers.signer(&status.agent), Url::parse(&self.host.description_url(&status.agent))) {
            (Some(signer), Ok(url)) => {
                let client = self.client.clone().signed_by(Some(signer));
                client.register(status.directory.url(), &url).await.map_err(|error| error.to_string())
            }
            _ => Err("the agent has no DID to sign with".to_owned()),
        }
    }
}

fn job(status: &RemoteRegistrationStatus) -> Job {
    let receiver = status.directory.url().authority().to_owned();
    Job { kind: JobKind::Register, key: status.job_key(), receiver, lane: None, due: status.next, attempts: 0 }
}
