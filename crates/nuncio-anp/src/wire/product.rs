//! Product documents (ANP-07, "产品描述文档"): a small part of schema.org's `Product`.

use serde_json::Value;

use super::{Security, open};

open! {
    /// Something on offer. What is not named here is kept as it is.
    struct Product {
        /// `ANP`.
        protocol_type: String,
        /// The version of the protocol.
        protocol_version: String,
        /// `Product`.
        r#type: String,
        /// Where this document is.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Which one it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        identifier: Option<String>,
        /// What people call it.
        name: String,
        /// What it is.
        description: String,
        /// What protects this document.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Security>,
        /// What it costs, and whether there is any.
        #[serde(skip_serializing_if = "Option::is_none")]
        offers: Option<Value>,
        /// What sort of thing it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        category: Option<Value>,
        /// Its stock number.
        #[serde(skip_serializing_if = "Option::is_none")]
        sku: Option<String>,
    }
}

impl Product {
    /// What its `type` is.
    pub const TYPE: &str = "Product";
}
