//! The place of one server's connection: opened when first needed, again after it was lost, and not
//! again and again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::agent::{Agent, McpServer};
use nuncio_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use super::World;
use super::connection::{self, Connection};

/// How long a server is left alone after its first failure; twice as long after each further one.
const BACK_OFF: Duration = Duration::from_millis(250);
/// How long at most.
const MAX_BACK_OFF: Duration = Duration::from_secs(30);

/// The place of one server's connection.
#[derive(Debug)]
pub(super) struct Slot {
    world: Arc<World>,
    /// The agent without its tools: its name and secrets are what a connection needs.
    agent: Agent,
    server: McpServer,
    base_dir: PathBuf,
    state: Mutex<State>,
    /// Held by whoever is opening the connection.
    opening: tokio::sync::Mutex<()>,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Failures since the server last answered.
    failures: u32,
    /// Until when it is left alone, and why.
    rest: Option<(Timestamp, String)>,
}

impl Slot {
    pub(super) fn new(world: Arc<World>, agent: &Agent, server: &McpServer, base_dir: PathBuf) -> Arc<Self> {
        let agent = Agent { tools: Vec::new(), mcp: Vec::new(), ..agent.clone() };
        Arc::new(Self {
            world,
            agent,
            server: server.clone(),
            base_dir,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closed: CancellationToken::new(),
        })
    }

    /// Whether this is the place of that server, as that agent declares it.
    pub(super) fn serves(&self, agent: &Agent, server: &McpServer, base_dir: &Path) -> bool {
        self.base_dir == base_dir && self.is_of(agent, server)
    }

    /// As [`Slot::serves`], wherever the agent's file was.
    pub(super) fn is_of(&self, agent: &Agent, server: &McpServer) -> bool {
        self.agent.name == agent.name
            && self.server.name == server.name
            && self.server.transport == server.transport
            && self.agent.secrets == agent.secrets
            && self.agent.allow == agent.allow
    }

    /// The connection, opened if need be. Fails at once while the server is left alone.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, String> {
        if let Some(known) = self.known() {
            return known;
        }
        // On its own, so that a caller who gives up does not stop a slow server from ever starting.
        let slot = Arc::clone(self);
        let opening = tokio::spawn(async move { slot.open().await });
        opening.await.unwrap_or_else(|_| Err(self.sentence("could not be started")))
    }

    async fn open(self: &Arc<Self>) -> Result<Arc<Connection>, String> {
        let _turn = self.opening.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        let gone = self.sentence("is no longer served");
        let opened = tokio::select! {
            opened = connection::open(&self.world, &self.agent, &self.server, &self.base_dir, Arc::downgrade(self)) => opened,
            () = self.closed.cancelled() => return Err(gone),
        };
        let mut state = self.state();
        match opened {
            Ok(_) if self.closed.is_cancelled() => Err(gone),
            Ok(connection) => {
                state.connection = Some(Arc::clone(&connection));
                state.rest = None;
                Ok(connection)
            }
            Err(why) => {
                let why = self.sentence(&format!("cannot be used: {why}"));
                self.rest(&mut state, why.clone());
                Err(why)
            }
        }
    }

    /// What can be said without waiting: a connection, or that there will be none for now.
    fn known(&self) -> Option<Result<Arc<Connection>, String>> {
        let mut state = self.state();
        if let Some(connection) = state.connection.take() {
            if connection.is_open() {
                state.connection = Some(Arc::clone(&connection));
                return Some(Ok(connection));
            }
            self.rest(&mut state, self.sentence(&format!("was lost: {}", connection.end(None))));
        }
        let now = self.world.clock.now();
        let (until, why) = state.rest.as_ref().filter(|(until, _)| now < *until)?;
        Some(Err(format!("{why}; it will be tried again in {:?}, at {until}", now.until(*until))))
    }

    /// The server answered, so its next failure is a first one.
    pub(super) fn healthy(&self) {
        self.state().failures = 0;
    }

    /// This connection is of no more use. Those still waiting on it may finish.
    pub(super) fn lost(&self, connection: &Arc<Connection>, why: &str) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
            self.rest(&mut state, self.sentence(&format!("was lost: {why}")));
        }
    }

    /// Ends the connection and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let connection = self.state().connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Ends the connection without waiting.
    pub(super) fn abandon(&self) {
        self.closed.cancel();
        self.state().connection = None;
    }

    fn rest(&self, state: &mut State, why: String) {
        let span = BACK_OFF.saturating_mul(1 << state.failures.min(16)).min(MAX_BACK_OFF);
        state.failures = state.failures.saturating_add(1);
        tracing::warn!(agent = %self.agent.name, server = %self.server.name, ?span, "{why}");
        state.rest = Some((self.world.clock.now().after(span), why));
    }

    fn sentence(&self, predicate: &str) -> String {
        format!("the MCP server `{}` {predicate}", self.server.name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
