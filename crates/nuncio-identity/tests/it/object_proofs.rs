//! Test vectors of `object_proofs.json`.

use nuncio_identity::proof::{ProofOptions, sign_object, verify_object};
use nuncio_identity::{Did, ProofError, rfc3339};

use crate::vectors::{self, bind, cases, object, signing_key, soon_after, text};

/// Error code that ANP's SDK reports for a proof error.
fn sdk_code(error: &ProofError) -> &'static str {
    match error {
        ProofError::Field(_) => "proof_field_missing",
        ProofError::Type(_) => "proof_type_invalid",
        ProofError::Purpose(_) => "proof_purpose_invalid",
        ProofError::Moment(_) => "timestamp_invalid",
        ProofError::VerificationMethod(_) => "verification_method_invalid",
        ProofError::Value => "proof_value_invalid",
        ProofError::IssuerDocument => "issuer_document_mismatch",
        ProofError::IssuerMismatch => "issuer_did_mismatch",
        ProofError::Unauthorised(_) => "verification_method_unauthorized",
        ProofError::Signature => "proof_signature_invalid",
        other => panic!("the SDK has no code for {other:?}"),
    }
}

#[test]
fn object_proofs_verify_or_fail_with_the_error_code_in_the_vectors() {
    let file = vectors::object_proofs();
    let issuer = bind(&file["issuer_did_document"]);
    for case in cases(&file, "cases", 12) {
        let did = Did::parse(text(&case["issuer_did"])).unwrap();
        let result = verify_object(&object(&case["document"]), &did, &issuer, soon_after());
        assert_eq!(
            result.as_ref().err().map(sdk_code),
            case["sdk_error_code"].as_str(),
            "{}: {result:?}",
            case["name"]
        );
        assert_eq!(result.is_ok(), case["sdk_valid"] == true);
    }
}

#[test]
fn signing_reproduces_the_sdk_object_proof_byte_for_byte() {
    let file = vectors::object_proofs();
    let mut signed = object(&file["cases"][0]["document"]);
    let proof = signed.shift_remove("proof").unwrap();
    let options = ProofOptions {
        verification_method: text(&proof["verificationMethod"]),
        created: rfc3339::read(text(&proof["created"])).unwrap(),
        domain: None,
        challenge: None,
    };
    sign_object(&mut signed, &signing_key("ed25519:hotel"), &options);
    assert_eq!(signed["proof"], proof);
}
