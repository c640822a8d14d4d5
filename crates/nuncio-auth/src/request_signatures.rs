//! Signatures over requests with a shared secret, the reference `custom` scheme of Skill Sharing:
//!
//! ```text
//! X-Signature: v1=hex(HMAC-SHA256(secret, timestamp "." nonce "." body))
//!           or v2=hex(HMAC-SHA256(secret, timestamp LF nonce LF METHOD LF path-and-query LF body))
//! X-Signature-Timestamp: seconds since 1970
//! X-Signature-Nonce: 8 to 128 visible characters, new for each request
//! ```
//!
//! Version 1 covers neither method nor target, so it is accepted only for POST and PUT, whose bodies name the skill's
//! inputs. While a secret is being replaced, a request may carry several signatures, separated by commas. A bare hex
//! digest over the body alone is accepted only if the operator allows it, since it can be replayed.

use std::ops::Range;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Method};
use nuncio_core::digest::Digest;
use nuncio_core::ids::KeyId;
use nuncio_core::time::Timestamp;
use nuncio_engine::{Caller, Engine};

use crate::settings::RequestSignatureSettings;
use crate::{RequestHead, unix_seconds};

const SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-signature-timestamp");
const NONCE: HeaderName = HeaderName::from_static("x-signature-nonce");
/// Tolerated difference between the timestamp and the clock of this server.
const WINDOW_SECONDS: i64 = 300;
const MAX_SIGNATURES: usize = 4;

/// Checks signatures with the signing keys of the engine. A nonce is accepted once, also across restarts.
#[derive(Debug)]
pub struct RequestSignatureVerifier {
    engine: Engine,
    allow_bare: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureCheckResult {
    Absent,
    /// The signature is invalid; the text tells the caller why.
    Invalid(String),
    Known(Caller),
}

enum ReceivedSignature<'a> {
    Full { tags: SignaturesByVersion, timestamp: &'a str, nonce: &'a str },
    Bare([u8; 32]),
}

#[derive(Default)]
struct SignaturesByVersion {
    v1: Vec<[u8; 32]>,
    v2: Vec<[u8; 32]>,
}

impl RequestSignatureVerifier {
    #[must_use]
    pub fn new(engine: Engine, settings: &RequestSignatureSettings) -> Self {
        Self { engine, allow_bare: settings.allow_bare }
    }

    /// Finds out who signed a request. The nonce of a valid signature is consumed, so that a replay is refused.
    pub async fn check(&self, head: RequestHead<'_>, body: &[u8]) -> SignatureCheckResult {
        if !head.headers.contains_key(SIGNATURE) {
            return SignatureCheckResult::Absent;
        }
        match self.signer(head, body).await {
            Ok(caller) => SignatureCheckResult::Known(caller),
            Err(why) => SignatureCheckResult::Invalid(why),
        }
    }

    async fn signer(&self, head: RequestHead<'_>, body: &[u8]) -> Result<Caller, String> {
        let must_cover_target = !matches!(*head.method, Method::POST | Method::PUT);
        match ReceivedSignature::read(head.headers)? {
            ReceivedSignature::Bare(_) if must_cover_target => Err(needs_version_2(head.method)),
            ReceivedSignature::Bare(_) if !self.allow_bare => Err(format!(
                "a signature over the body alone could be replayed and is not accepted; send {SIGNATURE}: v1=… with \
                 {TIMESTAMP} and {NONCE}"
            )),
            ReceivedSignature::Bare(tag) => self.find_signer(&[tag], &[body]).map(|(_, caller)| caller),
            // Refused before the timestamp and nonce are checked, so that a version 1 client learns of version 2.
            ReceivedSignature::Full { tags, .. } if must_cover_target && tags.v2.is_empty() => {
                Err(needs_version_2(head.method))
            }
            ReceivedSignature::Full { tags, timestamp, nonce } => {
                let validity = self.validity(timestamp)?;
                // The signature covers the target as the client sent it.
                let target = head.uri.path_and_query().map_or("/", PathAndQuery::as_str).as_bytes();
                let (timestamp, method, nonce_bytes) = (timestamp.as_bytes(), head.method.as_str(), nonce.as_bytes());
                let by_v2: [&[u8]; 9] =
                    [timestamp, b"\n", nonce_bytes, b"\n", method.as_bytes(), b"\n", target, b"\n", body];
                let by_v1: [&[u8]; 5] = [timestamp, b".", nonce_bytes, b".", body];
                let (key, caller) = match tags.v2.is_empty() {
                    false => self.find_signer(&tags.v2, &by_v2)?,
                    true => self.find_signer(&tags.v1, &by_v1)?,
                };
                match self.engine.access().use_nonce(&format!("signature\n{key}"), nonce, validity).await {
                    Ok(true) => Ok(caller),
                    Ok(false) => Err(format!("this {NONCE} was used before; use a new one for each request")),
                    Err(error) => {
                        tracing::error!(%error, "a nonce cannot be stored, so its request is refused");
                        Err("the nonce cannot be stored at the moment; try again later".to_owned())
                    }
                }
            }
        }
    }

