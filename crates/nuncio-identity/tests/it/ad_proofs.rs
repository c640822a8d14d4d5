//! Test vectors of `ad_proofs.json`: proofs on agent descriptions.

use nuncio_identity::proof::{
    AcceptedProofForms, AllowedProofSigner, DescriptionProofRules, ProofEncoding, ProofOptions, UnverifiedProof, sign,
    sign_literal, verify_description,
};
use nuncio_identity::{ProofError, rfc3339};

use crate::vectors::{self, bind, cases, document, object, signing_key, soon_after, text, verifying_key};

#[test]
fn agent_description_proofs_verify_as_marked_in_the_vectors() {
    let file = vectors::ad_proofs();
    let hotel = bind(&file["issuer_did_document"]);
    let mut made = 0;
    for case in cases(&file, "cases", 16) {
        let name = text(&case["name"]);
        let description = object(&case["document"]);
        // Verified with the bare key, as the SDK did for the vectors.
        let key = verifying_key(text(&case["key"]));
        let result =
            UnverifiedProof::read(&description).and_then(|proof| proof.verify(&description, &key, soon_after()));
        assert_eq!(result.is_ok(), case["spec_valid"] == true, "{name}: {result:?}");
        assert_eq!(result.is_ok(), case["sdk_verify_w3c_proof"] == true, "{name}");
        // Verified with the DID document of the signer.
        let by_k1 = text(&case["key"]).starts_with("secp256k1");
        let k1 = document("k1_path");
        let rules = DescriptionProofRules {
            host: Some("localhost:8443"),
            signer: if by_k1 { AllowedProofSigner::Anyone } else { AllowedProofSigner::Subject },
            ..DescriptionProofRules::at(soon_after())
        };
        let judged = verify_description(&description, if by_k1 { &k1 } else { &hotel }, &rules);
        // This case has a wrong bare key; the DID document has the right one.
        if name != "neg_wrong_key" {
            assert_eq!(judged.is_ok(), case["spec_valid"] == true, "{name}: {judged:?}");
        }
        if by_k1 {
            let subject = DescriptionProofRules { signer: AllowedProofSigner::Subject, ..rules };
            assert_eq!(verify_description(&description, &k1, &subject), Err(ProofError::IssuerMismatch));
        }
        if name.starts_with("sdk_dataintegrity") || name == "object_proof_multibase" {
            let encoding = if name.starts_with("sdk") { ProofEncoding::Base64Url } else { ProofEncoding::Multibase };
            let mut again = description.clone();
            let proof = again.shift_remove("proof").unwrap();
            let options = ProofOptions {
                verification_method: text(&proof["verificationMethod"]),
                created: rfc3339::read(text(&proof["created"])).unwrap(),
                domain: proof["domain"].as_str(),
                challenge: proof["challenge"].as_str(),
            };
            sign(&mut again, &signing_key("ed25519:hotel"), &options, encoding);
            assert_eq!(again["proof"], proof, "{name}");
            made += 1;
        }
    }
    assert_eq!(made, 3);
}

#[test]
fn agent_description_proof_in_the_form_of_the_anp_07_text_is_accepted_only_on_request() {
    let file = vectors::ad_proofs();
    let hotel = bind(&file["issuer_did_document"]);
    let case = cases(&file, "cases", 16).into_iter().find(|case| case["name"] == "anp07_literal").unwrap();
    let mut description = object(&case["document"]);
    let rules = DescriptionProofRules { host: Some("localhost"), ..DescriptionProofRules::at(soon_after()) };
    assert_eq!(verify_description(&description, &hotel, &rules), Err(ProofError::Signature));
    let requested = DescriptionProofRules { forms: AcceptedProofForms::WithLiteral, ..rules };
    verify_description(&description, &hotel, &requested).unwrap();
    // The proof covers the description and its own members.
    let changed = |member: &str| {
        let mut changed = description.clone();
        changed.insert(member.to_owned(), "other".into());
        verify_description(&changed, &hotel, &requested)
    };
    assert_eq!(changed("name"), Err(ProofError::Signature));
    let mut later = description.clone();
    later["proof"]["created"] = "2026-02-01T00:00:00Z".into();
    assert_eq!(verify_description(&later, &hotel, &requested), Err(ProofError::Signature));

    let key_id = text(&description["proof"]["verificationMethod"]).to_owned();
    let options =
        ProofOptions { verification_method: &key_id, created: soon_after(), domain: None, challenge: Some("c") };
    sign_literal(&mut description, &signing_key("ed25519:hotel"), &options);
    verify_description(&description, &hotel, &requested).unwrap();
    let unknown = Err(ProofError::Type("Ed25519Signature2018".to_owned()));
    assert_eq!(verify_description(&description, &hotel, &rules), unknown);
    description.insert("name".to_owned(), "other".into());
    assert_eq!(verify_description(&description, &hotel, &requested), Err(ProofError::Signature));
    description["proof"]["expires"] = "2020-01-01T00:00:00Z".into();
    assert_eq!(verify_description(&description, &hotel, &requested), Err(ProofError::Moment("expires")));
}

#[test]
fn agent_description_proof_for_another_host_or_challenge_is_refused() {
    let file = vectors::ad_proofs();
    let hotel = bind(&file["issuer_did_document"]);
    let case = &cases(&file, "cases", 16)[1];
    assert_eq!(case["name"], "sdk_dataintegrity_domain_challenge");
    let description = object(&case["document"]);
    let rules = DescriptionProofRules::at(soon_after());
    for (host, challenge, holds) in [
        (None, None, true),
        (Some("localhost"), None, true),
        (Some("localhost:8443"), Some("c-1"), true),
        (Some("hotel.example"), None, false),
        (Some("localhost.evil.example"), None, false),
        (Some("localhost"), Some("c-2"), false),
    ] {
        let result = verify_description(&description, &hotel, &DescriptionProofRules { host, challenge, ..rules });
        assert_eq!(result.is_ok(), holds, "{host:?} {challenge:?} {result:?}");
    }
}
