//! Access tokens of people's devices: JWTs (RFC 7519) signed with this server's key, valid for five minutes. The device
//! of a token is looked up with every request, so that a revoked device is refused at once.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::Device;
use nuncio_core::signature::{PublicKey, Signature, SignatureChecker as _};
use nuncio_core::time::Timestamp;
use nuncio_engine::Ed25519Verifier;
use nuncio_engine::ports::Clock;
use nuncio_http::device_tokens::{DeviceTokenHolder, DeviceTokenIssuer, IssuedDeviceToken};
use nuncio_http::front::ServerTokenKind;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{decode_jwt_part, unix_seconds};

const TOKEN_LIFETIME_SECONDS: i64 = 300;
/// Tolerated clock difference between processes of this server.
const LEEWAY_SECONDS: i64 = 60;
const MAX_TOKEN_BYTES: usize = 4096;
/// Number of tokens whose verified claims are cached.
const CACHED_TOKENS: usize = 16_384;
/// Prefix of the tokens of agents' accounts, which the engine issues.
const AGENT_TOKEN_PREFIX: &str = "hsk_";

/// Issues and verifies the access tokens of people's devices.
pub struct PersonTokenIssuer {
    key: Ed25519KeyPair,
    public: PublicKey,
    /// The fixed JWT header of device tokens with the dot after it; any other header is refused.
    header: String,
    audience: String,
    clock: Arc<dyn Clock>,
    /// Claims of tokens whose signature was verified, cached because verifying a signature is slow.
    verified: BoundedCache<Digest, Arc<DeviceTokenClaims>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTokenClaims {
    iss: String,
    sub: PersonName,
    aud: String,
    iat: i64,
    exp: i64,
    device_id: DeviceId,
    /// Public key of the device, by which the device can check that the token is its own.
    device_key: PublicKey,
}

impl DeviceTokenClaims {
    fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.exp.saturating_mul(1000))
    }
}

impl PersonTokenIssuer {
    /// Issues and accepts tokens signed with `key` for the server at the URL `base`.
    #[must_use]
    pub fn new(key: Ed25519KeyPair, base: &str, clock: Arc<dyn Clock>) -> Self {
        let public = public_key(&key);
        let header = json!({"alg": "EdDSA", "kid": key_id(&public), "typ": "at+jwt"}).to_string();
        let header = format!("{}.", URL_SAFE_NO_PAD.encode(header));
        let audience = base.trim_end_matches('/').to_owned();
        Self { key, public, header, audience, clock, verified: BoundedCache::new(CACHED_TOKENS) }
    }

    /// The kind of a token that has the form of a device's or an agent's token of this server; it may still be invalid.
    #[must_use]
    pub fn kind(&self, token: &str) -> Option<ServerTokenKind> {
        if token.starts_with(AGENT_TOKEN_PREFIX) {
            return Some(ServerTokenKind::Agent);
        }
        token.starts_with(&self.header).then_some(ServerTokenKind::Device)
    }

    fn verified_claims(&self, token: &str) -> Option<Arc<DeviceTokenClaims>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let body = signed.strip_prefix(&self.header)?;
        let (digest, now) = (Digest::of_bytes(token.as_bytes()), self.clock.now());
        if let Some(claims) = self.verified.get(&digest, now) {
            return Some(claims);
        }
        let signature = Signature::parse(signature)?;
        if !Ed25519Verifier.holds(&self.public, signed.as_bytes(), &signature) {
            return None;
        }
        let claims: Arc<DeviceTokenClaims> = Arc::new(decode_jwt_part(body)?);
        self.verified.put(digest, Arc::clone(&claims), claims.expires_at());
        Some(claims)
    }
}

/// The public part of a key that signs device tokens.
#[must_use]
pub fn public_key(key: &Ed25519KeyPair) -> PublicKey {
    let bytes: Option<[u8; 32]> = key.public_key().as_ref().try_into().ok();
    bytes.and_then(|bytes| PublicKey::new(bytes).ok()).expect("the public part of an Ed25519 key pair is a valid key")
}

/// The key id (`kid`) of the signing key in tokens and key sets.
fn key_id(key: &PublicKey) -> String {
    format!("people-{}", &key.fingerprint().to_string()[..16])
}

impl DeviceTokenIssuer for PersonTokenIssuer {
    fn issue(&self, device: &Device) -> IssuedDeviceToken {
        let iat = unix_seconds(self.clock.now());
        let claims = DeviceTokenClaims {
            iss: self.audience.clone(),
            sub: device.person.clone(),
            aud: self.audience.clone(),
            iat,
            exp: iat + TOKEN_LIFETIME_SECONDS,
            device_id: device.id.clone(),
            device_key: device.key,
        };
        let body = serde_json::to_vec(&claims).expect("claims are strings and numbers");
        let signed = format!("{}{}", self.header, URL_SAFE_NO_PAD.encode(body));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        IssuedDeviceToken { token: format!("{signed}.{signature}"), expires_at: claims.expires_at() }
    }

