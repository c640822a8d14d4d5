//! Product documents (ANP-07, "产品描述文档"): a subset of schema.org's `Product`.

use serde_json::Value;

use super::{Security, open};

open! {
    struct Product {
        /// Always `ANP`.
        protocol_type: String,
        protocol_version: String,
        /// Always `Product`.
        r#type: String,
        /// URL of the product document itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        identifier: Option<String>,
        name: String,
        description: String,
        /// Authentication for the product document.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Security>,
        /// Price and availability of the product.
        #[serde(skip_serializing_if = "Option::is_none")]
        offers: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        category: Option<Value>,
        /// Stock keeping unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        sku: Option<String>,
    }
}

impl Product {
    /// Value of `type`.
    pub const TYPE: &str = "Product";
}
