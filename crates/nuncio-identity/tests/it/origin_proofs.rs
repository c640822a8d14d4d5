//! Test vectors of `origin_proofs.json`.

use nuncio_identity::http_signature::SignatureParameters;
use nuncio_identity::origin_proof::{OriginProof, OriginProofInput, SCHEME, target_uri, verify_origin};
use nuncio_identity::{DidAuthError, SignaturePolicy, VerifiedSigner, rfc3339};
use serde_json::{Value, json};

use crate::vectors::{self, cases, document, key_of_document, signing_key, text};

const CREATED: i64 = 1_774_785_600;

fn verify(case: &Value) -> Result<VerifiedSigner, DidAuthError> {
    let sent = &case["verify"];
    let proof = OriginProof::from_json(&sent["origin_proof"])?;
    let request = OriginProofInput { method: text(&sent["method"]), meta: &sent["meta"], body: &sent["body"] };
    let late = text(&case["name"]) == "lax_expired";
    let now = rfc3339::from_seconds(CREATED + if late { 3600 } else { 10 });
    let verified =
        verify_origin(&proof, &request, &document(text(&case["did_document"])), now, &SignaturePolicy::default())?;
    match sent["expected_signer_did"].as_str() {
        Some(expected) if expected != verified.did.as_str() => Err(DidAuthError::ForbiddenDid(verified.did)),
        _ => Ok(verified),
    }
}

#[test]
fn origin_proofs_verify_as_marked_in_the_vectors() {
    for case in cases(&vectors::origin_proofs(), "cases", 20) {
        let result = verify(&case);
        assert_eq!(result.is_ok(), case["spec_valid"] == true, "{}: {result:?}", case["name"]);
        if let Ok(verified) = result {
            assert_eq!(verified.nonce.as_deref(), Some("n-20001"));
        }
    }
}

#[test]
fn signing_reproduces_the_sdk_origin_proofs_byte_for_byte() {
    let mut made = 0;
    for case in cases(&vectors::origin_proofs(), "cases", 20) {
        let name = text(&case["name"]);
        let request = OriginProofInput { method: text(&case["method"]), meta: &case["meta"], body: &case["body"] };
        assert_eq!(request.canonical(), text(&case["signed_request_object_jcs"]).as_bytes(), "{name}");
        if case["deterministic"] != true {
            continue;
        }
        let key = match name {
            "neg_wrong_key" => signing_key("ed25519:mallory"),
            _ => key_of_document(text(&case["did_document"])).unwrap(),
        };
        let options = SignatureParameters {
            key_id: text(&case["keyid"]),
            created: rfc3339::from_seconds(CREATED),
            expires: Some(rfc3339::from_seconds(CREATED + 60)),
            nonce: "n-20001",
        };
        let proof = request.sign(&key, &options).unwrap();
        assert_eq!(proof.to_json(), case["origin_proof"], "{name}");
        assert_eq!(OriginProof::from_auth(&proof.to_auth()), Ok(proof));
        made += 1;
    }
    assert_eq!(made, 18);
}

#[test]
fn origin_proof_target_uris_match_the_vectors() {
    for case in cases(&vectors::origin_proofs(), "target_uris", 4) {
        assert_eq!(target_uri(text(&case["kind"]), text(&case["did"])), text(&case["uri"]));
    }
}

#[test]
fn each_invalid_origin_proof_reports_its_error_code() {
    for (name, word) in [
        ("neg_body", "invalid_content_digest"),
        ("neg_wrong_key", "invalid_signature"),
        ("neg_nonce_changed", "invalid_signature"),
        ("neg_keyid_not_authentication", "invalid_verification_method"),
        ("neg_components", "invalid_request"),
        ("neg_seed002_shape", "invalid_request"),
        ("lax_expired", "invalid_timestamp"),
    ] {
        let file = vectors::origin_proofs();
        let case = cases(&file, "cases", 20).into_iter().find(|case| case["name"] == name).unwrap();
        assert_eq!(verify(&case).unwrap_err().error_code(), word, "{name}");
    }
}

#[test]
fn unknown_members_of_an_origin_proof_are_refused() {
    let file = vectors::origin_proofs();
    let proof = &file["cases"][0]["origin_proof"];
    assert!(OriginProof::from_auth(&json!({ "scheme": SCHEME, "origin_proof": proof })).is_ok());
    assert!(OriginProof::from_auth(&json!({ "scheme": "other", "origin_proof": proof })).is_err());
    assert!(OriginProof::from_auth(&json!({ "scheme": SCHEME, "origin_proof": proof, "x": 1 })).is_err());
    assert!(OriginProof::from_auth(&json!({ "origin_proof": proof })).is_err());
    let mut more = proof.clone();
    more["x"] = json!(1);
    assert!(OriginProof::from_json(&more).is_err());
}
