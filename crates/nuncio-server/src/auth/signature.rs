//! Signatures over requests, the reference `custom` scheme of Skill Sharing:
//!
//! ```text
//! X-Signature: v1=hex(HMAC-SHA256(secret, timestamp "." nonce "." body))
//!           or v2=hex(HMAC-SHA256(secret, timestamp LF nonce LF METHOD LF path-and-query LF body))
//! X-Signature-Timestamp: seconds since 1970
//! X-Signature-Nonce: 8 to 128 visible characters, new for each request
//! ```
//!
//! Version 1 covers neither method nor target, so it counts for POST and PUT only, whose bodies name the skill's inputs.
//! Several signatures may stand there, with commas between, while a secret is being replaced. A bare hex digest over
//! the body alone counts only where the operator allows it: it can be sent again.

use std::fmt;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Method};
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_engine::{Caller, Engine};

use super::did::RequestHead;
use crate::settings::SignatureSettings;

const SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-signature-timestamp");
const NONCE: HeaderName = HeaderName::from_static("x-signature-nonce");
/// How many seconds the clocks may differ.
const WINDOW: i64 = 300;
/// How many signatures one request may carry.
const MAX_TAGS: usize = 4;

/// Checks signatures. Each nonce is used once, across restarts too.
pub struct Signatures {
    engine: Engine,
    allow_bare: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureCheck {
    /// There is none.
    Absent,
    /// Invalid, with the reason for the caller.
    Invalid(String),
    /// This caller signed it.
    Known(Caller),
}

enum SentSignature<'a> {
    Full { tags: Tags, timestamp: &'a str, nonce: &'a str },
    Bare([u8; 32]),
}

#[derive(Default)]
struct Tags {
    v1: Vec<[u8; 32]>,
    v2: Vec<[u8; 32]>,
}

impl Signatures {
    /// Checks with the engine's signing keys.
    #[must_use]
    pub fn new(engine: Engine, settings: &SignatureSettings) -> Self {
        Self { engine, allow_bare: settings.allow_bare }
    }

    /// Finds out who signed a request. A good signature is used up by this: the same is invalid when it
    /// comes again.
    pub async fn check(&self, head: RequestHead<'_>, body: &[u8]) -> SignatureCheck {
        if !head.headers.contains_key(SIGNATURE) {
            return SignatureCheck::Absent;
        }
        match self.signer(head, body).await {
            Ok(caller) => SignatureCheck::Known(caller),
            Err(why) => SignatureCheck::Invalid(why),
        }
    }

    async fn signer(&self, head: RequestHead<'_>, body: &[u8]) -> Result<Caller, String> {
        let covers_target = !matches!(*head.method, Method::POST | Method::PUT);
        match SentSignature::read(head.headers)? {
            SentSignature::Bare(_) if covers_target => Err(needs_version_2(head.method)),
            SentSignature::Bare(_) if !self.allow_bare => Err(format!(
                "a signature over the body alone could be sent again, and is not taken here; send {SIGNATURE}: v1=… with {TIMESTAMP} and {NONCE}"
            )),
            SentSignature::Bare(tag) => self.made_by(&[tag], &[body]).map(|(_, caller)| caller),
            // First: whoever signs by version 1 learns of version 2 whatever else is wrong.
            SentSignature::Full { tags, .. } if covers_target && tags.v2.is_empty() => {
                Err(needs_version_2(head.method))
            }
            SentSignature::Full { tags, timestamp, nonce } => {
                let end = self.still_good(timestamp)?;
                // The text as it was sent is what was signed.
                let target = head.uri.path_and_query().map_or("/", PathAndQuery::as_str).as_bytes();
                let (timestamp, method, nonce_bytes) = (timestamp.as_bytes(), head.method.as_str(), nonce.as_bytes());
                let by_v2: [&[u8]; 9] =
                    [timestamp, b"\n", nonce_bytes, b"\n", method.as_bytes(), b"\n", target, b"\n", body];
                let by_v1: [&[u8]; 5] = [timestamp, b".", nonce_bytes, b".", body];
                let (key, caller) = match tags.v2.is_empty() {
                    false => self.made_by(&tags.v2, &by_v2)?,
                    true => self.made_by(&tags.v1, &by_v1)?,
                };
                match self.engine.access().use_nonce(&format!("signature\n{key}"), nonce, end).await {
                    Ok(true) => Ok(caller),
                    Ok(false) => Err(format!("this {NONCE} was used before; take a new one for each request")),
                    Err(error) => {
                        tracing::error!(%error, "a nonce cannot be stored, so its request is refused");
                        Err("the nonce cannot be stored at the moment; try again later".to_owned())
                    }
                }
            }
        }
    }

