//! API keys as they are stored.

use std::fmt;

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
    /// The digest by which it is recognised.
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
    /// Until when, if it was taken back.
    pub revoked_at: Option<Timestamp>,
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
