//! Interface for asking the person about a tool call.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::agent::Sensitivity;
use nuncio_core::call_source::CallSource;
use nuncio_core::ids::{AgentId, CallId, ConversationId, ScopeId, ToolName};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::localized_text::{SanitisedTextByLanguage, ScopeTexts};

/// Question to the person about one tool call. Texts from the agent have no control and no bidirectional characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptQuestion {
    pub id: String,
    pub agent: AgentId,
    pub agent_name: String,
    pub verified: AgentVerification,
    pub call: CallId,
    pub conversation: ConversationId,
    pub tool: ToolName,
    /// Description of the tool, written by the agent.
    pub description: SanitisedTextByLanguage,
    /// The call's complete arguments, as readable JSON.
    pub arguments: String,
    pub scope: ScopeId,
    pub scope_words: ScopeTexts,
    pub sensitivity: Sensitivity,
    /// App and conversation behind the call, as the agent states them.
    pub source: Option<CallSource>,
    /// Deadline for the person's answer.
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum AgentVerification {
    /// The agent is known only by the keys pinned at first contact.
    FirstContact,
    Did {
        did: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum PromptAnswer {
    /// Allows the call, and at medium sensitivity further ones from the same source for a day.
    #[serde(rename = "allow")]
    Yes,
    /// Allows this call and no other.
    #[serde(rename = "once")]
    Once,
    #[serde(rename = "deny")]
    No,
}

#[async_trait]
pub trait PermissionPrompt: fmt::Debug + Send + Sync + 'static {
    /// Asks the person. The caller drops the future at the deadline, or when another device claims the call.
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer;

    /// Whether a person may be present. If not, a no waits until the person's other devices had time to answer.
    fn is_attended(&self) -> bool {
        true
    }
}

/// Prompt that answers no to everything, for devices without a user interface.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAllPrompts;

#[async_trait]
impl PermissionPrompt for DenyAllPrompts {
    async fn ask(&self, _: &PromptQuestion) -> PromptAnswer {
        PromptAnswer::No
    }

    fn is_attended(&self) -> bool {
        false
    }
}

/// Prompt that asks through two others at once; the first answer counts.
#[derive(Debug)]
pub struct FirstAnswerPrompt(pub std::sync::Arc<dyn PermissionPrompt>, pub std::sync::Arc<dyn PermissionPrompt>);

#[async_trait]
impl PermissionPrompt for FirstAnswerPrompt {
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer {
        tokio::select! {
            answer = self.0.ask(question) => answer,
            answer = self.1.ask(question) => answer,
        }
    }
}

/// Arguments as indented, sanitised JSON; never shortened, because the person must see everything that they approve.
#[must_use]
pub fn readable(arguments: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    nuncio_core::text::printable(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn question() -> PromptQuestion {
        PromptQuestion {
            id: "1".to_owned(),
            agent: AgentId::parse("agt_1").unwrap(),
            agent_name: "Notes".to_owned(),
            verified: AgentVerification::FirstContact,
            call: CallId::parse("call_1").unwrap(),
            conversation: ConversationId::parse("cnv_1").unwrap(),
            tool: ToolName::parse("read_file").unwrap(),
            description: SanitisedTextByLanguage::default(),
            arguments: "{}".to_owned(),
            scope: ScopeId::parse("filesystem:read").unwrap(),
            scope_words: ScopeTexts::default(),
            sensitivity: Sensitivity::Medium,
            source: None,
            until: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn arguments_in_prompt_have_no_control_or_bidi_characters_and_are_not_cut() {
        let shown = readable(&json!({"path": "a\u{202e}txt.exe\u{0007}"}));
        assert!(!shown.contains('\u{202e}') && !shown.contains('\u{0007}'), "{shown}");
        let long = readable(&json!({"a": "x".repeat(50_000), "command": "the end"}));
        assert!(long.contains("the end"), "what comes last is shown too");
    }
}
