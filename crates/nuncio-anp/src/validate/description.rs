//! Validates agent descriptions (ANP-07, ANP-06 §5) and lists of agents (ANP-08).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::validator::{AnpDocumentValidator, LocatedJsonValue, object_of};
use super::{openrpc, security};
use crate::wire::{AgentDescription, Interface, PROTOCOL_TYPE, Product, method, profile};

/// Spellings of the information member, the specification's first.
const INFORMATION_MEMBERS: [&str; 3] = ["Infomations", "Informations", "informations"];
/// Message and expected value of the fault for an id that occurs twice.
const UNIQUE_ID: (&str, &str) = ("must be unique: an earlier one is the same", "a unique id");

pub(super) fn check(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    validator.need_word(node, "protocolType", PROTOCOL_TYPE);
    validator.need_text(node, "protocolVersion", "the version of the protocol, such as \"1.0.0\"");
    match node.get("type") {
        Some(kind) if kind.text() == Some(Product::TYPE) => {
            let message = "must be \"AgentDescription\"; \"Product\" is what some software writes instead";
            validator.error(&kind, message, AgentDescription::TYPE);
        }
        _ => validator.need_word(node, "type", AgentDescription::TYPE),
    }
    validator.need_text(node, "name", "the name that people see");
    validator.should_text(node, "description", "existing clients refuse agents without a description");
    validator.may_url(node, "url");
    validator.may_time(node, "created");
    if let Some(did) = node.get("did") {
        check_did(validator, &did);
    }
    if let Some(owner) = node.get("owner")
        && validator.object(&owner)
    {
        for name in ["type", "name", "email"] {
            validator.may_text(&owner, name);
        }
        validator.may_url(&owner, "url");
    }
    check_security(validator, node);
    let schemes = object_of(node, "securityDefinitions");
    check_information(validator, node, schemes);
    check_capabilities(validator, node);
    check_interfaces(validator, node, schemes);
    if let Some(proof) = node.get("proof")
        && validator.object(&proof)
    {
        check_proof(validator, &proof, node.text_of("did").filter(|did| did.starts_with("did:")));
    }
}

fn check_did(validator: &mut AnpDocumentValidator, did: &LocatedJsonValue<'_>) {
    if let Some(text) = validator.filled(did) {
        let method_and_id = text.strip_prefix("did:").and_then(|rest| rest.split_once(':'));
        let is_did = method_and_id.is_some_and(|(method, id)| !method.is_empty() && !id.is_empty());
        if !is_did || text.contains(['#', '?', '/', ' ']) {
            validator.error(did, "must be a DID, without a fragment", "did:wba:…");
        }
    }
}

fn check_security(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    match node.get("securityDefinitions") {
        Some(definitions) => security::definitions(validator, &definitions),
        None => validator.missing(node, "securityDefinitions", "the authentication schemes by name"),
    }
    let Some(security) = node.get("security") else {
        validator.missing(node, "security", "the name of one of securityDefinitions");
        return;
    };
    if !security.value.is_string() {
        validator.warning(&security, "should be one name; some clients read only one", "the name of a definition");
    }
    security::may_reference(validator, node, object_of(node, "securityDefinitions"));
}

fn check_information(
    validator: &mut AnpDocumentValidator,
    node: &LocatedJsonValue<'_>,
    schemes: Option<&Map<String, Value>>,
) {
    let mut spelt = INFORMATION_MEMBERS.iter().filter_map(|name| Some((*name, node.get(name)?)));
    let Some((name, list)) = spelt.next() else { return };
    for (_, other) in spelt {
        validator.error(
            &other,
            format!("must not be given together with {name}, which has the same meaning"),
            "one of the spellings",
        );
    }
    if name != INFORMATION_MEMBERS[0] {
        validator.warning(&list, "is spelt \"Infomations\" in the specification", INFORMATION_MEMBERS[0]);
    }
    validator.each_object(&list, |validator, item| {
        validator.need_text(item, "type", "the kind of the document, such as \"Product\"");
        validator.should_text(item, "description", "clients choose by it what to read");
        validator.may_url(item, "url");
        validator.may_say(item, "content");
        if item.get("url").is_none() && item.get("content").is_none() {
            validator.missing(item, "url", "the URL of the document");
        }
        security::may_reference(validator, item, schemes);
    });
}

fn check_capabilities(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    let Some(list) = node.get("capabilities") else { return };
    let mut ids = HashSet::new();
    validator.each_object(&list, |validator, item| {
        if validator.need_text(item, "id", UNIQUE_ID.1).is_some() {
            validator.unique(item, "id", &mut ids, UNIQUE_ID);
        }
        validator.may_text(item, "name");
        validator.may_text(item, "description");
        validator.may_texts(item, "intentTags");
        validator.may_flag(item, "requiresHumanAuthorization");
    });
}

