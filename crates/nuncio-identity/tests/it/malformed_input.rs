//! Malformed and malicious documents and header fields are refused or parsed safely.

use nuncio_identity::http_signature::SignatureInput;
use nuncio_identity::{AcceptedSigningSchemes, DidDocument, K1ProofRule, ParsedCredentials};
use serde_json::{Value, json};

use crate::vectors::{self, object, soon_after};

#[test]
fn malformed_document_error_points_to_the_faulty_member() {
    let good = json!({ "id": "did:wba:example.com" });
    let with = |name: &str, value: Value| {
        let mut document = good.clone();
        document[name] = value;
        document
    };
    let key = json!({ "id": "#a", "type": "Multikey", "publicKeyMultibase": "z6Mk" });
    for (document, at) in [
        (json!([]), ""),
        (json!({}), "/id"),
        (json!({ "id": 1 }), "/id"),
        (json!({ "id": "did:web:example.com" }), "/id"),
        (with("verificationMethod", json!({})), "/verificationMethod"),
        (with("verificationMethod", json!([1])), "/verificationMethod/0"),
        (with("verificationMethod", json!([{ "id": "#a" }])), "/verificationMethod/0/type"),
        (with("verificationMethod", json!([key, key])), "/verificationMethod/1/id"),
        (with("verificationMethod", Value::Array(vec![key.clone(); 65])), "/verificationMethod"),
        (with("authentication", json!([7])), "/authentication/0"),
        (with("service", json!("x")), "/service"),
        (with("service", json!(["x"])), "/service/0"),
        (with("deactivated", json!("yes")), "/deactivated"),
        (with("successorDid", json!("x")), "/successorDid"),
    ] {
        assert_eq!(DidDocument::from_json(document.clone()).unwrap_err().at, at, "{document}");
    }
    assert!(DidDocument::from_slice(&vec![b' '; 300_000]).is_err());
    assert!(DidDocument::from_slice("[".repeat(10_000).as_bytes()).is_err());
}

#[test]
fn keys_of_another_did_or_controller_are_ignored() {
    let mut document =
        json!({ "id": "did:wba:example.com", "authentication": ["#key-1", "did:wba:other.example#key-1"] });
    let key = &vectors::did_documents()["documents"][4]["document"]["verificationMethod"][0];
    for change in [json!({ "controller": "did:wba:other.example" }), json!({ "id": "did:wba:other.example#key-1" })] {
        let mut method = object(key);
        method.extend(object(&change));
        document["verificationMethod"] = json!([method]);
        assert!(DidDocument::from_json(document.clone()).unwrap().methods().is_empty(), "{change}");
    }
}

#[test]
fn deactivated_document_without_proof_binds_but_cannot_authenticate() {
    let file = vectors::did_documents();
    let mut whole = object(&file["documents"][0]["document"]);
    whole.shift_remove("proof");
    let read = |whole: &serde_json::Map<String, Value>| DidDocument::from_json(Value::Object(whole.clone())).unwrap();
    let did = read(&whole).id().clone();
    assert!(read(&whole).bind(&did, soon_after(), K1ProofRule::Optional).is_err());
    whole.insert("deactivated".to_owned(), json!(true));
    let bound = read(&whole).bind(&did, soon_after(), K1ProofRule::Optional).unwrap();
    assert_eq!(bound.binding(), nuncio_identity::DidDocumentBinding::Publisher);
    let key = nuncio_identity::DidUrl::new(did, "key-1").unwrap();
    assert_eq!(bound.authentication_key(&key).unwrap_err().error_code(), "invalid_did");
}

#[test]
fn malformed_signature_input_header_is_refused() {
    let long = format!("sig1=({})", "\"a\" ".repeat(3000));
    let many = format!("sig1=({})", (0..40).map(|at| format!("\"a{at}\"")).collect::<Vec<_>>().join(" "));
    for field in [
        "",
        "x",
        "sig1",
        "sig1=",
        "sig1=(",
        "sig1=()x",
        "sig1=(\"a\" \"a\")",
        "sig1=(\"a\"\"b\")",
        "sig1=(\"a\";sf)",
        "sig1=(a)",
        "sig1=(\"a);created=1",
        "sig1=(\"a\\x\")",
        "SIG1=(\"a\")",
        "sig1=(\"a\"),",
        "sig1=(\"a\"),sig1=(\"a\")",
        "sig1=(\"a\");created=1;created=2",
        "sig1=(\"a\");created=",
        "sig1=(\"a\");created=--1",
        "sig1=(\"a\");created=1.5",
        "sig1=(\"a\");created=\"1\"",
        "sig1=(\"a\");created=99999999999999999999",
        "sig1=(\"a\");nonce=1",
        "sig1=(\"a\");nonce=:AAA:",
        "sig1=(\"a\");keyid=token",
        "sig1=(\"é\")",
        "sig1=(\"a\");x=?2",
        long.as_str(),
        many.as_str(),
    ] {
        assert!(SignatureInput::read_all(field).is_err(), "{field}");
    }
    let read = SignatureInput::read_all(
        " other=(\"x\");a=:AAAA:;b=?1;c=token;d,  sig1=( \"a\\\"\\\\\"  \"b\" ); created=-1;nonce=\"\\\"\" ",
    )
    .unwrap();
    assert_eq!(read[1].components, ["a\"\\", "b"]);
    assert_eq!(read[1].raw, "( \"a\\\"\\\\\"  \"b\" ); created=-1;nonce=\"\\\"\"");
    assert_eq!((read[1].created, read[1].nonce.as_deref()), (Some(-1), Some("\"")));
}

#[test]
fn bearer_token_takes_precedence_and_incomplete_credentials_are_refused() {
    let read = |headers: &[(&str, &str)]| ParsedCredentials::read(&headers.to_vec(), AcceptedSigningSchemes::default());
    assert_eq!(read(&[]).unwrap_err().error_code(), "invalid_request");
    assert_eq!(read(&[("Authorization", "Basic abc")]).unwrap_err(), nuncio_identity::DidAuthError::Missing);
    assert!(
        matches!(read(&[("authorization", "bearer abc"), ("Signature", "x")]), Ok(ParsedCredentials::Bearer(token)) if token == "abc")
    );
    assert!(read(&[("Signature", "x")]).is_err());
    assert!(read(&[("Signature-Input", "x"), ("Authorization", "DIDWba x")]).is_err());
}
