//! API keys as they are stored.

use std::fmt;
use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{KeyId, PersonName};
use nuncio_core::time::Timestamp;

/// An API key, without the key.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ApiKey {
    /// Its public id.
    pub id: KeyId,
    /// How it is used.
    #[serde(flatten)]
    pub kind: KeyKind,
    /// What its owner calls it.
    pub name: Option<String>,
    /// The digest of its secret, by which it is recognised.
    #[serde(skip_serializing)]
    pub digest: Digest,
    /// What it may do.
    pub scopes: KeyScopes,
    /// Whom it was made for.
    pub role: KeyRole,
    /// The person it belongs to.
    pub person: Option<PersonName>,
    /// Since when.
    pub created_at: Timestamp,
    /// Since when it has its secret, if that is not its first.
    #[serde(default)]
    pub rotated_at: Option<Timestamp>,
    /// From when on it is refused; a key without it does not expire.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// How many seconds each of its secrets lasts, if its expiry counts from when the secret was made.
    #[serde(default)]
    pub lifetime_seconds: Option<u64>,
    /// The secret before this one, if it counts for some time beside it.
    #[serde(default)]
    pub previous: Option<PreviousSecret>,
    /// Until when, if it was taken back.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key has expired by then.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether the secret with this digest is the key's at that moment: its own, or the one before while it counts.
    #[must_use]
    pub fn has_secret(&self, digest: &Digest, now: Timestamp) -> bool {
        let is_previous = |previous: &PreviousSecret| previous.digest == *digest && now < previous.until;
        self.digest == *digest || self.previous.as_ref().is_some_and(is_previous)
    }
}

/// The secret that a rotation replaced.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PreviousSecret {
    /// The digest by which it is recognised.
    #[serde(skip_serializing)]
    pub digest: Digest,
    /// How it is used.
    #[serde(skip_serializing)]
    pub kind: KeyKind,
    /// From when on it is refused.
    pub until: Timestamp,
}

impl fmt::Debug for PreviousSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreviousSecret({:?} until {})", self.kind, self.until)
    }
}

/// When a new secret expires, as an operator says it. A rotation without a new term applies the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyTerm {
    /// So many seconds after it was made.
    Seconds(u64),
    /// At this moment, whenever it is made.
    Until(Timestamp),
}

impl KeyTerm {
    /// The term of a key; none if it does not expire.
    #[must_use]
    pub fn of(key: &ApiKey) -> Option<Self> {
        key.lifetime_seconds.map(Self::Seconds).or_else(|| key.expires_at.map(Self::Until))
    }

    /// When a secret made at that moment expires.
    #[must_use]
    pub fn end(self, made_at: Timestamp) -> Timestamp {
        match self {
            Self::Seconds(seconds) => made_at.after(Duration::from_secs(seconds)),
            Self::Until(end) => end,
        }
    }

    /// The lifetime that [`ApiKey::lifetime_seconds`] keeps.
    #[must_use]
    pub fn lifetime_seconds(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Until(_) => None,
        }
    }
}

/// Whom a key was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyRole {
    /// An app.
    App,
    /// An app, by a version that let every key read the metrics.
    AppWithMetrics,
    /// An operator: the metrics and the operators' routes.
    Operator,
}

/// How a key is used. One kind is never taken for the other.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeyKind {
    /// It is sent with each request.
    Bearer,
    /// It signs requests and is never sent.
    Signing {
        /// The secret, sealed for this key by the vault.
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
