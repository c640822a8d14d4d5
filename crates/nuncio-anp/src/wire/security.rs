//! Security definitions (ANP-07, "安全机制").

use std::collections::BTreeMap;

use nuncio_core::string_enum;
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

string_enum! {
    /// Location of a credential in a request, in the order of the specification.
    pub enum SecurityLocation {
        Header = "header",
        Query = "query",
        Body = "body",
        Cookie = "cookie",
        /// In the path.
        Uri = "uri",
        /// As the protocol defines.
        Auto = "auto",
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
