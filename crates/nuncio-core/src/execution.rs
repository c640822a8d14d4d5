//! Executions: what was asked for and accepted, and what becomes of it.
//!
//! Five states, one way: accepted → running → completed, failed or timed out; what was never begun
//! may fail or time out as well. What is over never changes again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::agent::SkillVersion;
use crate::audit::References;
use crate::code::Code;
use crate::ids::{AgentName, CallId, ExecutionId, PersonName, ScopeId, SkillId, ToolName};
use crate::policy::Protocol;
use crate::principal::Principal;
use crate::time::Timestamp;

/// What was asked for. Never changes once accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Which skill.
    pub skill: SkillId,
    /// Its version at that time.
    pub version: SkillVersion,
    /// Whose skill.
    pub agent: AgentName,
    /// What is to be run.
    pub target: Target,
    /// Who asked.
    pub caller: Principal,
    /// The person they belong to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub person: Option<PersonName>,
    /// What an issuer said they may do.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scopes: Vec<ScopeId>,
    /// By which protocol.
    pub protocol: Protocol,
    /// The request that brought it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// The inputs, defaults filled in.
    pub inputs: Map<String, Value>,
    /// How urgent it is.
    pub priority: Priority,
    /// Identifiers to pass on.
    #[serde(default)]
    pub trace: Trace,
    /// Who wants to be told when it is over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub callback: Option<Url>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// How long it may take from then on.
    pub timeout_ms: u64,
    /// How long it is kept once it is over.
    pub keep_ms: u64,
}

impl Order {
    /// When it must be over.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        self.created_at.after(Duration::from_millis(self.timeout_ms))
    }
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One tool of the agent.
    Tool(ToolName),
    /// The agent itself: one text in, one answer out.
    Agent,
}

/// How urgent an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// When there is nothing else.
    Low,
    /// In its turn.
    #[default]
    Normal,
    /// Before others.
    High,
}

impl Priority {
    /// By how much a later one that is more urgent overtakes. Nobody waits for ever: what has
    /// waited longer than this goes before anything new.
    #[must_use]
    pub const fn handicap(self) -> Duration {
        match self {
            Self::High => Duration::ZERO,
            Self::Normal => Duration::from_secs(60),
            Self::Low => Duration::from_secs(300),
        }
    }
}

/// Identifiers that travel with a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// What the caller calls it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace_id: Option<String>,
    /// The W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub traceparent: Option<String>,
}

/// Why something did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
}

/// How far an execution has got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// It is on disk and will be run.
    Accepted,
    /// It is being run.
    Running,
    /// It has answered.
    Completed {
        /// With what.
        output: Value,
    },
    /// It has failed.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It was not over in time.
    TimedOut {
        /// What was going on.
        failure: Failure,
    },
}

impl State {
    /// Its word, as it is stored.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timeout",
        }
    }

    /// Whether it never changes again.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. } | Self::TimedOut { .. })
    }

    /// The state that a failure leads to.
    #[must_use]
    pub fn of_failure(failure: Failure) -> Self {
        match failure.code {
            Code::ToolTimeout | Code::TurnDeadline => Self::TimedOut { failure },
            _ => Self::Failed { failure },
        }
    }
}

/// One execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// What was asked for.
    pub order: Arc<Order>,
    /// How often it was begun. More than once means that it may have run more than once.
    pub attempt: u32,
    /// How many of these attempts were interrupted before their program started.
    pub unstarted: u32,
    /// How far it has got.
    pub state: State,
    /// When that last changed.
    pub updated_at: Timestamp,
}

/// A step that an execution cannot take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal {
    /// Where it is.
    pub from: &'static str,
    /// Where it was to go.
    pub to: &'static str,
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an execution that is {} cannot become {}", self.from, self.to)
    }
}

impl std::error::Error for Illegal {}

impl Execution {
    /// An execution that has just been accepted.
    #[must_use]
    pub fn accepted(id: ExecutionId, order: impl Into<Arc<Order>>) -> Self {
        let order = order.into();
        let updated_at = order.created_at;
        Self { id, order, attempt: 0, unstarted: 0, state: State::Accepted, updated_at }
    }

    /// It begins, or begins again.
    ///
    /// # Errors
    /// It is over.
    pub fn begin(&mut self, at: Timestamp) -> Result<(), Illegal> {
        self.step(State::Running, at)?;
        self.attempt += 1;
        Ok(())
    }

    /// It ends.
    ///
    /// # Errors
    /// It is over, it never began and is to have an answer, or `end` is no end.
    pub fn end(&mut self, end: State, at: Timestamp) -> Result<(), Illegal> {
        let answers_unbegun = matches!((&self.state, &end), (State::Accepted, State::Completed { .. }));
        if !end.is_over() || answers_unbegun {
            return Err(Illegal { from: self.state.as_str(), to: end.as_str() });
        }
        self.step(end, at)
    }

    fn step(&mut self, to: State, at: Timestamp) -> Result<(), Illegal> {
        if self.state.is_over() {
            return Err(Illegal { from: self.state.as_str(), to: to.as_str() });
        }
        self.state = to;
        // A clock that was set back does not set an execution back.
        self.updated_at = self.updated_at.max(at);
        Ok(())
    }

    /// The id of the call that an attempt makes.
    #[must_use]
    pub fn call_id(&self, attempt: u32) -> CallId {
        CallId::parse(&format!("{}.{attempt}", self.id)).expect("an execution's id leaves room for a number")
    }

    /// Since when it is over.
    #[must_use]
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.state.is_over().then_some(self.updated_at)
    }

    /// Until when it is kept; it is kept in any case until it is over.
    #[must_use]
    pub fn kept_until(&self) -> Option<Timestamp> {
        self.completed_at().map(|at| at.after(Duration::from_millis(self.order.keep_ms)))
    }
}

/// What let the call of an attempt in: with the order, all that its record needs should it never end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warrant {
    /// When it was asked for.
    pub at: Timestamp,
    /// On whose word.
    pub by: Vec<String>,
    /// The permission it needed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<ScopeId>,
    /// Whether its program has started. Calls stored before this was recorded count as started.
    #[serde(default = "started")]
    pub started: bool,
    /// What its record refers to.
    #[serde(skip_serializing_if = "References::is_empty", default)]
    pub references: References,
}

const fn started() -> bool {
    true
}

/// Who runs an execution, until when nobody else may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The process.
    pub owner: String,
    /// Until when, unless renewed.
    pub until: Timestamp,
}

#[cfg(test)]
mod tests;
