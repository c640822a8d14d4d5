//! Decides whether a description may be listed in the directory: it must be valid, and its claims about author and
//! location must be verified.

use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use nuncio_identity::Did;
use serde_json::Value;
use url::Url;

use super::ListedAgentSummary;
use crate::client::{
    ClientError, ClientErrorReason, DescriptionCheckOutcome, DescriptionClaim, VerifiedAgentDescription, plain,
};
use crate::validate::{self, AnpDocumentType};

/// Checks that a description must pass to be listed; the address only if the description claims one.
const REQUIRED_CHECKS: [DescriptionClaim; 5] = [
    DescriptionClaim::Did,
    DescriptionClaim::Service,
    DescriptionClaim::Proof,
    DescriptionClaim::Domain,
    DescriptionClaim::Address,
];

#[derive(Debug)]
pub(super) struct VerifiedAgent {
    pub(super) url: Url,
    pub(super) did: Did,
    pub(super) listed: ListedAgentSummary,
}

#[derive(Debug)]
pub(super) struct ListingRefusal {
    pub(super) kind: ListingRefusalKind,
    pub(super) error: EngineError,
}

/// Reason for refusing a description, which decides what happens to an existing entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingRefusalKind {
    /// A claim is false, or the description is gone: the entry is removed.
    Untrue,
    /// The description could not be fetched or checked now, so the directory entry becomes stale.
    Unknown,
}

impl From<ClientError> for ListingRefusal {
    fn from(error: ClientError) -> Self {
        let untrue = matches!(
            error.reason,
            ClientErrorReason::BadDid | ClientErrorReason::Untrusted | ClientErrorReason::Superseded
        ) || matches!(error.status, Some(404 | 410));
        let kind = if untrue { ListingRefusalKind::Untrue } else { ListingRefusalKind::Unknown };
        Self { kind, error: EngineError::new(error.reason.code(), error.to_string()) }
    }
}

pub(super) fn verify(described: &VerifiedAgentDescription) -> Result<VerifiedAgent, ListingRefusal> {
    let checks = &described.checks;
    checks.ensure_trusted()?;
    let fault =
        |code, message| ListingRefusal { kind: ListingRefusalKind::Unknown, error: EngineError::new(code, message) };
    let report = validate::check(AnpDocumentType::AgentDescription, &Value::Object(described.raw.clone()));
    if let Some(first) = report.errors.first() {
        let more = report.errors.len() - 1;
        let more = if more > 0 { format!(", and {more} more faults") } else { String::new() };
        let (url, first) = (plain(described.url.as_str()), plain(&first.to_string()));
        let message = format!("{url} is not a valid description: {first}{more}; `nuncio validate` lists every fault");
        return Err(fault(ErrorCode::ValidationError, message));
    }
    let unverified = |subject: DescriptionClaim, why: &str| {
        let (url, subject) = (plain(described.url.as_str()), subject.as_str());
        let message = format!("{url} is not listed, since its {subject} could not be verified: {why}");
        fault(ErrorCode::PeerUntrusted, message)
    };
    for subject in REQUIRED_CHECKS {
        match checks.of(subject) {
            Some(DescriptionCheckOutcome::Verified { .. }) => {}
            Some(DescriptionCheckOutcome::Unverified { why } | DescriptionCheckOutcome::Refuted { why }) => {
                return Err(unverified(subject, why));
            }
            None if subject == DescriptionClaim::Address => {}
            None => return Err(unverified(subject, "the description does not state it")),
        }
    }
    let Some(did) = described.did().cloned() else {
        return Err(unverified(DescriptionClaim::Did, "its DID is deactivated"));
    };
    let verified = checks.iter().filter(|check| matches!(check.outcome, DescriptionCheckOutcome::Verified { .. }));
    let verified = verified.map(|check| check.subject.as_str().to_owned()).collect();
    let listed = ListedAgentSummary { verified, ..ListedAgentSummary::of(&described.description) };
    Ok(VerifiedAgent { url: described.url.clone(), did, listed })
}
