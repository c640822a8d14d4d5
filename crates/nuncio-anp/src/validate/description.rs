//! Validates agent descriptions (ANP-07, ANP-06 §5) and lists of agents (ANP-08).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::validator::{DocumentValidator, JsonNode, object_of};
use super::{openrpc, security};
use crate::wire::{AgentDescription, Interface, PROTOCOL_TYPE, Product, method, profile};

/// Spellings of the information member, the specification's first.
const INFORMATION: [&str; 3] = ["Infomations", "Informations", "informations"];

pub(super) fn check(validator: &mut DocumentValidator, node: &JsonNode<'_>) {
    if !validator.object(node) {
        return;
    }
    validator.need_word(node, "protocolType", PROTOCOL_TYPE);
    validator.need_text(node, "protocolVersion", "the version of the protocol, such as \"1.0.0\"");
    match node.get("type") {
        Some(kind) if kind.text() == Some(Product::TYPE) => {
            let message = "must be \"AgentDescription\"; \"Product\" is what some software writes instead";
            validator.error(&kind, message, AgentDescription::TYPE);
        }
        _ => validator.need_word(node, "type", AgentDescription::TYPE),
    }
    validator.need_text(node, "name", "what people call the agent");
    if validator.may_text(node, "description").is_none() && node.get("description").is_none() {
        validator.better(node, "description", "clients in use refuse agents that do not say what they are for");
    }
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
    let known = object_of(node, "securityDefinitions");
    check_information(validator, node, known);
    check_capabilities(validator, node);
    check_interfaces(validator, node, known);
    if let Some(proof) = node.get("proof") {
        check_proof(validator, &proof, node.text_of("did").filter(|did| did.starts_with("did:")));
    }
}

fn check_did(validator: &mut DocumentValidator, did: &JsonNode<'_>) {
    if let Some(text) = validator.filled(did) {
        let mut parts = text.splitn(3, ':');
        let is_did = parts.next() == Some("did")
            && parts.next().is_some_and(|method| !method.is_empty())
            && parts.next().is_some_and(|rest| !rest.is_empty());
        if !is_did || text.contains(['#', '?', '/', ' ']) {
            validator.error(did, "must be a DID, without a fragment", "did:wba:…");
        }
    }
}

fn check_security(validator: &mut DocumentValidator, node: &JsonNode<'_>) {
    match node.get("securityDefinitions") {
        Some(definitions) => security::definitions(validator, &definitions),
        None => validator.missing(node, "securityDefinitions", "the ways to show who one is, by name"),
    }
    let Some(security) = node.get("security") else {
        validator.missing(node, "security", "the name of one of securityDefinitions");
        return;
    };
    if !security.value.is_string() {
        validator.warning(&security, "should be one name; not everybody reads more", "the name of a definition");
    }
    security::reference(validator, &security, object_of(node, "securityDefinitions"));
}

fn check_information(validator: &mut DocumentValidator, node: &JsonNode<'_>, known: Option<&Map<String, Value>>) {
    let mut spelt = INFORMATION.iter().filter_map(|name| Some((*name, node.get(name)?)));
    let Some((name, list)) = spelt.next() else { return };
    for (_, other) in spelt {
        validator.error(&other, format!("must not stand beside {name}, which is the same"), "one of the spellings");
    }
    if name != INFORMATION[0] {
        validator.warning(&list, "is spelt \"Infomations\" in the specification", INFORMATION[0]);
    }
    if !validator.list(&list) {
        return;
    }
    for item in list.items() {
        if validator.is_full() {
            return;
        }
        if !validator.object(&item) {
            continue;
        }
        validator.need_text(&item, "type", "what sort of thing it is, such as \"Product\"");
        if validator.may_text(&item, "description").is_none() && item.get("description").is_none() {
            validator.better(&item, "description", "readers choose by it what to read");
        }
        validator.may_url(&item, "url");
        validator.may_say(&item, "content");
        if item.get("url").is_none() && item.get("content").is_none() {
            validator.missing(&item, "url", "where it is");
        }
        if let Some(security) = item.get("security") {
            security::reference(validator, &security, known);
        }
    }
}

fn check_capabilities(validator: &mut DocumentValidator, node: &JsonNode<'_>) {
    let Some(list) = node.get("capabilities") else { return };
    if !validator.list(&list) {
        return;
    }
    let mut ids = HashSet::new();
    for item in list.items() {
        if validator.is_full() {
            return;
        }
        if !validator.object(&item) {
            continue;
        }
        unique(validator, &item, "id", &mut ids, true);
        validator.may_text(&item, "name");
        validator.may_text(&item, "description");
        validator.may_texts(&item, "intentTags");
        validator.may_flag(&item, "requiresHumanAuthorization");
    }
}

