//! Signs documents with Data Integrity proofs.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::{ProofContextRule, signing_input};
use crate::encoding::{base64url, multibase};
use crate::keys::SigningKey;
use crate::rfc3339;

/// Members of a proof other than its signature.
#[derive(Debug, Clone, Copy)]
pub struct ProofOptions<'a> {
    /// DID URL of the signing key.
    pub verification_method: &'a str,
    pub created: Timestamp,
    /// Host that the proof is restricted to.
    pub domain: Option<&'a str>,
    /// Challenge that a verifier sent.
    pub challenge: Option<&'a str>,
}

/// Encoding of the proof value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofEncoding {
    /// `z` and base58btc, with the document's `@context` in the hash: the W3C form, which we write.
    Multibase,
    /// Base64url without the context, for ANP's SDK before 1.0.4.
    Base64Url,
}

/// Signs a document with `eddsa-jcs-2022` and replaces its existing proof.
pub fn sign(document: &mut Map<String, Value>, key: &SigningKey, options: &ProofOptions<'_>, encoding: ProofEncoding) {
    let context = match encoding {
        ProofEncoding::Multibase => ProofContextRule::WithOptions,
        ProofEncoding::Base64Url => ProofContextRule::Apart,
    };
    sign_in(document, key, options, encoding, context);
}

pub(super) fn sign_in(
    document: &mut Map<String, Value>,
    key: &SigningKey,
    options: &ProofOptions<'_>,
    encoding: ProofEncoding,
    context: ProofContextRule,
) {
    let mut proof = unsigned(options, "DataIntegrityProof", Some("eddsa-jcs-2022"));
    let input = signing_input(document, &proof, context).expect("a proof without a context fits every document");
    let signature = key.sign(&input);
    let value = match encoding {
        ProofEncoding::Multibase => multibase(&signature),
        ProofEncoding::Base64Url => base64url(&signature),
    };
    proof.insert("proofValue".to_owned(), json!(value));
    document.insert("proof".to_owned(), Value::Object(proof));
}

/// A proof without its signature.
pub(super) fn unsigned(options: &ProofOptions<'_>, kind: &str, suite: Option<&str>) -> Map<String, Value> {
    let created = rfc3339::write(options.created);
    let members = [
        ("type", Some(kind)),
        ("cryptosuite", suite),
        ("created", Some(&*created)),
        ("verificationMethod", Some(options.verification_method)),
        ("proofPurpose", Some("assertionMethod")),
        ("domain", options.domain),
        ("challenge", options.challenge),
    ];
    members.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))).collect()
}
