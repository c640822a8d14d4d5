//! Validates product documents.

use serde_json::Value;

use super::security;
use super::validator::{AnpDocumentValidator, LocatedJsonValue};
use crate::wire::{PROTOCOL_TYPE, Product};

pub(super) fn check(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    validator.need_word(node, "protocolType", PROTOCOL_TYPE);
    validator.need_text(node, "protocolVersion", "the version of the protocol, such as \"1.0.0\"");
    validator.need_word(node, "type", Product::TYPE);
    validator.need_text(node, "name", "the name that people see");
    validator.need_text(node, "description", "a description of the product");
    validator.may_url(node, "url");
    for name in ["identifier", "sku", "category"] {
        validator.may_text(node, name);
    }
    for name in ["brand", "audience", "manufacturer"] {
        if let Some(object) = node.get(name) {
            validator.object(&object);
        }
    }
    for name in ["additionalProperty", "amenityFeature", "image"] {
        if let Some(list) = node.get(name) {
            validator.list(&list);
        }
    }
    if let Some(offers) = node.get("offers")
        && !matches!(offers.value, Value::Object(_) | Value::Array(_))
    {
        validator.error(&offers, "must be an object, or a list of them", "an object");
    }
    if let Some(found) = node.get("security") {
        if found.value.is_string() {
            let message = "must be a definition: a product document has no securityDefinitions in which a name could be looked up";
            validator.warning(&found, message, "an object");
        } else {
            security::may_reference(validator, node, None);
        }
    }
}
