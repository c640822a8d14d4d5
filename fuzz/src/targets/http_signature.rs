//! `Signature-Input` and `Signature` (RFC 9421): a member parses the same on its own, and only signed input verifies.

use std::sync::LazyLock;

use nuncio_core::time::Timestamp;
use nuncio_identity::http_signature::SignatureInput;
use nuncio_identity::{
    BoundDidDocument, DidDocument, K1ProofRule, SignableRequest, SignaturePolicy, UnverifiedSignature, verify_request,
};
use serde_json::Value;

static VECTORS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../crates/nuncio-identity/tests/data/http_signatures.json")).unwrap()
});

static DOCUMENT: LazyLock<BoundDidDocument> = LazyLock::new(|| {
    let documents = include_str!("../../../crates/nuncio-identity/tests/data/did_documents.json");
    let documents: Value = serde_json::from_str(documents).unwrap();
    let document = documents["documents"].as_array().unwrap().iter().find(|it| it["name"] == "e1_path").unwrap();
    let document = DidDocument::from_json(document["document"].clone()).unwrap();
    let did = document.id().clone();
    document.bind(&did, now(), K1ProofRule::Optional).unwrap()
});

fn now() -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000)
}

/// Input: the values of the two header fields, separated by a line feed.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (input, signature) = text.split_once('\n').unwrap_or((&text, ""));
    for member in SignatureInput::read_all(input).unwrap_or_default() {
        let alone = format!("{}={}", member.label, member.raw);
        assert_eq!(SignatureInput::read_all(&alone), Ok(vec![member]));
    }
    if UnverifiedSignature::read(input, signature).is_err() {
        return;
    }
    let headers = [("signature-input", input), ("signature", signature)];
    let request =
        SignableRequest { method: "GET", target_uri: "https://api.example.com/orders", headers: &headers, body: b"" };
    let policy = SignaturePolicy { nonce_required: false, ..SignaturePolicy::default() };
    if let Ok(signer) = verify_request(&request, &DOCUMENT, now(), &policy) {
        assert!(SignatureInput::read_all(input).unwrap().iter().any(|input| input.nonce == signer.nonce));
        assert_eq!(signer.did.as_str(), DOCUMENT.document().id().as_str());
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let fields = |headers: &Value| {
        let field = |name: &str| headers.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(format!("{}\n{}", field("Signature-Input")?, field("Signature")?).into_bytes())
    };
    let cases = VECTORS["cases"].as_array().unwrap().iter();
    cases.flat_map(|case| [fields(&case["produced_headers"]), fields(&case["verify"]["headers"])]).flatten().collect()
}
