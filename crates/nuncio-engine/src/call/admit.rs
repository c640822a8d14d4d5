//! Admission of a call: every check before the tool runs, in the order of the chain.

use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::agent::Tool;
use nuncio_core::approval::{ApprovalQuestion, Approver};
use nuncio_core::audit::AuditReferences;
use nuncio_core::audit::references::{ApprovalReference, PermissionSource};
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::policy::{ClientConsent, Decision, PolicyFacts, decide};
use nuncio_core::principal::Principal;

use super::request::ClientDecision;
use super::{CallChain, denial};
use crate::access::ScopeCheckResult;
use crate::approve::{ApprovalPermit, ApprovalReply};
use crate::error::EngineError;
use crate::ports::store::{AccessChange, Change};

pub(super) enum Admission {
    AskClient,
    Refused(CallRefusal),
    Admitted(AdmittedCall),
}

pub(super) struct CallRefusal {
    pub(super) by: String,
    pub(super) failure: ExecutionFailure,
    pub(super) approval: Option<ApprovalReference>,
}

/// An admitted call, and the changes (used grant, used approval) that are committed with its start.
pub(super) struct AdmittedCall {
    pub(super) tool: Arc<Tool>,
    pub(super) allowed_by: Vec<String>,
    pub(super) spends: Vec<Change>,
    pub(super) references: AuditReferences,
}

impl CallRefusal {
    pub(super) fn new(by: impl Into<String>, failure: ExecutionFailure) -> Self {
        Self { by: by.into(), failure, approval: None }
    }

    fn by_policy(code: Code, message: impl Into<String>) -> Admission {
        Admission::Refused(Self::new("policy", ExecutionFailure { code, message: message.into() }))
    }
}

impl CallChain<'_> {
    /// Runs every check before the tool itself, in the order of the chain.
    pub(super) async fn admit(&self) -> Result<Admission, EngineError> {
        let call = &self.call;
        let agent = &call.published.agent;
        // Device tools exist only for callers with a person.
        let reaches = |tool: &&Arc<Tool>| call.offered && (!tool.on_device() || call.caller.person.is_some());
        let Some(tool) = agent.tool(call.tool.as_str()).filter(reaches) else {
            return Ok(CallRefusal::by_policy(Code::ToolNotFound, format!("Tool not found: {}", call.tool)));
        };
        if let Decision::Deny(_) = decide(&self.facts(tool, &self.check_scope(tool).0, None)) {
            return Ok(Admission::Refused(ungranted(tool)));
        }
        if let Err(faults) = tool.input.check(&self.arguments) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            return Ok(CallRefusal::by_policy(
                Code::InvalidArguments,
                format!("Invalid arguments: {}", faults.join("; ")),
            ));
        }
        if let ClientDecision::No { reason } = &call.client {
            let failure = ExecutionFailure { code: Code::Denied, message: denial(reason.as_deref()) };
            return Ok(Admission::Refused(CallRefusal::new("client", failure)));
        }

        let mut permit: Option<Box<ApprovalPermit>> = None;
        let (check, rule) = loop {
            // Checked again after each wait, because the grant may have been revoked.
            let (check, rule) = self.check_scope(tool);
            let approved_by = permit.as_ref().map(|permit| &permit.by);
            match decide(&self.facts(tool, &check, approved_by)) {
                Decision::Allow => break (check, rule),
                Decision::Deny(_) => return Ok(Admission::Refused(ungranted(tool))),
                Decision::Ask(Approver::Client) => return Ok(Admission::AskClient),
                Decision::Ask(_) if permit.is_some() => {
                    return Ok(CallRefusal::by_policy(Code::Denied, denial(Some("nobody else has approved it"))));
                }
                // Boxed, so that the futures of other calls stay small.
                Decision::Ask(approver) => match Box::pin(self.ask(tool, approver)).await? {
                    ApprovalReply::Yes(given) => permit = Some(given),
                    ApprovalReply::No { by, failure, approval } => {
                        return Ok(Admission::Refused(CallRefusal { by, failure, approval }));
                    }
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
        let approval = permit.as_ref().map(|permit| permit.approval.clone());
        let references = AuditReferences { approval, messages: Vec::new(), rule };
        let mut spends = Vec::new();
        if let ScopeCheckResult::Once(grant) = check {
            spends.push(AccessChange::UseGrant(grant).into());
        }
        if let Some(permit) = permit {
            spends.push(permit.redeemed);
        }
        Ok(Admission::Admitted(AdmittedCall { tool: Arc::clone(tool), allowed_by, spends, references }))
    }

    fn facts<'b>(
        &'b self,
        tool: &Tool,
        check: &ScopeCheckResult,
        approved_by: Option<&'b Principal>,
    ) -> PolicyFacts<'b> {
        let scope = tool.scope.as_ref().and_then(|id| self.call.published.agent.scope(id));
        PolicyFacts {
            caller: &self.call.caller.principal,
            speaks_for_person: self.call.caller.speaks_for_person(),
            granted: *check != ScopeCheckResult::Denied,
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
            // A denial was handled before.
            ClientDecision::Yes | ClientDecision::No { .. } => ClientConsent::Granted,
        }
    }

    async fn ask(&self, tool: &Tool, approver: Approver) -> Result<ApprovalReply, EngineError> {
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
    /// Checks the tool's scope for the caller now.
    pub(super) fn check_scope(&self, tool: &Tool) -> (ScopeCheckResult, Option<PermissionSource>) {
        tool.scope.as_ref().map_or((ScopeCheckResult::Lasting, Some(PermissionSource::NoScope)), |scope| {
            match tool.on_device() {
                true => self.calls.access.check_device_scope(self.call.caller, &self.call.published.agent.name, scope),
                false => {
                    let agent = &self.call.published.agent.name;
                    self.calls.access.table.check_scope_by_rule(
                        self.call.caller,
                        agent,
                        scope,
                        self.calls.runtime.now(),
                    )
                }
            }
        })
    }
}

pub(super) fn ungranted(tool: &Tool) -> CallRefusal {
    let scope = tool.scope.as_ref().map(ToString::to_string).unwrap_or_default();
    let message = denial(Some(&format!("the scope {scope} has not been granted")));
    CallRefusal::new("policy", ExecutionFailure { code: Code::ScopeNotGranted, message })
}
