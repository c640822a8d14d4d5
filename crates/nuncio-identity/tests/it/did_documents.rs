//! Test vectors of `did_documents.json`: published documents, invalid variants, and our own documents.

use nuncio_identity::proof::{ProofEncoding, ProofOptions, UnverifiedProof, sign};
use nuncio_identity::{
    BindingError, Did, DidAuthError, DidDocument, DidDocumentBinding, DidService, DidUrl, K1ProofRule, NewDidDocument,
    jcs, rfc3339,
};
use serde_json::{Value, json};

use crate::vectors::{self, cases, object, signing_key, soon_after, text, verifying_key};

#[test]
fn published_did_documents_bind_and_their_proofs_verify() {
    for case in cases(&vectors::did_documents(), "documents", 8) {
        let name = text(&case["name"]);
        let document = DidDocument::from_json(case["document"].clone()).unwrap();
        let did = Did::parse(text(&case["did"])).unwrap();
        assert_eq!(did.resolution_url(), text(&case["resolution_url"]));
        let whole = object(&case["document"]);
        UnverifiedProof::read(&whole)
            .unwrap()
            .verify(&whole, &verifying_key(text(&case["signing_key"])), soon_after())
            .unwrap();
        let strict = document.clone().bind(&did, soon_after(), K1ProofRule::Required).unwrap();
        let expected = match name.split('_').next().unwrap() {
            "e1" => DidDocumentBinding::Ed25519,
            "k1" => DidDocumentBinding::Secp256k1,
            _ => DidDocumentBinding::Domain,
        };
        assert_eq!(strict.binding(), expected, "{name}");
        let other = Did::parse("did:wba:other.example").unwrap();
        let refused = document.bind(&other, soon_after(), K1ProofRule::Optional).unwrap_err();
        assert!(matches!(refused, BindingError::OtherDid { .. }));
    }
}

#[test]
fn signing_reproduces_the_sdk_document_proofs_byte_for_byte() {
    let mut made = 0;
    for case in cases(&vectors::did_documents(), "documents", 8) {
        let mut document = object(&case["document"]);
        let proof = document.shift_remove("proof").unwrap();
        assert_eq!(
            jcs::canonical(&Value::Object(document.clone())),
            text(&case["document_without_proof_jcs"]).as_bytes()
        );
        if case["deterministic"] == false {
            continue;
        }
        let options = ProofOptions {
            verification_method: text(&proof["verificationMethod"]),
            created: rfc3339::read(text(&proof["created"])).unwrap(),
            domain: proof["domain"].as_str(),
            challenge: proof["challenge"].as_str(),
        };
        sign(&mut document, &signing_key(text(&case["signing_key"])), &options, ProofEncoding::Base64Url);
        assert_eq!(document["proof"], proof, "{}", case["name"]);
        made += 1;
    }
    assert_eq!(made, 6);
}

#[test]
fn did_document_variants_authenticate_as_marked_in_the_vectors() {
    let mut accepted = 0;
    for case in cases(&vectors::did_documents(), "variants", 21) {
        let name = text(&case["name"]);
        let authenticates = |k1| -> Result<(), DidAuthError> {
            let document = DidDocument::from_json(case["document"].clone()).unwrap();
            let did = document.id().clone();
            let bound = document.bind(&did, soon_after(), k1)?;
            let key = DidUrl::new(did, "key-1").unwrap();
            bound.authentication_key(&key).map(|_| ())
        };
        let result = authenticates(K1ProofRule::Optional);
        assert_eq!(result.is_ok(), case["spec_valid"] == true, "{name}: {result:?}");
        if name.starts_with("k1_") {
            assert_eq!(
                authenticates(K1ProofRule::Required).is_ok(),
                case["sdk_binding_valid_verify_proof"] == true,
                "{name}"
            );
        }
        if name == "deactivated_with_successor_signed" {
            let refused = result.clone().unwrap_err();
            assert_eq!((refused.status(), refused.error_code()), (409, "did_superseded"));
        }
        accepted += usize::from(result.is_ok());
    }
    assert_eq!(accepted, 4);
}

#[test]
fn signing_reproduces_the_multibase_document_proof_byte_for_byte() {
    let file = vectors::did_documents();
    let case = &file["variants"][0];
    assert_eq!(case["name"], "std_multibase_with_context");
    let mut document = object(&case["document"]);
    let proof = document.shift_remove("proof").unwrap();
    let options = ProofOptions {
        verification_method: text(&proof["verificationMethod"]),
        created: rfc3339::read(text(&proof["created"])).unwrap(),
        domain: None,
        challenge: None,
    };
    sign(&mut document, &signing_key("ed25519:alice"), &options, ProofEncoding::Multibase);
    assert_eq!(document["proof"], proof);
}

