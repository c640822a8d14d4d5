//! Answers prompts by the rules in a policy file, for a device without a user.

use async_trait::async_trait;
use nuncio_core::agent::Sensitivity;
use nuncio_core::ids::{AgentId, ScopeId};
use serde::Deserialize;

use crate::prompt::{PermissionPrompt, PromptAnswer, PromptQuestion};

/// Rules that answer prompts: the first matching rule decides; without a match the answer is no.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptPolicyFile {
    #[serde(default)]
    pub rule: Vec<PromptPolicyRule>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptPolicyRule {
    /// Agent that the rule matches; `None` matches every agent.
    pub agent: Option<AgentId>,
    /// Scope that the rule matches; `None` matches every scope.
    pub scope: Option<ScopeId>,
    /// Highest sensitivity that the rule allows; `medium` by default, so that `high` must be stated.
    pub at_most: Option<Sensitivity>,
    pub answer: PromptAnswer,
}

impl PromptPolicyFile {
    /// Parses a policy file; the error names line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|why| why.to_string())
    }

    fn answer(&self, question: &PromptQuestion) -> PromptAnswer {
        let fits = |rule: &&PromptPolicyRule| {
            rule.agent.as_ref().is_none_or(|agent| *agent == question.agent)
                && rule.scope.as_ref().is_none_or(|scope| *scope == question.scope)
        };
        let at_most = |rule: &PromptPolicyRule| rule.at_most.unwrap_or(Sensitivity::Medium);
        match self.rule.iter().find(fits) {
            Some(rule) if question.sensitivity <= at_most(rule) => rule.answer,
            _ => PromptAnswer::No,
        }
    }
}

#[async_trait]
impl PermissionPrompt for PromptPolicyFile {
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer {
        self.answer(question)
    }

    fn is_attended(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
