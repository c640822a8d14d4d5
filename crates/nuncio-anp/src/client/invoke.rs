//! Invocation of an agent: fetches its description, negotiates and calls in one operation.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::describe::VerifiedAgentDescription;
use super::error::{ClientError, ClientErrorReason, plain};
use super::negotiate::{NegotiationAgreement, NegotiationRequest};
use super::remote_method::RemoteMethod;
use super::target::AgentTarget;
use crate::negotiation::{InterfaceExecutionMode, SecurityProfile};

const DESCRIPTION_LIFETIME: Duration = Duration::from_secs(60);
pub(super) const MAX_CACHED_DESCRIPTIONS: usize = 256;

#[derive(Debug, Clone, PartialEq)]
pub enum MethodChoice {
    Method(String),
    Negotiate(NegotiationRequest),
}

#[derive(Debug, Clone)]
pub struct Invocation {
    pub target: AgentTarget,
    pub method: MethodChoice,
    pub arguments: Map<String, Value>,
    pub timeout: Option<Duration>,
}

/// Supplies the arguments of an invocation and learns about its steps. An invocation that negotiates again also
/// prepares again.
pub trait InvocationDelegate: Sync {
    fn argument_names(&self) -> Vec<&str>;

    /// The arguments for this method, whose schema is known only after the negotiation.
    fn arguments(&self, method: &RemoteMethod) -> Map<String, Value>;

    fn on_step(&self, _step: InvocationStep<'_>) {}
}

#[derive(Debug, Clone, Copy)]
pub enum InvocationStep<'a> {
    Described(&'a VerifiedAgentDescription),
    /// The method is found, by an agreement unless the caller named it. Nothing was called yet.
    Prepared {
        agent: &'a VerifiedAgentDescription,
        method: &'a RemoteMethod,
        agreement: Option<&'a NegotiationAgreement>,
    },
    /// The agent does not accept the agreement any more; the client negotiates again.
    Outdated(&'a ClientError),
}

/// Arguments that do not depend on the method.
impl InvocationDelegate for Map<String, Value> {
    fn argument_names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }

    fn arguments(&self, _method: &RemoteMethod) -> Map<String, Value> {
        self.clone()
    }
}

/// Error of one attempt to find and call a method.
struct InvocationAttemptError {
    error: ClientError,
    /// Whether a new negotiation could have another result: the call or a cached agreement was refused.
    may_be_outdated: bool,
}

impl AnpClient {
    /// Calls an agent. An existing agreement is reused; if the agent rejects it as outdated, the client fetches the
    /// description and negotiates once more.
    pub async fn invoke(&self, invocation: &Invocation) -> Result<Value, ClientError> {
        let Invocation { target, method, arguments, timeout } = invocation;
        self.invoke_with(target, method, arguments, *timeout).await
    }

    /// Like [`AnpClient::invoke`], with arguments that depend on the chosen method.
    pub async fn invoke_with(
        &self,
        target: &AgentTarget,
        method: &MethodChoice,
        delegate: &dyn InvocationDelegate,
        timeout: Option<Duration>,
    ) -> Result<Value, ClientError> {
        let (agent, read_now) = self.described_agent(target).await?;
        delegate.on_step(InvocationStep::Described(&agent));
        if read_now {
            self.check_service(&agent, method).await?;
        }
        let failed = match self.attempt(&agent, method, delegate, timeout).await {
            Ok(result) => return Ok(result),
            Err(failed) => failed,
        };
        // The caller's permissions may have changed, and the agreement depends on them (ANP-06 §10.1).
        if matches!(failed.error.reason, ClientErrorReason::Forbidden | ClientErrorReason::IdentityNeeded) {
            self.forget_agreements(&agent);
        }
        let may_be_outdated = !read_now || failed.may_be_outdated;
        if !failed.error.is_stale() || !may_be_outdated {
            return Err(failed.error);
        }
        delegate.on_step(InvocationStep::Outdated(&failed.error));
        self.forget_agreements(&agent);
        self.descriptions.remove(&self.cache_key(target));
        let (agent, _) = self.described_agent(target).await?;
        let again = self.attempt(&agent, method, delegate, timeout).await.map_err(|failed| failed.error);
        if again.as_ref().is_err_and(ClientError::is_stale) {
            self.forget_agreements(&agent);
        }
        again
    }

    /// Asks the agent's message service for its current capabilities before the first call: they override a cached
    /// agreement, and what the description says about a named method (ANP-06 §3.4, §6.4). A new negotiation asks by
    /// itself. A named method is called even if the service says nothing.
    async fn check_service(&self, agent: &VerifiedAgentDescription, method: &MethodChoice) -> Result<(), ClientError> {
        agent.checks.ensure_trusted()?;
        let has_service =
            agent.document.as_ref().is_some_and(|bound| bound.document().service("ANPMessageService").is_some());
        let wanted = match method {
            MethodChoice::Method(_) if has_service => vec![SecurityProfile::TransportProtected],
            MethodChoice::Negotiate(needs) if self.agreements.has_agreed(self, agent, needs) => needs.securities(),
            _ => return Ok(()),
        };
        match (self.refresh(agent).await, method) {
            (Ok(runtime), _) => runtime.ensure_supported(&wanted),
            (Err(error), MethodChoice::Method(_)) if error.reason != ClientErrorReason::Untrusted => Ok(()),
            (Err(error), _) => Err(error),
        }
    }

