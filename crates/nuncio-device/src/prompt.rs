//! Asking the person. How is for whoever shows it; what is asked, and how long, is the guard's.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::agent::Sensitivity;
use nuncio_core::ids::{AgentId, CallId, ConversationId, ScopeId, ToolName};
use nuncio_core::time::Timestamp;
use serde::Serialize;

use crate::words::{ScopeWords, Words};

/// A question to the person. Every text that came from the agent is plain: no controls, no tricks with direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Names it.
    pub id: String,
    /// Who asks.
    pub agent: AgentId,
    /// As it calls itself.
    pub agent_name: String,
    /// How it is known that it is that agent.
    pub verified: Verified,
    /// The call.
    pub call: CallId,
    /// Where.
    pub conversation: ConversationId,
    /// What is to be run.
    pub tool: ToolName,
    /// What the agent says it is, in its words.
    pub description: Words,
    /// With exactly these arguments, as readable JSON.
    pub arguments: String,
    /// By which permission.
    pub scope: ScopeId,
    /// What that means.
    pub scope_words: ScopeWords,
    /// How much is at stake.
    pub sensitivity: Sensitivity,
    /// When it is too late to answer.
    pub until: Timestamp,
}

/// How it is known who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Verified {
    /// By the keys it had at first contact.
    FirstContact,
    /// A DID vouches for its keys.
    Did {
        /// Which.
        did: String,
    },
}

/// What the person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Yes, to this call.
    Yes,
    /// No.
    No,
}

/// Asks the person.
#[async_trait]
pub trait Prompt: fmt::Debug + Send + Sync + 'static {
    /// Asks, and waits for an answer. It is dropped when it is too late, or another device was faster.
    async fn ask(&self, question: &Question) -> Said;

    /// Whether a person may be sitting there. Where nobody does, their other devices go first with a no.
    fn is_attended(&self) -> bool {
        true
    }
}

/// Says no to everything: for devices that nobody looks at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

#[async_trait]
impl Prompt for Nobody {
    async fn ask(&self, _: &Question) -> Said {
        Said::No
    }

    fn is_attended(&self) -> bool {
        false
    }
}

/// Asks in two places at once; the first answer counts, and the question is gone from the other.
#[derive(Debug)]
pub struct Either(pub std::sync::Arc<dyn Prompt>, pub std::sync::Arc<dyn Prompt>);

#[async_trait]
impl Prompt for Either {
    async fn ask(&self, question: &Question) -> Said {
        tokio::select! {
            said = self.0.ask(question) => said,
            said = self.1.ask(question) => said,
        }
    }
}

/// Arguments as people read them: indented, without tricks, and whole, since nobody agrees to what they are not shown.
/// They are no longer than a message may be.
#[must_use]
pub fn readable(arguments: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    nuncio_core::text::printable(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// Some question.
    pub(crate) fn question() -> Question {
        Question {
            id: "1".to_owned(),
            agent: AgentId::parse("agt_1").unwrap(),
            agent_name: "Notes".to_owned(),
            verified: Verified::FirstContact,
            call: CallId::parse("call_1").unwrap(),
            conversation: ConversationId::parse("cnv_1").unwrap(),
            tool: ToolName::parse("read_file").unwrap(),
            description: Words::default(),
            arguments: "{}".to_owned(),
            scope: ScopeId::parse("filesystem:read").unwrap(),
            scope_words: ScopeWords::default(),
            sensitivity: Sensitivity::Medium,
            until: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn what_is_shown_cannot_turn_itself_round_and_hides_nothing() {
        let shown = readable(&json!({"path": "a\u{202e}txt.exe\u{0007}"}));
        assert!(!shown.contains('\u{202e}') && !shown.contains('\u{0007}'), "{shown}");
        let long = readable(&json!({"a": "x".repeat(50_000), "command": "the end"}));
        assert!(long.contains("the end"), "what comes last is shown too");
    }
}
