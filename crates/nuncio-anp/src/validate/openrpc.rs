//! Validates OpenRPC documents, standalone or inside a description.

use std::collections::HashSet;

use jsonschema::draft202012;
use serde_json::Value;

use super::desk::{Desk, Node, is_web_address};

const PARAM_STRUCTURES: [&str; 3] = ["by-name", "by-position", "either"];

pub(super) fn check(desk: &mut Desk, node: &Node<'_>) {
    if !desk.object(node) {
        return;
    }
    if let (Some(version), Some(found)) =
        (desk.need_text(node, "openrpc", "its version, \"1.3.2\""), node.get("openrpc"))
        && !version.starts_with("1.")
    {
        desk.error(&found, "must be a version 1 of OpenRPC", "1.3.2");
    }
    match node.get("info") {
        None => desk.missing(node, "info", "a title and a version"),
        Some(info) if desk.object(&info) => {
            desk.need_text(&info, "title", "what it is called");
            desk.need_text(&info, "version", "its own version");
            for name in ["description", "x-anp-protocol-type", "x-anp-protocol-version"] {
                desk.may_text(&info, name);
            }
        }
        Some(_) => {}
    }
    desk.may_say(node, "security");
    check_servers(desk, node);
    if let Some(components) = node.get("components") {
        desk.object(&components);
        for (_, schema) in components.get("schemas").iter().flat_map(Node::members) {
            check_schema(desk, node, &schema);
        }
    }
    let Some(methods) = node.get("methods") else {
        desk.missing(node, "methods", "a list of what can be called");
        return;
    };
    if !desk.list(&methods) {
        return;
    }
    let mut names = HashSet::new();
    for item in methods.items() {
        if desk.is_full() {
            return;
        }
        if !desk.object(&item) || is_reference(desk, node, &item) {
            continue;
        }
        if let (Some(name), Some(found)) = (desk.need_text(&item, "name", "what it is called"), item.get("name"))
            && !names.insert(name)
        {
            desk.error(&found, "must be unique: an earlier method has this name", "a name of its own");
        }
        check_method(desk, node, &item);
    }
}

fn check_servers(desk: &mut Desk, node: &Node<'_>) {
    let Some(servers) = node.get("servers") else {
        desk.better(node, "servers", "nobody knows where calls go");
        return;
    };
    if !desk.list(&servers) {
        return;
    }
    if servers.items().next().is_none() {
        desk.warning(&servers, "is empty, so nobody knows where calls go", "an address");
    }
    for server in servers.items() {
        desk.may_text(&server, "name");
        desk.may_text(&server, "description");
        if let Some(url) = desk.object(&server).then(|| desk.need_text(&server, "url", "where calls go")).flatten()
            && !is_web_address(url)
            && let Some(found) = server.get("url")
        {
            desk.warning(&found, "is no absolute http or https URL", "http or https URL");
        }
    }
}

fn check_method(desk: &mut Desk, document: &Node<'_>, node: &Node<'_>) {
    desk.may_text(node, "summary");
    if desk.may_text(node, "description").is_none() && node.get("description").is_none() {
        desk.better(node, "description", "clients in use refuse methods that do not say what they do");
    }
    if let Some(found) = node.get("paramStructure")
        && !found.text().is_some_and(|word| PARAM_STRUCTURES.contains(&word))
    {
        desk.error(&found, format!("must be one of {}", PARAM_STRUCTURES.join(", ")), PARAM_STRUCTURES.to_vec());
    }
    match node.get("params") {
        None => desk.missing(node, "params", "a list of what it takes"),
        Some(params) if desk.list(&params) => {
            let mut names = HashSet::new();
            for param in params.items() {
                if desk.object(&param) && !is_reference(desk, document, &param) {
                    check_descriptor(desk, document, &param);
                    let name = param.text_of("name");
                    if let (Some(name), Some(found)) = (name, param.get("name"))
                        && !names.insert(name)
                    {
                        desk.error(&found, "must be unique: an earlier parameter has this name", "a name of its own");
                    }
                }
            }
        }
        Some(_) => {}
    }
    match node.get("result") {
        None => desk.better(node, "result", "clients in use refuse methods without one"),
        Some(result) if desk.object(&result) && !is_reference(desk, document, &result) => {
            check_descriptor(desk, document, &result);
        }
        Some(_) => {}
    }
}

fn check_descriptor(desk: &mut Desk, document: &Node<'_>, node: &Node<'_>) {
    desk.need_text(node, "name", "what it is called");
    desk.may_text(node, "description");
    desk.may_flag(node, "required");
    match node.get("schema") {
        Some(schema) => check_schema(desk, document, &schema),
        None => desk.missing(node, "schema", "a JSON Schema"),
    }
}

/// Returns whether this is a `$ref` object, and checks that it can be resolved. Existing clients follow references only
/// in schemas.
fn is_reference(desk: &mut Desk, document: &Node<'_>, node: &Node<'_>) -> bool {
    let Some(reference) = node.get("$ref") else { return false };
    desk.warning(&reference, "is a reference, which clients in use follow in schemas alone", "what it refers to");
    if let Some(text) = desk.filled(&reference) {
        check_reference(desk, document, &reference, text);
    }
    if let Some((name, more)) = node.members().find(|(name, _)| *name != "$ref") {
        desk.error(&more, format!("must not stand beside $ref, as {name} does"), "a reference alone");
    }
    true
}

/// Checks a JSON Schema and its references to the document's components.
fn check_schema(desk: &mut Desk, document: &Node<'_>, node: &Node<'_>) {
    if desk.is_full() {
        return;
    }
    match node.value {
        Value::Bool(_) => desk.warning(node, "is no object; clients in use read only objects", "an object"),
        Value::Object(_) => {
            if let Err(error) = draft202012::meta::validate(node.value) {
                let inside = error.instance_path().as_str();
                let value = node.value.pointer(inside).unwrap_or(node.value);
                let place = Node { value, path: format!("{}{inside}", node.path) };
                desk.error(&place, format!("is no JSON Schema: {error}"), "a JSON Schema");
            }
            references(desk, document, node);
        }
        _ => desk.error(node, "must be a JSON Schema", "an object"),
    }
}

fn references(desk: &mut Desk, document: &Node<'_>, node: &Node<'_>) {
    for (name, member) in node.members() {
        match (name, member.text()) {
            ("$ref", Some(reference)) => check_reference(desk, document, &member, reference),
            ("const" | "enum" | "default" | "examples", _) => {}
            _ => references(desk, document, &member),
        }
    }
    node.items().for_each(|item| references(desk, document, &item));
}

fn check_reference(desk: &mut Desk, document: &Node<'_>, node: &Node<'_>, reference: &str) {
    if !reference.starts_with("#/components/") {
        let message = "does not lead to #/components/…; clients in use follow nothing else";
        desk.warning(node, message, "#/components/schemas/…");
    } else if document.value.pointer(&reference[1..]).is_none() {
        desk.error(node, "leads nowhere", "something in the document's components");
    }
}