fn check_interfaces(
    validator: &mut AnpDocumentValidator,
    node: &LocatedJsonValue<'_>,
    schemes: Option<&Map<String, Value>>,
) {
    let Some(list) = node.get("interfaces") else {
        validator.better(node, "interfaces", "without it clients cannot use the agent");
        return;
    };
    let capabilities: HashSet<&str> =
        node.get("capabilities").iter().flat_map(|list| list.items().filter_map(|item| item.text_of("id"))).collect();
    let mut ids = HashSet::new();
    validator.each_object(&list, |validator, item| {
        if validator.may_text(item, "id").is_some() {
            validator.unique(item, "id", &mut ids, UNIQUE_ID);
        }
        check_interface(validator, item);
        security::may_reference(validator, item, schemes);
        for reference in item.get("capabilityRefs").iter().flat_map(LocatedJsonValue::items) {
            if reference.text().is_some_and(|id| !capabilities.contains(id)) {
                validator.warning(&reference, "is the id of none of the capabilities", Value::Null);
            }
        }
    });
}

fn check_interface(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    let kind = validator.need_text(node, "type", "the type of the interface");
    let schemes = [Interface::STRUCTURED, Interface::NATURAL_LANGUAGE, Interface::META];
    if let (Some(kind), Some(found)) = (kind, node.get("type"))
        && !schemes.contains(&kind)
    {
        validator.warning(&found, "is not a known type of interface", schemes.to_vec());
    }
    for name in ["version", "profile", "binding", "description"] {
        validator.may_text(node, name);
    }
    for name in ["methods", "securityProfiles", "negotiates", "capabilityRefs"] {
        validator.may_texts(node, name);
    }
    validator.may_flag(node, "humanAuthorization");
    validator.may_url(node, "url");
    validator.may_say(node, "content");
    let protocol = validator.may_text(node, "protocol");
    if kind == Some(Interface::META) {
        check_meta(validator, node);
        return;
    }
    if protocol.is_none() && node.get("protocol").is_none() {
        validator.missing(node, "protocol", "the protocol of the interface, such as \"openrpc\"");
    }
    if node.get("url").is_none() && node.get("content").is_none() {
        validator.missing(node, "url", "the URL of the interface document, or content with the document itself");
    }
    if let (Some(protocol_name), Some(found)) = (protocol, node.get("protocol"))
        && protocol_name.eq_ignore_ascii_case("openrpc")
    {
        if protocol_name != "openrpc" {
            validator.warning(&found, "must be spelt \"openrpc\"; existing clients compare the exact text", "openrpc");
        }
        if let Some(content) = node.get("content").filter(|content| !content.value.is_null())
            && validator.object(&content)
        {
            openrpc::check(validator, &content);
        }
    }
}

/// Checks a `MetaProtocolInterface` (ANP-06 §5.2).
fn check_meta(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    validator.need_word(node, "profile", profile::NEGOTIATION);
    validator.need_word(node, "binding", "jsonrpc-2.0");
    if node.get("url").is_none() {
        validator.missing(node, "url", "the URL of the negotiation endpoint");
    }
    match node.get("methods") {
        None => validator.missing(node, "methods", &format!("a list with {:?}", method::NEGOTIATE)),
        Some(methods) if methods.items().any(|item| item.text() == Some(method::NEGOTIATE)) => {}
        Some(methods) => validator.error(&methods, format!("must have {:?}", method::NEGOTIATE), method::NEGOTIATE),
    }
    for name in ["id", "protocol", "version", "securityProfiles", "negotiates", "description"] {
        if node.get(name).is_none() {
            validator.better(node, name, "a MetaProtocolInterface should have it");
        }
    }
}

fn check_proof(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>, did: Option<&str>) {
    validator.need_text(node, "type", "the type of the proof");
    validator.need_text(node, "proofValue", "the signature");
    validator.may_time(node, "created");
    for name in ["proofPurpose", "domain", "challenge"] {
        validator.may_text(node, name);
    }
    if node.get("domain").is_some() && node.get("challenge").is_none() {
        validator.missing(node, "challenge", "it is required if domain is given");
    }
    let key = validator.need_text(node, "verificationMethod", "the key that made the signature");
    let owner = key.map(|key| key.split('#').next().unwrap_or_default());
    if let (Some(owner), Some(did), Some(found)) = (owner, did, node.get("verificationMethod"))
        && !owner.is_empty()
        && owner != did
    {
        validator.error(&found, "must be a key of the agent's own DID", did);
    }
}

/// Checks a list of agents (ANP-08).
pub(super) fn check_page(validator: &mut AnpDocumentValidator, node: &LocatedJsonValue<'_>) {
    validator.need_word(node, "@type", "CollectionPage");
    validator.may_url(node, "url");
    validator.may_url(node, "next");
    if let (Some(here), Some(next)) = (node.text_of("url"), node.get("next"))
        && next.text() == Some(here)
    {
        validator.error(&next, "must not be the page itself", "another page");
    }
    let Some(items) = node.get("items") else {
        validator.missing(node, "items", "a list of agents");
        return;
    };
    validator.each_object(&items, |validator, item| {
        if item.get("@id").is_none() {
            validator.missing(item, "@id", "the URL of the agent's description");
        }
        validator.may_url(item, "@id");
        validator.may_text(item, "@type");
        validator.may_text(item, "name");
    });
}
