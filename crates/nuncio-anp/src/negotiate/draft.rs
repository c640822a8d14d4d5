//! Protocol drafts (ANP-06 §9, §10.2): the artifact, and the decisions of both sides.

use nuncio_core::digest::Digest;
use nuncio_core::ids::DraftId;
use nuncio_core::time::Timestamp;
use nuncio_engine::drafting::{ProtocolDefinition, ProtocolDraft, ProtocolDraftSide, ProtocolDraftState};
use serde_json::{Map, Value, json};

use super::alternative;
use crate::negotiation::{self as judge, InterfaceExecutionMode, SecurityProfile};
use crate::wire::{
    Alternative, AnpErrorCode, ArtifactMethod, CandidateProtocol, InterfaceExecution, InterfaceSchemas, NegotiateBody,
    NegotiationResult, NegotiationStatus, ProtocolArtifact, RpcError, SelectedInterface, profile, read_digest, texts,
    write_digest,
};

/// Version of every drafted protocol: a draft is written once and never changes.
const VERSION: &str = "1.0";

/// A caller's decision on a draft, from `candidateProtocols`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerDraftDecision {
    pub id: String,
    /// Digest of the draft's document.
    pub digest: Digest,
    /// Whether the caller accepts the draft: true unless `decision` is `reject`.
    pub accepts: bool,
}

/// Caller's decision on an existing draft; `None` if the request asks for a new draft.
pub fn caller_decision(body: &NegotiateBody) -> Result<Option<CallerDraftDecision>, RpcError> {
    let described = body.candidate_protocols.iter().find_map(|candidate| match candidate {
        CandidateProtocol::Described(fields) if fields.contains_key("protocol_id") => Some(fields),
        _ => None,
    });
    let Some(fields) = described else { return Ok(None) };
    let wrong = |message: &str| RpcError::new(AnpErrorCode::InvalidParams).with_message(message);
    let id = fields.get("protocol_id").and_then(Value::as_str);
    let id = id.ok_or_else(|| wrong("candidateProtocols.protocol_id must be a text"))?.to_owned();
    let Some(digest) = fields.get("digest").and_then(Value::as_str) else {
        let missing = json!({"missing": ["candidateProtocols.digest"]});
        let message = "The document must be named by its digest";
        return Err(RpcError::new(AnpErrorCode::MoreInformationRequired).with_message(message).with_details(missing));
    };
    let digest =
        read_digest(digest).ok_or_else(|| wrong("candidateProtocols.digest must be sha-256: and base64url"))?;
    let accepts = match fields.get("decision").map(|decision| decision.as_str().unwrap_or_default()) {
        None | Some("accept") => true,
        Some("reject") => false,
        Some(_) => return Err(wrong("candidateProtocols.decision must be accept or reject")),
    };
    Ok(Some(CallerDraftDecision { id, digest, accepts }))
}

/// Builds the document of a draft, without its digest.
#[must_use]
pub fn document(id: &DraftId, definition: &ProtocolDefinition, publisher: Option<String>) -> Value {
    let methods = definition.methods.iter().map(|method| ArtifactMethod {
        name: method.name.clone(),
        description: Some(method.description.clone()).filter(|text| !text.is_empty()),
        request_schema_uri: None,
        response_schema_uri: None,
        request_schema: Some(method.request_schema.source().clone()),
        response_schema: Some(method.response_schema.source().clone()),
        extra: Map::new(),
    });
    json!(ProtocolArtifact {
        protocol_id: Some(id.to_string()),
        protocol_uri: None,
        version: Some(VERSION.to_owned()),
        description: Some(definition.description.clone()),
        depends_on_profiles: texts(&[profile::CORE_BINDING, profile::RPC]),
        methods: methods.collect(),
        content_types: texts(&["application/json"]),
        security_profiles: texts(&[SecurityProfile::TransportProtected.as_str()]),
        examples: definition.examples.iter().map(|example| json!(example)).collect(),
        test_cases: definition.test_cases.iter().map(|case| json!(case)).collect(),
        publisher,
        digest: None,
        extra: Map::new(),
    })
}

