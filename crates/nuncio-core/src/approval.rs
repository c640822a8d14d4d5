//! A person's decision on one call: bound to the call and the digest of its arguments, used once,
//! with an expiry, closed on no answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::ids::{AgentName, ApprovalId, CallId, PersonName, ScopeId, SessionId, ToolName};
use crate::principal::Principal;
use crate::time::Timestamp;

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    /// The app that is talking to the agent.
    Client,
    /// A person, on their own device.
    Device(PersonName),
    /// Those who run this server.
    Operators,
}

/// A question put to someone about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Names it.
    pub id: ApprovalId,
    /// What is asked.
    pub question: Question,
    /// Who is asked.
    pub asked_of: Approver,
    /// Since when.
    pub asked_at: Timestamp,
    /// No answer by then means no.
    pub expires_at: Timestamp,
    /// How far it is.
    pub state: ApprovalState,
}

/// The call that needs a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The call.
    pub call: CallId,
    /// The digest of its arguments; a decision holds for these and no others.
    pub arguments_digest: Digest,
    /// The arguments, for the one who decides.
    pub arguments: Value,
    /// Who calls.
    pub caller: Principal,
    /// Whose tool.
    pub agent: AgentName,
    /// Which tool.
    pub tool: ToolName,
    /// Under which permission.
    pub scope: Option<ScopeId>,
    /// In which conversation.
    pub session: Option<SessionId>,
}

/// The life of an approval. It moves one way only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ApprovalState {
    /// Waiting for an answer.
    Pending,
    /// Someone said yes; the call has not used it yet.
    Allowed {
        /// Who.
        by: Principal,
        /// When.
        at: Timestamp,
    },
    /// Someone said no.
    Denied {
        /// Who.
        by: Principal,
        /// When.
        at: Timestamp,
        /// Why, if they said.
        reason: Option<String>,
    },
    /// The call has used it.
    Used {
        /// Who had said yes.
        by: Principal,
        /// When it was used.
        at: Timestamp,
    },
    /// Nobody answered in time, or the call went away.
    Expired {
        /// When.
        at: Timestamp,
    },
}

impl ApprovalState {
    /// One word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed { .. } => "allowed",
            Self::Denied { .. } => "denied",
            Self::Used { .. } => "used",
            Self::Expired { .. } => "expired",
        }
    }
}

/// An answer to the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes, for this call with these arguments.
    Allow,
    /// No.
    Deny {
        /// Why, if they said.
        reason: Option<String>,
    },
}

/// A step the approval's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// It is decided, used or expired.
    #[error("the approval is already {0}")]
    Closed(&'static str),
    /// Its time has run out.
    #[error("the approval expired at {0}")]
    TooLate(Timestamp),
    /// A caller cannot approve its own call.
    #[error("{0} made the call and cannot approve it")]
    OwnCall(Principal),
    /// It was given for another call or other arguments.
    #[error("the approval is for another call or other arguments")]
    OtherCall,
}

impl Approval {
    /// Answers the question.
    ///
    /// # Errors
    /// It is closed or too late, or the one who answers is the caller.
    pub fn decide(mut self, answer: Answer, by: Principal, now: Timestamp) -> Result<Self, ApprovalError> {
        if self.state != ApprovalState::Pending {
            return Err(ApprovalError::Closed(self.state.word()));
        }
        if now >= self.expires_at {
            return Err(ApprovalError::TooLate(self.expires_at));
        }
        if self.asked_of != Approver::Client && by == self.question.caller {
            return Err(ApprovalError::OwnCall(by));
        }
        self.state = match answer {
            Answer::Allow => ApprovalState::Allowed { by, at: now },
            Answer::Deny { reason } => ApprovalState::Denied { by, at: now, reason },
        };
        Ok(self)
    }

    /// Uses a yes, for exactly the call it was given for.
    ///
    /// # Errors
    /// There is no yes, it is too late, or the call is another.
    pub fn redeem(mut self, call: &CallId, arguments: &Digest, now: Timestamp) -> Result<Self, ApprovalError> {
        let ApprovalState::Allowed { by, .. } = &self.state else {
            return Err(ApprovalError::Closed(self.state.word()));
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

    /// Closes it with no answer.
    ///
    /// # Errors
    /// It is no longer waiting.
    pub fn expire(mut self, now: Timestamp) -> Result<Self, ApprovalError> {
        if self.state != ApprovalState::Pending {
            return Err(ApprovalError::Closed(self.state.word()));
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
            question: Question {
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
    fn a_yes_is_used_once_and_for_its_call_alone() {
        let (call, digest) = (pending().question.call, pending().question.arguments_digest);
        assert_eq!(pending().redeem(&call, &digest, SOON), Err(ApprovalError::Closed("pending")));
        let allowed = pending().decide(Answer::Allow, Principal::Operator, SOON).unwrap();
        let other = Digest::of_json(&json!({"room": "102"}));
        assert_eq!(allowed.clone().redeem(&call, &other, SOON), Err(ApprovalError::OtherCall));
        assert_eq!(allowed.clone().redeem(&call, &digest, LATE), Err(ApprovalError::TooLate(allowed.expires_at)));
        let used = allowed.redeem(&call, &digest, SOON).unwrap();
        assert_eq!(used.redeem(&call, &digest, SOON), Err(ApprovalError::Closed("used")));
    }

    #[test]
    fn the_caller_cannot_answer_and_nobody_can_answer_late_or_twice() {
        assert_eq!(
            pending().decide(Answer::Allow, Principal::Local, SOON),
            Err(ApprovalError::OwnCall(Principal::Local))
        );
        assert!(matches!(pending().decide(Answer::Allow, Principal::Operator, LATE), Err(ApprovalError::TooLate(_))));
        let denied = pending().decide(Answer::Deny { reason: None }, Principal::Operator, SOON).unwrap();
        assert_eq!(denied.decide(Answer::Allow, Principal::Operator, SOON), Err(ApprovalError::Closed("denied")));
        assert_eq!(
            pending().expire(LATE).unwrap().decide(Answer::Allow, Principal::Operator, SOON),
            Err(ApprovalError::Closed("expired"))
        );
    }
}
