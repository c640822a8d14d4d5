//! Delivers agents' replies to remote senders. Pending replies are stored, so that they survive a restart.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, FutureExt as _, select};
use futures_util::stream::FuturesUnordered;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::direct_messages::ReplyContent;
use nuncio_engine::ports::store::PendingReply;

use super::{Anp, DirectMessage};

/// Maximum number of concurrent deliveries.
const AT_ONCE: usize = 16;

/// Delay after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(30);

impl Anp {
    /// Delivers replies until `stop` completes; started deliveries are finished.
    pub async fn deliver(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop.fuse());
        let (mut in_delivery, mut sending) = (HashSet::new(), FuturesUnordered::new());
        loop {
            let next = {
                let look = pin!(self.retry_until_ok(|| self.due_replies(&in_delivery)));
                match select(look, stop.as_mut()).await {
                    Either::Left((next, _)) => next,
                    Either::Right(_) => break,
                }
            };
            for reply in next.0 {
                in_delivery.insert(reply.id.clone());
                sending.push(self.deliver_reply(reply));
            }
            let has_capacity = sending.len() < AT_ONCE;
            let pause = self.engine.clock().sleep_until(next.1.unwrap_or(Timestamp::LAST));
            let woken = pin!(async {
                let next_reply = pin!(self.engine.direct_messages().wait_for_pending_reply());
                select(pause, next_reply).await;
            });
            let woken = async { if has_capacity { woken.await } else { std::future::pending().await } };
            let sent = async {
                match sending.next().await {
                    Some(sent) => Some(sent),
                    None => std::future::pending().await,
                }
            };
            let done = match select(pin!(sent), select(pin!(woken), stop.as_mut())).await {
                Either::Left((sent, _)) => sent,
                Either::Right((Either::Left(_), _)) => None,
                Either::Right((Either::Right(_), _)) => break,
            };
            if let Some(id) = done {
                in_delivery.remove(&id);
            }
        }
        while sending.next().await.is_some() {}
    }

    /// Returns the due replies that are not in `known`, and the next due time.
    async fn due_replies(
        &self,
        in_delivery: &HashSet<String>,
    ) -> Result<(Vec<PendingReply>, Option<Timestamp>), EngineError> {
        let due = self
            .engine
            .direct_messages()
            .pending_replies_due(in_delivery, AT_ONCE.saturating_sub(in_delivery.len()))
            .await?;
        let mut all = in_delivery.clone();
        all.extend(due.iter().map(|reply| reply.id.clone()));
        Ok((due, self.engine.direct_messages().next_pending_reply(&all).await?))
    }

    /// Delivers one pending reply and returns its id.
    async fn deliver_reply(&self, reply: PendingReply) -> String {
        match self.retry_until_ok(|| self.engine.direct_messages().reply_content(&reply)).await {
            ReplyContent::Nothing => {
                self.retry_until_ok(|| self.engine.direct_messages().remove_pending_reply(&reply)).await;
            }
            ReplyContent::NotYet => {
                self.retry_until_ok(|| self.engine.direct_messages().postpone_pending_reply(&reply)).await;
            }
            ReplyContent::Text(text) => self.deliver_text(&reply, text).await,
        }
        reply.id
    }

    async fn deliver_text(&self, reply: &PendingReply, text: String) {
        let failed = match self.send(&DirectMessage::answer(reply, text)).await {
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

    /// Repeats `work` until the store succeeds.
    async fn retry_until_ok<T, F: Future<Output = Result<T, EngineError>>>(&self, work: impl Fn() -> F) -> T {
        loop {
            match work().await {
                Ok(done) => return done,
                Err(error) => tracing::error!(%error, "answers cannot be sent now"),
            }
            self.engine.clock().sleep_until(self.engine.now().after(STORE_PAUSE)).await;
        }
    }
}
