//! Pages of a host's list of agents (ANP-08).

use serde_json::{Map, Value, json};

use super::open;

open! {
    struct CollectionPage {
        /// JSON-LD vocabulary.
        #[serde(rename = "@context")]
        context?: Value,
        /// Always `CollectionPage`.
        #[serde(rename = "@type")]
        kind: String,
        url?: String,
        items: Vec<CollectionItem>,
        next?: String,
    }
}

impl CollectionPage {
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
    struct CollectionItem {
        /// Type of the item: `ad:AgentDescription`.
        #[serde(rename = "@type")]
        kind?: String,
        name?: String,
        /// URL of the agent's description.
        #[serde(rename = "@id")]
        id: String,
    }
}

impl CollectionItem {
    #[must_use]
    pub fn new(name: String, url: String) -> Self {
        Self { kind: Some("ad:AgentDescription".to_owned()), name: Some(name), id: url, extra: Map::new() }
    }
}
