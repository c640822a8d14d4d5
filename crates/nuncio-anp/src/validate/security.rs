//! Validates security definitions and references to them.

use serde_json::{Map, Value};

use super::validator::{AnpDocumentValidator, LocatedJsonValue};
use crate::wire::SecurityLocation;

/// Member names that indicate a secret, without case and punctuation.
const SECRET_MEMBERS: [&str; 10] = [
    "password",
    "secret",
    "clientsecret",
    "token",
    "accesstoken",
    "refreshtoken",
    "apikey",
    "privatekey",
    "privatekeyjwk",
    "credential",
];

pub(super) fn definitions(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    if !validator.object(node) {
        return;
    }
    for (_, definition) in node.members() {
        if validator.object(&definition) {
            check(validator, &definition);
        }
    }
}

fn check(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    let scheme = validator.need_text(node, "scheme", "the authentication mechanism");
    validator.may_text(node, "type");
    validator.may_text(node, "description");
    let locations = SecurityLocation::ALL.map(SecurityLocation::as_str);
    let location = match node.get("in") {
        Some(location) if location.text().is_some_and(|text| locations.contains(&text)) => location.text(),
        Some(location) => {
            validator.error(&location, format!("must be one of {}", locations.join(", ")), locations.to_vec());
            None
        }
        None if scheme == Some("nosec") => {
            validator.better(node, "in", "it should be \"auto\": the specification requires the member");
            None
        }
        None => {
            validator.missing(node, "in", &format!("one of {}", locations.join(", ")));
            None
        }
    };
    match (location, node.get("name")) {
        (Some("auto"), Some(name)) => {
            validator.warning(&name, "should be absent if \"in\" is \"auto\"", Value::Null);
        }
        (Some("auto") | None, None) => {}
        (Some(_), None) => validator.missing(node, "name", "the name of the parameter"),
        (_, Some(name)) => {
            validator.filled(&name);
        }
    }
    for (name, member) in node.members() {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        if SECRET_MEMBERS.contains(&plain.as_str()) {
            // The value is not repeated in the error, because it may be a real secret.
            let hidden = LocatedJsonValue { value: &Value::Null, path: member.path };
            validator.error(&hidden, "must not be here: a description never contains secrets", Value::Null);
        }
    }
}

/// Checks an optional `security` member: names of definitions, or inline definitions.
pub(super) fn may_reference(
    validator: &mut AnpDocumentValidator,
    object: &LocatedJsonValue<'_>,
    schemes: Option<&Map<String, Value>>,
) {
    let Some(node) = object.get("security") else { return };
    let mut check_name = |node: &LocatedJsonValue<'_>| {
        if let Some(name) = validator.filled(node)
            && schemes.is_some_and(|schemes| !schemes.contains_key(name))
        {
            validator.error(node, "must be the name of one of securityDefinitions", scheme_names(schemes));
        }
    };
    match node.value {
        Value::String(_) => check_name(&node),
        Value::Array(_) => node.items().for_each(|item| check_name(&item)),
        Value::Object(_) => definitions(validator, &node),
        _ => validator.error(&node, "must be the name of a definition, a list of such names, or definitions", "a name"),
    }
}

fn scheme_names(schemes: Option<&Map<String, Value>>) -> Vec<String> {
    schemes.into_iter().flat_map(|schemes| schemes.keys().take(16).cloned()).collect()
}
