//! Properties: signed data verifies, changed data does not, and no parser panics.

use std::sync::LazyLock;

use nuncio_identity::challenge::{AuthParams, DidAuthChallenge, IssuedAccessToken, accepted_components};
use nuncio_identity::http_signature::{SignatureInput, SignatureParameters, check_content_digest, sign};
use nuncio_identity::legacy::{LegacyHeaderVersion, UnverifiedLegacyHeader};
use nuncio_identity::origin_proof::{OriginProof, OriginProofInput, verify_origin};
use nuncio_identity::proof::{ProofOptions, sign_object, verify_object};
use nuncio_identity::{
    BoundDidDocument, Did, DidAccessTokenService, DidDocument, DidUrl, NewDidDocument, SignableRequest,
    SignaturePolicy, SigningKey, UnverifiedSignature, VerifyingKey, rfc3339, verify_request,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::vectors::{bind, object, signing_key, soon_after};

static KEY: LazyLock<SigningKey> = LazyLock::new(|| signing_key("ed25519:bob"));
static DOCUMENT: LazyLock<BoundDidDocument> = LazyLock::new(|| {
    let did = Did::for_key("example.com", None, &["user", "bob"], &KEY).unwrap();
    bind(&NewDidDocument::new(&did, soon_after()).sign(&KEY))
});

fn key_id() -> DidUrl {
    DidUrl::new(DOCUMENT.did().clone(), "key-1").unwrap()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// The transmitted parts of a signed request, in order.
#[derive(Debug, Clone)]
struct TransmittedRequest {
    parts: [Vec<u8>; 6],
}

impl TransmittedRequest {
    fn new(path: &str, body: &[u8], nonce: &str) -> Self {
        let uri = format!("https://api.example.com/{path}");
        let no_headers: [(&str, &str); 0] = [];
        let request = SignableRequest { method: "POST", target_uri: &uri, headers: &no_headers, body };
        let key_id = key_id().to_string();
        let options = SignatureParameters {
            key_id: &key_id,
            created: soon_after(),
            expires: Some(rfc3339::from_seconds(rfc3339::seconds(soon_after()) + 300)),
            nonce,
        };
        let signed = sign(&request, &KEY, &options).unwrap();
        let digest = signed.content_digest.unwrap_or_default();
        let parts = [b"POST".to_vec(), uri.into_bytes(), body.to_vec(), digest.into_bytes()];
        let [method, uri, body, digest] = parts;
        let (input, signature) = (signed.signature_input.into_bytes(), signed.signature.into_bytes());
        Self { parts: [method, uri, body, digest, input, signature] }
    }

    fn holds(&self) -> bool {
        let [method, uri, body, digest, input, signature] = &self.parts;
        let texts: Option<Vec<&str>> =
            [method, uri, digest, input, signature].into_iter().map(|part| std::str::from_utf8(part).ok()).collect();
        let Some(texts) = texts else { return false };
        let mut headers = vec![("signature-input", texts[3]), ("signature", texts[4])];
        if !texts[2].is_empty() {
            headers.push(("content-digest", texts[2]));
        }
        let request = SignableRequest { method: texts[0], target_uri: texts[1], headers: &headers, body };
        verify_request(&request, &DOCUMENT, soon_after(), &SignaturePolicy::default()).is_ok()
    }
}

proptest! {
    // Few cases, because unoptimised curve arithmetic is slow; every run draws new cases.
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn signed_request_verifies_until_any_byte_changes(
        path in "[a-z/]{0,12}(\\?[a-z=&]{0,8})?",
        body in prop::collection::vec(any::<u8>(), 0..64),
        nonce in "[ -~]{1,24}",
        at in any::<prop::sample::Index>(),
        change in 1_u8..=255,
    ) {
        let mut sent = TransmittedRequest::new(&path, &body, &nonce);
        prop_assert!(sent.holds());
        let lengths: Vec<usize> = sent.parts.iter().map(Vec::len).collect();
        let mut place = at.index(lengths.iter().sum());
        let part = lengths.iter().position(|length| {
            let here = place < *length;
            if !here {
                place -= length;
            }
            here
        }).unwrap();
        sent.parts[part][place] ^= change;
        prop_assert!(!sent.holds(), "part {part}, byte {place}, changed by {change}: {sent:?}");
    }

    #[test]
    fn signed_object_verifies_until_a_member_changes(members in any_json(), other in any_json(), name in "[a-z]{1,6}") {
        let mut signed = object(&json!({ "n": members }));
        let key_id = key_id().to_string();
        let options = ProofOptions { verification_method: &key_id, created: soon_after(), domain: None, challenge: None };
        sign_object(&mut signed, &KEY, &options);
        let judged = |signed: &serde_json::Map<String, Value>| {
            verify_object(signed, DOCUMENT.did(), &DOCUMENT, soon_after()).is_ok()
        };
        prop_assert!(judged(&signed));
        if nuncio_identity::jcs::canonical(&signed["n"]) != nuncio_identity::jcs::canonical(&other) {
            let mut changed = signed.clone();
            changed.insert("n".to_owned(), other);
            prop_assert!(!judged(&changed));
        }
        if name != "n" && name != "proof" {
            signed.insert(name, Value::Null);
            prop_assert!(!judged(&signed));
        }
    }

    #[test]
    fn origin_proof_verifies_only_for_its_request(body in any_json(), other in any_json(), method in "[a-z.]{1,12}") {
        let meta = json!({ "sender_did": DOCUMENT.did().as_str(), "target": { "kind": "agent", "did": "did:wba:b.example" } });
        let request = OriginProofInput { method: &method, meta: &meta, body: &body };
        let key_id = key_id().to_string();
        let options = SignatureParameters { key_id: &key_id, created: soon_after(), expires: None, nonce: "n" };
        let proof = request.sign(&KEY, &options).unwrap();
        let read = OriginProof::from_auth(&proof.to_auth()).unwrap();
        let judged = |request: &OriginProofInput<'_>| {
            verify_origin(&read, request, &DOCUMENT, soon_after(), &SignaturePolicy::default()).is_ok()
        };
        prop_assert!(judged(&request));
        let changed = OriginProofInput { body: &other, ..request };
        prop_assert_eq!(judged(&changed), request.canonical() == changed.canonical());
        let longer = format!("{method}x");
        let renamed = OriginProofInput { method: &longer, ..request };
        prop_assert!(!judged(&renamed));
    }

    #[test]
    fn legacy_header_verifies_only_for_its_host(nonce in "[a-zA-Z0-9_-]{1,32}", host in "[a-z]{1,8}\\.example") {
        let claim = UnverifiedLegacyHeader::make(&key_id(), &KEY, &host, &nonce, soon_after(), LegacyHeaderVersion::V1_1);
        let read = UnverifiedLegacyHeader::from_header(&claim.to_header()).unwrap();
        prop_assert!(read.verify(&host, &DOCUMENT).is_ok());
        let longer = format!("x{host}");
        prop_assert!(read.verify(&longer, &DOCUMENT).is_err());
    }

    #[test]
    fn token_with_any_changed_character_is_refused(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9._-]") {
        let tokens = DidAccessTokenService::new(&KEY, "i", "a", std::time::Duration::from_secs(60));
        let token = tokens.issue(DOCUMENT.did(), soon_after()).access_token;
        let at = at.index(token.len());
        let mut changed = token.clone();
        changed.replace_range(at..=at, &to);
        prop_assert_eq!(tokens.verify(&changed, soon_after()).is_ok(), changed == token);
    }

    #[test]
    fn signatures_equal_those_of_ring(seed in any::<[u8; 32]>(), message in prop::collection::vec(any::<u8>(), 0..64)) {
        use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
        let ours = SigningKey::from_seed(&seed);
        let theirs = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let signature = ours.sign(&message);
        let theirs_signature = theirs.sign(&message);
        prop_assert_eq!(&signature[..], theirs_signature.as_ref());
        let public = UnparsedPublicKey::new(&ED25519, theirs.public_key());
        prop_assert!(public.verify(&message, &signature).is_ok());
        prop_assert!(ours.public().verify(&message, &signature).is_ok());
        prop_assert_eq!(SigningKey::from_pem(&ours.to_pem()).unwrap().sign(&message), signature);
    }

    #[test]
    fn secp256k1_verification_accepts_low_and_high_s(seed in 1_u64.., message in prop::collection::vec(any::<u8>(), 0..64)) {
        use k256::ecdsa::signature::Signer as _;
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        bytes[0] &= 0x7f;
        let key = k256::ecdsa::SigningKey::from_slice(&bytes).unwrap();
        let public = VerifyingKey::secp256k1(key.verifying_key().to_sec1_point(true).as_bytes()).unwrap();
        let signature: k256::ecdsa::Signature = key.sign(&message);
        prop_assert!(public.verify(&message, &signature.to_bytes()).is_ok());
        let other = k256::ecdsa::Signature::from_scalars(*signature.r(), -*signature.s()).unwrap();
        prop_assert!(public.verify(&message, &other.to_bytes()).is_ok());
        prop_assert!(public.verify(b"another message, longer than any of the ones above: sixty-five bytes", &signature.to_bytes()).is_err());
    }

    #[test]
    fn parsers_never_panic_on_arbitrary_input(text in "\\PC{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        read_everything(&text);
        read_everything(&String::from_utf8_lossy(&bytes));
        let _ = DidDocument::from_slice(&bytes);
        let _ = SigningKey::from_pkcs8(&bytes);
        let _ = VerifyingKey::ed25519(&bytes);
        let _ = VerifyingKey::p256(&bytes);
        let _ = VerifyingKey::secp256k1(&bytes);
        let _ = check_content_digest(&text, &bytes);
    }

    /// Almost valid text reaches deeper code in the parsers than random text.
    #[test]
    fn parsers_never_panic_on_almost_valid_input(text in "(sig1=|\\(|\\)|\"@method\"| |;|created=|1|nonce=|:|AA==|,|did:wba:|a|\\.|#|%3A|DIDWba |\\\\|=|\"|-|T|Z|z|e1_|é){0,24}") {
        read_everything(&text);
    }

    #[test]
    fn binding_never_panics_on_arbitrary_documents(
        methods in any_json(), authentication in any_json(), service in any_json(), proof in any_json()
    ) {
        let did = DOCUMENT.did();
        let document = json!({
            "id": did.as_str(), "verificationMethod": [methods], "authentication": [authentication],
            "assertionMethod": [did.url("key-1")], "service": [service], "proof": proof
        });
        if let Ok(document) = DidDocument::from_json(document) {
            let _ = document.bind(did, soon_after(), nuncio_identity::K1ProofRule::Required);
        }
    }
}

fn read_everything(text: &str) {
    let _ = Did::parse(text);
    let _ = DidUrl::parse(text);
    let _ = SignatureInput::read_all(text);
    let _ = UnverifiedSignature::read(text, text);
    let _ = UnverifiedLegacyHeader::from_header(text);
    let _ = AuthParams::read_all(text);
    let _ = AuthParams::read_info(text);
    let _ = DidAuthChallenge::read(text);
    let _ = IssuedAccessToken::read(text);
    let _ = accepted_components(text);
    let _ = rfc3339::read(text);
    let _ = SigningKey::from_pem(text);
    let _ = VerifyingKey::from_multibase(text);
    let _ = nuncio_identity::http_signature::host(text);
    let _ = nuncio_identity::http_signature::normal_authority(text);
}
