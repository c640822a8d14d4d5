//! The `DIDWba` header of clients before ANP 1.1, and its JSON form. Its signature covers only DID, host, nonce and
//! time, neither method nor body.

use nuncio_core::time::Timestamp;
use serde_json::{Value, json};

use crate::challenge::{self, AuthParams};
use crate::did::{Did, DidUrl};
use crate::document::BoundDidDocument;
use crate::encoding::{base64url, from_base64url};
use crate::error::DidAuthError;
use crate::http_signature::{SignaturePolicy, VerifiedSigner};
use crate::jcs;
use crate::keys::SigningKey;
use crate::rfc3339;

/// A parsed legacy header that is not verified.
#[derive(Debug, Clone)]
pub struct UnverifiedLegacyHeader {
    version: LegacyHeaderVersion,
    key_id: DidUrl,
    nonce: String,
    timestamp: String,
    signature: String,
}

/// Version of the legacy header, which decides under which member name the host is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyHeaderVersion {
    /// Version before 1.1, in which the signed member with the host is called `service`.
    V1_0,
    /// Version 1.1 or later, or no version, in which the signed member with the host is called `aud`.
    V1_1,
}

impl LegacyHeaderVersion {
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        let number = |digits: &str| digits.parse::<u16>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
        Some(if (number(major)?, number(minor)?) >= (1, 1) { Self::V1_1 } else { Self::V1_0 })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
        }
    }

    const fn host_member(self) -> &'static str {
        match self {
            Self::V1_0 => "service",
            Self::V1_1 => "aud",
        }
    }
}

/// The signed bytes: SHA-256 of the canonical JSON of DID, nonce, timestamp and host.
fn signed_bytes(version: LegacyHeaderVersion, did: &Did, nonce: &str, timestamp: &str, host: &str) -> [u8; 32] {
    let signed = json!({ "did": did.as_str(), "nonce": nonce, "timestamp": timestamp, version.host_member(): host });
    jcs::sha256(&jcs::canonical(&signed))
}

impl UnverifiedLegacyHeader {
    /// Signs the header for a host, given without its port.
    #[must_use]
    pub fn make(
        key_id: &DidUrl,
        key: &SigningKey,
        host: &str,
        nonce: &str,
        now: Timestamp,
        version: LegacyHeaderVersion,
    ) -> Self {
        let timestamp = rfc3339::write(now);
        let signature = key.sign(&signed_bytes(version, key_id.did(), nonce, &timestamp, host));
        Self { version, key_id: key_id.clone(), nonce: nonce.to_owned(), timestamp, signature: base64url(&signature) }
    }

    /// Parses an `Authorization` value.
    pub fn from_header(field: &str) -> Result<Self, DidAuthError> {
        let unreadable = || DidAuthError::Request("the DIDWba header is not well formed".to_owned());
        let mut all = AuthParams::read_all(field);
        let params = all.pop().filter(|params| all.is_empty() && params.is_scheme("DIDWba")).ok_or_else(unreadable)?;
        for (at, (name, _)) in params.members.iter().enumerate() {
            if params.members[..at].iter().any(|(before, _)| before == name) {
                return Err(DidAuthError::Request(format!("the DIDWba header has {name} twice")));
            }
        }
        Self::from_members(|name| params.get(name))
    }

    pub fn from_json(value: &Value) -> Result<Self, DidAuthError> {
        Self::from_members(|name| value.get(name).and_then(Value::as_str))
    }

    fn from_members<'a>(member: impl Fn(&str) -> Option<&'a str>) -> Result<Self, DidAuthError> {
        let text = |name: &str, most: usize| {
            let missing = || DidAuthError::Request(format!("the DIDWba header has no usable {name}"));
            member(name).filter(|text| !text.is_empty() && text.len() <= most).ok_or_else(missing)
        };
        let version = member("v").map_or(Some(LegacyHeaderVersion::V1_1), LegacyHeaderVersion::parse);
        let version = version.ok_or_else(|| DidAuthError::Request("v is not a version such as 1.1".to_owned()))?;
        let nonce = text("nonce", 256)?;
        let timestamp = text("timestamp", 40)?;
        let fragment = text("verification_method", 128)?;
        let signature = text("signature", 128)?;
        let did = Did::parse(text("did", 512)?).map_err(|fault| DidAuthError::Did(fault.to_string()))?;
        let key_id = DidUrl::new(did, fragment).map_err(|fault| DidAuthError::VerificationMethod(fault.to_string()))?;
        Ok(Self {
            version,
            key_id,
            nonce: nonce.to_owned(),
            timestamp: timestamp.to_owned(),
            signature: signature.to_owned(),
        })
    }

    #[must_use]
    pub fn to_header(&self) -> String {
        let members = [
            ("v", self.version.as_str()),
            ("did", self.key_id.did().as_str()),
            ("nonce", &self.nonce),
            ("timestamp", &self.timestamp),
            ("verification_method", self.key_id.fragment()),
            ("signature", &self.signature),
        ];
        format!("DIDWba {}", challenge::write_params(members.into_iter()))
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "v": self.version.as_str(),
            "did": self.key_id.did().as_str(),
            "nonce": self.nonce,
            "timestamp": self.timestamp,
            "verification_method": self.key_id.fragment(),
            "signature": self.signature,
        })
    }

    /// The DID whose document is needed for [`UnverifiedLegacyHeader::verify`].
    #[must_use]
    pub const fn did(&self) -> &Did {
        self.key_id.did()
    }

    /// Checks the time of the header, which needs no DID document.
    pub fn check(&self, now: Timestamp, policy: &SignaturePolicy) -> Result<(), DidAuthError> {
        policy.check(rfc3339::seconds(self.moment()?), None, now)
    }

    fn moment(&self) -> Result<Timestamp, DidAuthError> {
        rfc3339::read(&self.timestamp).ok_or(DidAuthError::Timestamp("timestamp must look like 2026-01-01T00:00:00Z"))
    }

    /// Verifies the signature for a host, given without its port. Does not repeat [`UnverifiedLegacyHeader::check`].
    pub fn verify(&self, host: &str, document: &BoundDidDocument) -> Result<VerifiedSigner, DidAuthError> {
        let key = document.authentication_key(&self.key_id)?;
        let unfit = DidAuthError::Signature("the signature does not match the DID, the host, the nonce and the time");
        let signature = from_base64url(&self.signature).ok_or_else(|| unfit.clone())?;
        let signed = signed_bytes(self.version, self.key_id.did(), &self.nonce, &self.timestamp, host);
        key.verify(&signed, &signature).map_err(|_| unfit)?;
        Ok(VerifiedSigner {
            did: self.key_id.did().clone(),
            key_id: self.key_id.clone(),
            nonce: Some(self.nonce.clone()),
            created: self.moment()?,
            expires: None,
        })
    }
}