    /// The last moment at which a request signed at that time is taken.
    fn still_good(&self, timestamp: &str) -> Result<Timestamp, String> {
        let now = self.engine.now();
        let canonical = timestamp.len() <= 12 && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let signed: i64 = canonical
            .then(|| timestamp.parse().ok())
            .flatten()
            .ok_or_else(|| format!("{TIMESTAMP} must be seconds since 1970 in digits"))?;
        if (seconds(now) - signed).abs() > WINDOW {
            return Err(format!(
                "{TIMESTAMP} is {signed} and the time here is {}; they may differ by {WINDOW} seconds",
                seconds(now)
            ));
        }
        Ok(Timestamp::from_millis((signed + WINDOW).saturating_mul(1000)))
    }

    /// The key that made one of the signatures. A signature names no key, so each is tried.
    fn made_by(&self, tags: &[[u8; 32]], parts: &[&[u8]]) -> Result<(nuncio_core::ids::KeyId, Caller), String> {
        let keys = self.engine.access().signing_keys();
        let now = self.engine.now();
        let maker = keys.iter().filter(|key| key.is_valid(now)).find(|key| key.made(tags, parts));
        maker.map(|key| (key.id().clone(), key.caller())).ok_or_else(|| {
            "no valid signing key made this signature over this body; `nuncio key create --signing` makes one, and `nuncio key list` shows which expired"
                .to_owned()
        })
    }
}

impl<'a> SentSignature<'a> {
    fn read(headers: &'a HeaderMap) -> Result<Self, String> {
        let text = one(headers, &SIGNATURE)?.ok_or_else(|| format!("{SIGNATURE} is missing"))?;
        let (timestamp, nonce) = (one(headers, &TIMESTAMP)?, one(headers, &NONCE)?);
        if !text.contains('=') {
            if timestamp.is_some() || nonce.is_some() {
                return Err(format!("{SIGNATURE} must be v1=… where {TIMESTAMP} and {NONCE} are sent"));
            }
            return Ok(Self::Bare(tag(text)?));
        }
        let values: Vec<_> = text.split(',').map(str::trim).collect();
        if values.len() > MAX_TAGS {
            return Err(format!("{SIGNATURE} holds more than {MAX_TAGS} signatures"));
        }
        // Versions that may come later are passed over.
        let mut tags = Tags::default();
        for value in &values {
            if let Some(hex) = value.strip_prefix("v2=") {
                tags.v2.push(tag(hex)?);
            } else if let Some(hex) = value.strip_prefix("v1=") {
                tags.v1.push(tag(hex)?);
            }
        }
        if tags.v1.is_empty() && tags.v2.is_empty() {
            return Err(format!("{SIGNATURE} holds no v1= or v2= signature"));
        }
        let timestamp = timestamp.ok_or_else(|| format!("{TIMESTAMP} is missing"))?;
        let nonce = nonce.ok_or_else(|| format!("{NONCE} is missing"))?;
        // A full stop in a nonce could move the border between nonce and body.
        let sound =
            (8..=128).contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
        if !sound {
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

/// The value of a header that may be sent once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| format!("{name} is not plain text")),
        (Some(_), Some(_)) => Err(format!("{name} was sent more than once")),
    }
}

fn tag(hex: &str) -> Result<[u8; 32], String> {
    let digest = hex.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| Digest::parse(hex)).flatten();
    digest.map(|digest| *digest.as_bytes()).ok_or_else(|| format!("{SIGNATURE} must be 64 hex digits"))
}

fn seconds(moment: Timestamp) -> i64 {
    moment.as_millis().div_euclid(1000)
}

impl fmt::Debug for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signatures").field("allow_bare", &self.allow_bare).finish_non_exhaustive()
    }
}
