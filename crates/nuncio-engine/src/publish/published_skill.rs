//! Skills of the published agents.

use std::sync::Arc;

use nuncio_core::agent::{Skill, SkillAccess, Tool, ToolRunSpec};
use nuncio_core::execution::InvocationTarget;
use nuncio_core::ids::ScopeId;

use super::PublishedAgent;

/// A tool with a skill, or an agent that is a skill as a whole.
#[derive(Debug)]
pub struct PublishedSkill {
    pub served: Arc<PublishedAgent>,
    /// Tool that the skill runs; `None` if the skill is the agent as a whole.
    pub tool: Option<Arc<Tool>>,
}

impl PublishedSkill {
    pub(crate) fn all(served: &Arc<PublishedAgent>) -> impl Iterator<Item = Self> {
        let offered = |tool| Self { served: Arc::clone(served), tool };
        let whole = served.agent.skill.iter().map(|_| None);
        let tools = served.agent.tools.iter().filter(|tool| tool.skill.is_some()).map(|tool| Some(Arc::clone(tool)));
        whole.chain(tools).map(offered)
    }

    /// Skill section of the agent or tool in the agent file.
    #[must_use]
    pub fn skill(&self) -> &Skill {
        let skill = self.tool.as_ref().map_or(&self.served.agent.skill, |tool| &tool.skill);
        skill.as_deref().expect("only tools and agents with a skill are offered")
    }

    /// Whether only some callers see the skill: those who may use it, or who belong to a person.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.skill().access == SkillAccess::Private || self.is_on_device()
    }

    pub(crate) fn is_on_device(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| tool.on_device())
    }

    #[must_use]
    pub fn target(&self) -> InvocationTarget {
        self.tool.as_ref().map_or(InvocationTarget::Agent, |tool| InvocationTarget::Tool(tool.name.clone()))
    }

    #[must_use]
    pub fn scope(&self) -> Option<&ScopeId> {
        self.tool.as_ref().and_then(|tool| tool.scope.as_ref())
    }

    /// Whether people do the work of the skill.
    pub(crate) fn is_for_people(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| matches!(tool.run, ToolRunSpec::Human(_)))
    }
}
