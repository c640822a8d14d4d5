//! Conversion between the ANP wire types and the types of [`negotiation`](crate::negotiation).

#[cfg(feature = "client")]
pub mod draft;

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::negotiation as judge;
use crate::wire::{
    Alternative, AnpErrorCode, CandidateProtocol, InterfaceExecution, InterfaceSchemas, NegotiateBody,
    NegotiationResult, NegotiationStatus, RequestMeta, RpcError, Score, SelectedInterface,
};

/// Maximum number of items in each list of a negotiation request.
const MAX_LISTED: usize = 256;

/// Field of an alternative with the scopes that the caller lacks for it.
pub(crate) const MISSING_SCOPES: &str = "missingScopes";

/// Parses the body of `anp.negotiate`; the error is the response to send.
pub fn read(body: &Map<String, Value>) -> Result<NegotiateBody, RpcError> {
    let wrong = |message: String| RpcError::new(AnpErrorCode::InvalidParams).with_message(message);
    let body: NegotiateBody = serde_json::from_value(Value::Object(body.clone()))
        .map_err(|error| wrong(format!("params.body does not have the form of anp.negotiate: {error}")))?;
    let lists = [
        ("requiredCapabilities", body.required_capabilities.len()),
        ("candidateInterfaceRefs", body.candidate_interface_refs.len()),
        ("candidateProtocols", body.candidate_protocols.len()),
        ("intent.intentTags", body.intent.intent_tags.len()),
    ];
    match lists.iter().find(|(_, length)| *length > MAX_LISTED) {
        Some((name, length)) => Err(wrong(format!("{name} has {length} items; at most {MAX_LISTED} are accepted"))),
        None => Ok(body),
    }
}

/// Converts an `anp.negotiate` request to the type of the negotiation module.
#[must_use]
pub fn request(body: &NegotiateBody, meta: &RequestMeta) -> judge::InterfaceRequest {
    judge::InterfaceRequest {
        mode: body.mode.clone(),
        intent: body.intent.clone(),
        required_capabilities: body.required_capabilities.clone(),
        caller: body.caller_capabilities.clone().unwrap_or_default(),
        constraints: body.constraints.clone().unwrap_or_default(),
        candidate_interfaces: body.candidate_interface_refs.clone(),
        candidate_protocols: body
            .candidate_protocols
            .iter()
            .flat_map(CandidateProtocol::names)
            .map(str::to_owned)
            .collect(),
        security_profile: Some(meta.security_profile),
        created_at: meta.created_at,
    }
}

/// Converts the chosen interface to an `anp.negotiate` result with its digest.
#[must_use]
pub fn result(
    accepted: &judge::ChosenInterface<'_>,
    negotiation_id: String,
    valid_until: Timestamp,
) -> NegotiationResult {
    let offer = accepted.offer;
    let schemas = InterfaceSchemas {
        request_schema: accepted.ability.and_then(|it| it.request_schema.clone()).map(Value::String),
        response_schema: accepted.ability.and_then(|it| it.response_schema.clone()).map(Value::String),
        extra: Map::new(),
    };
    let has_schemas = schemas.request_schema.is_some() || schemas.response_schema.is_some();
    let result = NegotiationResult {
        negotiation_id,
        status: NegotiationStatus::Accepted,
        selected: Some(SelectedInterface {
            capability: accepted.ability.map(|it| it.capability.id.to_string()),
            interface: Some(offer.id.clone()),
            protocol: Some(offer.protocol.clone()),
            profile: offer.profile.clone(),
            security_profile: Some(accepted.security.as_str().to_owned()),
            content_type: accepted.content_type.map(str::to_owned),
            url: Some(offer.url.clone()),
            protocol_artifact: None,
            extra: Map::new(),
        }),
        execution: accepted.mode.map(|mode| InterfaceExecution {
            mode: mode.as_str().to_owned(),
            requires_human_authorization: Some(offer.human_authorization),
            timeout_ms: accepted.timeout_ms,
            extra: Map::new(),
        }),
        schemas: has_schemas.then_some(schemas),
        valid_until: Some(valid_until.to_string()),
        alternatives: accepted.alternatives.iter().map(alternative).collect(),
        score: Some(score(accepted.score)),
        reason: None,
        negotiation_digest: None,
        extra: Map::new(),
    };
    result.sealed()
}

/// Converts an interface that was not chosen, with the reason.
#[must_use]
pub fn alternative(other: &judge::InterfaceNotChosen<'_>) -> Alternative {
    let unsupported = match other.lost {
        judge::NotChosenReason::Lacks(constraints) => constraints.names().into_iter().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let missing = match (other.lost, other.ability) {
        (judge::NotChosenReason::NotGranted, Some(ability)) => ability.missing_scopes.as_slice(),
        _ => &[],
    };
    let reason = match missing {
        [] => other.lost.to_string(),
        scopes => format!("would have been chosen, but you lack the scope {}", scopes.join(", ")),
    };
    let mut extra = Map::new();
    if !missing.is_empty() {
        extra.insert(MISSING_SCOPES.to_owned(), missing.into());
    }
    Alternative {
        interface: Some(other.offer.id.clone()),
        capability: other.ability.map(|it| it.capability.id.to_string()),
        protocol: Some(other.offer.protocol.clone()),
        profile: other.offer.profile.clone(),
        url: Some(other.offer.url.clone()),
        score: Some(score(other.score)),
        unsupported_constraints: unsupported,
        reason: Some(reason),
        extra,
    }
}

fn score(score: judge::InterfaceScore) -> Score {
    Score {
        intent: score.intent,
        intent_by: score.intent_by.as_str().to_owned(),
        interface_type: score.interface_type,
        content_type: score.content_type,
        latency: score.latency,
        total: score.total,
        extra: Map::new(),
    }
}
