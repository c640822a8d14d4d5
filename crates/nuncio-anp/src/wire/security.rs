//! Security definitions (ANP-07, "安全机制").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::open;

open! {
    /// An authentication scheme. It never contains a secret.
    struct SecurityDefinition {
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Scheme name, such as `didwba`; `nosec` for none.
        scheme: String,
        /// Location of the credential.
        r#in: SecurityLocation,
        /// Name of the parameter at that location; absent with `auto`.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    }
}

impl SecurityDefinition {
    /// DID-WBA: signatures by a DID, and the resulting token in `Authorization`.
    #[must_use]
    pub fn didwba() -> Self {
        Self {
            r#type: None,
            description: None,
            scheme: "didwba".to_owned(),
            r#in: SecurityLocation::Header,
            name: Some("Authorization".to_owned()),
            extra: Map::new(),
        }
    }

    /// No authentication.
    #[must_use]
    pub fn nosec() -> Self {
        Self { scheme: "nosec".to_owned(), r#in: SecurityLocation::Auto, name: None, ..Self::didwba() }
    }
}

/// Location of a credential in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityLocation {
    Header,
    Query,
    Body,
    Cookie,
    /// In the path.
    Uri,
    /// As the protocol defines.
    Auto,
}

impl SecurityLocation {
    /// In the order of the specification.
    pub const ALL: [Self; 6] = [Self::Header, Self::Query, Self::Body, Self::Cookie, Self::Uri, Self::Auto];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Query => "query",
            Self::Body => "body",
            Self::Cookie => "cookie",
            Self::Uri => "uri",
            Self::Auto => "auto",
        }
    }
}

/// A reference to security definitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Security {
    Name(String),
    Names(Vec<String>),
    /// Inline definitions, as in product documents.
    Inline(BTreeMap<String, SecurityDefinition>),
}

impl Security {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (one, many, inline) = match self {
            Self::Name(name) => (Some(name), None, None),
            Self::Names(names) => (None, Some(names), None),
            Self::Inline(definitions) => (None, None, Some(definitions.keys())),
        };
        one.into_iter().chain(many.into_iter().flatten()).chain(inline.into_iter().flatten()).map(String::as_str)
    }
}
