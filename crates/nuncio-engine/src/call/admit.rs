//! Admission of a call: every check before the tool runs, in the order of the chain.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::agent::Tool;
use nuncio_core::approval::{ApprovalQuestion, Approver};
use nuncio_core::audit::AuditReferences;
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::ScopeId;
use nuncio_core::message::UNREADABLE_ARGUMENTS_KEY;
use nuncio_core::policy::{CallPolicyFacts, ClientConsent, PolicyDecision, decide};
use nuncio_core::principal::Principal;

use super::CallInProgress;
use super::request::ClientDecision;
use crate::access::ScopePermission;
use crate::approve::ApprovalPermit;
use crate::call_failure::{CallRefusal, denial};
use crate::error::EngineError;
use crate::ports::runner::NO_LINKED_PERSON;
use crate::ports::store::{AccessChange, Change};

pub(super) enum CallAdmissionResult {
    AskClient,
    Refused(CallRefusal),
    Admitted(AdmittedCall),
}

/// An admitted call, and the changes (used grant, used approval) that are committed with its start.
pub(super) struct AdmittedCall {
    pub(super) tool: Arc<Tool>,
    pub(super) allowed_by: Vec<String>,
    pub(super) spends: Vec<Change>,
    pub(super) references: AuditReferences,
}

impl CallAdmissionResult {
    fn refused_by_policy(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused(CallRefusal::new("policy", ExecutionFailure { code, message: message.into() }))
    }
}

