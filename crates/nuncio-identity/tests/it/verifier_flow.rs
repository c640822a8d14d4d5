//! Test vectors of `verifier_flow.json`: a request through the complete verification, with used nonces and tokens.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_identity::challenge::{ACCEPT_SIGNATURE, DidAuthChallenge, IssuedAccessToken};
use nuncio_identity::{
    AcceptedSigningSchemes, BoundDidDocument, Did, DidAccessTokenService, DidAuthError, DidDocument, DidUrl,
    K1ProofRule, ParsedCredentials, SignableRequest, SignaturePolicy, http_signature, rfc3339,
};
use serde_json::Value;

use crate::vectors::{self, cases, signing_key, text};

/// Request verification of a server, built from the parts of this crate.
struct TestRequestVerifier {
    schemes: AcceptedSigningSchemes,
    policy: SignaturePolicy,
    used: HashSet<(DidUrl, String)>,
    tokens: DidAccessTokenService,
    documents: Vec<Value>,
}

impl TestRequestVerifier {
    fn new(file: &Value, name: &str) -> Self {
        let mut documents: Vec<Value> = file["did_documents"].as_object().unwrap().values().cloned().collect();
        if name == "tampered_did_document" {
            documents.insert(0, file["tampered_document"].clone());
        }
        Self {
            schemes: AcceptedSigningSchemes {
                signature: name != "http_signatures_disabled",
                legacy: name != "legacy_disabled",
            },
            policy: SignaturePolicy { nonce_required: name != "no_nonce_allowed", ..SignaturePolicy::default() },
            used: HashSet::new(),
            tokens: DidAccessTokenService::new(
                &signing_key("ed25519:service"),
                "did:wba:api.example.com",
                "https://api.example.com",
                Duration::from_secs(3600),
            ),
            documents,
        }
    }

    fn resolve(&self, did: &Did, now: Timestamp) -> Result<BoundDidDocument, DidAuthError> {
        let found = self.documents.iter().find(|document| document["id"] == did.as_str());
        let found = found.ok_or_else(|| DidAuthError::Did("there is no document".to_owned()))?;
        Ok(DidDocument::from_json(found.clone()).unwrap().bind(did, now, K1ProofRule::Optional)?)
    }

    fn authenticate(
        &mut self,
        request: &SignableRequest<'_>,
        now: Timestamp,
    ) -> Result<(Did, &'static str), DidAuthError> {
        let (caller, scheme) = match ParsedCredentials::read(request.headers, self.schemes)? {
            ParsedCredentials::Bearer(token) => return Ok((self.tokens.verify(&token, now)?.sub, "bearer")),
            ParsedCredentials::Signature(claim) => {
                claim.check(request, now, &self.policy)?;
                (claim.verify(request, &self.resolve(claim.did(), now)?)?, "http_signatures")
            }
            ParsedCredentials::Legacy(claim) => {
                claim.check(now, &self.policy)?;
                let host = http_signature::host(request.target_uri).unwrap();
                (claim.verify(&host, &self.resolve(claim.did(), now)?)?, "legacy_didwba")
            }
        };
        if let Some(nonce) = caller.nonce
            && !self.used.insert((caller.key_id, nonce))
        {
            return Err(DidAuthError::Nonce("the nonce was used before"));
        }
        Ok((caller.did, scheme))
    }
}

/// Results that differ from the SDK on purpose: the SDK answers 403 to a legacy header that does not match, and reports
/// a changed body as a bad signature.
const OTHERWISE: &[(&str, u16, &str)] =
    &[("legacy_wrong_domain", 401, "invalid_signature"), ("bad_digest", 401, "invalid_content_digest")];

#[test]
fn requests_of_the_vector_file_are_authenticated_as_by_the_python_sdk() {
    let file = vectors::verifier_flow();
    for case in cases(&file, "cases", 26) {
        let name = text(&case["name"]);
        let mut verifier = TestRequestVerifier::new(&file, name);
        let now = rfc3339::from_seconds(case["now_unix"].as_i64().unwrap());
        let mut headers: Vec<(String, String)> = case["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), text(value).to_owned()))
            .collect();
        let outcome = &case["sdk_outcome"];
        if name == "bearer_ok" {
            // Tokens are specific to their server: the SDK's token is refused, ours for the same DID is accepted.
            let token = headers[0].1.strip_prefix("Bearer ").unwrap();
            assert_eq!(verifier.tokens.verify(token, now).unwrap_err().error_code(), "invalid_access_token");
            let grant = verifier.tokens.issue(&Did::parse(text(&outcome["did"])).unwrap(), now);
            headers[0].1 = format!("Bearer {}", grant.access_token);
        }
        let request = SignableRequest {
            method: text(&case["method"]),
            target_uri: text(&case["url"]),
            headers: &headers,
            body: case["body"].as_str().unwrap_or_default().as_bytes(),
        };
        if name.contains("replay") {
            verifier.authenticate(&request, now).unwrap();
        }
        let result = verifier.authenticate(&request, now);
        match result {
            Ok((did, scheme)) => {
                assert_eq!(outcome["status"], 200, "{name}");
                assert_eq!((did.as_str(), scheme), (text(&outcome["did"]), text(&outcome["auth_scheme"])), "{name}");
                let told = verifier.tokens.issue(&did, now).authentication_info();
                assert_eq!(IssuedAccessToken::read(&told).unwrap().expires_in, Some(3600));
            }
            Err(fault) => check_refusal(name, &fault, outcome),
        }
    }
}

fn check_refusal(name: &str, fault: &DidAuthError, outcome: &Value) {
    if let Some((_, status, word)) = OTHERWISE.iter().find(|(given, ..)| *given == name) {
        assert_eq!((fault.status(), fault.error_code()), (*status, *word), "{name}: {fault}");
        return;
    }
    assert_eq!(u64::from(fault.status()), outcome["status"].as_u64().unwrap(), "{name}: {fault}");
    if let Some(challenge) = outcome["response_headers"]["WWW-Authenticate"].as_str() {
        let ours = DidAuthChallenge::new("api.example.com", fault, None);
        let theirs = DidAuthChallenge::read(challenge).unwrap();
        assert_eq!((ours.realm, ours.error), (theirs.realm, theirs.error), "{name}: {fault}");
    }
    if let Some(accepted) = outcome["response_headers"]["Accept-Signature"].as_str() {
        assert_eq!(ACCEPT_SIGNATURE, accepted);
    }
}

#[test]
fn nonce_of_a_request_that_fails_verification_can_be_used_again() {
    let file = vectors::verifier_flow();
    let find = |name| cases(&file, "cases", 26).into_iter().find(|case| case["name"] == name).unwrap();
    let mut verifier = TestRequestVerifier::new(&file, "");
    for (name, holds) in [("bad_signature", false), ("bad_digest", false), ("ok", true), ("ok", false)] {
        let case = find(name);
        let headers: Vec<(String, String)> = case["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), text(value).to_owned()))
            .collect();
        let request = SignableRequest {
            method: text(&case["method"]),
            target_uri: text(&case["url"]),
            headers: &headers,
            body: text(&case["body"]).as_bytes(),
        };
        let result = verifier.authenticate(&request, rfc3339::from_seconds(1_767_225_610));
        assert_eq!(result.is_ok(), holds, "{name}: {result:?}");
    }
}
