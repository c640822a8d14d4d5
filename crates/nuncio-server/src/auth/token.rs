//! Access tokens as they are read: JWTs (RFC 7519, profiled by RFC 9068) and their claims, which RFC
//! 7662 answers share.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::{Caller, Credential};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::settings::{Algorithm, IssuerSetting};

/// How long a token may be.
pub(super) const MAX_BYTES: usize = 16 * 1024;
/// How long the name of a subject may be.
const MAX_SUBJECT: usize = 512;
/// How many scopes of a token are used.
const MAX_SCOPES: usize = 256;

pub(super) enum Token<'a> {
    Jwt(Box<Jwt<'a>>),
    /// One that means something to its issuer only.
    Opaque,
    /// One that cannot be anything, and why.
    Broken(String),
}

/// A JWT, its signature not yet checked.
pub(super) struct Jwt<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key: Option<String>,
    pub(super) claims: Claims,
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
    /// Whether the header's `typ` marks an access token (RFC 9068).
    says_access_token: bool,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Claims {
    /// Whether it is good: in answers of RFC 7662 only.
    pub(super) active: Option<bool>,
    pub(super) iss: Option<String>,
    sub: Option<String>,
    client_id: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    scope: Option<OneOrMany>,
    /// The name that some issuers use for `scope`.
    scp: Option<OneOrMany>,
    cnf: Option<IgnoredAny>,
    token_type: Option<String>,
    // Claims of ID tokens and logout tokens, and one issuer's word for what a token is.
    nonce: Option<IgnoredAny>,
    at_hash: Option<IgnoredAny>,
    c_hash: Option<IgnoredAny>,
    events: Option<IgnoredAny>,
    typ: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Many(many) => many.iter(),
        }
        .map(String::as_str)
    }
}

/// The caller of a valid token, and its expiry if it has one.
#[derive(Debug)]
pub(super) struct VerifiedToken {
    pub(super) caller: Caller,
    pub(super) until: Option<Timestamp>,
}

impl<'a> Token<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        if text.len() > MAX_BYTES {
            return Self::Broken(format!("it is longer than {MAX_BYTES} bytes"));
        }
        let visible = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !text.bytes().all(visible) {
            return Self::Broken("it has characters that no token has".to_owned());
        }
        let parts: Vec<_> = text.split('.').collect();
        let [header, payload, signature] = parts[..] else {
            return Self::Opaque;
        };
        // Only what has a head like a JWT is one; other tokens may have dots as well.
        let Some(header) = decoded::<Header>(header) else {
            return Self::Opaque;
        };
        let message = &text.as_bytes()[..text.len() - signature.len() - 1];
        match Jwt::read(header, payload, signature, message) {
            Ok(jwt) => Self::Jwt(Box::new(jwt)),
            Err(why) => Self::Broken(why),
        }
    }
}

impl<'a> Jwt<'a> {
    fn read(header: Header, payload: &str, signature: &str, message: &'a [u8]) -> Result<Self, String> {
        let algorithm = Algorithm::named(&header.alg).ok_or_else(|| {
            let name: String = header.alg.chars().take(20).collect();
            format!("its algorithm {name:?} is never accepted")
        })?;
        if header.crit.is_some() {
            return Err("it has critical extensions, and none is known here".to_owned());
        }
        let says_access_token = match header.typ.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("at+jwt" | "application/at+jwt") => true,
            None | Some("jwt" | "application/jwt") => false,
            Some(_) => return Err("its `typ` says that it is no access token".to_owned()),
        };
        let claims = decoded(payload).ok_or("its claims cannot be read")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "its signature cannot be read")?;
        Ok(Self { algorithm, key: header.kid, claims, message, signature, says_access_token })
    }

    /// Whom it speaks for, if its issuer really signed it.
    pub(super) fn verify_claims(&self, by: &IssuerSetting, now: Timestamp) -> Result<VerifiedToken, String> {
        let claims = &self.claims;
        let of_another_kind = claims.nonce.is_some()
            || claims.at_hash.is_some()
            || claims.c_hash.is_some()
            || claims.events.is_some()
            || claims.typ.as_ref().is_some_and(|typ| !typ.eq_ignore_ascii_case("bearer"));
        if !self.says_access_token && of_another_kind {
            return Err("it is an ID token or another kind, and no access token".to_owned());
        }
        let vouched = claims.verify(by, now)?;
        if vouched.until.is_none() {
            return Err("it does not say when it expires".to_owned());
        }
        Ok(vouched)
    }
}

impl Claims {
    /// Whom these claims speak for at that moment.
    pub(super) fn verify(&self, by: &IssuerSetting, now: Timestamp) -> Result<VerifiedToken, String> {
        let leeway = Duration::from_secs(u64::from(by.leeway_seconds));
        if self.aud.as_ref().is_none_or(|audiences| !audiences.iter().any(|it| by.audience.contains(it))) {
            return Err("it is meant for another audience".to_owned());
        }
        let until = self.exp.map(|exp| moment(exp).after(leeway));
        if until.is_some_and(|until| now >= until) {
            return Err("it has expired".to_owned());
        }
        let latest = now.after(leeway);
        if [self.nbf, self.iat].into_iter().flatten().any(|from| moment(from) > latest) {
            return Err("it is from the future: compare the clocks".to_owned());
        }
        if self.cnf.is_some() || self.token_type.as_ref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err("it is bound to a proof that is not checked here, so it is no bearer token".to_owned());
        }
        let subject = self.sub.as_ref().or(self.client_id.as_ref()).ok_or("it names no subject and no client")?;
        if subject.is_empty() || subject.len() > MAX_SUBJECT || subject.chars().any(char::is_control) {
            return Err("its subject is no name".to_owned());
        }
        let principal = Principal::OAuth { issuer: by.url.as_str().to_owned(), subject: subject.clone() };
        let credential = Credential::Token { scopes: self.scopes(), people: by.people == Some(true) };
        Ok(VerifiedToken { caller: Caller { credential, ..Caller::new(principal) }, until })
    }

    fn scopes(&self) -> Arc<[ScopeId]> {
        let words = self.scope.iter().chain(&self.scp).flat_map(OneOrMany::iter).flat_map(str::split_ascii_whitespace);
        // Words that are no scopes of ours are for someone else.
        let mut scopes: Vec<_> = words.filter_map(|word| ScopeId::parse(word).ok()).take(MAX_SCOPES).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes.into()
    }
}

/// A NumericDate, which may have fractions. One that does not fit becomes the first or last moment there is.
fn moment(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0) as i64).min(Timestamp::LAST)
}

fn decoded<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests;
