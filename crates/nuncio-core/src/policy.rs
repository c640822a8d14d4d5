//! The function that decides whether a call may run. The server's call chain and the device's guard both use it.

use crate::agent::{Agent, Sensitivity, Tool};
use crate::approval::Approver;
use crate::code::ErrorCode;
use crate::ids::PersonName;
use crate::principal::Principal;
use crate::string_enum;

string_enum! {
    /// The protocol of a request to an agent.
    pub enum Protocol {
        /// The protocol is AAP, the Agent Application Protocol.
        Aap = "aap",
        Skill = "skill",
        /// The protocol is ANP, the Agent Network Protocol.
        Anp = "anp",
        /// The protocol is A2H, Agent to Human.
        A2h = "a2h",
        /// The protocol is MCP, the Model Context Protocol, with the agent as the server.
        Mcp = "mcp",
    }
}

/// The inputs of a decision whether a call may run.
#[derive(Debug, Clone)]
pub struct CallPolicyFacts<'a> {
    pub caller: &'a Principal,
    /// Whether the operator admitted the caller to speak for its own person: `local`, keys, and OAuth subjects of an
    /// issuer with `people = true`. The caller's answer then counts as that person's.
    pub speaks_for_person: bool,
    /// Whether the caller has the scope that the tool needs; true if it needs none.
    pub granted: bool,
    /// Sensitivity of the scope that the tool needs; `None` if it needs none.
    pub sensitivity: Option<Sensitivity>,
    /// Whether each call of the tool needs a person's approval.
    pub human_authorization: bool,
    /// The client application's answer to a permission prompt.
    pub client: ClientConsent,
    /// The principal, other than the client application, that approved this call; `None` before an approval.
    pub approved_by: Option<&'a Principal>,
    /// The person linked to the caller.
    pub linked_person: Option<&'a PersonName>,
    /// Whether the tool runs on a person's device, which asks the person itself.
    pub on_device: bool,
}

/// Whether the client application must be asked before a tool runs for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientConsent {
    /// The client is not asked: the protocol has no prompt, or the tool is hidden.
    NotNeeded,
    /// The client trusts this tool.
    Trusted,
    /// The client has not been asked yet.
    Unasked,
    /// The client allowed this call.
    Granted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyDecision {
    Allow,
    /// The call needs an approval first.
    Ask(Approver),
    Deny(ErrorCode),
}

/// Decides on a call: denies it without a grant, else asks the client if it has not been asked. Then a call of `high`
/// sensitivity or with `human_authorization` needs an approver who is not the caller; not on a device, which asks its
/// person itself.
#[must_use]
pub fn decide(facts: &CallPolicyFacts<'_>) -> PolicyDecision {
    if !facts.granted {
        return PolicyDecision::Deny(ErrorCode::ScopeNotGranted);
    }
    if facts.client == ClientConsent::Unasked {
        return PolicyDecision::Ask(Approver::Client);
    }
    // A client that was asked answers for its person; a caller without a prompt cannot.
    let answered = facts.speaks_for_person && facts.client != ClientConsent::NotNeeded;
    let asks = needs_approver(facts.sensitivity.filter(|_| !answered), facts.human_authorization, facts.on_device);
    if asks && facts.approved_by.is_none_or(|by| by == facts.caller) {
        return PolicyDecision::Ask(match facts.linked_person {
            // A person who calls for themselves is the caller, so the operators are asked instead.
            Some(person) if *facts.caller != Principal::Person(person.clone()) => Approver::Device(person.clone()),
            _ => Approver::Operators,
        });
    }
    PolicyDecision::Allow
}

fn needs_approver(stake: Option<Sensitivity>, always: bool, on_device: bool) -> bool {
    !on_device && (always || stake == Some(Sensitivity::High))
}

/// Whether calls of a tool need an approver who is not the caller in protocols without a client prompt:
/// `human_authorization` or `high` sensitivity. A device asks its person itself.
#[must_use]
pub fn asks_others(agent: &Agent, tool: &Tool) -> bool {
    let scope = tool.scope.as_ref().and_then(|id| agent.scope(id));
    needs_approver(scope.map(|scope| scope.sensitivity), tool.human_authorization, tool.on_device())
}