    /// The time from a request's timestamp until it is no longer accepted.
    fn validity(&self, timestamp: &str) -> Result<Range<Timestamp>, String> {
        let now = unix_seconds(self.engine.now());
        let is_canonical = timestamp.len() <= 12 && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let signed: Option<i64> = timestamp.parse().ok().filter(|_| is_canonical);
        let signed = signed.ok_or_else(|| format!("{TIMESTAMP} must be seconds since 1970 in digits"))?;
        if (now - signed).abs() > WINDOW_SECONDS {
            return Err(format!(
                "{TIMESTAMP} is {signed} and the time here is {now}; they may differ by {WINDOW_SECONDS} seconds"
            ));
        }
        let at = |seconds: i64| Timestamp::from_millis(seconds.saturating_mul(1000));
        Ok(at(signed)..at(signed + WINDOW_SECONDS))
    }

    /// The key that made one of the signatures. A signature names no key, so every key is tried.
    fn find_signer(&self, tags: &[[u8; 32]], parts: &[&[u8]]) -> Result<(KeyId, Caller), String> {
        let (keys, now) = (self.engine.access().signing_keys(), self.engine.now());
        let signer = keys.iter().filter(|key| key.is_valid(now)).find(|key| key.made(tags, parts));
        signer.map(|key| (key.id().clone(), key.caller())).ok_or_else(|| {
            "no valid signing key made this signature over this body; `nuncio key create --signing` makes one, and `nuncio key list` shows which expired"
                .to_owned()
        })
    }
}

impl<'a> ReceivedSignature<'a> {
    fn read(headers: &'a HeaderMap) -> Result<Self, String> {
        let text = single_header(headers, &SIGNATURE)?.ok_or_else(|| format!("{SIGNATURE} is missing"))?;
        let (timestamp, nonce) = (single_header(headers, &TIMESTAMP)?, single_header(headers, &NONCE)?);
        if !text.contains('=') {
            if timestamp.is_some() || nonce.is_some() {
                return Err(format!("{SIGNATURE} must be v1=… where {TIMESTAMP} and {NONCE} are sent"));
            }
            return Ok(Self::Bare(parse_tag(text)?));
        }
        let values: Vec<_> = text.split(',').map(str::trim).collect();
        if values.len() > MAX_SIGNATURES {
            return Err(format!("{SIGNATURE} contains more than {MAX_SIGNATURES} signatures"));
        }
        // Signatures of unknown versions are ignored.
        let mut tags = SignaturesByVersion::default();
        for value in &values {
            if let Some(hex) = value.strip_prefix("v2=") {
                tags.v2.push(parse_tag(hex)?);
            } else if let Some(hex) = value.strip_prefix("v1=") {
                tags.v1.push(parse_tag(hex)?);
            }
        }
        if tags.v1.is_empty() && tags.v2.is_empty() {
            return Err(format!("{SIGNATURE} contains no v1= or v2= signature"));
        }
        let timestamp = timestamp.ok_or_else(|| format!("{TIMESTAMP} is missing"))?;
        let nonce = nonce.ok_or_else(|| format!("{NONCE} is missing"))?;
        // A nonce with a full stop could be split differently into nonce and body.
        let is_valid =
            (8..=128).contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
        if !is_valid {
            return Err(format!("{NONCE} must be 8 to 128 visible ASCII characters, none of them a full stop"));
        }
        Ok(Self::Full { tags, timestamp, nonce })
    }
}

fn needs_version_2(method: &Method) -> String {
    format!(
        "a {method} request needs a signature that covers its method and target: send {SIGNATURE}: v2=hex(HMAC-SHA256(secret, timestamp LF nonce LF METHOD LF path-and-query LF body))"
    )
}

/// The value of a header that may be sent only once.
fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| format!("{name} is not plain text")),
        (Some(_), Some(_)) => Err(format!("{name} was sent more than once")),
    }
}

fn parse_tag(hex: &str) -> Result<[u8; 32], String> {
    let digest = hex.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| Digest::parse(hex)).flatten();
    digest.map(|digest| *digest.as_bytes()).ok_or_else(|| format!("{SIGNATURE} must be 64 hex digits"))
}
