//! What is sent to invoke a skill, and what comes back (§5.3, §5.4).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ExecutionStatus, Priority, Quantity, RetryAdvice, document, present};
use crate::schema::model::{HasShape, Shape};

document! {
    /// Asks for one execution of a skill.
    published struct InvocationRequest {
        /// Who asks.
        caller: Caller,
        /// Which skill is asked for.
        skill_id: String,
        /// The inputs by name.
        inputs: Map<String, Value>,
        /// The circumstances.
        context: Option<InvocationContext>,
    }
}

document! {
    /// Who asks, by their own word.
    nested struct Caller {
        /// The caller's identifier.
        id: String,
        /// What sort of caller it is, such as `ifay`, `service` or `user`.
        r#type: String,
        /// What proves who they are.
        credentials: Option<Credentials>,
    }
}

impl InvocationRequest {
    /// Removes the credentials, so that the rest may be stored.
    pub fn take_credentials(&mut self) -> Option<Credentials> {
        self.caller.credentials.take()
    }
}

/// Credentials of a caller. `Debug` does not print them.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credentials(pub Map<String, Value>);

impl Credentials {
    /// String value of that key.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

impl HasShape for Credentials {
    fn shape() -> Shape {
        Map::shape()
    }
}

document! {
    /// The circumstances of an invocation.
    nested struct InvocationContext {
        /// What ties the traces of several systems together.
        trace_id: Option<String>,
        /// How soon it should be done beside others.
        priority: Option<Priority>,
        /// How long the caller waits, in milliseconds.
        timeout_ms: Option<Quantity>,
    }
}

impl InvocationContext {
    /// Extension: requests with the same key are one execution.
    pub const IDEMPOTENCY_KEY: &str = "idempotency_key";
    /// Extension: URL that the outcome is posted to.
    pub const CALLBACK_URL: &str = "callback_url";

    #[must_use]
    pub fn idempotency_key(&self) -> Option<&str> {
        self.extra.get(Self::IDEMPOTENCY_KEY)?.as_str()
    }

    #[must_use]
    pub fn callback_url(&self) -> Option<&str> {
        self.extra.get(Self::CALLBACK_URL)?.as_str()
    }

    pub fn set_idempotency_key(&mut self, key: impl Into<String>) {
        self.extra.insert(Self::IDEMPOTENCY_KEY.to_owned(), Value::String(key.into()));
    }

    pub fn set_callback_url(&mut self, url: impl Into<String>) {
        self.extra.insert(Self::CALLBACK_URL.to_owned(), Value::String(url.into()));
    }
}

impl Default for InvocationContext {
    fn default() -> Self {
        Self { trace_id: None, priority: None, timeout_ms: None, extra: Map::new() }
    }
}

document! {
    /// How far one execution is, and what came of it.
    published struct InvocationResponse {
        /// The execution's identifier.
        execution_id: String,
        /// How far it is.
        status: ExecutionStatus,
        /// Which skill it is of.
        skill_id: String,
        /// What came of it; there exactly when the status is `completed`.
        #[serde(default, deserialize_with = "present")]
        output: Option<Value>,
        /// What went wrong; there exactly when the status is `failed` or `timeout`.
        error: Option<ExecutionError>,
        /// When things happened.
        timestamps: Timestamps,
    }
}

impl InvocationResponse {
    /// Extension: number of attempts.
    pub const ATTEMPT: &str = "attempt";

    /// Number of attempts, if the provider reports it.
    #[must_use]
    pub fn attempt(&self) -> Option<u64> {
        self.extra.get(Self::ATTEMPT)?.as_u64()
    }
}

document! {
    /// Why an execution came to nothing.
    nested struct ExecutionError {
        /// What sort of error it is.
        code: String,
        /// What went wrong, for people.
        message: String,
        /// More about it.
        #[serde(default, deserialize_with = "present")]
        details: Option<Value>,
        /// Whether trying again makes sense.
        retry: Option<RetryAdvice>,
    }
}

document! {
    /// When things happened to an execution.
    nested struct Timestamps {
        /// When it was accepted (ISO 8601).
        created_at: String,
        /// When its status last changed (ISO 8601).
        updated_at: String,
        /// When it ended (ISO 8601); only in an end state.
        completed_at: Option<String>,
    }
}

impl Timestamps {
    /// Extension: time until which the result is stored.
    pub const EXPIRES_AT: &str = "expires_at";

    /// Time until which the result is stored, if the provider reports it.
    #[must_use]
    pub fn expires_at(&self) -> Option<&str> {
        self.extra.get(Self::EXPIRES_AT)?.as_str()
    }
}
