//! Approvals: a person's decision on one call. It is bound to the call and the digest of its arguments, usable once,
//! and counts as a denial when it expires.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::ids::{AgentName, ApprovalId, CallId, PersonName, ScopeId, SessionId, ToolName};
use crate::principal::Principal;
use crate::time::Timestamp;

/// The party that is asked for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// The client application that talks to the agent.
    Client,
    Device(PersonName),
    /// The operators of this server.
    Operators,
}

/// A request for approval of one call, and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub id: ApprovalId,
    pub question: ApprovalQuestion,
    pub asked_of: Approver,
    pub asked_at: Timestamp,
    /// Deadline of the approval: without an answer by then it counts as denied, and a given approval is no longer
    /// usable.
    pub expires_at: Timestamp,
    pub state: ApprovalState,
}

/// The call that an approval is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalQuestion {
    pub call: CallId,
    /// Digest of the arguments; the decision holds for exactly these.
    pub arguments_digest: Digest,
    /// Arguments of the call, shown to the person who decides.
    pub arguments: Value,
    pub caller: Principal,
    pub agent: AgentName,
    pub tool: ToolName,
    pub scope: Option<ScopeId>,
    pub session: Option<SessionId>,
}

/// Lifecycle of an approval. Transitions never go back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ApprovalState {
    Pending,
    /// The call was approved and has not used the approval yet.
    Allowed {
        by: Principal,
        at: Timestamp,
    },
    Denied {
        by: Principal,
        at: Timestamp,
        reason: Option<String>,
    },
    /// The call has used the approval.
    Used {
        /// The principal that approved the call.
        by: Principal,
        /// Time at which the call used the approval.
        at: Timestamp,
    },
    /// The approval got no answer in time, or the call ended before.
    Expired {
        at: Timestamp,
    },
}

impl ApprovalState {
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed { .. } => "allowed",
            Self::Denied { .. } => "denied",
            Self::Used { .. } => "used",
            Self::Expired { .. } => "expired",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// Approves the call with exactly these arguments.
    Allow,
    Deny {
        reason: Option<String>,
    },
}

/// A transition that the approval's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// The approval's state does not allow the step; the text is the name of that state.
    #[error("the approval is already {0}")]
    Closed(&'static str),
    /// The approval expired at this time.
    #[error("the approval expired at {0}")]
    TooLate(Timestamp),
    /// A caller cannot decide on its own call unless its app was asked.
    #[error("{0} made the call and cannot approve it")]
    OwnCall(Principal),
    /// The approval was given for another call or other arguments.
    #[error("the approval is for another call or other arguments")]
    OtherCall,
}

impl Approval {
    /// Records the answer to an approval. Fails if the approval is closed or expired, or if `by` is the caller; only
    /// the answer of the caller's own app ([`Approver::Client`]) may come from the caller.
    pub fn decide(mut self, answer: ApprovalAnswer, by: Principal, now: Timestamp) -> Result<Self, ApprovalError> {
        if self.state != ApprovalState::Pending {
            return Err(ApprovalError::Closed(self.state.as_str()));
        }
        if now >= self.expires_at {
            return Err(ApprovalError::TooLate(self.expires_at));
        }
        if self.asked_of != Approver::Client && by == self.question.caller {
            return Err(ApprovalError::OwnCall(by));
        }
        self.state = match answer {
            ApprovalAnswer::Allow => ApprovalState::Allowed { by, at: now },
            ApprovalAnswer::Deny { reason } => ApprovalState::Denied { by, at: now, reason },
        };
        Ok(self)
    }

    /// Uses an approval for exactly the call it was given for. Fails if it is not allowed, expired, or bound to
    /// another call.
    pub fn redeem(mut self, call: &CallId, arguments: &Digest, now: Timestamp) -> Result<Self, ApprovalError> {
        let ApprovalState::Allowed { by, .. } = &self.state else {
            return Err(ApprovalError::Closed(self.state.as_str()));
        };
        if now >= self.expires_at {
            return Err(ApprovalError::TooLate(self.expires_at));
        }
        if self.question.call != *call || self.question.arguments_digest != *arguments {
            return Err(ApprovalError::OtherCall);
        }
        self.state = ApprovalState::Used { by: by.clone(), at: now };
        Ok(self)
    }

    /// Closes a pending approval without an answer. Fails if the approval is no longer pending; the deadline is not
    /// checked.
    pub fn expire(mut self, now: Timestamp) -> Result<Self, ApprovalError> {
        if self.state != ApprovalState::Pending {
            return Err(ApprovalError::Closed(self.state.as_str()));
        }
        self.state = ApprovalState::Expired { at: now };
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const T0: Timestamp = Timestamp::from_millis(1_000);
    const SOON: Timestamp = Timestamp::from_millis(2_000);
    const LATE: Timestamp = Timestamp::from_millis(9_000);

    fn pending() -> Approval {
        let arguments = json!({"room": "101"});
        Approval {
            id: ApprovalId::parse("apr_1").unwrap(),
            question: ApprovalQuestion {
                call: CallId::parse("c1").unwrap(),
                arguments_digest: Digest::of_json(&arguments),
                arguments,
                caller: Principal::Local,
                agent: AgentName::parse("hotel").unwrap(),
                tool: ToolName::parse("book").unwrap(),
                scope: None,
                session: None,
            },
            asked_of: Approver::Operators,
            asked_at: T0,
            expires_at: Timestamp::from_millis(5_000),
            state: ApprovalState::Pending,
        }
    }

    #[test]
    fn approval_is_redeemed_only_once_in_time_and_for_the_same_arguments() {
        let (call, digest) = (pending().question.call, pending().question.arguments_digest);
        assert_eq!(pending().redeem(&call, &digest, SOON), Err(ApprovalError::Closed("pending")));
        let allowed = pending().decide(ApprovalAnswer::Allow, Principal::Operator, SOON).unwrap();
        let other = Digest::of_json(&json!({"room": "102"}));
        assert_eq!(allowed.clone().redeem(&call, &other, SOON), Err(ApprovalError::OtherCall));
        assert_eq!(allowed.clone().redeem(&call, &digest, LATE), Err(ApprovalError::TooLate(allowed.expires_at)));
        let used = allowed.redeem(&call, &digest, SOON).unwrap();
        assert_eq!(used.redeem(&call, &digest, SOON), Err(ApprovalError::Closed("used")));
    }

    #[test]
    fn approval_decision_by_the_caller_or_late_or_repeated_is_refused() {
        assert_eq!(
            pending().decide(ApprovalAnswer::Allow, Principal::Local, SOON),
            Err(ApprovalError::OwnCall(Principal::Local))
        );
        assert!(matches!(
            pending().decide(ApprovalAnswer::Allow, Principal::Operator, LATE),
            Err(ApprovalError::TooLate(_))
        ));
        let denied = pending().decide(ApprovalAnswer::Deny { reason: None }, Principal::Operator, SOON).unwrap();
        assert_eq!(
            denied.decide(ApprovalAnswer::Allow, Principal::Operator, SOON),
            Err(ApprovalError::Closed("denied"))
        );
        assert_eq!(
            pending().expire(LATE).unwrap().decide(ApprovalAnswer::Allow, Principal::Operator, SOON),
            Err(ApprovalError::Closed("expired"))
        );
    }
}
