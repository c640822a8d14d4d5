//! Registers local agents with the configured directories: at start, when an agent's description changes, and once a
//! day.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::backoff::Backoff;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;
use nuncio_engine::Engine;
use nuncio_engine::follow::ServerOrigin;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::client::{AgentSignerLookup, AnpClient};
use crate::project::HostDocumentSettings;
use crate::wire::canonical;

/// Interval of the check for changed descriptions.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Delay after failed registrations.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(30), Duration::from_secs(6 * 60 * 60));

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
    /// Digest of the description that was registered.
    #[serde(skip, default = "unregistered")]
    description: Digest,
}

/// Placeholder digest of an agent before its first registration.
fn unregistered() -> Digest {
    Digest::ZERO
}

/// Registers local agents with remote directories. Clones are cheap and share their state.
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

    #[must_use]
    pub fn statuses(&self) -> Vec<RemoteRegistrationStatus> {
        self.state.statuses().values().cloned().collect()
    }

    /// Registers local agents until `stop` completes.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        if self.state.directories.is_empty() {
            return;
        }
        tokio::select! {
            () = stop => {}
            () = self.state.run_registrations() => {}
        }
    }
}

impl RemoteDirectoryRegistrarState {
    async fn run_registrations(&self) {
        loop {
            for status in self.due() {
                let after = self.register(status).await;
                let key = (after.agent.clone(), after.directory.clone());
                self.statuses().insert(key, after);
            }
            self.engine.clock().sleep_until(self.engine.now().after(POLL_INTERVAL)).await;
        }
    }

    fn statuses(&self) -> MutexGuard<'_, BTreeMap<(AgentName, ServerOrigin), RemoteRegistrationStatus>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registrations that are due now. Agents that are not publicly listed are skipped.
    fn due(&self) -> Vec<RemoteRegistrationStatus> {
        let now = self.engine.now();
        let mut status = self.statuses();
        let agents = self.engine.agents().list();
        let agents: Vec<_> = agents.iter().filter(|agent| agent.presence.listed).collect();
        status.retain(|(name, _), _| agents.iter().any(|agent| agent.name == *name));
        let mut due = Vec::new();
        for agent in agents {
            let did = self.signers.signer(&agent.name).map(|signer| signer.did().to_string());
            let description = Digest::of_bytes(&canonical(&self.host.description(agent, did.as_deref())));
            for directory in &self.directories {
                let key = (agent.name.clone(), directory.clone());
                let status_entry = status.entry(key).or_insert_with(|| RemoteRegistrationStatus {
                    agent: agent.name.clone(),
                    directory: directory.clone(),
                    registered: None,
                    id: None,
                    next: now,
                    failures: 0,
                    problem: None,
                    description,
                });
                if status_entry.description != description {
                    *status_entry =
                        RemoteRegistrationStatus { description, next: now, failures: 0, ..status_entry.clone() };
                }
                if status_entry.next <= now {
                    due.push(status_entry.clone());
                }
            }
        }
        due
    }

    async fn register(&self, status: RemoteRegistrationStatus) -> RemoteRegistrationStatus {
        let outcome = match (self.signers.signer(&status.agent), Url::parse(&self.host.description_url(&status.agent)))
        {
            (Some(signer), Ok(url)) => {
                let client = self.client.clone().signed_by(Some(signer));
                client.register(status.directory.url(), &url).await.map_err(|error| error.to_string())
            }
            _ => Err("the agent has no DID to sign with".to_owned()),
        };
        let now = self.engine.now();
        match outcome {
            Ok(receipt) => {
                if status.registered.is_none() || status.failures > 0 {
                    tracing::info!(agent = %status.agent, directory = %status.directory, "registered with a directory");
                }
                let next = now.after(RENEWAL_INTERVAL);
                RemoteRegistrationStatus {
                    registered: Some(now),
                    id: receipt.id,
                    next,
                    failures: 0,
                    problem: None,
                    ..status
                }
            }
            Err(why) => {
                if status.failures == 0 {
                    tracing::warn!(agent = %status.agent, directory = %status.directory, why, "cannot register with a directory");
                }
                let failures = status.failures.saturating_add(1);
                RemoteRegistrationStatus {
                    next: now.after(BACKOFF.after(failures)),
                    failures,
                    problem: Some(why),
                    ..status
                }
            }
        }
    }
}
