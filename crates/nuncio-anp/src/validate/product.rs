//! Validates product documents.

use serde_json::Value;

use super::desk::{Desk, Node};
use super::security;
use crate::wire::{PROTOCOL_TYPE, Product};

pub(super) fn check(desk: &mut Desk, node: &Node<'_>) {
    if !desk.object(node) {
        return;
    }
    desk.need_word(node, "protocolType", PROTOCOL_TYPE);
    desk.need_text(node, "protocolVersion", "the version of the protocol, such as \"1.0.0\"");
    desk.need_word(node, "type", Product::TYPE);
    desk.need_text(node, "name", "what people call it");
    desk.need_text(node, "description", "what it is");
    desk.may_url(node, "url");
    for name in ["identifier", "sku", "category"] {
        desk.may_text(node, name);
    }
    for name in ["brand", "audience", "manufacturer"] {
        if let Some(object) = node.get(name) {
            desk.object(&object);
        }
    }
    for name in ["additionalProperty", "amenityFeature", "image"] {
        if let Some(list) = node.get(name) {
            desk.list(&list);
        }
    }
    if let Some(offers) = node.get("offers")
        && !matches!(offers.value, Value::Object(_) | Value::Array(_))
    {
        desk.error(&offers, "must be an object, or a list of them", "an object");
    }
    if let Some(found) = node.get("security") {
        if found.value.is_string() {
            desk.warning(
                &found,
                "is a definition in a product, not a name: there is nothing to look it up in",
                "an object",
            );
        } else {
            security::reference(desk, &found, None);
        }
    }
}