    fn read(&self, token: &str) -> Option<DeviceTokenHolder> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let claims = self.verified_claims(token)?;
        let now = unix_seconds(self.clock.now());
        let is_ours = claims.iss == self.audience && claims.aud == self.audience;
        let is_valid = is_ours && now < claims.exp && claims.iat <= now.saturating_add(LEEWAY_SECONDS);
        is_valid.then(|| DeviceTokenHolder {
            person: claims.sub.clone(),
            device: claims.device_id.clone(),
            expires_at: claims.expires_at(),
        })
    }

    fn audience(&self) -> &str {
        &self.audience
    }

    fn key(&self) -> PublicKey {
        self.public
    }

    fn jwk(&self) -> Value {
        json!({
            "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA",
            "kid": key_id(&self.public), "x": self.public,
        })
    }
}

impl fmt::Debug for PersonTokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersonTokenIssuer").field("audience", &self.audience).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::future::BoxFuture;
    use ring::rand::SystemRandom;

    use super::*;

    #[derive(Debug, Clone)]
    struct FixedClock(Arc<Mutex<i64>>);

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(*self.0.lock().unwrap())
        }

        fn sleep_until(&self, _moment: Timestamp) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn people(base: &str, clock: &FixedClock) -> PersonTokenIssuer {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        PersonTokenIssuer::new(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(), base, Arc::new(clock.clone()))
    }

    fn device() -> Device {
        Device {
            id: DeviceId::parse("dev_1").unwrap(),
            person: PersonName::parse("ada").unwrap(),
            name: "laptop".to_owned(),
            key: PublicKey::new([9; 32]).unwrap(),
            enrolled_at: Timestamp::from_millis(0),
            revoked_at: None,
        }
    }

    #[test]
    fn person_token_identifies_its_device_only_for_five_minutes_after_issue() {
        let clock = FixedClock(Arc::new(Mutex::new(1_000_500)));
        let people = people("https://a.example/", &clock);
        let made = people.issue(&device());
        assert_eq!(people.kind(&made.token), Some(ServerTokenKind::Device));
        let holder = people.read(&made.token).unwrap();
        assert_eq!((holder.person.as_str(), holder.device.as_str()), ("ada", "dev_1"));
        assert_eq!(holder.expires_at, made.expires_at);
        *clock.0.lock().unwrap() += 299_000;
        assert!(people.read(&made.token).is_some());
        *clock.0.lock().unwrap() += 1_000;
        assert_eq!(people.read(&made.token), None);
        *clock.0.lock().unwrap() -= 400_000;
        assert_eq!(people.read(&made.token), None, "issued in the future");
    }

    #[test]
    fn cached_token_is_still_checked_for_expiry_and_audience() {
        let clock = FixedClock(Arc::new(Mutex::new(1_000_500)));
        let here = people("https://a.example", &clock);
        let token = here.issue(&device()).token;
        let digest = Digest::of_bytes(token.as_bytes());
        assert!(here.verified.get(&digest, clock.now()).is_none());
        assert_eq!(here.read(&token), here.read(&token));
        assert!(here.verified.get(&digest, clock.now()).is_some());
        // A forged token is not cached.
        let forged = format!("{}.{}", token.rsplit_once('.').unwrap().0, "A".repeat(86));
        assert_eq!(here.read(&forged), None);
        assert!(here.verified.get(&Digest::of_bytes(forged.as_bytes()), clock.now()).is_none());
        let there = PersonTokenIssuer { audience: "https://b.example".to_owned(), ..here };
        assert_eq!(there.read(&token), None, "for another server");
        let back = PersonTokenIssuer { audience: "https://a.example".to_owned(), ..there };
        assert!(back.read(&token).is_some());
        *clock.0.lock().unwrap() += 300_000;
        assert_eq!(back.read(&token), None, "expired");
        *clock.0.lock().unwrap() -= 600_000;
        assert_eq!(back.read(&token), None, "issued in the future");
    }

    #[test]
    fn altered_or_foreign_person_token_is_refused() {
        let clock = FixedClock(Arc::new(Mutex::new(0)));
        let (here, there) = (people("https://a.example", &clock), people("https://a.example", &clock));
        let token = here.issue(&device()).token;
        assert_eq!(there.read(&token), None);
        assert_eq!(there.kind(&token), None);
        let parts: Vec<&str> = token.split('.').collect();
        let claims = String::from_utf8(URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        let forged = URL_SAFE_NO_PAD.encode(claims.replace("ada", "eve"));
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        for bad in [
            format!("{}.{forged}.{}", parts[0], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}.{}", parts[0], parts[1], "A".repeat(86)),
            format!("{token}A"),
            token.replace('.', ""),
            String::new(),
            "A".repeat(10_000),
        ] {
            assert_eq!(here.read(&bad), None, "{bad}");
        }
        let elsewhere = PersonTokenIssuer { audience: "https://b.example".to_owned(), ..here };
        assert_eq!(elsewhere.read(&token), None, "for another server");
    }
}