/// Interface and URLs of a draft, before and after both sides accepted the draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolDraftLocations {
    pub interface: String,
    /// URL of the negotiation endpoint.
    pub negotiated: String,
    /// URL of the OpenRPC document for using the accepted protocol.
    pub used: String,
}

/// Builds the negotiation result for the state of a draft, with its digest.
///
/// # Errors
/// The agent's side rejected the draft, or the draft expired.
pub fn result(
    draft: &ProtocolDraft,
    locations: ProtocolDraftLocations,
    alternatives: Vec<Alternative>,
    negotiation_id: String,
    valid_until: Timestamp,
) -> Result<NegotiationResult, RpcError> {
    let (by_us, by_them) = match &draft.state {
        ProtocolDraftState::Draft => (false, false),
        ProtocolDraftState::AcceptedByUs { .. } => (true, false),
        ProtocolDraftState::AcceptedByThem { .. } => (false, true),
        ProtocolDraftState::Accepted { .. } => (true, true),
        ProtocolDraftState::Expired { .. } => {
            let message = "Not both sides accepted the draft in time";
            return Err(RpcError::new(AnpErrorCode::NegotiationExpired).with_message(message));
        }
        ProtocolDraftState::Rejected { side: ProtocolDraftSide::Us, .. } => {
            return Err(
                RpcError::new(AnpErrorCode::NegotiationRejected).with_message("The agent's side rejected the draft")
            );
        }
        ProtocolDraftState::Rejected { side: ProtocolDraftSide::Them, .. } => (false, false),
    };
    let over = matches!(draft.state, ProtocolDraftState::Rejected { .. });
    let usable = by_us && by_them;
    let mut artifact = draft.document.clone();
    artifact["digest"] = json!(write_digest(&draft.digest));
    let until = if usable { valid_until } else { draft.expires_at };
    let mode = if usable { InterfaceExecutionMode::NaturalLanguage } else { InterfaceExecutionMode::Drafting };
    let schemas = match draft.definition.methods.as_slice() {
        [only] => Some(InterfaceSchemas {
            request_schema: Some(only.request_schema.source().clone()),
            response_schema: Some(only.response_schema.source().clone()),
            extra: Map::new(),
        }),
        _ => None,
    };
    let standing = json!({
        "protocolId": draft.id,
        "digest": artifact["digest"],
        "state": draft.state.word(),
        "acceptedByAgent": by_us,
        "acceptedByCaller": by_them,
        "expiresAt": (!usable).then_some(draft.expires_at),
    });
    let selected = SelectedInterface {
        capability: None,
        interface: Some(locations.interface),
        protocol: Some(if usable { "openrpc" } else { "ANP" }.to_owned()),
        profile: Some(if usable { profile::RPC } else { profile::NEGOTIATION }.to_owned()),
        security_profile: Some(SecurityProfile::TransportProtected.as_str().to_owned()),
        content_type: Some("application/json".to_owned()),
        url: Some(if usable { locations.used } else { locations.negotiated }),
        protocol_artifact: Some(artifact),
        extra: Map::new(),
    };
    let execution = InterfaceExecution {
        mode: mode.as_str().to_owned(),
        requires_human_authorization: Some(false),
        timeout_ms: None,
        extra: Map::new(),
    };
    let result = NegotiationResult {
        negotiation_id,
        status: if over { NegotiationStatus::Rejected } else { NegotiationStatus::Accepted },
        selected: (!over).then_some(selected),
        execution: (!over).then_some(execution),
        schemas: schemas.filter(|_| usable),
        valid_until: (!over).then(|| until.to_string()),
        alternatives,
        score: None,
        reason: over.then(|| "You rejected the draft".to_owned()),
        negotiation_digest: None,
        extra: [("protocolDraft".to_owned(), standing)].into_iter().collect(),
    };
    Ok(result.sealed())
}

/// Existing interfaces of the agent, each with the reason why it does not match.
#[must_use]
pub fn alternatives(draft: &judge::ProtocolDraftingOffer<'_>) -> Vec<Alternative> {
    draft.alternatives.iter().map(alternative).collect()
}
