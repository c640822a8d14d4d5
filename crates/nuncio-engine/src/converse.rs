//! Conversations: sessions, turns and histories.

use crate::call::CallService;
use crate::context::EngineContext;
use crate::ports::store::{CallStore, SessionStore};
use crate::publish::AgentService;
use crate::record::AuditChainService;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::SessionId;

mod begin;
mod external_calls;
mod history;
mod history_reader;
mod images;
mod recent;
mod recover;
mod sessions;
mod settings;
mod step;
mod tail;
mod turn;
mod unattended;
mod unstored;

pub use crate::live_turn::LiveTurn;
pub use begin::{PermissionResponder, TurnRequest};
pub use history::HistoryKind;
pub(crate) use recent::ConversationCache;
pub use sessions::{IdempotencyKey, ListPage, NewSession};
pub(crate) use settings::secret_place;
pub use settings::{REDACTED, SessionSettingsPatch};

/// Service for sessions and turns.
pub struct ConversationService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) call_store: Arc<dyn CallStore>,
    pub(crate) agents: Arc<AgentService>,
    pub(crate) calls: Arc<CallService>,
    pub(crate) records: Arc<AuditChainService>,
    pub(crate) live: LiveTurns,
    pub(crate) recent: ConversationCache,
}

/// Running turns of this process, by session.
#[derive(Debug)]
pub(crate) struct LiveTurns {
    turns: Mutex<HashMap<SessionId, Arc<LiveTurn>>>,
    /// Locks held while a turn begins, so that no request finds the turn in the store but not yet in memory. Sessions
    /// share locks by hash, which only delays them.
    beginnings: Vec<Arc<tokio::sync::Mutex<()>>>,
    hasher: RandomState,
}

const MAX_CONCURRENT_BEGINS: usize = 1024;

impl Default for LiveTurns {
    fn default() -> Self {
        let beginnings = (0..MAX_CONCURRENT_BEGINS).map(|_| Arc::default()).collect();
        Self { turns: Mutex::default(), beginnings, hasher: RandomState::new() }
    }
}

impl LiveTurns {
    /// Locks a session, so that no other turn begins in it.
    pub(crate) async fn lock_session(&self, session: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let place =
            usize::try_from(self.hasher.hash_one(session) % MAX_CONCURRENT_BEGINS as u64).expect("it is below 1024");
        Arc::clone(&self.beginnings[place]).lock_owned().await
    }

    pub(crate) fn find(&self, session: &SessionId) -> Option<Arc<LiveTurn>> {
        self.lock().get(session).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn put(&self, turn: &Arc<LiveTurn>) {
        self.lock().insert(turn.session.clone(), Arc::clone(turn));
    }

    fn remove(&self, turn: &LiveTurn) {
        let mut turns = self.lock();
        if turns.get(&turn.session).is_some_and(|live| live.number == turn.number) {
            turns.remove(&turn.session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<LiveTurn>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
