//! Answers for a device that nobody sits at: a file that says yes, no or nothing, by agent and scope.

use async_trait::async_trait;
use nuncio_core::agent::Sensitivity;
use nuncio_core::ids::{AgentId, ScopeId};
use serde::Deserialize;

use crate::prompt::{Prompt, Question, Said};

/// A file of answers: the first rule that fits counts, and none is no.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The rules.
    #[serde(default)]
    pub rule: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// For which agent; any when none is named.
    pub agent: Option<AgentId>,
    /// For which scope; any when none is named.
    pub scope: Option<ScopeId>,
    /// Up to how much at stake it says yes; `medium` when it does not say. What is high is said yes to only by name.
    pub at_most: Option<Sensitivity>,
    /// What it says.
    pub answer: Answer,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes.
    Allow,
    /// No.
    Deny,
}

impl PolicyFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// It is no such file; the sentence says where.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|why| why.to_string())
    }

    fn answer(&self, question: &Question) -> Said {
        let fits = |rule: &&Rule| {
            rule.agent.as_ref().is_none_or(|agent| *agent == question.agent)
                && rule.scope.as_ref().is_none_or(|scope| *scope == question.scope)
        };
        match self.rule.iter().find(fits) {
            Some(rule) if rule.answer == Answer::Allow => {
                match question.sensitivity <= rule.at_most.unwrap_or(Sensitivity::Medium) {
                    true => Said::Yes,
                    false => Said::No,
                }
            }
            _ => Said::No,
        }
    }
}

#[async_trait]
impl Prompt for PolicyFile {
    async fn ask(&self, question: &Question) -> Said {
        self.answer(question)
    }

    fn is_attended(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
