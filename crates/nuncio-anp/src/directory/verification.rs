//! Decides whether a description may be listed: it must be valid, and all its claims about author and location must be
//! verified.

use nuncio_core::Code;
use nuncio_engine::EngineError;
use nuncio_identity::Did;
use serde_json::Value;
use url::Url;

use super::ListedAgent;
use crate::client::{CheckOutcome, CheckSubject, ClientError, Reason, VerifiedDescription, plain};
use crate::validate::{self, AnpDocumentType};

/// Checks that a description must pass to be listed.
const REQUIRED_CHECKS: [CheckSubject; 4] =
    [CheckSubject::Did, CheckSubject::Service, CheckSubject::Proof, CheckSubject::Domain];
/// Checks that must pass if the description makes the claim.
const CHECKS_IF_CLAIMED: [CheckSubject; 1] = [CheckSubject::Address];

/// A description that may be listed.
#[derive(Debug)]
pub(super) struct VerifiedAgent {
    pub(super) url: Url,
    pub(super) did: Did,
    pub(super) listed: ListedAgent,
}

/// Why a description may not be listed.
#[derive(Debug)]
pub(super) struct ListingRefusal {
    pub(super) kind: RefusalKind,
    pub(super) error: EngineError,
}

/// What happens to an agent that is already listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// A claim is false, or the description is gone: the entry is removed.
    Untrue,
    /// The description could not be fetched or checked now, so the directory entry becomes stale.
    Unknown,
}

impl From<ClientError> for ListingRefusal {
    fn from(error: ClientError) -> Self {
        let untrue = matches!(error.reason, Reason::BadDid | Reason::Untrusted | Reason::Superseded)
            || matches!(error.status, Some(404 | 410));
        let kind = if untrue { RefusalKind::Untrue } else { RefusalKind::Unknown };
        Self { kind, error: EngineError::new(error.reason.code(), error.to_string()) }
    }
}

pub(super) fn verify(described: &VerifiedDescription) -> Result<VerifiedAgent, ListingRefusal> {
    let checks = &described.checks;
    if let Err(refuted) = checks.ensure_trusted() {
        return Err(refuted.into());
    }
    let fault = |code, message| ListingRefusal { kind: RefusalKind::Unknown, error: EngineError::new(code, message) };
    let report = validate::check(AnpDocumentType::AgentDescription, &Value::Object(described.raw.clone()));
    if let Some(first) = report.errors.first() {
        let more = report.errors.len() - 1;
        let more = if more > 0 { format!(", and {more} more faults") } else { String::new() };
        let message = format!(
            "{} is no valid description: {}{more}; `nuncio validate` lists every fault",
            plain(described.url.as_str()),
            plain(&first.to_string())
        );
        return Err(fault(Code::ValidationError, message));
    }
    let unverified = |subject: CheckSubject, why: &str| {
        let message = format!(
            "{} is not listed, since its {} could not be verified: {why}",
            plain(described.url.as_str()),
            subject.as_str()
        );
        fault(Code::PeerUntrusted, message)
    };
    for subject in REQUIRED_CHECKS {
        match checks.of(subject) {
            Some(CheckOutcome::Verified { .. }) => {}
            Some(CheckOutcome::Unverified { why } | CheckOutcome::Refuted { why }) => {
                return Err(unverified(subject, why));
            }
            None => return Err(unverified(subject, "it says nothing of it")),
        }
    }
    for subject in CHECKS_IF_CLAIMED {
        if let Some(CheckOutcome::Unverified { why } | CheckOutcome::Refuted { why }) = checks.of(subject) {
            return Err(unverified(subject, why));
        }
    }
    let Some(did) = described.did().cloned() else { return Err(unverified(CheckSubject::Did, "it is out of use")) };
    let verified = checks.iter().filter(|check| matches!(check.outcome, CheckOutcome::Verified { .. }));
    let verified = verified.map(|check| check.subject.as_str().to_owned()).collect();
    let listed = ListedAgent::of(&described.description).with_verified(verified);
    Ok(VerifiedAgent { url: described.url.clone(), did, listed })
}
