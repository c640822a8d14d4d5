//! The access tokens issued after a valid signature (ANP-02 §3.3): JWTs that only this server verifies.

use std::time::Duration;

use nuncio_core::time::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::challenge::IssuedAccessToken;
use crate::did::Did;
use crate::encoding::{base64url, from_base64url};
use crate::error::DidAuthError;
use crate::keys::SigningKey;
use crate::rfc3339;

/// The only JWT header we issue; tokens with any other header are refused.
const HEAD: &str = r#"{"alg":"HS256","typ":"at+jwt"}"#;
const MAX_TOKEN_BYTES: usize = 4096;

/// Issues and verifies access tokens. Issuer and verifier are the same server, so tokens use HMAC with a secret derived
/// from the key, which costs a hundredth of a signature.
#[derive(Debug, Clone)]
pub struct DidAccessTokenService {
    key: hmac::Key,
    issuer: String,
    audience: String,
    lifetime: Duration,
    head: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenClaims {
    /// Issuer: this service.
    pub iss: String,
    /// The authenticated DID.
    pub sub: Did,
    /// Audience: the server on which the token is valid.
    pub aud: String,
    /// Time of issue, in seconds since the Unix epoch.
    pub iat: i64,
    /// Time of expiry, in seconds since the Unix epoch.
    pub exp: i64,
}

impl DidAccessTokenService {
    #[must_use]
    pub fn new(key: &SigningKey, issuer: impl Into<String>, audience: impl Into<String>, lifetime: Duration) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key.derived("access tokens"));
        Self { key, issuer: issuer.into(), audience: audience.into(), lifetime, head: base64url(HEAD.as_bytes()) }
    }

    /// Issues a token for a verified caller.
    #[must_use]
    pub fn issue(&self, subject: &Did, now: Timestamp) -> IssuedAccessToken {
        let iat = rfc3339::seconds(now);
        let exp = rfc3339::seconds(now.after(self.lifetime));
        let claims =
            TokenClaims { iss: self.issuer.clone(), sub: subject.clone(), aud: self.audience.clone(), iat, exp };
        let body = serde_json::to_vec(&claims).expect("claims are texts and numbers");
        let signed = format!("{}.{}", self.head, base64url(&body));
        let signature = base64url(hmac::sign(&self.key, signed.as_bytes()).as_ref());
        IssuedAccessToken {
            access_token: format!("{signed}.{signature}"),
            expires_in: Some(self.lifetime.as_secs()),
            scope: None,
        }
    }

    /// Verifies a token that this server issued.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<TokenClaims, DidAuthError> {
        let foreign = DidAuthError::AccessToken("the token was not issued by this server; sign the request");
        let parts = (token.len() <= MAX_TOKEN_BYTES).then(|| token.rsplit_once('.')).flatten();
        let (signed, signature) = parts.ok_or_else(|| foreign.clone())?;
        let body = signed.strip_prefix(&self.head).and_then(|rest| rest.strip_prefix('.'));
        let (Some(body), Some(signature)) = (body, from_base64url(signature)) else {
            return Err(foreign);
        };
        hmac::verify(&self.key, signed.as_bytes(), &signature).map_err(|_| foreign.clone())?;
        let claims = from_base64url(body).and_then(|body| serde_json::from_slice::<TokenClaims>(&body).ok());
        let claims = claims.filter(|claims| claims.iss == self.issuer && claims.aud == self.audience).ok_or(foreign)?;
        let now = rfc3339::seconds(now);
        if claims.exp <= now {
            return Err(DidAuthError::AccessToken("the token has expired; sign the request"));
        }
        if claims.iat > now.saturating_add(60) {
            return Err(DidAuthError::AccessToken("the token was issued in the future; check the clock"));
        }
        Ok(claims)
    }
}
