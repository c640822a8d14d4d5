//! Parses access tokens: JWTs (RFC 7519, profile RFC 9068), and claims of JWTs and introspection responses (RFC 7662).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::{AuthenticationMethod, Caller};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::decode_jwt_part;
use crate::settings::{IssuerSetting, OneOrManyStrings, TokenSignatureAlgorithm};

pub(super) const MAX_TOKEN_BYTES: usize = 16 * 1024;
const MAX_SUBJECT_BYTES: usize = 512;
/// Number of scopes of a token that are used; the rest is ignored.
const MAX_SCOPES: usize = 256;

pub(super) enum ParsedToken<'a> {
    Jwt(Box<Jwt<'a>>),
    /// A token that only its issuer can read.
    Opaque,
    /// Too long, with invalid characters, or a malformed JWT; the value is the reason.
    Malformed(String),
}

/// A JWT, its signature not yet checked.
pub(super) struct Jwt<'a> {
    pub(super) algorithm: TokenSignatureAlgorithm,
    pub(super) key: Option<String>,
    pub(super) claims: AccessTokenClaims,
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
    /// Whether the header's `typ` marks an access token (RFC 9068).
    is_marked_access_token: bool,
}

#[derive(Deserialize)]
struct JwtHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct AccessTokenClaims {
    /// Whether the token is valid; only in introspection responses.
    pub(super) active: Option<bool>,
    pub(super) iss: Option<String>,
    sub: Option<String>,
    client_id: Option<String>,
    aud: Option<OneOrManyStrings>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    scope: Option<OneOrManyStrings>,
    /// The name that some issuers use for `scope`.
    scp: Option<OneOrManyStrings>,
    cnf: Option<IgnoredAny>,
    token_type: Option<String>,
    // Claims that only ID tokens and logout tokens have, and `typ`, in which one issuer names the kind of token.
    nonce: Option<IgnoredAny>,
    at_hash: Option<IgnoredAny>,
    c_hash: Option<IgnoredAny>,
    events: Option<IgnoredAny>,
    typ: Option<String>,
}

/// The caller of a valid token, and the time until which this result may be cached.
#[derive(Debug)]
pub(super) struct VerifiedToken {
    pub(super) caller: Caller,
    pub(super) until: Timestamp,
}

impl<'a> ParsedToken<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        if text.len() > MAX_TOKEN_BYTES {
            return Self::Malformed(format!("it is longer than {MAX_TOKEN_BYTES} bytes"));
        }
        let visible = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !text.bytes().all(visible) {
            return Self::Malformed("it contains characters that are not allowed in a token".to_owned());
        }
        let parts: Vec<_> = text.split('.').collect();
        let [header, payload, signature] = parts[..] else {
            return Self::Opaque;
        };
        // A token is a JWT only if it has the header of one; opaque tokens may have dots too.
        let Some(header) = decode_jwt_part::<JwtHeader>(header) else {
            return Self::Opaque;
        };
        let message = &text.as_bytes()[..text.len() - signature.len() - 1];
        match Jwt::read(header, payload, signature, message) {
            Ok(jwt) => Self::Jwt(Box::new(jwt)),
            Err(why) => Self::Malformed(why),
        }
    }
}

impl<'a> Jwt<'a> {
    fn read(header: JwtHeader, payload: &str, signature: &str, message: &'a [u8]) -> Result<Self, String> {
        let algorithm = TokenSignatureAlgorithm::parse(&header.alg).ok_or_else(|| {
            let name: String = header.alg.chars().take(20).collect();
            format!("its algorithm {name:?} is never accepted")
        })?;
        if header.crit.is_some() {
            return Err("it has critical extensions, and none are supported".to_owned());
        }
        let is_marked_access_token = match header.typ.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("at+jwt" | "application/at+jwt") => true,
            None | Some("jwt" | "application/jwt") => false,
            Some(_) => return Err("its `typ` is not that of an access token".to_owned()),
        };
        let claims = decode_jwt_part(payload).ok_or("its claims cannot be read")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "its signature cannot be read")?;
        Ok(Self { algorithm, key: header.kid, claims, message, signature, is_marked_access_token })
    }

    /// The caller that the claims name. The signature is verified separately.
    pub(super) fn verify_claims(&self, issuer: &IssuerSetting, now: Timestamp) -> Result<VerifiedToken, String> {
        let claims = &self.claims;
        let is_other_token = claims.nonce.is_some()
            || claims.at_hash.is_some()
            || claims.c_hash.is_some()
            || claims.events.is_some()
            || claims.typ.as_ref().is_some_and(|typ| !typ.eq_ignore_ascii_case("bearer"));
        if !self.is_marked_access_token && is_other_token {
            return Err("it is an ID token or another kind, not an access token".to_owned());
        }
        let verified = claims.verify(issuer, now)?;
        if claims.exp.is_none() {
            return Err("it has no expiry time".to_owned());
        }
        Ok(verified)
    }
}

impl AccessTokenClaims {
    /// The caller that the claims name; an error says why they are not valid at `now`.
    pub(super) fn verify(&self, issuer: &IssuerSetting, now: Timestamp) -> Result<VerifiedToken, String> {
        let leeway = Duration::from_secs(u64::from(issuer.leeway_seconds));
        let audiences = self.aud.as_ref().map(OneOrManyStrings::as_slice).unwrap_or_default();
        if !audiences.iter().any(|it| issuer.audience.contains(it)) {
            return Err("it is meant for another audience".to_owned());
        }
        let until = self.exp.map_or(Timestamp::LAST, |exp| timestamp(exp).after(leeway));
        if now >= until {
            return Err("it has expired".to_owned());
        }
        let latest = now.after(leeway);
        if [self.nbf, self.iat].into_iter().flatten().any(|from| timestamp(from) > latest) {
            return Err("it was issued in the future: compare the clocks".to_owned());
        }
        if self.cnf.is_some() || self.token_type.as_ref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(
                "it is bound to a proof that this server does not check, so it is not a bearer token".to_owned()
            );
        }
        let subject = self.sub.as_ref().or(self.client_id.as_ref()).ok_or("it has no subject and no client")?;
        if subject.is_empty() || subject.len() > MAX_SUBJECT_BYTES || subject.chars().any(char::is_control) {
            return Err("its subject is not a valid name".to_owned());
        }
        let principal = Principal::OAuth { issuer: issuer.url.as_str().to_owned(), subject: subject.clone() };
        let authentication = AuthenticationMethod::Token { scopes: self.scopes(), people: issuer.people == Some(true) };
        Ok(VerifiedToken { caller: Caller { authentication, ..Caller::new(principal) }, until })
    }

    fn scopes(&self) -> Arc<[ScopeId]> {
        let lists = self.scope.iter().chain(&self.scp).flat_map(OneOrManyStrings::as_slice);
        let entries = lists.flat_map(|list| list.split_ascii_whitespace());
        // Entries that are no valid scope ids belong to other servers.
        let mut scopes: Vec<_> = entries.filter_map(|entry| ScopeId::parse(entry).ok()).take(MAX_SCOPES).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes.into()
    }
}

/// Converts a NumericDate (RFC 7519), which may have fractions. Out-of-range values become the first or last timestamp.
fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0) as i64).min(Timestamp::LAST)
}

#[cfg(test)]
mod tests;
