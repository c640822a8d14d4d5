//! Whether a description may be listed: it is valid, and everything it claims about who wrote it and where it
//! belongs was verified. What could not be checked is not listed.

use nuncio_core::Code;
use nuncio_engine::EngineError;
use nuncio_identity::Did;
use serde_json::Value;
use url::Url;

use super::ListedAgent;
use crate::client::{ClientError, Described, Outcome, Reason, Subject, plain};
use crate::validate::{self, Kind};

/// What must be verified of a description.
const NEEDED: [Subject; 4] = [Subject::Did, Subject::Service, Subject::Proof, Subject::Domain];
/// What must be so where it is said.
const IF_SAID: [Subject; 1] = [Subject::Address];

/// A description that may be listed.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) url: Url,
    pub(super) did: Did,
    pub(super) listed: ListedAgent,
}

/// Why one may not.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) error: EngineError,
}

/// What becomes of an agent that is listed already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// Something it claims is not so, or it is not there any more: it is listed no more.
    Untrue,
    /// It could not be read or checked now: it is stale.
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

/// Holds a description against what is listed here.
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
