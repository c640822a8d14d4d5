//! Verifies a negotiation result: intact, not expired, and not weaker than requested.

use nuncio_core::time::Timestamp;
use nuncio_identity::{Did, rfc3339};
use serde_json::Value;

use super::{NegotiationRequest, draft};
use crate::client::error::{ClientError, ClientErrorReason, plain};
use crate::negotiate::MISSING_SCOPES;
use crate::negotiation::{InterfaceExecutionMode, SecurityProfile, is_below};
use crate::wire::{Alternative, NegotiationResult, NegotiationStatus, ProtocolArtifact, SelectedInterface};

/// Verifies a negotiation result and returns notes about deviations.
pub(super) fn check(
    result: &NegotiationResult,
    id: &str,
    needs: &NegotiationRequest,
    agent: Option<&Did>,
    now: Timestamp,
) -> Result<Vec<String>, ClientError> {
    let mut notes = Vec::new();
    if result.negotiation_id != id {
        let found = plain(&result.negotiation_id);
        return Err(bad(format!("the result belongs to the negotiation {found:?}, not to {id:?}")));
    }
    if !result.is_intact() {
        return Err(bad("the digest does not match the result, which was changed on the way"));
    }
    if result.negotiation_digest.is_none() {
        notes.push("the result has no digest".to_owned());
    }
    let why = result.reason.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
    match result.status {
        NegotiationStatus::Accepted => {}
        // The client rejected the draft, so a rejected result is expected.
        NegotiationStatus::Rejected if needs.draft_decision.as_ref().is_some_and(|decision| !decision.accepts) => {
            return Ok(notes);
        }
        NegotiationStatus::Rejected => {
            return Err(ClientError::new(ClientErrorReason::NotAgreed, format!("the agent rejected the request{why}")));
        }
        NegotiationStatus::NeedsMoreInformation => {
            let error =
                ClientError::new(ClientErrorReason::NotAgreed, format!("the agent needs more information{why}"));
            return Err(error.advice("describe the intent in more words, or add tags"));
        }
    }
    match result.valid_until.as_deref().map(|text| (text, rfc3339::read(text))) {
        Some((_, Some(until))) if until <= now => return Err(bad(format!("the result expired at {until}"))),
        Some((text, None)) => {
            return Err(bad(format!("{:?} is not a time until which a result can be valid", plain(text))));
        }
        Some((_, Some(_))) => {}
        None => notes.push("the result does not say how long it is valid".to_owned()),
    }
    let selected =
        result.selected.as_ref().ok_or_else(|| bad("the agent accepted the request and chose no interface"))?;
    check_security_profile(selected, needs)?;
    check_offer(selected, needs)?;
    check_artifact(selected, result, needs, agent, &mut notes)?;
    notes.extend(result.alternatives.iter().filter_map(missing_scopes_note));
    Ok(notes)
}

/// Says that an interface was not chosen because the caller lacks scopes.
fn missing_scopes_note(other: &Alternative) -> Option<String> {
    let scopes: Vec<_> = other.extra.get(MISSING_SCOPES)?.as_array()?.iter().filter_map(Value::as_str).collect();
    let wanted = other.capability.as_deref().or(other.interface.as_deref()).unwrap_or("another interface");
    let (wanted, scopes) = (plain(wanted), plain(&scopes.join(", ")));
    Some(format!(
        "{wanted} fits better, but you lack the scope {scopes}, so another choice was made; the operator there can give it with `nuncio grant create`"
    ))
}

fn bad(message: impl Into<String>) -> ClientError {
    ClientError::new(ClientErrorReason::BadAgreement, message).advice("nothing was called")
}

/// Checks that the selected security profile is the requested one or, if none was requested, `transport-protected`
/// (ANP-06 §12.4).
fn check_security_profile(selected: &SelectedInterface, needs: &NegotiationRequest) -> Result<(), ClientError> {
    let weaker = |message: String| ClientError::new(ClientErrorReason::Downgrade, message).advice("nothing was called");
    let found = match (selected.security_profile.as_deref(), needs.security) {
        (Some(text), _) => SecurityProfile::parse(text)
            .ok_or_else(|| weaker(format!("{:?} is not a known security profile", plain(text))))?,
        (None, Some(wanted)) => {
            return Err(weaker(format!("{} was required, and the result names none", wanted.as_str())));
        }
        (None, None) => SecurityProfile::TransportProtected,
    };
    if let Some(wanted) = needs.security.filter(|wanted| *wanted != found) {
        return Err(weaker(format!("{} was required, and {} was chosen", wanted.as_str(), found.as_str())));
    }
    if !needs.securities().contains(&found) {
        return Err(weaker(format!("{} was chosen, which this client did not offer", found.as_str())));
    }
    Ok(())
}

/// Checks that the client offered the selected profile and content type, and that the selected capability is a required
/// one, if the request requires any.
fn check_offer(selected: &SelectedInterface, needs: &NegotiationRequest) -> Result<(), ClientError> {
    if let Some(profile) = selected.profile.as_deref().filter(|it| !needs.profiles().contains(it)) {
        return Err(bad(format!("the profile {:?} was chosen, which this client does not support", plain(profile))));
    }
    let is_offered = |kind: &str| NegotiationRequest::CONTENT_TYPES.contains(&kind);
    if let Some(kind) = selected.content_type.as_deref().filter(|kind| !is_offered(kind)) {
        return Err(bad(format!("the content type {:?} was chosen, which this client does not support", plain(kind))));
    }
    let Some(capability) = selected.capability.as_deref() else { return Ok(()) };
    if !needs.required.is_empty() && !needs.required.iter().any(|wanted| is_below(capability, wanted)) {
        let wanted = needs.required.join(", ");
        return Err(bad(format!("{:?} was chosen, and {wanted:?} was required", plain(capability))));
    }
    Ok(())
}

/// Checks that a protocol artifact matches its digest, and that a drafted protocol was requested.
fn check_artifact(
    selected: &SelectedInterface,
    result: &NegotiationResult,
    needs: &NegotiationRequest,
    agent: Option<&Did>,
    notes: &mut Vec<String>,
) -> Result<(), ClientError> {
    let drafts = result.execution.as_ref().is_some_and(|it| it.mode == InterfaceExecutionMode::Drafting.as_str());
    if needs.drafts() && (drafts || selected.protocol_artifact.is_some() || needs.draft_decision.is_some()) {
        return draft::check(result, needs, agent);
    }
    match &selected.protocol_artifact {
        Some(Value::Object(_)) | None if drafts => {
            return Err(bad("a protocol was drafted without a request for one"));
        }
        None => {}
        Some(raw @ Value::Object(_)) => {
            let artifact: Option<ProtocolArtifact> = serde_json::from_value(raw.clone()).ok();
            if !artifact.is_some_and(|artifact| artifact.is_intact()) {
                return Err(bad("the protocol artifact does not match its digest"));
            }
        }
        Some(_) => notes.push("it refers to a protocol artifact, which was not fetched".to_owned()),
    }
    Ok(())
}
