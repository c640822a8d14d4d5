//! Test vectors made with ANP's SDK.

use nuncio_core::time::Timestamp;
use nuncio_identity::{BoundDidDocument, DidDocument, K1ProofRule, SigningKey, VerifyingKey, rfc3339};
use serde_json::{Map, Value};

macro_rules! vectors {
    ($($name:ident),*) => {
        $(pub(crate) fn $name() -> Value {
            serde_json::from_str(include_str!(concat!("../data/", stringify!($name), ".json"))).unwrap()
        })*
    };
}

vectors!(
    ad_proofs,
    client_headers,
    did_documents,
    http_signatures,
    jcs,
    keys,
    legacy_didwba,
    object_proofs,
    origin_proofs,
    resolution_urls,
    verifier_flow
);

/// 2026-01-01T00:00:10Z, ten seconds after most vectors were signed.
pub(crate) fn soon_after() -> Timestamp {
    rfc3339::from_seconds(1_767_225_610)
}

/// The cases of a vector file. Their number is checked, so that no case can be lost.
pub(crate) fn cases(file: &Value, name: &str, count: usize) -> Vec<Value> {
    let cases = file[name].as_array().unwrap().clone();
    assert_eq!(cases.len(), count, "{name}");
    cases
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

pub(crate) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// A private key by its name, such as `ed25519:alice`.
pub(crate) fn signing_key(name: &str) -> SigningKey {
    let seed = hex(text(&keys()["keys"][name]["private_hex"]));
    SigningKey::from_seed(&seed.try_into().unwrap())
}

pub(crate) fn verifying_key(name: &str) -> VerifyingKey {
    let key = &keys()["keys"][name];
    match key["publicKeyMultibase"].as_str() {
        Some(text) => VerifyingKey::from_multibase(text).unwrap(),
        None => VerifyingKey::from_jwk(key["publicKeyJwk"].as_object().unwrap()).unwrap(),
    }
}

pub(crate) fn bind(document: &Value) -> BoundDidDocument {
    let document = DidDocument::from_json(document.clone()).unwrap();
    let did = document.id().clone();
    document.bind(&did, soon_after(), K1ProofRule::Optional).unwrap()
}

/// A published document by its name, such as `e1_path`.
pub(crate) fn document(name: &str) -> BoundDidDocument {
    let file = did_documents();
    let case = file["documents"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
    bind(&case["document"])
}

/// The private key of a document in the vectors, if it is of a type we can sign with.
pub(crate) fn key_of_document(name: &str) -> Option<SigningKey> {
    let file = did_documents();
    let case = file["documents"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
    let key = text(&case["signing_key"]);
    key.starts_with("ed25519:").then(|| signing_key(key))
}
