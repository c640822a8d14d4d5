//! Signatures over requests, the reference `custom` scheme of Skill Sharing:
//!
//! ```text
//! X-Signature: v1=hex(HMAC-SHA256(secret, timestamp "." nonce "." body))
//! X-Signature-Timestamp: seconds since 1970
//! X-Signature-Nonce: 8 to 128 visible characters, new for each request
//! ```
//!
//! Several `v1=` may stand there, with commas between, while a secret is being replaced. A bare hex
//! digest over the body alone counts only where the operator allows it: it can be sent again.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName};
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_engine::{Caller, Engine};

use super::replay::{self, Nonces};
use crate::settings::SignatureSettings;

/// The header with the signature.
const SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
/// The header with the time of signing.
const TIMESTAMP: HeaderName = HeaderName::from_static("x-signature-timestamp");
/// The header with the nonce.
const NONCE: HeaderName = HeaderName::from_static("x-signature-nonce");
/// How many seconds the clocks may differ.
const WINDOW: i64 = 300;
/// How many signatures one request may carry.
const MAX_TAGS: usize = 4;

/// Checks signatures, and remembers what must not come again.
pub struct Signatures {
    engine: Engine,
    allow_bare: bool,
    /// What was signed before may have been used before, and nobody would remember.
    since: Timestamp,
    nonces: Mutex<Nonces>,
}

/// What the signature of a request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// There is none.
    Absent,
    /// It is not valid, and why.
    Invalid(String),
    /// This caller signed it.
    Known(Caller),
}

/// A signature as it was sent.
enum Sent<'a> {
    Full { tags: Vec<[u8; 32]>, timestamp: &'a str, nonce: &'a str },
    Bare([u8; 32]),
}

impl Signatures {
    /// Checks with the engine's signing keys, from now on.
    #[must_use]
    pub fn new(engine: Engine, settings: &SignatureSettings) -> Self {
        let since = engine.now();
        Self { engine, allow_bare: settings.allow_bare, since, nonces: Mutex::default() }
    }

    /// Finds out who signed a request. A good signature is used up by this: the same is invalid when it
    /// comes again.
    pub fn check(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Signed {
        if !headers.contains_key(SIGNATURE) {
            return Signed::Absent;
        }
        match self.signer(headers, body, now) {
            Ok(caller) => Signed::Known(caller),
            Err(why) => Signed::Invalid(why),
        }
    }

    fn signer(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<Caller, String> {
        match Sent::read(headers)? {
            Sent::Bare(_) if !self.allow_bare => Err(format!(
                "a signature over the body alone could be sent again, and is not taken here; send {SIGNATURE}: v1=… with {TIMESTAMP} and {NONCE}"
            )),
            Sent::Bare(tag) => self.made_by(&[tag], &[body]).map(|(_, caller)| caller),
            Sent::Full { tags, timestamp, nonce } => {
                let end = self.still_good(timestamp, now)?;
                // The text as it was sent is what was signed.
                let parts: [&[u8]; 5] = [timestamp.as_bytes(), b".", nonce.as_bytes(), b".", body];
                let (key, caller) = self.made_by(&tags, &parts)?;
                let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
                nonces.take(&key, nonce, end, seconds(now)).map(|()| caller).map_err(|refused| match refused {
                    replay::Refused::Used => format!("this {NONCE} was used before; take a new one for each request"),
                    replay::Refused::Full => {
                        format!(
                            "this key signed more than {} requests in {} seconds; wait, or use several keys",
                            replay::PER_KEY,
                            2 * WINDOW
                        )
                    }
                })
            }
        }
    }

    /// The last second in which a request signed at that time is taken.
    fn still_good(&self, timestamp: &str, now: Timestamp) -> Result<i64, String> {
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
        if signed.saturating_mul(1000) < self.since.as_millis() {
            return Err(
                "it was signed before this server started, which cannot know whether it was used; sign it again"
                    .to_owned(),
            );
        }
        Ok(signed + WINDOW)
    }

    /// The key that made one of the signatures. A signature names no key, so each is tried.
    fn made_by(&self, tags: &[[u8; 32]], parts: &[&[u8]]) -> Result<(nuncio_core::ids::KeyId, Caller), String> {
        let keys = self.engine.signing_keys();
        let maker = keys.iter().find(|key| key.made(tags, parts));
        maker.map(|key| (key.id().clone(), key.caller())).ok_or_else(|| {
            "no valid signing key made this signature over this body; `nuncio key create --signing` makes one"
                .to_owned()
        })
    }
}

impl<'a> Sent<'a> {
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
        let tags: Vec<_> =
            values.iter().filter_map(|value| value.strip_prefix("v1=")).map(tag).collect::<Result<_, _>>()?;
        if tags.is_empty() {
            return Err(format!("{SIGNATURE} holds no v1= signature"));
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
