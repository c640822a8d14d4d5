//! Telling callers that their executions are over: one signed request, tried again until it arrives
//! or there is no point. Signed as <https://www.standardwebhooks.com> describes: `v1a` with this
//! server's own Ed25519 key, which anyone can check against `/.well-known/jwks.json`, and `v1` with
//! the secret the operator shares, where there is one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{FetchError, Outgoing, Trust};
use nuncio_engine::{Engine, EngineError};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How long one request may take.
const TIME: Duration = Duration::from_secs(15);

/// How much of an answer is read: nobody looks at it.
const ANSWER: usize = 16 * 1024;

/// How many are told at a time.
const AT_ONCE: usize = 64;

/// How many of them at the same receiver, so that one that dawdles holds up nobody else.
const PER_RECEIVER: usize = 4;

/// How many are looked up at a time.
const PAGE: usize = 64;

/// How long to wait when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(30);

/// Who signs.
pub(crate) struct Signer {
    key: Ed25519KeyPair,
    secret: Option<hmac::Key>,
}

impl Signer {
    /// Signs with the key, and with the shared secret where there is one: `whsec_` and base64, or any
    /// other text as it is.
    pub(crate) fn new(key: Ed25519KeyPair, secret: Option<&str>) -> Self {
        let bytes = |secret: &str| {
            let encoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
            encoded.unwrap_or_else(|| secret.as_bytes().to_vec())
        };
        Self { key, secret: secret.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, &bytes(secret))) }
    }

    /// The key that checks our signatures, and others of ours, for `/.well-known/jwks.json`.
    pub(crate) fn jwks(&self, others: impl IntoIterator<Item = Value>) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        let own = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "webhooks", "x": x});
        json!({"keys": std::iter::once(own).chain(others).collect::<Vec<_>>()})
    }

    fn headers(&self, id: &str, at: Timestamp, body: &[u8]) -> Vec<(String, String)> {
        let seconds = at.as_millis() / 1000;
        let message = [format!("{id}.{seconds}.").as_bytes(), body].concat();
        let mut signatures = vec![format!("v1a,{}", STANDARD.encode(self.key.sign(&message)))];
        if let Some(secret) = &self.secret {
            signatures.push(format!("v1,{}", STANDARD.encode(hmac::sign(secret, &message))));
        }
        [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// Tells callers, until told to stop.
pub(crate) struct Webhooks {
    pub(crate) engine: Engine,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) signer: Arc<Signer>,
}

impl Webhooks {
    /// Begins nothing once `stop` is cancelled; what is under way may finish until `closed` is. What is
    /// not told then is told by the next process.
    pub(crate) async fn run(self, stop: CancellationToken, closed: CancellationToken) {
        let mut owed = Owed::default();
        let mut telling = FuturesUnordered::new();
        loop {
            let (due, next) = tokio::select! {
                found = self.insist(|| self.look(&owed)) => found,
                () = stop.cancelled() => break,
            };
            for (execution, attempts) in due {
                owed.add(execution, attempts);
            }
            while telling.len() < AT_ONCE
                && let Some(next) = owed.next()
            {
                telling.push(self.tell(next));
            }
            let pause = self.engine.clock().sleep_until(next.unwrap_or(Timestamp::LAST));
            tokio::select! {
                Some(told) = telling.next() => owed.told(&told),
                () = pause, if next.is_some() => {}
                () = self.engine.callback_owed() => {}
                () = stop.cancelled() => break,
            }
        }
        tokio::select! {
            () = async { while telling.next().await.is_some() {} } => {}
            () = closed.cancelled() => {}
        }
    }

    /// Who is to be told and is not known yet, and when to look again.
    async fn look(&self, owed: &Owed) -> Result<(Vec<(Execution, u32)>, Option<Timestamp>), EngineError> {
        let due = self.engine.callbacks_due(&owed.known, PAGE).await?;
        let next = match due.is_empty() {
            true => self.engine.next_callback(&owed.known).await?,
            false => Some(self.engine.now()),
        };
        Ok((due, next))
    }

    async fn tell(&self, debt: Debt) -> Debt {
        let Debt { execution: id, attempts, .. } = &debt;
        let sent = match self.insist(|| self.engine.owed_execution(id)).await {
            Some(execution) => self.send(&execution).await,
            None => Sent::Over,
        };
        let why = match sent {
            Sent::Over => {
                self.insist(|| self.engine.callback_done(id)).await;
                return debt;
            }
            Sent::Failed(why) => why,
        };
        match self.insist(|| self.engine.callback_failed(id, *attempts)).await {
            Some(again) => tracing::info!(execution = %id, why, %again, "its caller could not be told"),
            None => tracing::warn!(execution = %id, why, "its caller could not be told; given up"),
        }
        debt
    }

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
        let status = match answer {
            Ok(answer) => answer.status,
            // An answer longer than anyone reads is an answer.
            Err(FetchError::TooLarge { status, .. }) => status,
            // What may not be reached will not be.
            Err(FetchError::Refused { why, .. }) => {
                tracing::warn!(execution = %execution.id, why, "its callback may not be reached");
                return Sent::Over;
            }
            Err(error) => return Sent::Failed(error.to_string()),
        };
        match status {
            200..300 => Sent::Over,
            410 => {
                tracing::info!(execution = %execution.id, "its caller no longer wants to be told");
                Sent::Over
            }
            other => Sent::Failed(format!("it answered {other}")),
        }
    }

    /// Does it until the store lets us.
    async fn insist<T, F: Future<Output = Result<T, EngineError>>>(&self, work: impl Fn() -> F) -> T {
        loop {
            match work().await {
                Ok(done) => return done,
                Err(error) => tracing::error!(%error, "callers cannot be told of their executions now"),
            }
            self.engine.clock().sleep_until(self.engine.now().after(STORE_PAUSE)).await;
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

/// Someone to be told.
struct Debt {
    execution: ExecutionId,
    attempts: u32,
    /// Whom they are reached at.
    receiver: String,
}

/// Who is to be told, receiver by receiver in turn.
#[derive(Default)]
struct Owed {
    /// Everyone who waits for it, and everyone who is being told.
    known: HashSet<ExecutionId>,
    waiting: VecDeque<(String, VecDeque<Debt>)>,
    /// How many each receiver is being told.
    busy: HashMap<String, usize>,
}

impl Owed {
    fn add(&mut self, execution: Execution, attempts: u32) {
        if !self.known.insert(execution.id.clone()) {
            return;
        }
        let receiver = execution.order.callback.as_ref().map(|url| url.origin().ascii_serialization());
        let debt = Debt { execution: execution.id, attempts, receiver: receiver.unwrap_or_default() };
        match self.waiting.iter_mut().find(|(receiver, _)| *receiver == debt.receiver) {
            Some((_, debts)) => debts.push_back(debt),
            None => self.waiting.push_back((debt.receiver.clone(), VecDeque::from([debt]))),
        }
    }

    /// The next one whose receiver is not busy.
    fn next(&mut self) -> Option<Debt> {
        let is_free = |(receiver, _): &(String, _)| self.busy.get(receiver).is_none_or(|busy| *busy < PER_RECEIVER);
        let (receiver, mut debts) = self.waiting.remove(self.waiting.iter().position(is_free)?)?;
        let next = debts.pop_front();
        *self.busy.entry(receiver.clone()).or_default() += 1;
        if !debts.is_empty() {
            self.waiting.push_back((receiver, debts));
        }
        next
    }

    fn told(&mut self, debt: &Debt) {
        self.known.remove(&debt.execution);
        if let Some(busy) = self.busy.get_mut(&debt.receiver) {
            *busy -= 1;
            if *busy == 0 {
                self.busy.remove(&debt.receiver);
            }
        }
    }
}
