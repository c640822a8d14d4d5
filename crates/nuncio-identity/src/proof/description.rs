//! Proofs on agent descriptions (ANP-07). We write and verify W3C Data Integrity proofs. The form that the text of
//! ANP-07 defines, which no known software writes, is accepted only with `literal`.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};

use super::{Proof, ProofError};
use crate::did::DidUrl;
use crate::document::BoundDocument;
use crate::encoding::base64url_exact;
use crate::jcs;
use crate::keys::VerifyingKey;

/// Requirements on the proof of an agent description.
#[derive(Debug, Clone, Copy)]
pub struct DescriptionRules<'a> {
    pub now: Timestamp,
    /// The host that served the description, with its port if it has one. A proof for another host is refused.
    pub host: Option<&'a str>,
    /// The challenge that the verifier sent.
    pub challenge: Option<&'a str>,
    pub signer: AllowedSigner,
    /// Whether the form that the text of ANP-07 defines is accepted too.
    pub literal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedSigner {
    /// Only the DID that the description is about.
    Subject,
    /// Any DID whose document was passed in.
    Anyone,
}

impl DescriptionRules<'_> {
    /// Rules for a description of unknown origin: its subject must have signed it.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self { now, host: None, challenge: None, signer: AllowedSigner::Subject, literal: false }
    }
}

/// Verifies the proof of a description and returns the key that signed it.
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
    if rules.signer == AllowedSigner::Subject
        && description.get("did").and_then(Value::as_str) != Some(id.did().as_str())
    {
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

/// Checks host and challenge: a proof with a domain must name the serving host and must have a challenge (ANP-07).
fn check_place(proof: &Map<String, Value>, rules: &DescriptionRules<'_>) -> Result<(), ProofError> {
    let text = |name: &str| proof.get(name).and_then(Value::as_str);
    if let Some(domain) = text("domain") {
        let without_port = |host: &str| host.rsplit_once(':').map(|(host, _)| host.to_owned());
        if rules.host.is_some_and(|host| domain != host && Some(domain) != without_port(host).as_deref()) {
            return Err(ProofError::Audience("its domain is not the host the description came from"));
        }
        if text("challenge").is_none() {
            return Err(ProofError::Audience("it has a domain and no challenge"));
        }
    }
    if rules.challenge.is_some_and(|challenge| text("challenge") != Some(challenge)) {
        return Err(ProofError::Audience("its challenge is not the one that was asked for"));
    }
    Ok(())
}

/// Verifies the form that the text of ANP-07 defines: the signature covers the hash of the whole document, with the
/// proof in it but without `proofValue`.
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
