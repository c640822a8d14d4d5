//! Webhook signatures of <https://www.standardwebhooks.com>: over id, time and body of a message.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nuncio_core::time::Timestamp;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

pub(crate) struct WebhookMessage<'a> {
    id: &'a str,
    pub(crate) seconds: i64,
    body: &'a [u8],
}

impl<'a> WebhookMessage<'a> {
    pub(crate) fn new(id: &'a str, at: Timestamp, body: &'a [u8]) -> Self {
        Self { id, seconds: at.as_millis() / 1000, body }
    }

    /// The signature `v1` with a shared secret.
    pub(crate) fn v1(&self, secret: &SharedSecret) -> String {
        format!("v1,{}", STANDARD.encode(secret.sign(&[self.head().as_bytes(), self.body])))
    }

    /// The signature `v1a` with the Ed25519 key of this server.
    fn v1a(&self, key: &Ed25519KeyPair) -> String {
        format!("v1a,{}", STANDARD.encode(key.sign(&[self.head().as_bytes(), self.body].concat())))
    }

    fn head(&self) -> String {
        format!("{}.{}.", self.id, self.seconds)
    }

    /// The HTTP headers of the message with the given signatures.
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

pub(crate) struct SharedSecret(hmac::Key);

impl SharedSecret {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Reads a secret from the settings: `whsec_` and base64, or the bytes of any other text.
    fn read(text: &str) -> Self {
        let encoded = text.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        Self::new(&encoded.unwrap_or_else(|| text.as_bytes().to_vec()))
    }

    /// HMAC-SHA256 over the concatenated parts.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }
}

pub(crate) struct WebhookSigner {
    key: Ed25519KeyPair,
    secret: Option<SharedSecret>,
}

impl WebhookSigner {
    /// A signer that signs with `key`, and also with the shared secret if one is given.
    pub(crate) fn new(key: Ed25519KeyPair, secret: Option<&str>) -> Self {
        Self { key, secret: secret.map(SharedSecret::read) }
    }

    /// The document `/.well-known/jwks.json`: the public key of this signer, and the given keys.
    pub(crate) fn jwks(&self, others: impl IntoIterator<Item = Value>) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        let own = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "webhooks", "x": x});
        json!({"keys": std::iter::once(own).chain(others).collect::<Vec<_>>()})
    }

    pub(crate) fn headers(&self, id: &str, at: Timestamp, body: &[u8]) -> Vec<(String, String)> {
        let signed = WebhookMessage::new(id, at, body);
        let mut signatures = vec![signed.v1a(&self.key)];
        signatures.extend(self.secret.as_ref().map(|secret| signed.v1(secret)));
        signed.headers(&signatures)
    }
}
