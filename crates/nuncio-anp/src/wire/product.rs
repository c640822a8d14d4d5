//! Product documents (ANP-07, "产品描述文档"): a subset of schema.org's `Product`.

use serde_json::Value;

use super::{SecurityReferences, open};

open! {
    struct Product {
        /// Always `ANP`.
        protocol_type: String,
        protocol_version: String,
        /// Always `Product`.
        r#type: String,
        /// URL of the product document itself.
        url?: String,
        identifier?: String,
        name: String,
        description: String,
        security?: SecurityReferences,
        /// Price and availability of the product.
        offers?: Value,
        category?: Value,
        /// Stock keeping unit.
        sku?: String,
    }
}

impl Product {
    pub const TYPE: &str = "Product";
}
