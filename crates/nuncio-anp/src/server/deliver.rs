//! Taking answers to whoever wrote. What is owed is in the store, so what one process did not send the next one
//! does.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, FutureExt as _, select};
use futures_util::stream::FuturesUnordered;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::letters::Saying;
use nuncio_engine::ports::peers::OwedAnswer;

use super::{Anp, DirectMessage};

/// How many are sent at a time.
const AT_ONCE: usize = 16;

/// How long to wait when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(30);

impl Anp {
    /// Sends answers until told to stop; what is under way then is finished.
    pub async fn deliver(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop.fuse());
        let (mut known, mut sending) = (HashSet::new(), FuturesUnordered::new());
        loop {
            let next = {
                let look = pin!(self.insist(|| self.look(&known)));
                match select(look, stop.as_mut()).await {
                    Either::Left((next, _)) => next,
                    Either::Right(_) => break,
                }
            };
            for owed in next.0 {
                known.insert(owed.id.clone());
                sending.push(self.take(owed));
            }
            let room = sending.len() < AT_ONCE;
            let pause = self.engine.clock().sleep_until(next.1.unwrap_or(Timestamp::LAST));
            let woken = pin!(async {
                let owed = pin!(self.engine.answer_owed());
                select(pause, owed).await;
            });
            let woken = async { if room { woken.await } else { std::future::pending().await } };
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
                known.remove(&id);
            }
        }
        while sending.next().await.is_some() {}
    }

    /// What is to be sent now and is not known yet, and when to look again.
    async fn look(&self, known: &HashSet<String>) -> Result<(Vec<OwedAnswer>, Option<Timestamp>), EngineError> {
        let due = self.engine.answers_due(known, AT_ONCE.saturating_sub(known.len())).await?;
        let mut all = known.clone();
        all.extend(due.iter().map(|owed| owed.id.clone()));
        Ok((due, self.engine.next_answer(&all).await?))
    }

    /// Sends one; its id.
    async fn take(&self, owed: OwedAnswer) -> String {
        match self.insist(|| self.engine.owed_saying(&owed)).await {
            Saying::Nothing => self.insist(|| self.engine.answer_taken(&owed)).await,
            Saying::NotYet => {
                self.insist(|| self.engine.answer_not_yet(&owed)).await;
            }
            Saying::Text(text) => self.take_text(&owed, text).await,
        }
        owed.id
    }

    async fn take_text(&self, owed: &OwedAnswer, text: String) {
        let failed = match self.send(&DirectMessage::answer(owed, text)).await {
            Ok(()) => return self.insist(|| self.engine.answer_taken(owed)).await,
            Err(failed) => failed,
        };
        let (to, why) = (&owed.to, failed.why);
        let again = match failed.later {
            true => self.insist(|| self.engine.answer_not_taken(owed)).await,
            false => {
                self.insist(|| self.engine.answer_taken(owed)).await;
                None
            }
        };
        match again {
            Some(again) => tracing::info!(to, why, %again, "an answer could not be sent"),
            None => tracing::warn!(to, why, "an answer could not be sent; it is in the conversation"),
        }
    }

    /// Does it until the store lets us.
    async fn insist<T, F: Future<Output = Result<T, EngineError>>>(&self, work: impl Fn() -> F) -> T {
        loop {
            match work().await {
                Ok(done) => return done,
                Err(error) => tracing::error!(%error, "answers cannot be sent now"),
            }
            self.engine.clock().sleep_until(self.engine.now().after(STORE_PAUSE)).await;
        }
    }
}
