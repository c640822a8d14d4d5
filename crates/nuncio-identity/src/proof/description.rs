//! Proofs on agent descriptions (ANP-07). Its own text defines a form nobody makes; what is made and read here
//! is Data Integrity, and the letter of ANP-07 only for those who ask for it.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};

use super::{Proof, ProofError};
use crate::did::DidUrl;
use crate::document::BoundDocument;
use crate::encoding::base64url_exact;
use crate::jcs;
use crate::keys::VerifyingKey;

/// What the proof of a description must show.
#[derive(Debug, Clone, Copy)]
pub struct DescriptionRules<'a> {
    /// The moment of the check.
    pub now: Timestamp,
    /// The host the description came from, with its port if it has one. A proof for another host is refused.
    pub host: Option<&'a str>,
    /// What we asked to see in it.
    pub challenge: Option<&'a str>,
    /// Who may have signed it.
    pub signer: Signer,
    /// Whether the letter of ANP-07 is taken too.
    pub literal: bool,
}

/// Who may sign a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// Only the DID that the description is about.
    Subject,
    /// Anyone whose document is at hand.
    Anyone,
}

impl DescriptionRules<'_> {
    /// The rules for a description whose origin is not known: its subject must have signed it.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self { now, host: None, challenge: None, signer: Signer::Subject, literal: false }
    }
}

/// Checks the proof of a description against the document of its signer.
///
/// # Errors
/// Says what does not hold.
pub fn verify_description(
    description: &Map<String, Value>,
    signer: &BoundDocument,
    rules: &DescriptionRules<'_>,
) -> Result<DidUrl, ProofError> {
    let members = description.get("proof").and_then(Value::as_object).ok_or(ProofError::Missing)?;
    let text = |name: &'static str| members.get(name).and_then(Value::as_str).ok_or(ProofError::Field(name));
    let name = text("verificationMethod")?;
    let id = DidUrl::parse(name).map_err(|_| ProofError::VerificationMethod(name.to_owned()))?;
    let purpose = text("proofPurpose")?;
    if purpose != "assertionMethod" {
        return Err(ProofError::Purpose(purpose.to_owned()));
    }
    if rules.signer == Signer::Subject && description.get("did").and_then(Value::as_str) != Some(id.did().as_str()) {
        return Err(ProofError::IssuerMismatch);
    }
    check_place(members, rules)?;
    let key = signer.assertion_key(&id)?;
    let standard = Proof::read(description).and_then(|proof| proof.verify(description, key, rules.now));
    match standard {
        Ok(()) => Ok(id),
        Err(_) if rules.literal => verify_literal(description, members, key).map(|()| id),
        Err(fault) => Err(fault),
    }
}

/// A proof that names a host must name the one it came from, and then needs a challenge (ANP-07).
fn check_place(proof: &Map<String, Value>, rules: &DescriptionRules<'_>) -> Result<(), ProofError> {
    let text = |name: &str| proof.get(name).and_then(Value::as_str);
    if let Some(domain) = text("domain") {
        let without_port = |host: &str| host.rsplit_once(':').map(|(host, _)| host.to_owned());
        if rules.host.is_some_and(|host| domain != host && Some(domain) != without_port(host).as_deref()) {
            return Err(ProofError::Place("its domain is not the host the description came from"));
        }
        if text("challenge").is_none() {
            return Err(ProofError::Place("it has a domain and no challenge"));
        }
    }
    if rules.challenge.is_some_and(|challenge| text("challenge") != Some(challenge)) {
        return Err(ProofError::Place("its challenge is not the one that was asked for"));
    }
    Ok(())
}

/// The letter of ANP-07: sign the hash of the whole document, the proof without its value in it.
fn verify_literal(
    description: &Map<String, Value>,
    proof: &Map<String, Value>,
    key: &VerifyingKey,
) -> Result<(), ProofError> {
    let value = proof.get("proofValue").and_then(Value::as_str).ok_or(ProofError::Field("proofValue"))?;
    let signature = base64url_exact::<64>(value).ok_or(ProofError::Value)?;
    let mut whole = description.clone();
    whole.insert("proof".to_owned(), Value::Object(super::without(proof, "proofValue")));
    let hash = jcs::sha256(&jcs::canonical(&Value::Object(whole)));
    key.verify(&hash, &signature).map_err(|_| ProofError::Signature)
}
