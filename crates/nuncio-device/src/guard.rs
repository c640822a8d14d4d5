//! Decides on every tool call, in the protocol's order: no group, not late, tool declared, its scope granted, arguments
//! valid; then whether the person must be asked. The server uses the same policy function of `nuncio_core`.

use std::collections::BTreeMap;
use std::time::Duration;

use nuncio_a2h::wire::artifact::{DenialReason, ToolCall, ToolErrorCode, ToolOutcome};
use nuncio_core::agent::Sensitivity;
use nuncio_core::audit::references::LedgerReference;
use nuncio_core::conversation::ConversationType;
use nuncio_core::ids::{AgentId, PersonName, ScopeId};
use nuncio_core::ledger::LedgerState;
use nuncio_core::manifest::{CheckedManifest, ManifestTool, ScopePresets};
use nuncio_core::policy::{CallPolicyFacts, ClientConsent, PolicyDecision, decide};
use nuncio_core::principal::Principal;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;

use crate::known_agents::KnownAgent;

/// Tolerated clock difference between agent and device.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub struct IncomingCallFacts<'a> {
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
    /// The agent's manifest; `None` if the agent has no valid one.
    pub manifest: Option<&'a CheckedManifest>,
    /// The person's grants; `None` if the ledger does not verify or the relation has ended.
    pub standing: Option<&'a LedgerState>,
    /// Well-known scopes with their minimum sensitivities.
    pub presets: &'a ScopePresets,
    pub floors: &'a SensitivityFloors,
}

/// Minimum sensitivity per scope, set by an administrator.
pub type SensitivityFloors = BTreeMap<ScopeId, Sensitivity>;

/// A call that passed all checks; only the person's decision may be missing.
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
    /// A consent window is open: the person recently said yes to the same agent, scope, conversation and source.
    RecentYes,
    Yes,
}

/// Checks every condition that forbids a call, in the protocol's order. The error is the answer to send.
pub fn admit(facts: IncomingCallFacts<'_>, agent: &AgentFacts<'_>) -> Result<CheckedCall, ToolOutcome> {
    if facts.kind == ConversationType::Group {
        return Err(denied(DenialReason::ToolNotSupportedInGroup));
    }
    let tool = agent.manifest.and_then(|checked| checked.manifest.tool(facts.call.tool_name.as_str()));
    let requested = Duration::from_millis(facts.call.timeout_ms);
    // The timeout in the manifest limits the one that the agent requests.
    let time = tool.map_or(requested, |tool| tool.timeout.min(requested));
    if facts.now > facts.sealed_at.after(time).after(MAX_CLOCK_SKEW) {
        return Err(failed(ToolErrorCode::Unavailable, "the call arrived too late"));
    }
    if facts.sealed_at > facts.now.after(MAX_CLOCK_SKEW) {
        let message = "the call is dated in the future: the clock of the agent or of the device is wrong";
        return Err(failed(ToolErrorCode::Unavailable, message));
    }
    let tool = tool.ok_or_else(|| denied(DenialReason::ToolNotDeclared))?;
    // Otherwise a call could name a granted scope instead of the scope that the tool needs.
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

/// Whether a permitted call may run, or the person must be asked first.
#[must_use]
pub fn decide_call(facts: IncomingCallFacts<'_>, admitted: &CheckedCall, decision: PriorDecision) -> PolicyDecision {
    let (caller, person) = (Principal::Agent(facts.agent.clone()), Principal::Person(facts.person.clone()));
    let client = match (admitted.stake, decision) {
        (Sensitivity::Medium, PriorDecision::Unasked) => ClientConsent::Unasked,
        (Sensitivity::Medium, PriorDecision::RecentYes) => ClientConsent::Trusted,
        (_, PriorDecision::Yes) => ClientConsent::Granted,
        _ => ClientConsent::NotNeeded,
    };
    decide(&CallPolicyFacts {
        caller: &caller,
        // The agent calls for itself; the person on this device only approves.
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