    async fn attempt(
        &self,
        agent: &VerifiedAgentDescription,
        method: &MethodChoice,
        delegate: &dyn InvocationDelegate,
        timeout: Option<Duration>,
    ) -> Result<Value, InvocationAttemptError> {
        let failed = |error, may_be_outdated| InvocationAttemptError { error, may_be_outdated };
        let new_agreement = |error| failed(error, false);
        agent.checks.ensure_trusted().map_err(new_agreement)?;
        let (operation, agreement) = match method {
            MethodChoice::Method(name) => (self.operation(agent, name).await.map_err(new_agreement)?, None),
            MethodChoice::Negotiate(needs) => {
                let mut agreement = self.agree(agent, needs).await.map_err(new_agreement)?;
                let names = delegate.argument_names();
                let operation = self.agreed_operation(agent, &mut agreement, &names).await;
                (operation.map_err(|error| failed(error, agreement.reused))?, Some(agreement))
            }
        };
        delegate.on_step(InvocationStep::Prepared { agent, method: &operation, agreement: agreement.as_ref() });
        let called = self.call(agent, &operation, &delegate.arguments(&operation), timeout).await;
        called.map_err(|error| failed(error, agreement.is_some()))
    }

    /// Finds the method of the agreed interface, and adds deviations from the description to the agreement's notes.
    async fn agreed_operation(
        &self,
        agent: &VerifiedAgentDescription,
        agreement: &mut NegotiationAgreement,
        names: &[&str],
    ) -> Result<RemoteMethod, ClientError> {
        let result = &agreement.result;
        let selected = result.selected.as_ref();
        let mode = result.execution.as_ref().map(|it| it.mode.as_str());
        let speaks = selected.and_then(|it| it.protocol.as_deref()).unwrap_or("openrpc");
        let is_call = mode.is_none_or(|mode| mode == InterfaceExecutionMode::DirectStructuredCall.as_str());
        if !is_call || !speaks.eq_ignore_ascii_case("openrpc") {
            let how = plain(mode.unwrap_or(speaks));
            let message = format!("the negotiated interface is used by {how}, which this client does not support");
            return Err(ClientError::new(ClientErrorReason::CannotUse, message).advice("name a method instead"));
        }
        let url = selected.and_then(|it| it.url.as_deref()).and_then(|text| Url::parse(text).ok());
        let id = selected.and_then(|it| it.interface.as_deref());
        let (all, note) = self.operations_of(agent, id, url.as_ref()).await?;
        let mut operation = chosen(agreement, &all, names)?;
        let execution = agreement.result.execution.as_ref();
        operation.asks_a_person |= execution.is_some_and(|it| it.requires_human_authorization == Some(true));
        agreement.notes.extend(note);
        Ok(operation)
    }

    /// Returns the description of a target, and whether it was fetched now instead of taken from the cache.
    async fn described_agent(
        &self,
        target: &AgentTarget,
    ) -> Result<(Arc<VerifiedAgentDescription>, bool), ClientError> {
        let now = self.http.clock.now();
        let key = self.cache_key(target);
        if let Some(agent) = self.descriptions.get(&key, now) {
            return Ok((agent, false));
        }
        let agent = Arc::new(self.describe(target).await?);
        self.descriptions.put(key, Arc::clone(&agent), now.after(DESCRIPTION_LIFETIME));
        Ok((agent, true))
    }

    /// Cache key of a description; the key includes the caller, because a description may differ by caller.
    fn cache_key(&self, target: &AgentTarget) -> String {
        let who = self.http.signer.as_ref().map(|signer| signer.did().to_string()).unwrap_or_default();
        format!("{who} {target}")
    }
}

/// Selects the method of the negotiated interface: by the schema URL in the result, by the capability's name, the
/// only method, or the only method that accepts arguments with these names.
fn chosen(agreement: &NegotiationAgreement, all: &[RemoteMethod], names: &[&str]) -> Result<RemoteMethod, ClientError> {
    let of_name = |name: &str| all.iter().find(|it| it.name == name);
    let result = &agreement.result;
    let schema = result.schemas.as_ref().and_then(|it| it.request_schema.as_ref()).and_then(Value::as_str);
    let of_schema = schema.and_then(|text| text.rsplit(['/', '#']).next()?.strip_suffix(".input"));
    let capability = result.selected.as_ref().and_then(|it| it.capability.as_deref());
    let of_capability = capability.and_then(|id| id.rsplit('.').next());
    let takes = |it: &&RemoteMethod| {
        let properties = it.input["properties"].as_object();
        let needed = it.input["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.iter().all(|name| properties.is_some_and(|properties| properties.contains_key(*name)))
            && needed.into_iter().all(|name| names.contains(&name))
    };
    let only = |mut some: Vec<&RemoteMethod>| if some.len() == 1 { some.pop().cloned() } else { None };
    let by_name = of_schema.and_then(of_name).or_else(|| of_capability.and_then(of_name)).cloned();
    let found = by_name.or_else(|| only(all.iter().collect())).or_else(|| only(all.iter().filter(takes).collect()));
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|it| plain(&it.name)).collect();
        let message = format!("the negotiated interface has several methods that could be meant: {}", names.join(", "));
        ClientError::new(ClientErrorReason::WhichMethod, message)
            .details(json!({"methods": names}))
            .advice("name one of them")
    })
}
