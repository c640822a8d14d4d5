//! Test vectors of `http_signatures.json`.

use nuncio_identity::http_signature::{
    AuthorityForm, SignatureInput, SignatureParameters, check_content_digest, content_digest, default_components,
    sign_covering, signature_base,
};
use nuncio_identity::{SignableRequest, SignaturePolicy, VerifiedSigner, rfc3339, verify_request};
use serde_json::Value;

use crate::vectors::{self, cases, document, key_of_document, signing_key, soon_after, text};

fn fields(headers: &Value) -> Vec<(String, String)> {
    headers.as_object().unwrap().iter().map(|(name, value)| (name.clone(), text(value).to_owned())).collect()
}

fn verify(case: &Value) -> Result<VerifiedSigner, nuncio_identity::DidAuthError> {
    let sent = &case["verify"];
    let headers = fields(&sent["headers"]);
    let request = SignableRequest {
        method: text(&sent["method"]),
        target_uri: text(&sent["url"]),
        headers: &headers,
        body: sent["body"].as_str().unwrap_or_default().as_bytes(),
    };
    let policy = SignaturePolicy { nonce_required: false, ..SignaturePolicy::default() };
    verify_request(&request, &document(text(&case["did_document"])), soon_after(), &policy)
}

#[test]
fn signed_requests_verify_as_marked_in_the_vectors() {
    let mut accepted = 0;
    for case in cases(&vectors::http_signatures(), "cases", 37) {
        let name = text(&case["name"]);
        let result = verify(&case);
        assert_eq!(result.is_ok(), case["spec_valid"] == true, "{name}: {result:?}");
        if name.starts_with("neg_") || name.starts_with("lax_") {
            assert!(result.is_err(), "{name}");
        }
        if name.starts_with("rfc_") {
            assert!(result.is_ok(), "{name}");
        }
        accepted += usize::from(result.is_ok());
    }
    assert_eq!(accepted, 18);
}

#[test]
fn each_invalid_signed_request_reports_its_status_and_error_code() {
    for (name, status, word) in [
        ("neg_method_changed", 401, "invalid_signature"),
        ("neg_body_changed", 401, "invalid_content_digest"),
        ("neg_body_removed", 401, "invalid_content_digest"),
        ("neg_digest_header_missing", 401, "invalid_content_digest"),
        ("neg_label_mismatch", 401, "invalid_request"),
        ("neg_missing_signature", 401, "invalid_request"),
        ("neg_keyid_other_did", 401, "invalid_did"),
        ("lax_only_authority_covered", 401, "invalid_request"),
        ("lax_body_not_covered", 401, "invalid_content_digest"),
        ("lax_unsigned_param_appended", 401, "invalid_signature"),
        ("key_not_in_authentication", 403, "invalid_verification_method"),
    ] {
        let file = vectors::http_signatures();
        let case = cases(&file, "cases", 37).into_iter().find(|case| case["name"] == name).unwrap();
        let fault = verify(&case).unwrap_err();
        assert_eq!((fault.status(), fault.error_code()), (status, word), "{name}");
    }
}

#[test]
fn signing_reproduces_the_sdk_request_signatures_byte_for_byte() {
    let mut made = 0;
    for case in cases(&vectors::http_signatures(), "cases", 37) {
        let name = text(&case["name"]);
        let Some(signing) = case.get("signing").filter(|signing| !signing.is_null()) else {
            check_base(&case);
            continue;
        };
        let key = match name {
            "neg_signed_by_other_key" => Some(signing_key("ed25519:mallory")),
            "key_not_in_authentication" => None,
            _ => key_of_document(text(&case["did_document"])),
        };
        assert_eq!(key.is_some(), case["deterministic"] == true, "{name}");
        let Some(key) = key else { continue };
        let headers = fields(&signing["headers"]);
        let request = SignableRequest {
            method: text(&signing["method"]),
            target_uri: text(&signing["url"]),
            headers: &headers,
            body: signing["body"].as_str().unwrap_or_default().as_bytes(),
        };
        let listed: Option<Vec<&str>> =
            signing["covered_components"].as_array().map(|names| names.iter().map(text).collect());
        let components = listed.as_deref().unwrap_or(default_components(request.body));
        let options = SignatureParameters {
            key_id: text(&signing["keyid"]),
            created: rfc3339::from_seconds(signing["created"].as_i64().unwrap()),
            expires: signing["expires"].as_i64().map(rfc3339::from_seconds),
            nonce: text(&signing["nonce"]),
        };
        let produced = &case["produced_headers"];
        let ours = sign_covering(&request, components, &key, &options).unwrap();
        assert_eq!(ours.signature_input, text(&produced["Signature-Input"]), "{name}");
        assert_eq!(ours.content_digest.as_deref(), produced["Content-Digest"].as_str(), "{name}");
        let parameters = ours.signature_input.strip_prefix("sig1=").unwrap();
        if name == "authority_case_port" {
            // We sign the host in its normal form, the Python SDK as written; here the SDK's signature base is rebuilt.
            let base = signature_base(&request, components, parameters, AuthorityForm::AsWritten).unwrap();
            assert_eq!(base, text(&case["signature_base"]));
            assert!(verify_bytes(&key, &base, text(&produced["Signature"])));
            let normal = signature_base(&request, components, parameters, AuthorityForm::Normal).unwrap();
            assert!(normal.contains("\"@authority\": example.com\n"));
        } else {
            assert_eq!(ours.signature, text(&produced["Signature"]), "{name}");
        }
        made += 1;
    }
    assert_eq!(made, 26);
}

fn verify_bytes(key: &nuncio_identity::SigningKey, base: &str, signature: &str) -> bool {
    use base64::Engine as _;
    let expected = base64::engine::general_purpose::STANDARD.encode(key.sign(base.as_bytes()));
    signature == format!("sig1=:{expected}:")
}

/// Checks the signature base of a request that was signed by hand.
fn check_base(case: &Value) {
    let sent = &case["verify"];
    let headers = fields(&sent["headers"]);
    let request =
        SignableRequest { method: text(&sent["method"]), target_uri: text(&sent["url"]), headers: &headers, body: b"" };
    let input = SignatureInput::read_all(text(&sent["headers"]["Signature-Input"])).unwrap().remove(0);
    let base = signature_base(&request, &input.components, &input.raw, AuthorityForm::Normal).unwrap();
    assert_eq!(base, text(&case["signature_base"]), "{}", case["name"]);
}

#[test]
fn content_digests_match_the_vectors() {
    for case in cases(&vectors::http_signatures(), "content_digest", 4) {
        let body = text(&case["body"]).as_bytes();
        assert_eq!(content_digest(body), text(&case["value"]));
        assert!(check_content_digest(text(&case["value"]), body).is_ok());
        let beside = format!("unknown=:AAAA:, {}", text(&case["value"]));
        assert!(check_content_digest(&beside, body).is_ok());
        for wrong in ["", "x", "sha-256", "sha-256=AAAA", "unknown=:AAAA:", "sha-256=:AAAA:", "SHA-256=:AAAA:"] {
            assert!(check_content_digest(wrong, body).is_err(), "{wrong}");
        }
    }
}