#[test]
fn built_did_documents_equal_those_of_the_sdk() {
    let created = rfc3339::read("2026-01-01T00:00:00Z").unwrap();
    let file = vectors::did_documents();
    let published = |name: &str| {
        file["documents"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap()["document"].clone()
    };
    let bob = signing_key("ed25519:bob");
    let did = Did::for_key("example.com", None, &["user", "bob"], &bob).unwrap();
    let plain = NewDidDocument { encoding: ProofEncoding::Base64Url, ..NewDidDocument::new(&did, created) };
    assert_eq!(plain.sign(&bob), published("e1_no_e2ee"));
    let did = Did::for_key("example.com", None, &["u"], &bob).unwrap();
    let bound = NewDidDocument {
        encoding: ProofEncoding::Base64Url,
        domain: Some("example.com"),
        challenge: Some("abc123"),
        ..NewDidDocument::new(&did, created)
    };
    assert_eq!(bound.sign(&bob), published("e1_proof_domain_challenge"));
}

#[test]
fn built_did_document_lists_services_and_successor() {
    let hotel = signing_key("ed25519:hotel");
    let did = Did::for_key("localhost", Some(8443), &["agents", "hotel"], &hotel).unwrap();
    let domain = Did::new("localhost", Some(8443), &[]).unwrap();
    let services = vec![
        DidService::agent_description(&did, "https://localhost:8443/agents/hotel/ad.json"),
        DidService::messages(
            &did,
            "https://localhost:8443/anp",
            &domain,
            &["anp.core.binding.v1", "anp.meta.negotiation.v1"],
            &["transport-protected"],
        ),
    ];
    let whole = NewDidDocument { services: services.clone(), ..NewDidDocument::new(&did, soon_after()) }.sign(&hotel);
    let published = vectors::object_proofs()["issuer_did_document"].clone();
    assert_eq!(whole["service"], published["service"]);
    let document = DidDocument::from_slice(&serde_json::to_vec(&whole).unwrap()).unwrap();
    assert_eq!(document.services(), services);
    assert_eq!(document.service("ANPMessageService").unwrap().service_did.as_deref(), Some(domain.as_str()));
    let bound = document.bind(&did, soon_after(), K1ProofRule::Required).unwrap();
    assert_eq!(bound.binding(), DidDocumentBinding::Ed25519);
    // After a key change the old document points to the new DID and is signed by the old key.
    let new = signing_key("ed25519:service");
    let next = Did::for_key("localhost", Some(8443), &["agents", "hotel"], &new).unwrap();
    assert_eq!(next.stable_subject(), did.stable_subject());
    let old = NewDidDocument { successor: Some(&next), ..NewDidDocument::new(&did, soon_after()) }.sign(&hotel);
    let bound = vectors::bind(&old);
    let key = DidUrl::new(did.clone(), "key-1").unwrap();
    assert_eq!(bound.authentication_key(&key), Err(DidAuthError::Superseded { requested: did, current: next }));
}

#[test]
fn did_document_with_relative_references_and_inline_keys_is_accepted() {
    let bob = signing_key("ed25519:bob");
    let did = Did::for_key("example.com", None, &["user", "bob"], &bob).unwrap();
    let mut whole = object(&NewDidDocument::new(&did, soon_after()).sign(&bob));
    let key = whole.shift_remove("verificationMethod").unwrap()[0].clone();
    let mut key = object(&key);
    key.insert("id".to_owned(), json!("#key-1"));
    whole.insert("authentication".to_owned(), json!([key]));
    whole.insert("assertionMethod".to_owned(), json!(["#key-1"]));
    let key_id = did.url("key-1");
    let options = ProofOptions { verification_method: &key_id, created: soon_after(), domain: None, challenge: None };
    sign(&mut whole, &bob, &options, ProofEncoding::Multibase);
    let bound = vectors::bind(&Value::Object(whole));
    assert!(bound.authentication_key(&DidUrl::parse(&key_id).unwrap()).is_ok());
}

#[test]
fn did_document_with_expired_proof_is_refused() {
    let bob = signing_key("ed25519:bob");
    let did = Did::for_key("example.com", None, &["user", "bob"], &bob).unwrap();
    let mut whole = object(&NewDidDocument::new(&did, soon_after()).sign(&bob));
    whole["proof"]["expires"] = json!("2026-01-01T00:00:09Z");
    let document = DidDocument::from_json(Value::Object(whole)).unwrap();
    let refused = document.bind(&did, soon_after(), K1ProofRule::Optional).unwrap_err();
    assert!(refused.to_string().contains("expires"), "{refused}");
}
