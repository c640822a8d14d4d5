//! How a resource is protected (ANP-07, "安全机制").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::open;

open! {
    /// One way to show who one is. It never holds a secret.
    struct SecurityDefinition {
        /// What sort of object this is.
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<String>,
        /// For people.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The mechanism, such as `didwba`; `nosec` for none.
        scheme: String,
        /// Where its parameters are.
        r#in: Place,
        /// What they are called there; never with `auto`.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    }
}

impl SecurityDefinition {
    /// The mechanism of the protocol: signatures by a DID, and the token that follows in `Authorization`.
    #[must_use]
    pub fn didwba() -> Self {
        Self {
            r#type: None,
            description: None,
            scheme: "didwba".to_owned(),
            r#in: Place::Header,
            name: Some("Authorization".to_owned()),
            extra: Map::new(),
        }
    }

    /// None at all: whoever asks is answered.
    #[must_use]
    pub fn nosec() -> Self {
        Self { scheme: "nosec".to_owned(), r#in: Place::Auto, name: None, ..Self::didwba() }
    }
}

/// Where the parameters of a mechanism are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In a header.
    Header,
    /// In the query.
    Query,
    /// In the body.
    Body,
    /// In a cookie.
    Cookie,
    /// In the path.
    Uri,
    /// As the protocol says.
    Auto,
}

impl Place {
    /// Every place, in the order of the specification.
    pub const ALL: [Self; 6] = [Self::Header, Self::Query, Self::Body, Self::Cookie, Self::Uri, Self::Auto];

    /// Its word.
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

/// Which of the definitions protect something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Security {
    /// The one of that name.
    Name(String),
    /// Those of these names.
    Names(Vec<String>),
    /// Defined right here, as product documents do.
    Inline(BTreeMap<String, SecurityDefinition>),
}

impl Security {
    /// The names, wherever they are defined.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (one, many, inline) = match self {
            Self::Name(name) => (Some(name), None, None),
            Self::Names(names) => (None, Some(names), None),
            Self::Inline(definitions) => (None, None, Some(definitions.keys())),
        };
        one.into_iter().chain(many.into_iter().flatten()).chain(inline.into_iter().flatten()).map(String::as_str)
    }
}
