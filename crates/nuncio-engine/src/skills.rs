//! Published skills, and which callers may see and use them.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::{Agent, SkillAccess, SkillAuth, Tool};
use nuncio_core::ids::ScopeId;
use nuncio_core::policy::asks_others;
use nuncio_core::principal::Principal;

use crate::access::{AccessControl, AuthenticationMethod, Caller};
use crate::context::EngineContext;
use crate::publish::AgentService;
pub use crate::publish::PublishedSkill;

/// A caller and a skill that it may use; only [`SkillAccessService::permit`] creates it.
#[derive(Debug)]
pub struct SkillPermit {
    pub(crate) caller: Caller,
    pub(crate) offered: Arc<PublishedSkill>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAccessDenied {
    /// The caller may not know that the skill exists.
    NotFound,
    /// The caller did not authenticate in the way the skill requires.
    Unknown,
    /// The caller lacks scopes that the skill needs.
    Ungranted {
        required: Vec<ScopeId>,
        /// Scopes of this agent that the caller has.
        granted: Vec<ScopeId>,
    },
}

/// Published skills, and which callers may see and use them.
pub struct SkillAccessService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) agents: Arc<AgentService>,
    pub(crate) access: Arc<AccessControl>,
}

impl SkillAccessService {
    /// Skills visible to the caller, by id; `None` is an anonymous caller.
    #[must_use]
    pub fn visible_to(&self, caller: Option<&Caller>) -> Vec<Arc<PublishedSkill>> {
        let mut skills = self.agents.published.skills();
        skills.retain(|offered| self.may_see(caller, offered));
        skills
    }

    /// The skill with this id, if the caller may see it.
    #[must_use]
    pub fn skill(&self, caller: Option<&Caller>, id: &str) -> Option<Arc<PublishedSkill>> {
        self.agents.published.skill(id).filter(|offered| self.may_see(caller, offered))
    }

    /// The skill with this id for any caller. Must not be used to decide whether the skill exists for a caller.
    #[must_use]
    pub fn any_skill(&self, id: &str) -> Option<Arc<PublishedSkill>> {
        self.agents.published.skill(id)
    }

    /// Timeout of an execution: the tool's own, plus time for approval or device; for a whole agent the operator's
    /// limit.
    #[must_use]
    pub fn execution_timeout(&self, offered: &PublishedSkill) -> Duration {
        match &offered.tool {
            Some(tool) => self.call_timeout(&offered.served.agent, tool),
            None => self.context.limits.executions.timeout,
        }
    }

    /// Timeout of a call: the tool's own, plus time for the approver or the device.
    #[must_use]
    pub fn call_timeout(&self, agent: &Agent, tool: &Tool) -> Duration {
        let asking = match asks_others(agent, tool) {
            true => self.context.limits.approval,
            false => Duration::ZERO,
        };
        tool.call_time() + asking
    }

    /// Whether any skill is hidden from some callers.
    #[must_use]
    pub fn has_private_skills(&self) -> bool {
        self.agents.published.any_skill(PublishedSkill::is_hidden)
    }

    fn may_see(&self, caller: Option<&Caller>, offered: &PublishedSkill) -> bool {
        if offered.is_on_device() && caller.is_none_or(|caller| caller.person.is_none()) {
            return false;
        }
        match offered.skill().access {
            SkillAccess::Public | SkillAccess::Restricted => true,
            SkillAccess::Private => {
                caller.is_some_and(|caller| caller.principal != Principal::Anonymous && self.holds(caller, offered))
            }
        }
    }

    /// Checks that the caller may use the skill. The call chain decides again when the execution starts, because keys
    /// and grants may change meanwhile.
    pub fn permit(&self, caller: Caller, offered: Arc<PublishedSkill>) -> Result<SkillPermit, SkillAccessDenied> {
        self.check_permission(&caller, &offered).map(|()| SkillPermit { caller, offered })
    }

    fn check_permission(&self, caller: &Caller, offered: &PublishedSkill) -> Result<(), SkillAccessDenied> {
        if !self.may_see(Some(caller), offered) {
            return Err(SkillAccessDenied::NotFound);
        }
        if !identifies(&offered.skill().auth, caller) {
            return Err(SkillAccessDenied::Unknown);
        }
        if self.holds(caller, offered) {
            return Ok(());
        }
        let agent = &offered.served.agent;
        let has = |scope: &&ScopeId| self.access.has_scope(caller, &agent.name, scope);
        Err(SkillAccessDenied::Ungranted {
            required: offered.scope().cloned().into_iter().collect(),
            granted: agent.scopes.iter().map(|scope| &scope.id).filter(has).cloned().collect(),
        })
    }

    fn holds(&self, caller: &Caller, offered: &PublishedSkill) -> bool {
        let agent = &offered.served.agent.name;
        offered.tool.as_ref().is_none_or(|tool| self.access.tool_permission(caller, agent, tool).is_some())
    }
}

/// Whether the caller authenticated as the skill requires. Local callers and operators always did.
fn identifies(auth: &SkillAuth, caller: &Caller) -> bool {
    if matches!(caller.principal, Principal::Local | Principal::Operator) {
        return true;
    }
    match (auth, &caller.authentication) {
        (SkillAuth::None, _)
        | (SkillAuth::ApiKey { .. }, AuthenticationMethod::Key)
        | (SkillAuth::Custom, AuthenticationMethod::Signature) => true,
        (SkillAuth::OAuth2 { issuer }, AuthenticationMethod::Token { .. }) => match (&caller.principal, issuer) {
            (Principal::OAuth { issuer: found, .. }, Some(wanted)) => {
                found.trim_end_matches('/') == wanted.as_str().trim_end_matches('/')
            }
            _ => true,
        },
        _ => false,
    }
}
