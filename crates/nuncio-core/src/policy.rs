//! The one function that decides whether a call may run. The server's chain and the device's guard
//! both call it.

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Sensitivity, Tool};
use crate::approval::Approver;
use crate::code::Code;
use crate::ids::PersonName;
use crate::principal::Principal;

/// The protocol a call came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Agent Application Protocol.
    Aap,
    /// Skill Sharing.
    Skill,
    /// Agent Network Protocol.
    Anp,
    /// Agent to Human.
    A2h,
}

impl Protocol {
    /// Its short name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aap => "aap",
            Self::Skill => "skill",
            Self::Anp => "anp",
            Self::A2h => "a2h",
        }
    }

    /// Reads its short name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Aap, Self::Skill, Self::Anp, Self::A2h].into_iter().find(|protocol| protocol.as_str() == text)
    }
}

/// What the decision rests on.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Who calls.
    pub caller: &'a Principal,
    /// Whether the operator let the caller in to speak for its own person: `local`, keys, and OAuth subjects of an
    /// issuer with `people = true`. Its answer then counts as that person's.
    pub speaks_for_person: bool,
    /// Whether the caller has the scope the tool needs; true when it needs none.
    pub granted: bool,
    /// What is at stake; none when the tool needs no scope.
    pub sensitivity: Option<Sensitivity>,
    /// Whether the tool asks for a person's approval each time.
    pub human_authorization: bool,
    /// What the app has said about being asked itself.
    pub client: ClientConsent,
    /// Who has said yes to this very call, other than the app.
    pub approved_by: Option<&'a Principal>,
    /// The person the caller belongs to.
    pub linked_person: Option<&'a PersonName>,
    /// Whether it runs on that person's device, which asks them itself.
    pub on_device: bool,
}

/// Whether the app wants to be asked before the agent runs a tool for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientConsent {
    /// The protocol has no such question, or the tool is the agent's own.
    NotNeeded,
    /// The app trusts this tool.
    Trusted,
    /// The app wants to be asked, and has not been.
    Unasked,
    /// The app said yes to this call.
    Granted,
}

/// What may happen to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// Someone must say yes first.
    Ask(Approver),
    /// It may not run.
    Deny(Code),
}

/// Decides. First what forbids, then whom to ask: the app, then a person who is not the caller.
#[must_use]
pub fn decide(facts: &Facts<'_>) -> Decision {
    if !facts.granted {
        return Decision::Deny(Code::ScopeNotGranted);
    }
    if facts.client == ClientConsent::Unasked {
        return Decision::Ask(Approver::Client);
    }
    // Someone who was asked answers for their own person; a caller that is not asked cannot.
    let answered = facts.speaks_for_person && facts.client != ClientConsent::NotNeeded;
    let asks = needs_approver(facts.sensitivity.filter(|_| !answered), facts.human_authorization, facts.on_device);
    if asks && facts.approved_by.is_none_or(|by| by == facts.caller) {
        return Decision::Ask(match facts.linked_person {
            // A person acting for themselves is the caller, so the operators are asked instead.
            Some(person) if *facts.caller != Principal::Person(person.clone()) => Approver::Device(person.clone()),
            _ => Approver::Operators,
        });
    }
    Decision::Allow
}

fn needs_approver(stake: Option<Sensitivity>, always: bool, on_device: bool) -> bool {
    !on_device && (always || stake == Some(Sensitivity::High))
}

/// Whether calls of a tool wait for an approver who is not the caller, in protocols that do not ask the caller's own
/// person: `human_authorization` and `high` sensitivity. A person's device asks that person itself.
#[must_use]
pub fn asks_others(agent: &Agent, tool: &Tool) -> bool {
    let scope = tool.scope.as_ref().and_then(|id| agent.scope(id));
    needs_approver(scope.map(|scope| scope.sensitivity), tool.human_authorization, tool.on_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(caller: &Principal) -> Facts<'_> {
        Facts {
            caller,
            speaks_for_person: true,
            granted: true,
            sensitivity: None,
            human_authorization: false,
            client: ClientConsent::Trusted,
            approved_by: None,
            linked_person: None,
            on_device: false,
        }
    }

    #[test]
    fn what_runs_on_a_device_is_asked_there_and_only_if_it_is_granted() {
        let caller = Principal::Anonymous;
        let device = Facts {
            on_device: true,
            human_authorization: true,
            sensitivity: Some(Sensitivity::High),
            speaks_for_person: false,
            client: ClientConsent::NotNeeded,
            ..facts(&caller)
        };
        assert_eq!(decide(&device), Decision::Allow);
        assert_eq!(decide(&Facts { granted: false, ..device }), Decision::Deny(Code::ScopeNotGranted));
    }

    #[test]
    fn trust_skips_the_apps_prompt_and_nothing_else() {
        let caller = Principal::Local;
        assert_eq!(decide(&facts(&caller)), Decision::Allow);
        let unasked = Facts { client: ClientConsent::Unasked, ..facts(&caller) };
        assert_eq!(decide(&unasked), Decision::Ask(Approver::Client));
        let authorised = Facts { human_authorization: true, ..facts(&caller) };
        assert_eq!(decide(&authorised), Decision::Ask(Approver::Operators));
        let ungranted = Facts { granted: false, ..facts(&caller) };
        assert_eq!(decide(&ungranted), Decision::Deny(Code::ScopeNotGranted));
    }

    #[test]
    fn high_call_needs_another_approver_unless_the_caller_answers_for_its_person() {
        use ClientConsent::{Granted, NotNeeded, Trusted};
        let caller = Principal::Anonymous;
        for (speaks_for_person, client, decision) in [
            (true, Trusted, Decision::Allow),
            (true, Granted, Decision::Allow),
            (true, NotNeeded, Decision::Ask(Approver::Operators)),
            (false, Trusted, Decision::Ask(Approver::Operators)),
            (false, Granted, Decision::Ask(Approver::Operators)),
            (false, NotNeeded, Decision::Ask(Approver::Operators)),
        ] {
            let high = Facts { speaks_for_person, sensitivity: Some(Sensitivity::High), client, ..facts(&caller) };
            assert_eq!(decide(&high), decision, "{speaks_for_person} {client:?}");
            assert_eq!(decide(&Facts { sensitivity: Some(Sensitivity::Medium), ..high }), Decision::Allow);
        }
    }

    #[test]
    fn caller_that_does_not_speak_for_a_person_is_still_asked() {
        let caller = Principal::Anonymous;
        let client = ClientConsent::Unasked;
        let high = Facts { speaks_for_person: false, sensitivity: Some(Sensitivity::High), client, ..facts(&caller) };
        assert_eq!(decide(&high), Decision::Ask(Approver::Client));
    }

    #[test]
    fn nobody_approves_their_own_call() {
        let caller = Principal::Local;
        let own = Facts { human_authorization: true, approved_by: Some(&caller), ..facts(&caller) };
        assert_eq!(decide(&own), Decision::Ask(Approver::Operators));
        let other = Facts { approved_by: Some(&Principal::Operator), ..own };
        assert_eq!(decide(&other), Decision::Allow);
    }

    #[test]
    fn a_linked_person_is_asked_on_their_device() {
        let ada = PersonName::parse("ada").unwrap();
        let caller = Principal::Anonymous;
        let linked = Facts { human_authorization: true, linked_person: Some(&ada), ..facts(&caller) };
        assert_eq!(decide(&linked), Decision::Ask(Approver::Device(ada.clone())));
        let herself = Principal::Person(ada.clone());
        let own = Facts { caller: &herself, ..linked };
        assert_eq!(decide(&own), Decision::Ask(Approver::Operators));
    }
}