/// Whether the caller's own person may decide on calls of a tool that otherwise need an approver who is not the caller:
/// `high` sensitivity without `human_authorization`, for callers that speak for their person.
#[must_use]
pub fn asks_own_person(agent: &Agent, tool: &Tool, speaks_for_person: bool) -> bool {
    speaks_for_person && !tool.human_authorization && asks_others(agent, tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(caller: &Principal) -> CallPolicyFacts<'_> {
        CallPolicyFacts {
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
    fn device_call_is_denied_without_grant_and_otherwise_needs_no_server_approval() {
        let caller = Principal::Anonymous;
        let device = CallPolicyFacts {
            on_device: true,
            human_authorization: true,
            sensitivity: Some(Sensitivity::High),
            speaks_for_person: false,
            client: ClientConsent::NotNeeded,
            ..facts(&caller)
        };
        assert_eq!(decide(&device), PolicyDecision::Allow);
        assert_eq!(
            decide(&CallPolicyFacts { granted: false, ..device }),
            PolicyDecision::Deny(ErrorCode::ScopeNotGranted)
        );
    }

    #[test]
    fn client_trust_replaces_neither_grant_nor_human_authorization() {
        let caller = Principal::Local;
        assert_eq!(decide(&facts(&caller)), PolicyDecision::Allow);
        let unasked = CallPolicyFacts { client: ClientConsent::Unasked, ..facts(&caller) };
        assert_eq!(decide(&unasked), PolicyDecision::Ask(Approver::Client));
        let authorised = CallPolicyFacts { human_authorization: true, ..facts(&caller) };
        assert_eq!(decide(&authorised), PolicyDecision::Ask(Approver::Operators));
        let ungranted = CallPolicyFacts { granted: false, ..facts(&caller) };
        assert_eq!(decide(&ungranted), PolicyDecision::Deny(ErrorCode::ScopeNotGranted));
    }

    #[test]
    fn high_sensitivity_call_asks_operators_unless_the_client_consented_for_its_person() {
        use ClientConsent::{Granted, NotNeeded, Trusted};
        let caller = Principal::Anonymous;
        for (speaks_for_person, client, decision) in [
            (true, Trusted, PolicyDecision::Allow),
            (true, Granted, PolicyDecision::Allow),
            (true, NotNeeded, PolicyDecision::Ask(Approver::Operators)),
            (false, Trusted, PolicyDecision::Ask(Approver::Operators)),
            (false, Granted, PolicyDecision::Ask(Approver::Operators)),
            (false, NotNeeded, PolicyDecision::Ask(Approver::Operators)),
        ] {
            let high =
                CallPolicyFacts { speaks_for_person, sensitivity: Some(Sensitivity::High), client, ..facts(&caller) };
            assert_eq!(decide(&high), decision, "{speaks_for_person} {client:?}");
            assert_eq!(
                decide(&CallPolicyFacts { sensitivity: Some(Sensitivity::Medium), ..high }),
                PolicyDecision::Allow
            );
        }
    }

    #[test]
    fn unasked_client_that_speaks_for_no_person_is_asked_before_operators() {
        let caller = Principal::Anonymous;
        let client = ClientConsent::Unasked;
        let high = CallPolicyFacts {
            speaks_for_person: false,
            sensitivity: Some(Sensitivity::High),
            client,
            ..facts(&caller)
        };
        assert_eq!(decide(&high), PolicyDecision::Ask(Approver::Client));
    }

    #[test]
    fn approval_by_the_caller_itself_does_not_count() {
        let caller = Principal::Local;
        let own = CallPolicyFacts { human_authorization: true, approved_by: Some(&caller), ..facts(&caller) };
        assert_eq!(decide(&own), PolicyDecision::Ask(Approver::Operators));
        let other = CallPolicyFacts { approved_by: Some(&Principal::Operator), ..own };
        assert_eq!(decide(&other), PolicyDecision::Allow);
    }

    #[test]
    fn linked_person_is_asked_on_their_device_unless_they_are_the_caller() {
        let ada = PersonName::parse("ada").unwrap();
        let caller = Principal::Anonymous;
        let linked = CallPolicyFacts { human_authorization: true, linked_person: Some(&ada), ..facts(&caller) };
        assert_eq!(decide(&linked), PolicyDecision::Ask(Approver::Device(ada.clone())));
        let herself = Principal::Person(ada.clone());
        let own = CallPolicyFacts { caller: &herself, ..linked };
        assert_eq!(decide(&own), PolicyDecision::Ask(Approver::Operators));
    }
}
