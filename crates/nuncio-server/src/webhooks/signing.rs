//! Signatures as <https://www.standardwebhooks.com> describes them: over the call's id, its time and its body.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nuncio_core::time::Timestamp;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// What is signed.
pub(crate) struct Signed<'a> {
    id: &'a str,
    seconds: i64,
    body: &'a [u8],
}

impl<'a> Signed<'a> {
    /// A call of that name, made at that time.
    pub(crate) fn new(id: &'a str, at: Timestamp, body: &'a [u8]) -> Self {
        Self { id, seconds: at.as_millis() / 1000, body }
    }

    /// When it is made, in seconds.
    pub(crate) fn seconds(&self) -> i64 {
        self.seconds
    }

    /// The signature `v1` with a shared secret.
    pub(crate) fn v1(&self, secret: &SharedSecret) -> String {
        format!("v1,{}", STANDARD.encode(secret.sign(&[self.head().as_bytes(), self.body])))
    }

    /// The signature `v1a` with a key of ours.
    fn v1a(&self, key: &Ed25519KeyPair) -> String {
        format!("v1a,{}", STANDARD.encode(key.sign(&[self.head().as_bytes(), self.body].concat())))
    }

    fn head(&self) -> String {
        format!("{}.{}.", self.id, self.seconds)
    }

    /// The headers of a call with these signatures.
    pub(crate) fn headers(&self, signatures: &[String]) -> Vec<(String, String)> {
        [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", self.id.to_owned()),
            ("webhook-timestamp", self.seconds.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// A secret shared with whoever is called.
pub(crate) struct SharedSecret(hmac::Key);

impl SharedSecret {
    /// The secret of these bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// As it is written: `whsec_` and base64, or any other text as it is.
    fn read(text: &str) -> Self {
        let encoded = text.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        Self::new(&encoded.unwrap_or_else(|| text.as_bytes().to_vec()))
    }

    /// HMAC-SHA256 over the parts, one after the other.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret")
    }
}

/// Who signs for this server.
pub(crate) struct Signer {
    key: Ed25519KeyPair,
    secret: Option<SharedSecret>,
}

impl Signer {
    /// Signs with the key, and with the shared secret where there is one.
    pub(crate) fn new(key: Ed25519KeyPair, secret: Option<&str>) -> Self {
        Self { key, secret: secret.map(SharedSecret::read) }
    }

    /// The key that checks our signatures, and others of ours, for `/.well-known/jwks.json`.
    pub(crate) fn jwks(&self, others: impl IntoIterator<Item = Value>) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        let own = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "webhooks", "x": x});
        json!({"keys": std::iter::once(own).chain(others).collect::<Vec<_>>()})
    }

    /// The headers of a call.
    pub(crate) fn headers(&self, id: &str, at: Timestamp, body: &[u8]) -> Vec<(String, String)> {
        let signed = Signed::new(id, at, body);
        let mut signatures = vec![signed.v1a(&self.key)];
        signatures.extend(self.secret.as_ref().map(|secret| signed.v1(secret)));
        signed.headers(&signatures)
    }
}
