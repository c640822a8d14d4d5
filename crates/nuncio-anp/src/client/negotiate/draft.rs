//! Protocol drafts, the caller's side. A draft is treated as data and validated like the server's own drafts before a
//! person is asked to accept it (ANP-06 §12.5).

use nuncio_engine::drafting::ProtocolDefinition;
use nuncio_identity::Did;
use serde_json::{Value, json};

use super::NegotiationRequest;
use crate::client::error::{ClientError, ClientErrorReason, plain};
use crate::wire::{CandidateProtocol, NegotiationResult, ProtocolArtifact};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolDraftDecision {
    pub protocol: String,
    /// Digest of the draft's document: `sha-256:` and base64url.
    pub digest: String,
    pub accepts: bool,
}

impl ProtocolDraftDecision {
    pub(super) fn candidate(&self) -> CandidateProtocol {
        let decision = if self.accepts { "accept" } else { "reject" };
        let fields = [("protocol_id", &*self.protocol), ("digest", &self.digest), ("decision", decision)];
        CandidateProtocol::Described(fields.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect())
    }
}

/// Verifies the artifact of a result: it matches its digest, was published by the agent, has no unknown fields, and its
/// schemas and examples are valid. If the request named a draft by digest, the artifact must have that digest.
pub(super) fn check(
    result: &NegotiationResult,
    needs: &NegotiationRequest,
    agent: Option<&Did>,
) -> Result<(), ClientError> {
    let bad = |message: String| {
        ClientError::new(ClientErrorReason::BadAgreement, message).advice("nothing was accepted, and nothing called")
    };
    let raw = result.selected.as_ref().and_then(|selected| selected.protocol_artifact.clone());
    let Some(raw @ Value::Object(_)) = raw else {
        return Err(bad("a protocol was drafted, but the result does not contain it".to_owned()));
    };
    let artifact: ProtocolArtifact = serde_json::from_value(raw)
        .map_err(|why| bad(format!("the protocol artifact is not valid: {}", plain(&why.to_string()))))?;
    if !artifact.is_intact() {
        return Err(bad("the protocol artifact does not match its digest".to_owned()));
    }
    let is_named = |decision: &ProtocolDraftDecision| {
        artifact.digest.as_ref() == Some(&decision.digest) && artifact.protocol_id.as_ref() == Some(&decision.protocol)
    };
    if !needs.draft_decision.as_ref().is_none_or(is_named) {
        return Err(bad("the result has another protocol than the named one".to_owned()));
    }
    if let (Some(publisher), Some(agent)) = (&artifact.publisher, agent)
        && publisher != agent.as_str()
    {
        return Err(bad(format!("the protocol was published by {:?}, but the agent is {agent}", plain(publisher))));
    }
    if let Some(unknown_field) =
        artifact.extra.keys().chain(artifact.methods.iter().flat_map(|it| it.extra.keys())).next()
    {
        return Err(bad(format!("the protocol has the unknown field {:?}", plain(unknown_field))));
    }
    let securities: Vec<_> = needs.securities().iter().map(|it| it.as_str()).collect();
    if let Some(other) = artifact.security_profiles.iter().find(|it| !securities.contains(&it.as_str())) {
        return Err(ClientError::new(
            ClientErrorReason::Downgrade,
            format!("the protocol needs the security profile {:?}, which was not requested", plain(other)),
        ));
    }
    let methods = artifact.methods.iter().map(|method| {
        json!({
            "name": method.name, "description": method.description.clone().unwrap_or_default(),
            "request_schema": method.request_schema, "response_schema": method.response_schema,
        })
    });
    let written = json!({
        "description": artifact.description, "methods": methods.collect::<Vec<_>>(),
        "examples": artifact.examples, "test_cases": artifact.test_cases,
    });
    ProtocolDefinition::read(written).map(drop).map_err(|faults| {
        let messages: Vec<_> = faults.iter().take(3).map(|fault| plain(&fault.to_string())).collect();
        bad(format!("the protocol is not valid: {}", messages.join("; ")))
    })
}
