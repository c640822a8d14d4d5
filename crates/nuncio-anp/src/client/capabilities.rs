//! Runtime capabilities of an agent's message service (P1 §8), which override those in documents.

use nuncio_core::digest::Digest;
use nuncio_engine::ports::entropy::random_name;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::AnpClient;
use super::describe::VerifiedAgentDescription;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::exchange::AuthTiming;
use crate::negotiation::SecurityProfile;
use crate::wire::{AnpRequest, RequestMeta, ServiceCapabilities, method, profile};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteMessageService {
    pub endpoint: Url,
    pub capabilities: ServiceCapabilities,
}

impl RemoteMessageService {
    /// Fails unless the service currently supports all of these security profiles, whatever the description says
    /// (ANP-06 §3.4). A service that lists no profiles counts as supporting all.
    pub(super) fn ensure_supported(&self, wanted: &[SecurityProfile]) -> Result<(), ClientError> {
        let supported = &self.capabilities.supported_security_profiles;
        let is_supported = |profile: &&SecurityProfile| supported.iter().any(|name| name == profile.as_str());
        match wanted.iter().find(|profile| !supported.is_empty() && !is_supported(profile)) {
            None => Ok(()),
            Some(missing) => {
                let supported: Vec<_> = supported.iter().map(|name| plain(name)).collect();
                let (address, list) = (display_url(&self.endpoint), supported.join(", "));
                let message = format!("{address} does not support {} now; it supports {list}", missing.as_str());
                let error =
                    ClientError::new(ClientErrorReason::NotAgreed, message).details(json!({"supported": supported}));
                Err(error.advice("nothing was negotiated and nothing called; ask its operator, or try again later"))
            }
        }
    }

    /// Digest of endpoint and capabilities of the message service, for detecting changes.
    pub(super) fn digest(&self) -> Digest {
        Digest::of_json(&json!({"endpoint": self.endpoint, "capabilities": self.capabilities}))
    }
}

impl AnpClient {
    /// Determines the agent's message endpoint: from its DID document or, if the document has none, from its
    /// description. Also returns notes about inconsistencies.
    pub(super) fn endpoint(&self, agent: &VerifiedAgentDescription) -> Result<(Url, Vec<String>), ClientError> {
        let mut notes = Vec::new();
        let hint = agent.description.negotiation().and_then(|it| it.url.as_deref());
        let service = agent.document.as_ref().and_then(|bound| bound.document().service("ANPMessageService"));
        let text = match (service, hint) {
            (Some(service), hint) => {
                if let Some(hint) = hint.filter(|hint| *hint != service.endpoint) {
                    let (described, own) = (plain(hint), plain(&service.endpoint));
                    notes.push(format!(
                        "the description has the negotiation endpoint {described}, the DID document {own}; the one in the DID document is used"
                    ));
                }
                service.endpoint.as_str()
            }
            (None, Some(hint)) => {
                notes.push("no DID document confirms its negotiation endpoint".to_owned());
                hint
            }
            (None, None) => {
                let message = format!("{} names no negotiation endpoint", display_url(&agent.url));
                return Err(ClientError::new(ClientErrorReason::CannotUse, message));
            }
        };
        let url = agent.url.join(text).map_err(|why| {
            let message =
                format!("the negotiation endpoint of {} is {:?}: {why}", display_url(&agent.url), plain(text));
            ClientError::new(ClientErrorReason::InvalidDocument, message)
        })?;
        if !agent.is_on_own_host(&url) {
            notes.push(format!("its negotiation endpoint is on another host: {}", display_url(&url)));
        }
        Ok((url, notes))
    }

    /// Requests the capabilities of a message service anonymously.
    ///
    /// # Errors
    /// The response is invalid, or the service belongs to another DID than the DID document says.
    pub(super) async fn runtime(
        &self,
        agent: &VerifiedAgentDescription,
        endpoint: &Url,
    ) -> Result<RemoteMessageService, ClientError> {
        let meta = RequestMeta {
            operation_id: Some(random_name(&*self.entropy, "op-")),
            created_at: Some(self.http.clock.now()),
            ..RequestMeta::new(profile::CORE_BINDING)
        };
        let id = random_name(&*self.entropy, "req-");
        let request = AnpRequest::new(id, method::GET_CAPABILITIES, meta, &json!({})).to_json();
        let result = self.http.post(endpoint, &agent.named_host, &request, AuthTiming::WhenAsked, None).await?;
        let capabilities: ServiceCapabilities = serde_json::from_value(result).map_err(|why| {
            let message = format!("{} did not return its capabilities: {why}", display_url(endpoint));
            ClientError::new(ClientErrorReason::InvalidDocument, message)
        })?;
        let service = agent.document.as_ref().and_then(|bound| bound.document().service("ANPMessageService"));
        if let Some(expected) = service.and_then(|it| it.service_did.as_deref())
            && !capabilities.service_did.is_empty()
            && capabilities.service_did != expected
        {
            let found = plain(&capabilities.service_did);
            let message = format!("{} is the service of {found}, and must be of {expected}", display_url(endpoint));
            return Err(ClientError::new(ClientErrorReason::Untrusted, message).advice("nothing was sent to it"));
        }
        Ok(RemoteMessageService { endpoint: endpoint.clone(), capabilities })
    }
}