impl CallInProgress<'_> {
    /// Runs every check before the tool itself, in the order of the chain.
    pub(super) async fn admit(&self) -> Result<CallAdmissionResult, EngineError> {
        let call = &self.call;
        let agent = &call.published.agent;
        // Device tools exist only for callers with a person.
        let reaches = |tool: &&Arc<Tool>| call.offered && (!tool.on_device() || call.caller.person.is_some());
        let Some(tool) = agent.tool(call.tool.as_str()).filter(reaches) else {
            // Only the agent's own brain learns why; other callers do not learn that the tool exists.
            let is_on_device =
                call.turn.is_some() && agent.tool(call.tool.as_str()).is_some_and(|tool| tool.on_device());
            let why = if call.offered && is_on_device { format!(": {NO_LINKED_PERSON}") } else { String::new() };
            return Ok(CallAdmissionResult::refused_by_policy(
                ErrorCode::ToolNotFound,
                format!("Tool not found: {}{why}", call.tool),
            ));
        };
        if let PolicyDecision::Deny(_) = decide(&self.facts(tool, self.permission(tool).is_some(), None)) {
            return Ok(CallAdmissionResult::Refused(self.ungranted(tool)));
        }
        if let Err(faults) = tool.input.check(&self.arguments) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            // What the schema says about the placeholder of a model's malformed JSON would mislead the model.
            let is_unreadable = call.turn.is_some() && self.arguments.get(UNREADABLE_ARGUMENTS_KEY).is_some();
            let why = if is_unreadable {
                "they are not a JSON object, so the call did not run; call again with one JSON object".to_owned()
            } else {
                faults.join("; ")
            };
            return Ok(CallAdmissionResult::refused_by_policy(
                ErrorCode::InvalidArguments,
                format!("Invalid arguments: {why}"),
            ));
        }
        if let ClientDecision::No { reason } = &call.client {
            let failure = ExecutionFailure { code: ErrorCode::Denied, message: denial(reason.as_deref()) };
            return Ok(CallAdmissionResult::Refused(CallRefusal::new("client", failure)));
        }

        let mut permit: Option<Box<ApprovalPermit>> = None;
        let permission = loop {
            // The permission is checked again after each wait, because the grant may have been revoked.
            let permission = self.permission(tool);
            let approved_by = permit.as_ref().map(|permit| &permit.by);
            match decide(&self.facts(tool, permission.is_some(), approved_by)) {
                PolicyDecision::Allow => break permission,
                PolicyDecision::Deny(_) => return Ok(CallAdmissionResult::Refused(self.ungranted(tool))),
                PolicyDecision::Ask(Approver::Client) => return Ok(CallAdmissionResult::AskClient),
                PolicyDecision::Ask(_) if permit.is_some() => {
                    return Ok(CallAdmissionResult::refused_by_policy(
                        ErrorCode::Denied,
                        denial(Some("someone other than the caller must approve it")),
                    ));
                }
                // Boxed, so that the futures of other calls stay small.
                PolicyDecision::Ask(approver) => match Box::pin(self.ask(tool, approver)).await? {
                    Ok(given) => permit = Some(given),
                    Err(refusal) => return Ok(CallAdmissionResult::Refused(refusal)),
                },
            }
        };

        let mut allowed_by = Vec::new();
        if call.client == ClientDecision::Yes {
            allowed_by.push("client".to_owned());
        }
        allowed_by.extend(permit.iter().map(|permit| permit.by.to_string()));
        if allowed_by.is_empty() {
            allowed_by.push("policy".to_owned());
        }
        let (once, rule) = permission.map(|permission| (permission.once, permission.source)).unzip();
        let approval = permit.as_ref().map(|permit| permit.approval.clone());
        let references = AuditReferences { approval, messages: Vec::new(), rule };
        let used_grant = once.flatten().map(|grant| AccessChange::UseGrant(grant).into());
        let spends = used_grant.into_iter().chain(permit.map(|permit| permit.redeemed)).collect();
        Ok(CallAdmissionResult::Admitted(AdmittedCall { tool: Arc::clone(tool), allowed_by, spends, references }))
    }

    fn facts<'b>(&'b self, tool: &Tool, granted: bool, approved_by: Option<&'b Principal>) -> CallPolicyFacts<'b> {
        let scope = tool.scope.as_ref().and_then(|id| self.call.published.agent.scope(id));
        CallPolicyFacts {
            caller: &self.call.caller.principal,
            speaks_for_person: self.call.caller.speaks_for_person(),
            granted,
            sensitivity: scope.map(|scope| scope.sensitivity),
            human_authorization: tool.human_authorization,
            client: self.client_consent(),
            approved_by,
            linked_person: self.call.caller.person.as_ref(),
            on_device: tool.on_device(),
        }
    }

    fn client_consent(&self) -> ClientConsent {
        match self.call.client {
            ClientDecision::NotAsked => ClientConsent::NotNeeded,
            ClientDecision::Trusts => ClientConsent::Trusted,
            ClientDecision::AskFirst => ClientConsent::Unasked,
            // A denial by the client was handled before.
            ClientDecision::Yes | ClientDecision::No { .. } => ClientConsent::Granted,
        }
    }

    async fn ask(
        &self,
        tool: &Tool,
        approver: Approver,
    ) -> Result<Result<Box<ApprovalPermit>, CallRefusal>, EngineError> {
        self.calls.ensure_committed(self.call.pending_insert).await?;
        let call = &self.call;
        let question = ApprovalQuestion {
            call: call.id.clone(),
            arguments_digest: self.digest,
            arguments: self.arguments.clone(),
            caller: call.caller.principal.clone(),
            agent: call.published.agent.name.clone(),
            tool: tool.name.clone(),
            scope: tool.scope.clone(),
            session: call.turn.as_ref().map(|(session, _)| session.clone()),
        };
        self.calls.approvals.ask(question, approver, call.deadline, call.cancel).await
    }

    /// The refusal of a call whose scope the caller does not have.
    pub(super) fn ungranted(&self, tool: &Tool) -> CallRefusal {
        let (call, agent) = (&self.call, &self.call.published.agent.name);
        let scope = tool.scope.as_ref().map(ScopeId::as_str).unwrap_or_default();
        let is_suspended =
            |scope: &ScopeId| tool.on_device() && self.calls.access.is_suspended(call.caller, agent, scope);
        let why = match &call.caller.person {
            Some(person) if tool.scope.as_ref().is_some_and(is_suspended) => format!(
                "the agent has changed since {person} allowed {scope}, so {person} must confirm it again on their \
                 device, on the page of {agent}; `nuncio device open` opens the pages"
            ),
            Some(person) if tool.on_device() => format!(
                "the scope {scope} has not been granted; {person} can allow it on their device, on the page of \
                 {agent}; `nuncio device open` opens the pages"
            ),
            _ => format!(
                "the scope {scope} has not been granted; an operator of the server can grant it with `nuncio grant \
                 create`"
            ),
        };
        let message = denial(Some(&why));
        CallRefusal::new("policy", ExecutionFailure { code: ErrorCode::ScopeNotGranted, message })
    }

    /// The caller's permission to use the tool now.
    pub(super) fn permission(&self, tool: &Tool) -> Option<ScopePermission> {
        self.calls.access.tool_permission(self.call.caller, &self.call.published.agent.name, tool)
    }
}
