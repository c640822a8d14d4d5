//! Request and response of an invocation (§5.3, §5.4).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ExecutionStatus, LenientNumber, Priority, RetryAdvice, document, present};

document! {
    /// Request for one execution of a skill.
    published struct InvocationRequest {
        /// Caller that invokes the skill.
        caller: Caller,
        /// Identifier of the invoked skill.
        skill_id: String,
        /// Input values by parameter name.
        inputs: Map<String, Value>,
        /// Trace, priority and timeout of the invocation.
        context: Option<InvocationContext>,
    }
}

document! {
    /// Caller of a skill, as it describes itself.
    nested struct Caller {
        /// Identifier of the caller.
        id: String,
        /// Type of the caller, such as `ifay`, `service` or `user`.
        r#type: String,
        /// Credentials that prove the identity of the caller.
        credentials: Option<InvocationCredentials>,
    }
}

impl InvocationRequest {
    /// Removes the credentials, so that the rest may be stored.
    pub fn take_credentials(&mut self) -> Option<InvocationCredentials> {
        self.caller.credentials.take()
    }
}

/// Credentials of a caller. `Debug` does not print them.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InvocationCredentials(pub Map<String, Value>);

impl InvocationCredentials {
    /// String value of the credential `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

impl fmt::Debug for InvocationCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvocationCredentials(hidden)")
    }
}

document! {
    /// Trace, priority and timeout of an invocation.
    nested struct InvocationContext {
        /// Identifier that joins the traces of several systems.
        trace_id: Option<String>,
        /// Priority of the invocation relative to others.
        priority: Option<Priority>,
        /// Longest time that the caller waits, in milliseconds.
        timeout_ms: Option<LenientNumber>,
    }
}

impl InvocationContext {
    /// Name of an extension field: requests with the same idempotency key are one execution.
    pub const IDEMPOTENCY_KEY: &str = "idempotency_key";
    /// Name of an extension field: URL to which the outcome is posted.
    pub const CALLBACK_URL: &str = "callback_url";

    #[must_use]
    pub fn idempotency_key(&self) -> Option<&str> {
        self.extra.get(Self::IDEMPOTENCY_KEY)?.as_str()
    }

    #[must_use]
    pub fn callback_url(&self) -> Option<&str> {
        self.extra.get(Self::CALLBACK_URL)?.as_str()
    }
}

impl Default for InvocationContext {
    fn default() -> Self {
        Self { trace_id: None, priority: None, timeout_ms: None, extra: Map::new() }
    }
}

document! {
    /// Status and outcome of one execution.
    published struct InvocationResponse {
        /// Identifier of the execution.
        execution_id: String,
        /// Status of the execution.
        status: ExecutionStatus,
        /// Identifier of the executed skill.
        skill_id: String,
        /// Output of the execution; present exactly if the status is `completed`.
        #[serde(default, deserialize_with = "present")]
        output: Option<Value>,
        /// Error of the execution; present exactly if the status is `failed` or `timeout`.
        error: Option<ExecutionError>,
        /// Times at which the execution began, changed and ended.
        timestamps: Timestamps,
    }
}

impl InvocationResponse {
    /// Name of an extension field: number of attempts of the execution.
    pub const ATTEMPT: &str = "attempt";

    /// Number of attempts, if the provider reports it.
    #[must_use]
    pub fn attempt(&self) -> Option<u64> {
        self.extra.get(Self::ATTEMPT)?.as_u64()
    }
}

document! {
    /// Reason why an execution failed.
    nested struct ExecutionError {
        /// Error code.
        code: String,
        /// Error message, for people.
        message: String,
        /// Further details of the error.
        #[serde(default, deserialize_with = "present")]
        details: Option<Value>,
        /// Retry advice; absent if a retry is not advised.
        retry: Option<RetryAdvice>,
    }
}

document! {
    /// Times at which an execution began, changed and ended.
    nested struct Timestamps {
        /// Time at which the execution was accepted (ISO 8601).
        created_at: String,
        /// Time of the last status change (ISO 8601).
        updated_at: String,
        /// Time at which the execution ended (ISO 8601); only in a final status.
        completed_at: Option<String>,
    }
}

impl Timestamps {
    /// Name of an extension field: time until which the result is stored.
    pub const EXPIRES_AT: &str = "expires_at";

    /// Time until which the result is stored, if the provider reports it.
    #[must_use]
    pub fn expires_at(&self) -> Option<&str> {
        self.extra.get(Self::EXPIRES_AT)?.as_str()
    }
}