fn check_interfaces(validator: &mut DocumentValidator, node: &JsonNode<'_>, known: Option<&Map<String, Value>>) {
    let Some(list) = node.get("interfaces") else {
        validator.better(node, "interfaces", "nobody can use the agent");
        return;
    };
    if !validator.list(&list) {
        return;
    }
    let capabilities: HashSet<&str> =
        node.get("capabilities").iter().flat_map(|list| list.items().filter_map(|item| item.text_of("id"))).collect();
    let mut ids = HashSet::new();
    for item in list.items() {
        if validator.is_full() {
            return;
        }
        if !validator.object(&item) {
            continue;
        }
        unique(validator, &item, "id", &mut ids, false);
        check_interface(validator, &item);
        if let Some(security) = item.get("security") {
            security::reference(validator, &security, known);
        }
        for reference in item.get("capabilityRefs").iter().flat_map(JsonNode::items) {
            if reference.text().is_some_and(|id| !capabilities.contains(id)) {
                validator.warning(&reference, "is the id of none of the capabilities", Value::Null);
            }
        }
    }
}

fn check_interface(validator: &mut DocumentValidator, node: &JsonNode<'_>) {
    let kind = validator.need_text(node, "type", "what sort of interface it is");
    let known = [Interface::STRUCTURED, Interface::NATURAL_LANGUAGE, Interface::META];
    if let (Some(kind), Some(found)) = (kind, node.get("type"))
        && !known.contains(&kind)
    {
        validator.warning(&found, "is not a type of interface readers know", known.to_vec());
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
        validator.missing(node, "protocol", "what it speaks, such as \"openrpc\"");
    }
    if node.get("url").is_none() && node.get("content").is_none() {
        validator.missing(node, "url", "where it is described; or content, which describes it here");
    }
    if let (Some(word), Some(found)) = (protocol, node.get("protocol"))
        && word.eq_ignore_ascii_case("openrpc")
    {
        if word != "openrpc" {
            validator.warning(&found, "is spelt \"openrpc\"; clients in use compare to the letter", "openrpc");
        }
        if let Some(content) = node.get("content").filter(|content| !content.value.is_null()) {
            openrpc::check(validator, &content);
        }
    }
}

/// Checks a `MetaProtocolInterface` (ANP-06 §5.2).
fn check_meta(validator: &mut DocumentValidator, node: &JsonNode<'_>) {
    validator.need_word(node, "profile", profile::NEGOTIATION);
    validator.need_word(node, "binding", "jsonrpc-2.0");
    if node.get("url").is_none() {
        validator.missing(node, "url", "where negotiations are held");
    }
    match node.get("methods") {
        None => validator.missing(node, "methods", &format!("a list with {:?}", method::NEGOTIATE)),
        Some(methods) if methods.items().any(|item| item.text() == Some(method::NEGOTIATE)) => {}
        Some(methods) => validator.error(&methods, format!("must have {:?}", method::NEGOTIATE), method::NEGOTIATE),
    }
    for name in ["id", "protocol", "version", "securityProfiles", "negotiates", "description"] {
        if node.get(name).is_none() {
            validator.better(node, name, "a MetaProtocolInterface should say it");
        }
    }
}

fn check_proof(validator: &mut DocumentValidator, node: &JsonNode<'_>, did: Option<&str>) {
    if !validator.object(node) {
        return;
    }
    validator.need_text(node, "type", "by which rules it is made");
    validator.need_text(node, "proofValue", "the signature");
    validator.may_time(node, "created");
    validator.may_text(node, "proofPurpose");
    validator.may_text(node, "domain");
    validator.may_text(node, "challenge");
    if node.get("domain").is_some() && node.get("challenge").is_none() {
        validator.missing(node, "challenge", "it must be said where domain is");
    }
    let key = validator.need_text(node, "verificationMethod", "the key it is made with");
    let owner = key.map(|key| key.split('#').next().unwrap_or_default());
    if let (Some(owner), Some(did), Some(found)) = (owner, did, node.get("verificationMethod"))
        && !owner.is_empty()
        && owner != did
    {
        validator.error(&found, "must be a key of the agent's own DID", did);
    }
}

/// Checks a list of agents (ANP-08).
pub(super) fn check_page(validator: &mut DocumentValidator, node: &JsonNode<'_>) {
    if !validator.object(node) {
        return;
    }
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
    if !validator.list(&items) {
        return;
    }
    for item in items.items() {
        if validator.is_full() {
            return;
        }
        if !validator.object(&item) {
            continue;
        }
        if item.get("@id").is_none() {
            validator.missing(&item, "@id", "where the agent is described");
        }
        validator.may_url(&item, "@id");
        validator.may_text(&item, "@type");
        validator.may_text(&item, "name");
    }
}

/// Checks a string that must be unique among the items.
fn unique<'a>(
    validator: &mut DocumentValidator,
    node: &JsonNode<'a>,
    name: &str,
    seen: &mut HashSet<&'a str>,
    needed: bool,
) {
    let found =
        if needed { validator.need_text(node, name, "an id of its own") } else { validator.may_text(node, name) };
    if let (Some(text), Some(found)) = (found, node.get(name))
        && !seen.insert(text)
    {
        validator.error(&found, "must be unique: an earlier one is the same", "an id of its own");
    }
}
