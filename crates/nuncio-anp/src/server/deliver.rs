//! Delivers agents' replies to remote senders. Pending replies are stored, so that they survive a restart.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::direct_messages::DirectReplyState;
use nuncio_engine::ports::store::PendingReply;

use super::{AnpServerState, OutgoingDirectMessage};

const MAX_CONCURRENT_DELIVERIES: usize = 16;

const STORE_FAILURE_DELAY: Duration = Duration::from_secs(30);

impl AnpServerState {
    /// Delivers replies until `stop` completes; started deliveries are finished.
    pub async fn deliver(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        let (mut in_delivery, mut sending) = (HashSet::new(), FuturesUnordered::new());
        loop {
            let (due, next_due) = tokio::select! {
                biased;
                found = self.retry_until_ok(|| self.due_replies(&in_delivery)) => found,
                () = &mut stop => break,
            };
            for reply in due {
                in_delivery.insert(reply.id.clone());
                sending.push(self.deliver_reply(reply));
            }
            let has_capacity = sending.len() < MAX_CONCURRENT_DELIVERIES;
            tokio::select! {
                biased;
                Some(id) = sending.next() => drop(in_delivery.remove(&id)),
                () = self.engine.clock().sleep_until(next_due.unwrap_or(Timestamp::LAST)), if has_capacity => {}
                () = self.engine.direct_messages().wait_for_pending_reply(), if has_capacity => {}
                () = &mut stop => break,
            }
        }
        while sending.next().await.is_some() {}
    }

    /// Returns the due replies that are not yet being delivered, and the next due time.
    async fn due_replies(
        &self,
        in_delivery: &HashSet<String>,
    ) -> Result<(Vec<PendingReply>, Option<Timestamp>), EngineError> {
        let messages = self.engine.direct_messages();
        let capacity = MAX_CONCURRENT_DELIVERIES.saturating_sub(in_delivery.len());
        let due = messages.pending_replies_due(in_delivery, capacity).await?;
        let mut all = in_delivery.clone();
        all.extend(due.iter().map(|reply| reply.id.clone()));
        Ok((due, messages.next_pending_reply(&all).await?))
    }

    async fn deliver_reply(&self, reply: PendingReply) -> String {
        match self.retry_until_ok(|| self.engine.direct_messages().reply_content(&reply)).await {
            DirectReplyState::Nothing => {
                self.retry_until_ok(|| self.engine.direct_messages().remove_pending_reply(&reply)).await;
            }
            DirectReplyState::NotYet => {
                self.retry_until_ok(|| self.engine.direct_messages().postpone_pending_reply(&reply)).await;
            }
            DirectReplyState::Text(text) => self.deliver_text(&reply, text).await,
        }
        reply.id
    }

    async fn deliver_text(&self, reply: &PendingReply, text: String) {
        let failed = match self.send(&OutgoingDirectMessage::answer(reply, text)).await {
            Ok(()) => return self.retry_until_ok(|| self.engine.direct_messages().remove_pending_reply(reply)).await,
            Err(failed) => failed,
        };
        let (to, why) = (&reply.to, failed.why);
        let again = match failed.later {
            true => self.retry_until_ok(|| self.engine.direct_messages().retry_pending_reply(reply)).await,
            false => {
                self.retry_until_ok(|| self.engine.direct_messages().remove_pending_reply(reply)).await;
                None
            }
        };
        match again {
            Some(again) => tracing::info!(to, why, %again, "an answer could not be sent"),
            None => tracing::warn!(to, why, "an answer could not be sent; it is in the conversation"),
        }
    }

    /// Repeats `work`, an access to the store, until it succeeds.
    async fn retry_until_ok<T, F: Future<Output = Result<T, EngineError>>>(&self, work: impl Fn() -> F) -> T {
        loop {
            match work().await {
                Ok(done) => return done,
                Err(error) => tracing::error!(%error, "answers cannot be sent now"),
            }
            self.engine.clock().sleep_until(self.engine.now().after(STORE_FAILURE_DELAY)).await;
        }
    }
}
