//! Turns whose end could not be stored. Their readers know the end; the store gets it when it works again.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::backoff::Backoff;
use nuncio_core::event::TurnEventLog;
use nuncio_core::turn::{TurnOutcome, TurnState};

use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::live_turn::LiveTurn;

const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));

/// A turn that ended for its readers but still runs in the store.
pub(super) struct UnstoredTurnEnd {
    pub(super) conversations: Arc<ConversationService>,
    pub(super) turn: Arc<LiveTurn>,
    pub(super) stop: TurnOutcome,
}

impl UnstoredTurnEnd {
    /// Retries to store the end of the turn; until then the session accepts no other turn. If the server stops first,
    /// the next start closes the turn.
    pub(super) async fn store_later(unstored: Option<Self>) {
        let Some(Self { conversations, turn, stop }) = unstored else { return };
        let mut failures = BACKOFF.start();
        loop {
            let again = conversations.context.now().after(failures.next_delay());
            let pause = conversations.context.clock.sleep_until(again);
            if conversations.context.closing.run_until_cancelled(pause).await.is_none() {
                return;
            }
            match conversations.close_unstored(&turn, &stop).await {
                Ok(()) => break,
                Err(error) => tracing::debug!(%error, session = %turn.session, "the end of a turn is not stored yet"),
            }
        }
        conversations.live.remove(&turn);
    }
}

impl ConversationService {
    /// Ends a turn in the store as its readers saw it, and closes its open calls.
    async fn close_unstored(&self, live: &LiveTurn, stop: &TurnOutcome) -> Result<(), EngineError> {
        let Some(turn) = self.store.turn(&live.session, live.number).await? else { return Ok(()) };
        if turn.state != TurnState::Running {
            return Ok(());
        }
        let calls = self.call_store.started_calls(&self.context.incarnation).await?;
        let events = live.read(TurnEventLog::to_bytes);
        let calls = calls.iter().filter(|call| call.belongs_to(&turn)).collect();
        Ok(self.close_turn(&turn, calls, stop.clone(), Some(events)).await?)
    }
}
