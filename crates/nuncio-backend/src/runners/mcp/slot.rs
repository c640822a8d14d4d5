//! Connection to one MCP server: opened on first use, reopened after a loss with growing delays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::agent::{Agent, McpServerSpec};
use nuncio_core::backoff::Backoff;
use nuncio_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use super::connection::{self, McpConnection};
use crate::runners::RunnerAndBrainServices;

/// Delays before reconnecting after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(250), Duration::from_secs(30));

/// Connection to one MCP server, open or closed.
#[derive(Debug)]
pub(super) struct ReopenableMcpConnection {
    services: Arc<RunnerAndBrainServices>,
    /// Agent without its tools; a connection needs its name and secrets.
    agent: Agent,
    server: McpServerSpec,
    base_dir: PathBuf,
    state: Mutex<McpConnectionState>,
    /// Lock held while the connection is opened, so that only one is opened at a time.
    opening: tokio::sync::Mutex<()>,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct McpConnectionState {
    connection: Option<Arc<McpConnection>>,
    /// Failures since the last response of the server.
    failures: u32,
    /// End of the delay before reconnecting, and the failure that caused it.
    delay: Option<(Timestamp, String)>,
}

impl ReopenableMcpConnection {
    pub(super) fn new(
        services: Arc<RunnerAndBrainServices>,
        agent: &Agent,
        server: &McpServerSpec,
        base_dir: PathBuf,
    ) -> Arc<Self> {
        let agent = Agent { tools: Vec::new(), mcp: Vec::new(), ..agent.clone() };
        Arc::new(Self {
            services,
            agent,
            server: server.clone(),
            base_dir,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closed: CancellationToken::new(),
        })
    }

    /// Whether the slot belongs to the declaration of `server` in `agent`.
    pub(super) fn serves(&self, agent: &Agent, server: &McpServerSpec, base_dir: &Path) -> bool {
        self.base_dir == base_dir && self.is_of(agent, server)
    }

    /// As [`ReopenableMcpConnection::serves`], without regard to the agent's folder.
    pub(super) fn is_of(&self, agent: &Agent, server: &McpServerSpec) -> bool {
        self.agent.name == agent.name
            && self.server.name == server.name
            && self.server.transport == server.transport
            && self.agent.secrets == agent.secrets
            && self.agent.allow == agent.allow
    }

    /// Returns the connection, opening it if needed. Fails at once during the delay after a failure.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<McpConnection>, String> {
        if let Some(immediate) = self.immediate() {
            return immediate;
        }
        // Runs in its own task, so that a caller that stops waiting does not prevent a slow server from starting.
        let slot = Arc::clone(self);
        let opening = tokio::spawn(async move { slot.open().await });
        opening.await.unwrap_or_else(|_| Err(self.sentence("could not be started")))
    }

    async fn open(self: &Arc<Self>) -> Result<Arc<McpConnection>, String> {
        let _turn = self.opening.lock().await;
        if let Some(immediate) = self.immediate() {
            return immediate;
        }
        let gone = self.sentence("is no longer served");
        let opened = tokio::select! {
            opened = connection::open(&self.services, &self.agent, &self.server, &self.base_dir, Arc::downgrade(self)) => opened,
            () = self.closed.cancelled() => return Err(gone),
        };
        let mut state = self.state();
        match opened {
            Ok(_) if self.closed.is_cancelled() => Err(gone),
            Ok(connection) => {
                state.connection = Some(Arc::clone(&connection));
                state.delay = None;
                Ok(connection)
            }
            Err(why) => {
                let why = self.sentence(&format!("cannot be used: {why}"));
                self.delay(&mut state, why.clone());
                Err(why)
            }
        }
    }

    /// Result that is available without waiting: the open connection, or the last failure during the delay.
    fn immediate(&self) -> Option<Result<Arc<McpConnection>, String>> {
        let mut state = self.state();
        if let Some(connection) = state.connection.take() {
            if connection.is_open() {
                state.connection = Some(Arc::clone(&connection));
                return Some(Ok(connection));
            }
            self.delay(&mut state, self.lost_connection(&connection.end(None)));
        }
        let now = self.services.clock.now();
        let (until, why) = state.delay.as_ref().filter(|(until, _)| now < *until)?;
        Some(Err(format!("{why}; it will be tried again in {:?}, at {until}", now.until(*until))))
    }

    /// Resets the failure count after a response of the server.
    pub(super) fn reset_failures(&self) {
        self.state().failures = 0;
    }

    /// Discards a lost connection and starts the delay. Calls that use it may finish.
    pub(super) fn mark_lost(&self, connection: &Arc<McpConnection>, why: &str) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
            self.delay(&mut state, self.lost_connection(why));
        }
    }

    /// Closes the connection and waits until its resources are released.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let connection = self.state().connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    pub(super) fn close_without_waiting(&self) {
        self.closed.cancel();
        self.state().connection = None;
    }

    fn delay(&self, state: &mut McpConnectionState, why: String) {
        state.failures = state.failures.saturating_add(1);
        let span = BACKOFF.after(state.failures);
        tracing::warn!(agent = %self.agent.name, server = %self.server.name, ?span, "{why}");
        state.delay = Some((self.services.clock.now().after(span), why));
    }

    pub(super) fn lost_connection(&self, why: &str) -> String {
        format!("the connection to the MCP server `{}` was lost: {why}", self.server.name)
    }

    fn sentence(&self, predicate: &str) -> String {
        format!("the MCP server `{}` {predicate}", self.server.name)
    }

    fn state(&self) -> MutexGuard<'_, McpConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
