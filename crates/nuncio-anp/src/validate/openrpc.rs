//! Validates OpenRPC documents, standalone or inside a description.

use std::collections::HashSet;

use jsonschema::draft202012;
use serde_json::Value;

use super::validator::{AnpDocumentValidator, LocatedJsonValue, is_web_address};

const PARAM_STRUCTURES: [&str; 3] = ["by-name", "by-position", "either"];

pub(super) fn check(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    if let (Some(version), Some(found)) =
        (validator.need_text(node, "openrpc", "its version, \"1.3.2\""), node.get("openrpc"))
        && !version.starts_with("1.")
    {
        validator.error(&found, "must be a version 1 of OpenRPC", "1.3.2");
    }
    match node.get("info") {
        None => validator.missing(node, "info", "a title and a version"),
        Some(info) if validator.object(&info) => {
            validator.need_text(&info, "title", "the title of the interface");
            validator.need_text(&info, "version", "its own version");
            for name in ["description", "x-anp-protocol-type", "x-anp-protocol-version"] {
                validator.may_text(&info, name);
            }
        }
        Some(_) => {}
    }
    validator.may_say(node, "security");
    check_servers(validator, node);
    if let Some(components) = node.get("components") {
        validator.object(&components);
        for (_, schema) in components.get("schemas").iter().flat_map(LocatedJsonValue::members) {
            check_schema(validator, node, &schema);
        }
    }
    let Some(methods) = node.get("methods") else {
        validator.missing(node, "methods", "a list of methods");
        return;
    };
    let mut names = HashSet::new();
    let unique = ("must be unique: an earlier method has this name", "a unique name");
    validator.each_object(&methods, |validator, item| {
        if !is_reference(validator, node, item) {
            if validator.need_text(item, "name", "the name of the method").is_some() {
                validator.unique(item, "name", &mut names, unique);
            }
            check_method(validator, node, item);
        }
    });
}

fn check_servers(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    let Some(servers) = node.get("servers") else {
        validator.better(node, "servers", "callers do not know where to send calls");
        return;
    };
    if !validator.list(&servers) {
        return;
    }
    if servers.items().next().is_none() {
        validator.warning(&servers, "is empty, so callers do not know where to send calls", "an address");
    }
    for server in servers.items() {
        validator.may_text(&server, "name");
        validator.may_text(&server, "description");
        if let Some(url) = validator
            .object(&server)
            .then(|| validator.need_text(&server, "url", "the URL that calls are sent to"))
            .flatten()
            && !is_web_address(url)
            && let Some(found) = server.get("url")
        {
            validator.warning(&found, "is not an absolute http or https URL", "http or https URL");
        }
    }
}

fn check_method(validator: &mut AnpDocumentValidator, document: &LocatedJsonValue<'_>, node: &LocatedJsonValue<'_>) {
    validator.may_text(node, "summary");
    validator.should_text(node, "description", "existing clients refuse methods without a description");
    if let Some(found) = node.get("paramStructure")
        && !found.text().is_some_and(|structure| PARAM_STRUCTURES.contains(&structure))
    {
        validator.error(&found, format!("must be one of {}", PARAM_STRUCTURES.join(", ")), PARAM_STRUCTURES.to_vec());
    }
    match node.get("params") {
        None => validator.missing(node, "params", "a list of parameters"),
        Some(params) => {
            let mut names = HashSet::new();
            let unique = ("must be unique: an earlier parameter has this name", "a unique name");
            validator.each_object(&params, |validator, param| {
                if !is_reference(validator, document, param) {
                    check_descriptor(validator, document, param);
                    validator.unique(param, "name", &mut names, unique);
                }
            });
        }
    }
    match node.get("result") {
        None => validator.better(node, "result", "existing clients refuse methods without one"),
        Some(result) if validator.object(&result) && !is_reference(validator, document, &result) => {
            check_descriptor(validator, document, &result);
        }
        Some(_) => {}
    }
}

fn check_descriptor(
    validator: &mut AnpDocumentValidator,
    document: &LocatedJsonValue<'_>,
    node: &LocatedJsonValue<'_>,
) {
    validator.need_text(node, "name", "the name of the parameter");
    validator.may_text(node, "description");
    validator.may_flag(node, "required");
    match node.get("schema") {
        Some(schema) => check_schema(validator, document, &schema),
        None => validator.missing(node, "schema", "a JSON Schema"),
    }
}

/// Whether a value is a `$ref` object. Reports a reference that cannot be resolved, and warns about references outside
/// of schemas, which existing clients do not follow.
fn is_reference(
    validator: &mut AnpDocumentValidator,
    document: &LocatedJsonValue<'_>,
    node: &LocatedJsonValue<'_>,
) -> bool {
    let Some(reference) = node.get("$ref") else { return false };
    validator.warning(&reference, "is a reference, which existing clients follow only in schemas", "the object itself");
    if let Some(text) = validator.filled(&reference) {
        check_reference(validator, document, &reference, text);
    }
    if let Some((name, more)) = node.members().find(|(name, _)| *name != "$ref") {
        validator.error(&more, format!("must be the only member, but {name} is present too"), "only the member $ref");
    }
    true
}

/// Checks a JSON Schema and its references to the document's components.
fn check_schema(validator: &mut AnpDocumentValidator, document: &LocatedJsonValue<'_>, node: &LocatedJsonValue<'_>) {
    if validator.is_full() {
        return;
    }
    match node.value {
        Value::Bool(_) => validator.warning(node, "is not an object; existing clients read only objects", "an object"),
        Value::Object(_) => {
            if let Err(error) = draft202012::meta::validate(node.value) {
                let inside = error.instance_path().as_str();
                let value = node.value.pointer(inside).unwrap_or(node.value);
                let inside_node = LocatedJsonValue { value, path: format!("{}{inside}", node.path) };
                validator.error(&inside_node, format!("is not a valid JSON Schema: {error}"), "a JSON Schema");
            }
            references(validator, document, node);
        }
        _ => validator.error(node, "must be a JSON Schema", "an object"),
    }
}

fn references(validator: &mut AnpDocumentValidator, document: &LocatedJsonValue<'_>, node: &LocatedJsonValue<'_>) {
    for (name, member) in node.members() {
        match (name, member.text()) {
            ("$ref", Some(reference)) => check_reference(validator, document, &member, reference),
            ("const" | "enum" | "default" | "examples", _) => {}
            _ => references(validator, document, &member),
        }
    }
    node.items().for_each(|item| references(validator, document, &item));
}

fn check_reference(
    validator: &mut AnpDocumentValidator,
    document: &LocatedJsonValue<'_>,
    node: &LocatedJsonValue<'_>,
    reference: &str,
) {
    if !reference.starts_with("#/components/") {
        let message = "does not refer to #/components/…; existing clients follow no other references";
        validator.warning(node, message, "#/components/schemas/…");
    } else if document.value.pointer(&reference[1..]).is_none() {
        validator.error(node, "refers to nothing in the document", "an entry of the document's components");
    }
}
