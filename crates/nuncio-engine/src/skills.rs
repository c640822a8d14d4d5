//! Skills: what strangers may discover, and what a caller may see and use of it.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::{Agent, Run, Skill, SkillAccess, SkillAuth, Tool};
use nuncio_core::execution::InvocationTarget;
use nuncio_core::ids::ScopeId;
use nuncio_core::policy::asks_others;
use nuncio_core::principal::Principal;

use crate::Engine;
use crate::access::{Caller, Credential, Hold};
use crate::call::DEVICE_ASKS;
use crate::publish::Served;

/// A skill with whom it belongs to.
#[derive(Debug)]
pub struct Offered {
    /// The agent that offers it.
    pub served: Arc<Served>,
    /// Its tool; none for the agent as a whole.
    pub tool: Option<Arc<Tool>>,
}

impl Offered {
    /// Everything an agent offers.
    pub(crate) fn all(served: &Arc<Served>) -> impl Iterator<Item = Self> {
        let offered = |tool| Self { served: Arc::clone(served), tool };
        let whole = served.agent.skill.iter().map(|_| None);
        let tools = served.agent.tools.iter().filter(|tool| tool.skill.is_some()).map(|tool| Some(Arc::clone(tool)));
        whole.chain(tools).map(offered)
    }

    /// What its author says about it.
    #[must_use]
    pub fn skill(&self) -> &Skill {
        let skill = self.tool.as_ref().map_or(&self.served.agent.skill, |tool| &tool.skill);
        skill.as_deref().expect("only what has a skill is offered")
    }

    /// Whether not everyone sees it: only those who may use it, or who belong to a person.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.skill().access == SkillAccess::Private || self.is_on_device()
    }

    fn is_on_device(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| tool.on_device())
    }

    /// What is run.
    #[must_use]
    pub fn target(&self) -> InvocationTarget {
        self.tool.as_ref().map_or(InvocationTarget::Agent, |tool| InvocationTarget::Tool(tool.name.clone()))
    }

    /// The permission it needs.
    #[must_use]
    pub fn scope(&self) -> Option<&ScopeId> {
        self.tool.as_ref().and_then(|tool| tool.scope.as_ref())
    }

    /// Whether people do it, in their own time.
    pub(crate) fn is_for_people(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| matches!(tool.run, Run::Human(_)))
    }
}

/// Why a caller may not use a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Barred {
    /// It does not exist for them.
    NotFound,
    /// They have not said who they are in the way it asks for.
    Unknown,
    /// They may not.
    Ungranted {
        /// What they lack.
        required: Vec<ScopeId>,
        /// What they have of this agent.
        granted: Vec<ScopeId>,
    },
}

impl Engine {
    /// The skills that exist for the caller, by id; none is nobody.
    #[must_use]
    pub fn skills(&self, caller: Option<&Caller>) -> Vec<Arc<Offered>> {
        let mut skills = self.served().skills();
        skills.retain(|offered| self.may_see(caller, offered));
        skills
    }

    /// The skill of that id, if it exists for the caller.
    #[must_use]
    pub fn skill(&self, caller: Option<&Caller>, id: &str) -> Option<Arc<Offered>> {
        self.served().skill(id).filter(|offered| self.may_see(caller, offered))
    }

    /// The skill of that id, whoever asks. What it is called and how its callers say who they are may be
    /// read from it; whether it exists for a caller must not.
    #[must_use]
    pub fn any_skill(&self, id: &str) -> Option<Arc<Offered>> {
        self.served().skill(id)
    }

    /// How long one execution of it may take: the tool's own time, and that of whoever must be asked first.
    #[must_use]
    pub fn execution_timeout(&self, offered: &Offered) -> Duration {
        match &offered.tool {
            Some(tool) => self.call_timeout(&offered.served.agent, tool),
            None => self.queue().limits().timeout,
        }
    }

    /// How long one call of a tool may take where the caller's own person is not asked: the tool's own time, and that
    /// of the approver or the device.
    #[must_use]
    pub fn call_timeout(&self, agent: &Agent, tool: &Tool) -> Duration {
        let asking = match () {
            () if tool.on_device() => DEVICE_ASKS,
            () if asks_others(agent, tool) => self.limits().approval,
            () => Duration::ZERO,
        };
        tool.timeout + asking
    }

    /// Whether any skill here is one that not everyone sees.
    #[must_use]
    pub fn has_private_skills(&self) -> bool {
        self.served().any_skill(Offered::is_hidden)
    }

    fn may_see(&self, caller: Option<&Caller>, offered: &Offered) -> bool {
        if offered.is_on_device() && caller.is_none_or(|caller| caller.person.is_none()) {
            return false;
        }
        match offered.skill().access {
            SkillAccess::Public | SkillAccess::Restricted => true,
            SkillAccess::Private => caller.is_some_and(|caller| is_known(caller) && self.holds(caller, offered)),
        }
    }

    /// Whether the caller may use the skill.
    ///
    /// # Errors
    /// Why not.
    pub fn may_use(&self, caller: &Caller, offered: &Offered) -> Result<(), Barred> {
        if !self.may_see(Some(caller), offered) {
            return Err(Barred::NotFound);
        }
        if !identifies(&offered.skill().auth, caller) {
            return Err(Barred::Unknown);
        }
        if self.holds(caller, offered) {
            return Ok(());
        }
        let agent = &offered.served.agent;
        let has = |scope: &&ScopeId| self.access_table().hold(caller, &agent.name, scope, self.now()) != Hold::No;
        Err(Barred::Ungranted {
            required: offered.scope().cloned().into_iter().collect(),
            granted: agent.scopes.iter().map(|scope| &scope.id).filter(has).cloned().collect(),
        })
    }

    fn holds(&self, caller: &Caller, offered: &Offered) -> bool {
        let agent = &offered.served.agent.name;
        offered.scope().is_none_or(|scope| self.access_table().hold(caller, agent, scope, self.now()) != Hold::No)
    }
}

fn is_known(caller: &Caller) -> bool {
    caller.principal != Principal::Anonymous
}

/// Whether the caller has said who they are in the way asked for. Whoever runs the server need not.
fn identifies(auth: &SkillAuth, caller: &Caller) -> bool {
    if matches!(caller.principal, Principal::Local | Principal::Operator) {
        return true;
    }
    match (auth, &caller.credential) {
        (SkillAuth::None, _)
        | (SkillAuth::ApiKey { .. }, Credential::Key)
        | (SkillAuth::Custom, Credential::Signature) => true,
        (SkillAuth::OAuth2 { issuer }, Credential::Token { .. }) => match (&caller.principal, issuer) {
            (Principal::OAuth { issuer: found, .. }, Some(wanted)) => {
                found.trim_end_matches('/') == wanted.as_str().trim_end_matches('/')
            }
            _ => true,
        },
        _ => false,
    }
}
