//! Security definitions (ANP-07, "安全机制").

use std::collections::BTreeMap;

use nuncio_core::string_enum;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::open;

open! {
    /// Definition of an authentication scheme, which never contains a secret.
    struct SecurityDefinition {
        r#type?: String,
        description?: String,
        /// Scheme name, such as `didwba`; `nosec` for none.
        scheme: String,
        r#in: SecurityLocation,
        /// Name of the header, query parameter or cookie at `in`; absent with `auto`.
        name?: String,
    }
}

impl SecurityDefinition {
    /// Definition of DID-WBA: signatures by a DID, and the token granted for them, in `Authorization`.
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
        /// The credential is in the path of the URL.
        Uri = "uri",
        /// The scheme defines where the credential is.
        Auto = "auto",
    }
}

/// References to security definitions, by name or as inline definitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SecurityReferences {
    Name(String),
    Names(Vec<String>),
    /// Inline definitions, as in product documents.
    Inline(BTreeMap<String, SecurityDefinition>),
}

impl SecurityReferences {
    /// Names of the referenced or inline security definitions.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Name(name) => vec![name.as_str()],
            Self::Names(names) => names.iter().map(String::as_str).collect(),
            Self::Inline(definitions) => definitions.keys().map(String::as_str).collect(),
        }
    }
}
