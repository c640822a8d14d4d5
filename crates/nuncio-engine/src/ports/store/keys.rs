use std::fmt;
use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{KeyId, PersonName};
use nuncio_core::time::Timestamp;

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ApiKey {
    pub id: KeyId,
    #[serde(flatten)]
    pub kind: KeyKind,
    pub name: Option<String>,
    #[serde(skip_serializing)]
    pub digest: Digest,
    pub scopes: KeyScopes,
    pub role: KeyRole,
    pub person: Option<PersonName>,
    pub created_at: Timestamp,
    /// Time of the key's last rotation.
    #[serde(default)]
    pub rotated_at: Option<Timestamp>,
    /// Expiry of the current secret; `None` if the key does not expire.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Lifetime of each secret in seconds, if the expiry counts from its creation.
    #[serde(default)]
    pub lifetime_seconds: Option<u64>,
    /// Previous secret, while it is still valid after a rotation.
    #[serde(default)]
    pub previous: Option<PreviousSecret>,
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether the digest is of the current secret, or of the previous one while it is valid.
    #[must_use]
    pub fn has_secret(&self, digest: &Digest, now: Timestamp) -> bool {
        let is_previous = |previous: &PreviousSecret| previous.digest == *digest && now < previous.until;
        self.digest == *digest || self.previous.as_ref().is_some_and(is_previous)
    }
}

#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PreviousSecret {
    #[serde(skip_serializing)]
    pub digest: Digest,
    #[serde(skip_serializing)]
    pub kind: KeyKind,
    /// End of the previous secret's validity.
    pub until: Timestamp,
}

impl fmt::Debug for PreviousSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreviousSecret({:?} until {})", self.kind, self.until)
    }
}

/// When a new secret expires. A rotation without a new term applies the same term again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyExpiry {
    /// A secret expires so many seconds after its creation.
    Seconds(u64),
    /// A secret expires at a fixed time.
    Until(Timestamp),
}

impl KeyExpiry {
    /// Expiry rule of a key; `None` if the key does not expire.
    #[must_use]
    pub fn of(key: &ApiKey) -> Option<Self> {
        key.lifetime_seconds.map(Self::Seconds).or_else(|| key.expires_at.map(Self::Until))
    }

    /// Expiry of a secret created at `made_at`.
    #[must_use]
    pub fn end(self, made_at: Timestamp) -> Timestamp {
        match self {
            Self::Seconds(seconds) => made_at.after(Duration::from_secs(seconds)),
            Self::Until(end) => end,
        }
    }

    /// Lifetime of each secret in seconds; `None` if the expiry is a fixed time.
    #[must_use]
    pub fn lifetime_seconds(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Until(_) => None,
        }
    }
}

nuncio_core::string_enum! {
    /// Role of an API key, which decides what its users may do.
    pub enum KeyRole {
        App = "app",
        /// An app key from a version that let every key read the metrics.
        AppWithMetrics = "app_with_metrics",
        /// A key that may read the metrics and use the operator API.
        Operator = "operator",
    }
}

/// How a key authenticates; the kinds are not interchangeable.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeyKind {
    /// A key that is sent with each request.
    Bearer,
    /// A key that signs requests and is never sent.
    Signing {
        /// The key's secret, encrypted by the server.
        #[serde(skip_serializing, default)]
        sealed: String,
    },
}

impl fmt::Debug for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer => "Bearer",
            Self::Signing { .. } => "Signing",
        })
    }
}
