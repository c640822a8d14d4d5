//! Test vectors of `client_headers.json`: header fields that a client parses.

use nuncio_identity::DidAuthError;
use nuncio_identity::challenge::{
    ACCEPT_SIGNATURE, AuthParams, DidAuthChallenge, IssuedAccessToken, accepted_components, satisfiable_components,
};
use serde_json::{Map, Value, json};

use crate::vectors::{self, cases, text};

fn members(params: &AuthParams) -> Value {
    Value::Object(params.members.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>())
}

#[test]
fn client_parses_authentication_headers_as_in_the_vectors() {
    let file = vectors::client_headers();
    for case in cases(&file, "authentication_info", 3) {
        let field = text(&case["in"]);
        assert_eq!(members(&AuthParams::read_info(field)), case["out"]);
        let grant = IssuedAccessToken::read(field);
        assert_eq!(grant.as_ref().map(|grant| json!(grant.access_token)), case["out"].get("access_token").cloned());
    }
    for case in cases(&file, "www_authenticate", 3) {
        let read = AuthParams::read_all(text(&case["in"]));
        assert_eq!(members(&read[0]), case["out"]);
        assert_eq!(DidAuthChallenge::read(text(&case["in"])).is_some(), !text(&case["in"]).starts_with("Bearer"));
    }
    for case in cases(&file, "accept_signature", 2) {
        assert_eq!(json!(accepted_components(text(&case["in"]))), case["out"]);
    }
    for case in cases(&file, "normalize_components", 3) {
        let components: Vec<&str> = case["components"].as_array().unwrap().iter().map(text).collect();
        let headers: Vec<(String, String)> = case["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), text(value).to_owned()))
            .collect();
        let body = case["body"].as_str().unwrap_or_default().as_bytes();
        assert_eq!(json!(satisfiable_components(&components, &headers, body)), case["out"]);
    }
}

#[test]
fn client_parses_the_challenge_that_the_server_writes() {
    let error = DidAuthError::Request("the \"label\" is\nnot é well \\ formed".to_owned());
    let challenge = DidAuthChallenge::new("api.example.com", &error, Some("n-1"));
    let read = DidAuthChallenge::read(&challenge.www_authenticate()).unwrap();
    assert_eq!(read.realm.as_deref(), Some("api.example.com"));
    assert_eq!(read.error.as_deref(), Some("invalid_request"));
    assert_eq!(read.description.as_deref(), Some("the \"label\" is not ? well \\ formed"));
    assert_eq!(read.nonce.as_deref(), Some("n-1"));
    assert_eq!(challenge.to_json(401)["error"], "invalid_request");
    let beside = format!("Bearer realm=\"x\", {}", challenge.www_authenticate());
    assert_eq!(DidAuthChallenge::read(&beside), Some(read));
    assert_eq!(accepted_components(ACCEPT_SIGNATURE).len(), 4);
    let grant =
        IssuedAccessToken { access_token: "a.b.c".to_owned(), expires_in: Some(3600), scope: Some("x y".to_owned()) };
    assert_eq!(
        grant.authentication_info(),
        "access_token=\"a.b.c\", token_type=\"Bearer\", expires_in=3600, scope=\"x y\""
    );
    assert_eq!(IssuedAccessToken::read(&grant.authentication_info()), Some(grant));
    assert_eq!(IssuedAccessToken::read("access_token=\"a\", token_type=\"MAC\""), None);
}

#[test]
fn challenge_is_retryable_only_if_signing_again_can_succeed() {
    let with = |error: &str, nonce: Option<&str>| DidAuthChallenge {
        error: Some(error.to_owned()),
        nonce: nonce.map(str::to_owned),
        ..DidAuthChallenge::default()
    };
    assert!(with("invalid_nonce", None).is_retryable());
    assert!(DidAuthChallenge::default().is_retryable());
    for error in ["invalid_did", "invalid_verification_method", "forbidden_did"] {
        assert!(!with(error, None).is_retryable());
        assert!(with(error, Some("n")).is_retryable());
    }
}
