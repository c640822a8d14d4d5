//! Telling callers that their executions are over: one signed request, tried again until it arrives
//! or there is no point. Signed as <https://www.standardwebhooks.com> describes: `v1a` with this
//! server's own Ed25519 key, which anyone can check against `/.well-known/jwks.json`, and `v1` with
//! the secret the operator shares, where there is one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{FetchError, Outgoing, Trust};
use nuncio_engine::{Engine, EngineError};

pub(crate) mod errands;
pub(crate) mod signing;

pub(crate) use signing::Signer;

use errands::{ANSWER, Errands, Found, Held, PAGE, insist};

/// How long one request may take.
const TIME: Duration = Duration::from_secs(15);

/// Tells callers of their executions.
pub(crate) struct Webhooks {
    pub(crate) engine: Engine,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) signer: Arc<Signer>,
}

/// Someone to be told.
pub(crate) struct Debt {
    execution: ExecutionId,
    attempts: u32,
}

impl Errands for Webhooks {
    type Key = ExecutionId;
    /// The origin they are reached at.
    type Receiver = String;
    type Errand = Debt;

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn look(&self, held: &Held<ExecutionId, String>) -> Result<Found<Self>, EngineError> {
        let due = self.engine.callbacks_due(held.known(), PAGE).await?;
        let next = match due.is_empty() {
            true => self.engine.next_callback(held.known()).await?,
            false => Some(self.engine.now()),
        };
        let owed = |(execution, attempts): (Execution, u32)| {
            let receiver = execution.order.callback.as_ref().map(|url| url.origin().ascii_serialization());
            let debt = Debt { execution: execution.id.clone(), attempts };
            (execution.id, receiver.unwrap_or_default(), debt)
        };
        Ok(Found { due: due.into_iter().map(owed).collect(), next })
    }

    async fn owed(&self) {
        self.engine.callback_owed().await;
    }

    async fn run(&self, debt: Debt) {
        let Debt { execution: id, attempts } = &debt;
        let sent = match insist(&self.engine, || self.engine.owed_execution(id)).await {
            Some(execution) => self.send(&execution).await,
            None => Sent::Over,
        };
        let why = match sent {
            Sent::Over => return insist(&self.engine, || self.engine.callback_done(id)).await,
            Sent::Failed(why) => why,
        };
        match insist(&self.engine, || self.engine.callback_failed(id, *attempts)).await {
            Some(again) => tracing::info!(execution = %id, why, %again, "its caller could not be told"),
            None => tracing::warn!(execution = %id, why, "its caller could not be told; given up"),
        }
    }
}

impl Webhooks {
    async fn send(&self, execution: &Execution) -> Sent {
        let Some(url) = execution.order.callback.clone() else { return Sent::Over };
        let body = Bytes::from(nuncio_skill::server::callback_body(execution));
        let answer = self
            .fetch
            .fetch(Outgoing {
                method: "POST",
                url,
                headers: self.signer.headers(execution.id.as_str(), self.engine.now(), &body),
                body: Some(body),
                trust: Trust::Stranger,
                timeout: TIME,
                max_bytes: ANSWER,
            })
            .await;
        match errands::status(answer) {
            Ok(200..300) => Sent::Over,
            Ok(410) => {
                tracing::info!(execution = %execution.id, "its caller no longer wants to be told");
                Sent::Over
            }
            Ok(other) => Sent::Failed(format!("it answered {other}")),
            // What may not be reached will not be.
            Err(FetchError::Refused { why, .. }) => {
                tracing::warn!(execution = %execution.id, why, "its callback may not be reached");
                Sent::Over
            }
            Err(error) => Sent::Failed(error.to_string()),
        }
    }
}

/// What a request came to.
enum Sent {
    /// The caller knows, or will never.
    Over,
    /// Not now; why.
    Failed(String),
}
