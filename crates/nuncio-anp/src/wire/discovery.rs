//! The agents of a host, in pages (ANP-08).

use serde_json::{Map, Value, json};

use super::open;

open! {
    /// Some of a host's agents, and where the next ones are.
    struct CollectionPage {
        /// The vocabulary, for those who read linked data.
        #[serde(rename = "@context", skip_serializing_if = "Option::is_none")]
        context: Option<Value>,
        /// `CollectionPage`.
        #[serde(rename = "@type")]
        kind: String,
        /// Where this page is.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The agents.
        items: Vec<CollectionItem>,
        /// Where the next page is.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<String>,
    }
}

impl CollectionPage {
    /// A page of these.
    #[must_use]
    pub fn new(url: String, items: Vec<CollectionItem>, next: Option<String>) -> Self {
        let context = json!({
            "@vocab": "https://schema.org/",
            "did": "https://w3id.org/did#",
            "ad": "https://agent-network-protocol.com/ad#",
        });
        Self {
            context: Some(context),
            kind: "CollectionPage".to_owned(),
            url: Some(url),
            items,
            next,
            extra: Map::new(),
        }
    }
}

open! {
    /// One agent.
    struct CollectionItem {
        /// `ad:AgentDescription`.
        #[serde(rename = "@type", skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// What people call it.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Where its description is.
        #[serde(rename = "@id")]
        id: String,
    }
}

impl CollectionItem {
    /// The agent described there.
    #[must_use]
    pub fn new(name: String, url: String) -> Self {
        Self { kind: Some("ad:AgentDescription".to_owned()), name: Some(name), id: url, extra: Map::new() }
    }
}
