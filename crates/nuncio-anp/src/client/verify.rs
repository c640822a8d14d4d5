//! Verifies what a description claims: its DID, its proof and its location.

use std::sync::Arc;

use nuncio_core::string_enum;
use nuncio_core::time::Timestamp;
use nuncio_identity::proof::{AcceptedProofForms, AllowedProofSigner, DescriptionProofRules, verify_description};
use nuncio_identity::{BoundDidDocument, DidDocumentBinding, ProofError};
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::target::{authority, did_authority};

/// Results of all checks of a description, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct DescriptionCheckResults(Vec<DescriptionCheckResult>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescriptionCheckResult {
    pub subject: DescriptionClaim,
    #[serde(flatten)]
    pub outcome: DescriptionCheckOutcome,
}

string_enum! {
    /// Claim of a description that a check verifies.
    pub enum DescriptionClaim {
        /// The DID document belongs to the DID.
        Did = "did",
        /// The DID document points to this description.
        Service = "service",
        /// The DID signed this description.
        Proof = "proof",
        /// The description is meant for the host that served it.
        Domain = "domain",
        /// The proof contains the challenge of this client.
        Challenge = "challenge",
        /// The description's `url` is the URL from which it was fetched.
        Address = "address",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DescriptionCheckOutcome {
    Verified {
        how: String,
    },
    /// The check could not be made.
    Unverified {
        why: String,
    },
    /// The check failed.
    Refuted {
        why: String,
    },
}

impl DescriptionCheckResults {
    pub fn iter(&self) -> impl Iterator<Item = &DescriptionCheckResult> {
        self.0.iter()
    }

    /// Result of the check of `subject`, if it was made.
    #[must_use]
    pub fn of(&self, subject: DescriptionClaim) -> Option<&DescriptionCheckOutcome> {
        self.0.iter().find(|check| check.subject == subject).map(|check| &check.outcome)
    }

    /// Fails if any check failed. Checks that could not be made are tolerated.
    pub fn ensure_trusted(&self) -> Result<(), ClientError> {
        let refuted = self.0.iter().find_map(|check| match &check.outcome {
            DescriptionCheckOutcome::Refuted { why } => Some((check.subject, why)),
            _ => None,
        });
        match refuted {
            None => Ok(()),
            Some((subject, why)) => {
                Err(ClientError::new(ClientErrorReason::Untrusted, format!("the agent cannot be trusted: {why}"))
                    .details(serde_json::json!({"subject": subject, "checks": self}))
                    .advice("nothing was sent to it; `nuncio show` lists everything that was checked"))
            }
        }
    }

    pub(super) fn verified(&mut self, subject: DescriptionClaim, how: impl Into<String>) {
        self.0.push(DescriptionCheckResult { subject, outcome: DescriptionCheckOutcome::Verified { how: how.into() } });
    }

    pub(super) fn unverified(&mut self, subject: DescriptionClaim, why: impl Into<String>) {
        self.0
            .push(DescriptionCheckResult { subject, outcome: DescriptionCheckOutcome::Unverified { why: why.into() } });
    }

    pub(super) fn refuted(&mut self, subject: DescriptionClaim, why: impl Into<String>) {
        self.0.push(DescriptionCheckResult { subject, outcome: DescriptionCheckOutcome::Refuted { why: why.into() } });
    }
}

pub(super) struct UnverifiedAgentDescription<'a> {
    /// The DID that the description is about, as the description says or as the user named it.
    pub(super) did: Option<&'a str>,
    pub(super) raw: &'a Map<String, Value>,
    pub(super) url: &'a Url,
    pub(super) challenge: Option<&'a str>,
    pub(super) forms: AcceptedProofForms,
}

impl<'a> UnverifiedAgentDescription<'a> {
    /// The DID that the proof names, without the key; none if the key is named by a relative reference.
    fn signer(&self) -> Option<&'a str> {
        let method = self.raw.get("proof")?.get("verificationMethod")?.as_str()?;
        method.split('#').next().filter(|did| did.starts_with("did:"))
    }
}

/// Result of resolving the DID that a description names.
pub(super) enum DidLookupResult {
    /// The description names no DID.
    None,
    /// The DID could not be resolved.
    Unknown(String),
    /// The DID document does not belong to the DID.
    Wrong(String),
    Found(Arc<BoundDidDocument>),
}

pub(super) fn checks(
    claimed: &UnverifiedAgentDescription<'_>,
    lookup: &DidLookupResult,
    now: Timestamp,
) -> DescriptionCheckResults {
    let mut checks = DescriptionCheckResults::default();
    match lookup {
        DidLookupResult::None => {
            checks.unverified(DescriptionClaim::Did, "it names no DID, so anyone could have written it");
        }
        DidLookupResult::Unknown(why) => checks.unverified(DescriptionClaim::Did, why.clone()),
        DidLookupResult::Wrong(why) => checks.refuted(DescriptionClaim::Did, why.clone()),
        DidLookupResult::Found(document) => did(&mut checks, document),
    }
    let found = if let DidLookupResult::Found(document) = lookup { Some(document) } else { None };
    service(&mut checks, claimed, found);
    let signed = proof(&mut checks, claimed, found, now);
    domain(&mut checks, claimed, found, signed);
    address(&mut checks, claimed);
    checks
}

