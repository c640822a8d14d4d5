//! Turns whose end could not be stored. Their readers know the end; the store gets it when it works again.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::backoff::Backoff;
use nuncio_core::event::EventLog;
use nuncio_core::turn::{StopReason, TurnError, TurnOutcome, TurnState, Usage, turn_id};

use super::live::LiveTurn;
use crate::converse::Conversations;
use crate::error::EngineError;

const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));

/// A turn that ended for its readers but still runs in the store.
pub(super) struct UnstoredTurnEnd {
    conversations: Arc<Conversations>,
    turn: Arc<LiveTurn>,
    stop: TurnOutcome,
}

impl UnstoredTurnEnd {
    pub(super) fn new(conversations: Arc<Conversations>, turn: Arc<LiveTurn>, stop: TurnOutcome) -> Self {
        Self { conversations, turn, stop }
    }

    pub(super) fn stop(turn: &LiveTurn, usage: Option<Usage>) -> TurnOutcome {
        let message = "the server cannot use its store now and could not store the end of the turn; \
                       what was stored before is in the history";
        TurnOutcome {
            stop_reason: StopReason::Error,
            turn_id: turn_id(&turn.session, turn.number),
            cancelled: false,
            usage,
            error: Some(TurnError { code: Code::StoreUnavailable, message: message.to_owned() }),
        }
    }

    /// Retries to store the end; until then the session accepts no other turn. If the server stops first, the next
    /// start closes the turn.
    pub(super) async fn store_later(unstored: Option<Self>) {
        let Some(Self { conversations, turn, stop }) = unstored else { return };
        let mut failures = BACKOFF.start();
        loop {
            let again = conversations.runtime.now().after(failures.next_delay());
            tokio::select! {
                () = conversations.runtime.clock().sleep_until(again) => {}
                () = conversations.runtime.closing().cancelled() => return,
            }
            match conversations.close_unstored(&turn, &stop).await {
                Ok(()) => break,
                Err(error) => tracing::debug!(%error, session = %turn.session, "the end of a turn is not stored yet"),
            }
        }
        conversations.live.remove(&turn);
    }
}

impl Conversations {
    /// Ends a turn in the store as its readers saw it, and closes its open calls.
    async fn close_unstored(&self, live: &LiveTurn, stop: &TurnOutcome) -> Result<(), EngineError> {
        let Some(turn) = self.store.turn(&live.session, live.number).await? else { return Ok(()) };
        if turn.state != TurnState::Running {
            return Ok(());
        }
        let calls = self.call_store.started_calls().await?;
        let events = live.read(EventLog::to_bytes);
        self.close_turn(&turn, calls.iter().filter(|call| call.belongs_to(&turn)).collect(), stop.clone(), Some(events))
            .await
    }
}
