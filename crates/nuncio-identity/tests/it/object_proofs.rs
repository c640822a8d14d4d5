//! Test vectors of `object_proofs.json`.

use nuncio_identity::proof::{ProofOptions, sign_object, verify_object};
use nuncio_identity::{Did, rfc3339};

use crate::vectors::{self, bind, cases, object, signing_key, soon_after, text};

#[test]
fn object_proofs_verify_as_the_vectors_say() {
    let file = vectors::object_proofs();
    let issuer = bind(&file["issuer_did_document"]);
    for case in cases(&file, "cases", 12) {
        let did = Did::parse(text(&case["issuer_did"])).unwrap();
        let result = verify_object(&object(&case["document"]), &did, &issuer, soon_after());
        let word = result.as_ref().err().map(nuncio_identity::ProofError::error_code);
        assert_eq!(word, case["sdk_error_code"].as_str(), "{}: {result:?}", case["name"]);
        assert_eq!(result.is_ok(), case["sdk_valid"] == true);
    }
}

#[test]
fn object_proof_is_reproduced_byte_for_byte() {
    let file = vectors::object_proofs();
    let mut signed = object(&file["cases"][0]["document"]);
    let proof = signed.remove("proof").unwrap();
    let options = ProofOptions {
        verification_method: text(&proof["verificationMethod"]),
        created: rfc3339::read(text(&proof["created"])).unwrap(),
        domain: None,
        challenge: None,
    };
    sign_object(&mut signed, &signing_key("ed25519:hotel"), &options);
    assert_eq!(signed["proof"], proof);
}