fn did(checks: &mut DescriptionCheckResults, bound: &BoundDidDocument) {
    let did = bound.did();
    if bound.document().deactivated() {
        let next = bound.document().successor().map(|next| format!("; its successor is {next}")).unwrap_or_default();
        checks.refuted(DescriptionClaim::Did, format!("{did} is deactivated{next}"));
        return;
    }
    let how = match bound.binding() {
        DidDocumentBinding::Ed25519 => "its document is signed by the key whose fingerprint is in it",
        DidDocumentBinding::Secp256k1 => "its document lists the key whose fingerprint is in it",
        DidDocumentBinding::Domain | DidDocumentBinding::Publisher => "its document came from its domain",
    };
    checks.verified(DescriptionClaim::Did, format!("{did}: {how}"));
}

fn service(
    checks: &mut DescriptionCheckResults,
    claimed: &UnverifiedAgentDescription<'_>,
    found: Option<&Arc<BoundDidDocument>>,
) {
    let Some(bound) = found else { return };
    let services = || bound.document().services().iter().filter(|service| service.kind == "AgentDescription");
    let leads_here = |endpoint: &str| Url::parse(endpoint).is_ok_and(|url| same(&url, claimed.url));
    match services().next() {
        _ if services().any(|service| leads_here(&service.endpoint)) => {
            checks.verified(DescriptionClaim::Service, "the DID document names this description");
        }
        Some(other) => {
            let (endpoint, here) = (plain(&other.endpoint), display_url(claimed.url));
            // The displayed address omits the query.
            let query = if claimed.url.query().is_some() { " with a query" } else { "" };
            checks.refuted(
                DescriptionClaim::Service,
                format!("{} is described at {endpoint}, not at {here}{query}", bound.did()),
            );
        }
        None => {
            checks.unverified(
                DescriptionClaim::Service,
                format!("the DID document of {} names no description", bound.did()),
            );
        }
    }
}

/// Checks the proof of a description; returns whether the proof is valid.
fn proof(
    checks: &mut DescriptionCheckResults,
    claimed: &UnverifiedAgentDescription<'_>,
    found: Option<&Arc<BoundDidDocument>>,
    now: Timestamp,
) -> bool {
    if !claimed.raw.contains_key("proof") {
        checks.unverified(DescriptionClaim::Proof, "it has no proof, so its host could have changed it");
        return false;
    }
    if let (Some(did), Some(signer)) = (claimed.did, claimed.signer())
        && did != signer
    {
        let why = format!("its proof is by {}, but it describes {}", plain(signer), plain(did));
        checks.refuted(DescriptionClaim::Proof, why);
        return false;
    }
    let Some(bound) = found else {
        checks.unverified(DescriptionClaim::Proof, "the key of its proof is unknown without the document of its DID");
        return false;
    };
    let host = authority(claimed.url);
    let rules = DescriptionProofRules {
        now,
        host: Some(&host),
        challenge: claimed.challenge,
        signer: AllowedProofSigner::Subject,
        forms: claimed.forms,
    };
    let result = verify_description(claimed.raw, bound, &rules);
    match &result {
        Ok(key) => checks.verified(DescriptionClaim::Proof, format!("signed by {key}")),
        Err(fault @ ProofError::Type(_)) => checks.unverified(DescriptionClaim::Proof, plain(&fault.to_string())),
        Err(fault @ ProofError::Audience(_)) => checks.refuted(DescriptionClaim::Domain, plain(&fault.to_string())),
        Err(fault) => checks.refuted(DescriptionClaim::Proof, plain(&fault.to_string())),
    }
    result.is_ok()
}

fn domain(
    checks: &mut DescriptionCheckResults,
    claimed: &UnverifiedAgentDescription<'_>,
    found: Option<&Arc<BoundDidDocument>>,
    signed: bool,
) {
    if checks.of(DescriptionClaim::Domain).is_some() {
        return;
    }
    let claim = |name: &str| claimed.raw.get("proof").and_then(|proof| proof.get(name)).and_then(Value::as_str);
    if signed && let Some(domain) = claim("domain") {
        checks.verified(DescriptionClaim::Domain, format!("its proof is for {}", plain(domain)));
        match claimed.challenge {
            Some(_) => checks.verified(DescriptionClaim::Challenge, "its proof contains the requested challenge"),
            None => checks.unverified(
                DescriptionClaim::Challenge,
                "this client did not send its challenge; the proof may be an old one",
            ),
        }
        return;
    }
    let Some(bound) = found else { return };
    let own = did_authority(bound.did());
    let here = authority(claimed.url);
    if own == here {
        checks.verified(DescriptionClaim::Domain, format!("its DID belongs to {here}, from which it was fetched"));
    } else {
        checks
            .unverified(DescriptionClaim::Domain, format!("its DID belongs to {own}, but it was fetched from {here}"));
    }
}

fn address(checks: &mut DescriptionCheckResults, claimed: &UnverifiedAgentDescription<'_>) {
    let Some(claim) = claimed.raw.get("url").and_then(Value::as_str) else { return };
    match Url::parse(claim) {
        Ok(url) if same(&url, claimed.url) => {
            checks.verified(DescriptionClaim::Address, "its url is the URL from which it was fetched");
        }
        _ => checks.unverified(
            DescriptionClaim::Address,
            format!("its url is {}, but it was fetched from {}", plain(claim), display_url(claimed.url)),
        ),
    }
}

/// Compares two URLs without their fragments.
fn same(one: &Url, other: &Url) -> bool {
    one[..url::Position::AfterQuery] == other[..url::Position::AfterQuery]
}
