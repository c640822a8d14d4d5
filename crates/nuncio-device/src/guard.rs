//! Decides on every tool call, in the protocol's order: no group, not late, declared tool, scope of the tool granted by
//! the person, valid arguments; then sensitivity and whether the person must be asked. The final decision is made by
//! the core's policy function, which the server uses too.

use std::collections::BTreeMap;
use std::time::Duration;

use nuncio_a2h::wire::artifact::{DenialReason, ToolCall, ToolErrorCode, ToolOutcome};
use nuncio_core::agent::Sensitivity;
use nuncio_core::audit::references::LedgerReference;
use nuncio_core::conversation::ConversationType;
use nuncio_core::ids::{AgentId, PersonName, ScopeId};
use nuncio_core::ledger::LedgerState;
use nuncio_core::manifest::{CheckedManifest, ManifestTool, Presets};
use nuncio_core::policy::{ClientConsent, Decision, PolicyFacts, decide};
use nuncio_core::principal::Principal;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;

use crate::known_agents::KnownAgent;

/// Tolerated clock difference between agent and device.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    pub person: &'a PersonName,
    pub agent: &'a AgentId,
    pub kind: ConversationType,
    pub call: &'a ToolCall,
    pub sealed_at: Timestamp,
    pub now: Timestamp,
}

/// Stored facts about the agent that a decision needs.
#[derive(Debug)]
pub struct AgentFacts<'a> {
    pub known: &'a KnownAgent,
    /// `None` when the agent has no valid manifest.
    pub manifest: Option<&'a CheckedManifest>,
    /// `None` when the ledger does not verify or the relation has ended.
    pub standing: Option<&'a LedgerState>,
    /// Well-known scopes with their minimum sensitivities.
    pub presets: &'a Presets,
    pub floors: &'a SensitivityFloors,
}

/// Minimum sensitivity per scope, set by an administrator.
pub type SensitivityFloors = BTreeMap<ScopeId, Sensitivity>;

/// A call that passed all checks but the person's decision.
#[derive(Debug, Clone)]
pub struct CheckedCall {
    pub tool: ManifestTool,
    pub stake: Sensitivity,
    pub time: Duration,
    pub ledger: LedgerReference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorDecision {
    Unasked,
    /// Consent window: the person recently said yes to the same agent for the same scope in the same conversation.
    RecentYes,
    Yes,
}

/// Checks everything that forbids a call, in the protocol's order. The error is the answer to send.
pub fn admit(facts: CallFacts<'_>, agent: &AgentFacts<'_>) -> Result<CheckedCall, ToolOutcome> {
    if facts.kind == ConversationType::Group {
        return Err(denied(DenialReason::ToolNotSupportedInGroup));
    }
    let tool = agent.manifest.and_then(|checked| checked.manifest.tool(facts.call.tool_name.as_str()));
    let requested = Duration::from_millis(facts.call.timeout_ms);
    // The manifest limits the time, however long the agent would wait.
    let time = tool.map_or(requested, |tool| tool.timeout.min(requested));
    if facts.now > facts.sealed_at.after(time).after(MAX_CLOCK_SKEW) {
        return Err(failed(ToolErrorCode::Unavailable, "the call arrived too late"));
    }
    if facts.sealed_at > facts.now.after(MAX_CLOCK_SKEW) {
        let message = "the call is dated in the future: the clock of the agent or of the device is wrong";
        return Err(failed(ToolErrorCode::Unavailable, message));
    }
    let tool = tool.ok_or_else(|| denied(DenialReason::ToolNotDeclared))?;
    // A call that names another scope than the manifest could bypass the consent needed for the tool.
    if facts.call.permission_scope != tool.scope {
        return Err(denied(DenialReason::ScopeNotGranted));
    }
    let standing = agent.standing.filter(|standing| agent.known.allows(standing, &tool.scope, facts.now));
    let LedgerState { head, relation, .. } = standing.ok_or_else(|| denied(DenialReason::ScopeNotGranted))?;
    if let Err(faults) = tool.input.check(&facts.call.arguments) {
        let faults: Vec<_> = faults.iter().take(5).map(|fault| plain(&fault.to_string())).collect();
        return Err(failed(ToolErrorCode::InvalidArguments, &faults.join("; ")));
    }
    let declared = agent.manifest.and_then(|checked| checked.manifest.scope(tool.scope.as_str()));
    let published = declared.map_or(Sensitivity::High, |scope| scope.sensitivity);
    let floors = [agent.presets.device_floor(&tool.scope), agent.floors.get(&tool.scope).copied()];
    Ok(CheckedCall {
        stake: agent.known.stake(&tool.scope, published, floors),
        time,
        tool: tool.clone(),
        ledger: LedgerReference { hash: head.hash, relation: relation.clone(), seq: head.seq },
    })
}

/// Whether an admitted call may run, or the person must be asked first.
#[must_use]
pub fn decide_call(facts: CallFacts<'_>, admitted: &CheckedCall, decision: PriorDecision) -> Decision {
    let (caller, person) = (Principal::Agent(facts.agent.clone()), Principal::Person(facts.person.clone()));
    let client = match (admitted.stake, decision) {
        (Sensitivity::Medium, PriorDecision::Unasked) => ClientConsent::Unasked,
        (Sensitivity::Medium, PriorDecision::RecentYes) => ClientConsent::Trusted,
        (_, PriorDecision::Yes) => ClientConsent::Granted,
        _ => ClientConsent::NotNeeded,
    };
    decide(&PolicyFacts {
        caller: &caller,
        // The caller is the agent; the person on this device is the approver.
        speaks_for_person: false,
        granted: true,
        sensitivity: Some(admitted.stake),
        human_authorization: false,
        client,
        approved_by: (decision == PriorDecision::Yes).then_some(&person),
        linked_person: Some(facts.person),
        on_device: false,
    })
}

pub(crate) const fn denied(reason: DenialReason) -> ToolOutcome {
    ToolOutcome::Denied { reason }
}

pub(crate) fn failed(error_code: ToolErrorCode, message: &str) -> ToolOutcome {
    ToolOutcome::Error { error_code, message: Some(message.to_owned()) }
}

#[cfg(test)]
mod tests;
