//! What a description claims, and what of it holds: its DID, its proof, its place.

use std::sync::Arc;

use nuncio_core::time::Timestamp;
use nuncio_identity::proof::{DescriptionRules, Signer, verify_description};
use nuncio_identity::{Binding, BoundDocument, ProofError};
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use super::error::{ClientError, Reason, plain, shown};
use super::target::authority;

/// Everything that was looked at, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Checks(Vec<Check>);

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub subject: Subject,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// That the document of the DID is the DID's own.
    Did,
    /// That the DID leads back to this description.
    Service,
    /// That the DID signed this description.
    Proof,
    /// That it is meant for the host it came from.
    Domain,
    /// That it was signed for us, now.
    Challenge,
    /// That it is where it says it is.
    Address,
}

impl Subject {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Did => "did",
            Self::Service => "service",
            Self::Proof => "proof",
            Self::Domain => "domain",
            Self::Challenge => "challenge",
            Self::Address => "address",
        }
    }
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It holds.
    Verified {
        /// By what.
        how: String,
    },
    /// It could not be checked.
    Unverified {
        /// Why not.
        why: String,
    },
    /// It was checked and does not hold.
    Refuted {
        /// Why not.
        why: String,
    },
}

impl Checks {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Check> {
        self.0.iter()
    }

    /// What came of a check, where it was made.
    #[must_use]
    pub fn of(&self, subject: Subject) -> Option<&Outcome> {
        self.0.iter().find(|check| check.subject == subject).map(|check| &check.outcome)
    }

    /// Whether a check was made and holds.
    #[must_use]
    pub fn is_verified(&self, subject: Subject) -> bool {
        matches!(self.of(subject), Some(Outcome::Verified { .. }))
    }

    /// Stops at what was found untrue. What could not be checked stops nothing, and is told.
    ///
    /// # Errors
    /// Something does not hold.
    pub fn trusted(&self) -> Result<(), ClientError> {
        let refuted = self.0.iter().find_map(|check| match &check.outcome {
            Outcome::Refuted { why } => Some((check.subject, why)),
            _ => None,
        });
        match refuted {
            None => Ok(()),
            Some((subject, why)) => {
                Err(ClientError::new(Reason::Untrusted, format!("the agent is not to be trusted: {why}"))
                    .details(serde_json::json!({"subject": subject, "checks": self}))
                    .advice("nothing was sent to it; `nuncio show` lists everything that was checked"))
            }
        }
    }

    pub(super) fn verified(&mut self, subject: Subject, how: impl Into<String>) {
        self.0.push(Check { subject, outcome: Outcome::Verified { how: how.into() } });
    }

    pub(super) fn unverified(&mut self, subject: Subject, why: impl Into<String>) {
        self.0.push(Check { subject, outcome: Outcome::Unverified { why: why.into() } });
    }

    pub(super) fn refuted(&mut self, subject: Subject, why: impl Into<String>) {
        self.0.push(Check { subject, outcome: Outcome::Refuted { why: why.into() } });
    }
}

/// A description and where it came from.
pub(super) struct Claimed<'a> {
    pub(super) whole: &'a Map<String, Value>,
    pub(super) url: &'a Url,
    pub(super) challenge: Option<&'a str>,
}

/// What is known of the DID a description names.
pub(super) enum Lookup {
    /// It names none.
    None,
    /// It names one whose document cannot be read here, or could not be had.
    Unknown(String),
    /// What it names is not what it should be.
    Wrong(String),
    /// Its document, found to be its own.
    Found(Arc<BoundDocument>),
}

/// Holds a description against the document of its DID.
pub(super) fn checks(claimed: &Claimed<'_>, lookup: &Lookup, now: Timestamp) -> Checks {
    let mut checks = Checks::default();
    let found = match lookup {
        Lookup::None => {
            checks.unverified(Subject::Did, "it names no DID, so that anyone could have written it");
            None
        }
        Lookup::Unknown(why) => {
            checks.unverified(Subject::Did, why.clone());
            None
        }
        Lookup::Wrong(why) => {
            checks.refuted(Subject::Did, why.clone());
            None
        }
        Lookup::Found(document) => {
            did(&mut checks, document);
            Some(document)
        }
    };
    service(&mut checks, claimed, found);
    let signed = proof(&mut checks, claimed, found, now);
    domain(&mut checks, claimed, found, signed);
    address(&mut checks, claimed);
    checks
}

