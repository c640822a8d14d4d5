//! The decision on every call, in the protocol's order: not in a group, not too late, a tool that is declared, under a
//! permission the manifest gives it and the person allows, with arguments that fit; then how much is at stake, and
//! whether the person has to be asked. The last word is the core's policy function, the same the server's chain calls.

use std::time::Duration;

use nuncio_a2h::wire::artifact::{ErrorCode, Outcome, Reason, ToolCall};
use nuncio_core::agent::Sensitivity;
use nuncio_core::audit::references::LedgerReference;
use nuncio_core::conversation::ConversationType;
use nuncio_core::ids::{AgentId, PersonName, ScopeId};
use nuncio_core::ledger::Standing;
use nuncio_core::manifest::{Checked, ManifestTool, Presets};
use nuncio_core::policy::{ClientConsent, Decision, Facts, decide};
use nuncio_core::principal::Principal;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;

use crate::standing::Known;

/// How long the person has to answer.
pub const ANSWER: Duration = Duration::from_secs(30);

/// How much later than its own time a call may come.
const SKEW: Duration = Duration::from_secs(30);

/// What the guard looks at.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Whose device this is.
    pub person: &'a PersonName,
    /// Who calls.
    pub agent: &'a AgentId,
    /// In what kind of conversation.
    pub kind: ConversationType,
    /// The call.
    pub call: &'a ToolCall,
    /// When its sender sealed it.
    pub sealed_at: Timestamp,
    /// Now.
    pub now: Timestamp,
}

/// What is known of the agent, looked up once for a case.
#[derive(Debug)]
pub struct Background<'a> {
    /// What is kept of it.
    pub known: &'a Known,
    /// Its manifest; none when it has none or a wrong one.
    pub manifest: Option<&'a Checked>,
    /// What the person allows it; none when the ledger does not hold, or it is over.
    pub standing: Option<&'a Standing>,
    /// The scopes everyone knows, with their floors.
    pub presets: &'a Presets,
    /// What an administrator set, at least.
    pub floors: &'a Floors,
}

/// What an administrator set: how much is at stake at least, by scope.
#[derive(Debug, Clone, Default)]
pub struct Floors(std::collections::BTreeMap<ScopeId, Sensitivity>);

impl Floors {
    /// These.
    #[must_use]
    pub fn new(floors: impl IntoIterator<Item = (ScopeId, Sensitivity)>) -> Self {
        Self(floors.into_iter().collect())
    }

    /// The floor of a scope.
    #[must_use]
    pub fn of(&self, scope: &ScopeId) -> Option<Sensitivity> {
        self.0.get(scope).copied()
    }
}

/// A call that nothing forbids.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The tool, as its manifest has it.
    pub tool: ManifestTool,
    /// How much is at stake.
    pub stake: Sensitivity,
    /// How long it may run.
    pub time: Duration,
    /// The ledger's last entry.
    pub ledger: LedgerReference,
}

/// What the person has said so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Nothing.
    None,
    /// Yes, a while ago, to the same agent for the same permission in the same conversation.
    Lately,
    /// Yes, to this very call.
    Yes,
}

/// Whether anything forbids the call, in the protocol's order.
///
/// # Errors
/// The answer to give.
pub fn admit(case: Case<'_>, about: &Background<'_>) -> Result<Admitted, Outcome> {
    if case.kind == ConversationType::Group {
        return Err(denied(Reason::ToolNotSupportedInGroup));
    }
    let tool = about.manifest.and_then(|checked| checked.manifest.tool(case.call.tool_name.as_str()));
    let asked = Duration::from_millis(case.call.timeout_ms);
    // However long an agent would wait: what its tool may take is what the manifest says.
    let time = tool.map_or(asked, |tool| tool.timeout.min(asked));
    if case.now > case.sealed_at.after(time).after(SKEW) {
        return Err(failed(ErrorCode::Unavailable, "the call came too late"));
    }
    if case.sealed_at > case.now.after(SKEW) {
        let message = "the call comes from the future: the agent's clock or the device's is wrong";
        return Err(failed(ErrorCode::Unavailable, message));
    }
    let tool = tool.ok_or_else(|| denied(Reason::ToolNotDeclared))?;
    // The manifest says which permission a tool needs; a call that names another one wants to slip through.
    if case.call.permission_scope != tool.scope {
        return Err(denied(Reason::ScopeNotGranted));
    }
    let standing = about.standing.filter(|standing| about.known.allows(standing, &tool.scope, case.now));
    let standing = standing.ok_or_else(|| denied(Reason::ScopeNotGranted))?;
    if let Err(faults) = tool.input.check(&case.call.arguments) {
        let faults: Vec<_> = faults.iter().take(5).map(|fault| plain(&fault.to_string())).collect();
        return Err(failed(ErrorCode::InvalidArguments, &faults.join("; ")));
    }
    let declared = about.manifest.and_then(|checked| checked.manifest.scope(tool.scope.as_str()));
    let published = declared.map_or(Sensitivity::High, |scope| scope.sensitivity);
    let floors = [about.presets.device_floor(&tool.scope), about.floors.of(&tool.scope)];
    Ok(Admitted {
        stake: about.known.stake(&tool.scope, published, floors),
        time,
        tool: tool.clone(),
        ledger: LedgerReference {
            hash: standing.head.hash,
            relation: standing.relation.clone(),
            seq: standing.head.seq,
        },
    })
}

/// Whether it may run, or the person has to be asked first.
#[must_use]
pub fn weigh(case: Case<'_>, admitted: &Admitted, word: Word) -> Decision {
    let (caller, person) = (Principal::Agent(case.agent.clone()), Principal::Person(case.person.clone()));
    let client = match (admitted.stake, word) {
        (Sensitivity::Medium, Word::None) => ClientConsent::Unasked,
        (Sensitivity::Medium, Word::Lately) => ClientConsent::Trusted,
        (_, Word::Yes) => ClientConsent::Granted,
        _ => ClientConsent::NotNeeded,
    };
    decide(&Facts {
        caller: &caller,
        // The caller is the agent; the person on this device is the approver.
        speaks_for_person: false,
        granted: true,
        sensitivity: Some(admitted.stake),
        human_authorization: false,
        client,
        approved_by: (word == Word::Yes).then_some(&person),
        linked_person: Some(case.person),
        on_device: false,
    })
}

pub(crate) const fn denied(reason: Reason) -> Outcome {
    Outcome::Denied { reason }
}

pub(crate) fn failed(error_code: ErrorCode, message: &str) -> Outcome {
    Outcome::Error { error_code, message: Some(message.to_owned()) }
}

#[cfg(test)]
mod tests;
