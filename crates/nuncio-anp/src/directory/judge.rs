//! Decides whether a description may be listed: it must be valid, and all its claims about author and location must be
//! verified.

use nuncio_core::Code;
use nuncio_engine::EngineError;
use nuncio_identity::Did;
use serde_json::Value;
use url::Url;

use super::ListedAgent;
use crate::client::{ClientError, Described, Outcome, Reason, Subject, plain};
use crate::validate::{self, Kind};

/// Checks that must pass.
const NEEDED: [Subject; 4] = [Subject::Did, Subject::Service, Subject::Proof, Subject::Domain];
/// Checks that must pass if the description makes the claim.
const IF_SAID: [Subject; 1] = [Subject::Address];

/// A description that may be listed.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) url: Url,
    pub(super) did: Did,
    pub(super) listed: ListedAgent,
}

/// Why a description may not be listed.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) error: EngineError,
}

/// What happens to an agent that is already listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A claim is false, or the description is gone: the entry is removed.
    Untrue,
    /// It could not be fetched or checked now: the entry becomes stale.
    Unknown,
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        let untrue = matches!(error.reason, Reason::BadDid | Reason::Untrusted | Reason::Superseded)
            || matches!(error.status, Some(404 | 410));
        let kind = if untrue { FaultKind::Untrue } else { FaultKind::Unknown };
        Self { kind, error: EngineError::new(error.reason.code(), error.to_string()) }
    }
}

pub(super) fn judge(described: &Described) -> Result<Verified, Fault> {
    let checks = &described.checks;
    if let Err(refuted) = checks.trusted() {
        return Err(refuted.into());
    }
    let fault = |code, message| Fault { kind: FaultKind::Unknown, error: EngineError::new(code, message) };
    let report = validate::check(Kind::AgentDescription, &Value::Object(described.whole.clone()));
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
    let unverified = |subject: Subject, why: &str| {
        let message = format!(
            "{} is not listed, since its {} could not be verified: {why}",
            plain(described.url.as_str()),
            subject.as_str()
        );
        fault(Code::PeerUntrusted, message)
    };
    for subject in NEEDED {
        match checks.of(subject) {
            Some(Outcome::Verified { .. }) => {}
            Some(Outcome::Unverified { why } | Outcome::Refuted { why }) => return Err(unverified(subject, why)),
            None => return Err(unverified(subject, "it says nothing of it")),
        }
    }
    for subject in IF_SAID {
        if let Some(Outcome::Unverified { why } | Outcome::Refuted { why }) = checks.of(subject) {
            return Err(unverified(subject, why));
        }
    }
    let Some(did) = described.did().cloned() else { return Err(unverified(Subject::Did, "it is out of use")) };
    let verified = checks.iter().filter(|check| matches!(check.outcome, Outcome::Verified { .. }));
    let verified = verified.map(|check| check.subject.as_str().to_owned()).collect();
    let listed = ListedAgent::of(&described.description).with_verified(verified);
    Ok(Verified { url: described.url.clone(), did, listed })
}
