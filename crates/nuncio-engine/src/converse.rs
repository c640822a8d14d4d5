//! Conversations: sessions, turns, and what is read of them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::SessionId;

mod asked;
mod begin;
mod history;
mod images;
mod live;
mod recent;
mod recover;
mod sessions;
mod settings;
mod step;
mod turn;
mod unattended;
mod unstored;

pub use begin::TurnRequest;
pub use history::HistoryKind;
pub use live::LiveTurn;
pub(crate) use recent::Recent;
pub use recover::Recovered;
pub use sessions::{Idempotency, NewSession, Page};
pub use settings::{REDACTED, SettingsPatch};

/// The turns going on in this process, by session.
#[derive(Debug)]
pub(crate) struct LiveTurns {
    turns: Mutex<HashMap<SessionId, Arc<LiveTurn>>>,
    /// Held while a turn begins, so that nobody sees it begun in the store and not yet here. Many
    /// sessions share a lock, which costs them nothing but order.
    beginnings: Vec<Arc<tokio::sync::Mutex<()>>>,
    hasher: RandomState,
}

const BEGINNINGS: usize = 1024;

impl Default for LiveTurns {
    fn default() -> Self {
        let beginnings = (0..BEGINNINGS).map(|_| Arc::default()).collect();
        Self { turns: Mutex::default(), beginnings, hasher: RandomState::new() }
    }
}

impl LiveTurns {
    /// Waits until no turn is just beginning in that session, and keeps it so.
    pub(crate) async fn settle(&self, session: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let place = usize::try_from(self.hasher.hash_one(session) % BEGINNINGS as u64).expect("it is below 1024");
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
