//! Proofs on agent descriptions (ANP-07). We write and verify W3C Data Integrity proofs. The form that the text of
//! ANP-07 defines is accepted only if the verifier asks for it: no known software writes it.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};

use super::{ProofError, UnverifiedProof, literal};
use crate::did::DidUrl;
use crate::document::BoundDidDocument;

/// Requirements on the proof of an agent description.
#[derive(Debug, Clone, Copy)]
pub struct DescriptionProofRules<'a> {
    pub now: Timestamp,
    /// The host that served the description, with its port if it has one. A proof for another host is refused; `None`
    /// accepts any host.
    pub host: Option<&'a str>,
    /// The challenge that the verifier sent, which the proof must contain; `None` requires none.
    pub challenge: Option<&'a str>,
    pub signer: AllowedProofSigner,
    pub forms: AcceptedProofForms,
}

/// Form of the proof that is written on a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DescriptionProofForm {
    /// A W3C Data Integrity proof.
    #[default]
    DataIntegrity,
    /// The form that the text of ANP-07 defines, for readers that ask for it.
    Literal,
}

/// Forms of proofs that a verifier accepts on a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceptedProofForms {
    /// W3C Data Integrity proofs.
    #[default]
    DataIntegrity,
    /// Also the form that the text of ANP-07 defines.
    WithLiteral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedProofSigner {
    /// Only the DID that the description is about.
    Subject,
    /// Any DID whose document was passed in.
    Anyone,
}

impl DescriptionProofRules<'_> {
    /// Rules for a description of unknown origin: its subject must have signed it.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self {
            now,
            host: None,
            challenge: None,
            signer: AllowedProofSigner::Subject,
            forms: AcceptedProofForms::DataIntegrity,
        }
    }
}

/// Verifies the proof of a description and returns the key that signed it.
pub fn verify_description(
    description: &Map<String, Value>,
    signer: &BoundDidDocument,
    rules: &DescriptionProofRules<'_>,
) -> Result<DidUrl, ProofError> {
    let members = description.get("proof").and_then(Value::as_object).ok_or(ProofError::Missing)?;
    let text = |name: &'static str| members.get(name).and_then(Value::as_str).ok_or(ProofError::Field(name));
    let name = text("verificationMethod")?;
    let id = DidUrl::parse(name).map_err(|_| ProofError::VerificationMethod(name.to_owned()))?;
    let purpose = text("proofPurpose")?;
    if purpose != "assertionMethod" {
        return Err(ProofError::Purpose(purpose.to_owned()));
    }
    if rules.signer == AllowedProofSigner::Subject
        && description.get("did").and_then(Value::as_str) != Some(id.did().as_str())
    {
        return Err(ProofError::IssuerMismatch);
    }
    check_audience(members, rules)?;
    let key = signer.assertion_key(&id)?;
    let verified = UnverifiedProof::read(description).and_then(|proof| proof.verify(description, key, rules.now));
    if verified.is_ok() || rules.forms == AcceptedProofForms::DataIntegrity {
        return verified.map(|()| id);
    }
    match (literal::verify(description, key, rules.now), verified) {
        (Ok(()), _) => Ok(id),
        // A type that only the literal form can have.
        (Err(literal), Err(ProofError::Type(_))) if literal != ProofError::Value => Err(literal),
        (Err(_), verified) => verified.map(|()| id),
    }
}

/// Checks host and challenge: a proof with a domain must name the serving host and must have a challenge (ANP-07).
fn check_audience(proof: &Map<String, Value>, rules: &DescriptionProofRules<'_>) -> Result<(), ProofError> {
    let text = |name: &str| proof.get(name).and_then(Value::as_str);
    if let Some(domain) = text("domain") {
        let without_port = |host: &str| host.rsplit_once(':').map(|(host, _)| host.to_owned());
        if rules.host.is_some_and(|host| domain != host && Some(domain) != without_port(host).as_deref()) {
            return Err(ProofError::Audience(
                "its domain differs from the host from which the description was fetched",
            ));
        }
        if text("challenge").is_none() {
            return Err(ProofError::Audience("it has a domain, but no challenge"));
        }
    }
    if rules.challenge.is_some_and(|challenge| text("challenge") != Some(challenge)) {
        return Err(ProofError::Audience("its challenge differs from the challenge that was sent"));
    }
    Ok(())
}