fn did(checks: &mut Checks, bound: &BoundDocument) {
    let did = bound.did();
    if bound.document().deactivated() {
        let next = bound.document().successor().map(|next| format!("; {next} takes its place")).unwrap_or_default();
        checks.refuted(Subject::Did, format!("{did} is out of use{next}"));
        return;
    }
    let how = match bound.binding() {
        Binding::Ed25519 => "its document is signed by the key whose fingerprint is in it",
        Binding::Secp256k1 => "its document lists the key whose fingerprint is in it",
        Binding::Domain | Binding::Publisher => "its document came from its domain",
    };
    checks.verified(Subject::Did, format!("{did}: {how}"));
}

fn service(checks: &mut Checks, claimed: &Claimed<'_>, found: Option<&Arc<BoundDocument>>) {
    let Some(bound) = found else { return };
    let services = || bound.document().services().iter().filter(|service| service.kind == "AgentDescription");
    let leads_here = |endpoint: &str| Url::parse(endpoint).is_ok_and(|url| same(&url, claimed.url));
    match services().next() {
        _ if services().any(|service| leads_here(&service.endpoint)) => {
            checks.verified(Subject::Service, "the DID leads back to this description");
        }
        Some(other) => {
            let endpoint = plain(&other.endpoint);
            checks.refuted(
                Subject::Service,
                format!("{} is described at {endpoint}, not at {}", bound.did(), shown(claimed.url)),
            );
        }
        None => checks.unverified(Subject::Service, format!("the document of {} names no description", bound.did())),
    }
}

/// Checks the signature; whether there is one that holds.
fn proof(checks: &mut Checks, claimed: &Claimed<'_>, found: Option<&Arc<BoundDocument>>, now: Timestamp) -> bool {
    if !claimed.whole.contains_key("proof") {
        checks.unverified(Subject::Proof, "it carries no proof, so that its host could have changed it");
        return false;
    }
    let Some(bound) = found else {
        checks.unverified(Subject::Proof, "the key of its proof is not known without the document of its DID");
        return false;
    };
    let host = authority(claimed.url);
    let rules = DescriptionRules {
        now,
        host: Some(&host),
        challenge: claimed.challenge,
        signer: Signer::Subject,
        literal: false,
    };
    match verify_description(claimed.whole, bound, &rules) {
        Ok(key) => {
            checks.verified(Subject::Proof, format!("signed by {key}"));
            true
        }
        Err(fault @ ProofError::Type(_)) => {
            checks.unverified(Subject::Proof, plain(&fault.to_string()));
            false
        }
        Err(fault @ ProofError::Place(_)) => {
            checks.refuted(Subject::Domain, plain(&fault.to_string()));
            false
        }
        Err(fault) => {
            checks.refuted(Subject::Proof, plain(&fault.to_string()));
            false
        }
    }
}

fn domain(checks: &mut Checks, claimed: &Claimed<'_>, found: Option<&Arc<BoundDocument>>, signed: bool) {
    if checks.of(Subject::Domain).is_some() {
        return;
    }
    let said = |name: &str| claimed.whole.get("proof").and_then(|proof| proof.get(name)).and_then(Value::as_str);
    if signed && let Some(domain) = said("domain") {
        checks.verified(Subject::Domain, format!("its proof is for {}", plain(domain)));
        match claimed.challenge {
            Some(_) => checks.verified(Subject::Challenge, "its proof shows what was asked for"),
            None => checks
                .unverified(Subject::Challenge, "nobody here asked for its challenge; the proof may be an old one"),
        }
        return;
    }
    let Some(bound) = found else { return };
    let own = authority_of(bound);
    let here = authority(claimed.url);
    if own == here {
        checks.verified(Subject::Domain, format!("its DID is of {here}, where it came from"));
    } else {
        checks.unverified(Subject::Domain, format!("its DID is of {own}, and it came from {here}"));
    }
}

fn authority_of(bound: &BoundDocument) -> String {
    let did = bound.did();
    did.port().map_or_else(|| did.host().to_owned(), |port| format!("{}:{port}", did.host()))
}

fn address(checks: &mut Checks, claimed: &Claimed<'_>) {
    let Some(said) = claimed.whole.get("url").and_then(Value::as_str) else { return };
    match Url::parse(said) {
        Ok(url) if same(&url, claimed.url) => checks.verified(Subject::Address, "it is where it says it is"),
        _ => checks.unverified(
            Subject::Address,
            format!("it says it is at {}, and came from {}", plain(said), shown(claimed.url)),
        ),
    }
}

/// Whether two addresses lead to the same document.
fn same(one: &Url, other: &Url) -> bool {
    one[..url::Position::AfterQuery] == other[..url::Position::AfterQuery]
}
