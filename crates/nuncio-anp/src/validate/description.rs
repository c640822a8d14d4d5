//! Validates agent descriptions (ANP-07, ANP-06 §5) and lists of agents (ANP-08).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::desk::{Desk, Node, object_of};
use super::{openrpc, security};
use crate::wire::{AgentDescription, Interface, PROTOCOL_TYPE, Product, method, profile};

/// Spellings of the information member, the specification's first.
const INFORMATION: [&str; 3] = ["Infomations", "Informations", "informations"];

pub(super) fn check(desk: &mut Desk, node: &Node<'_>) {
    if !desk.object(node) {
        return;
    }
    desk.need_word(node, "protocolType", PROTOCOL_TYPE);
    desk.need_text(node, "protocolVersion", "the version of the protocol, such as \"1.0.0\"");
    match node.get("type") {
        Some(kind) if kind.text() == Some(Product::TYPE) => {
            let message = "must be \"AgentDescription\"; \"Product\" is what some software writes instead";
            desk.error(&kind, message, AgentDescription::TYPE);
        }
        _ => desk.need_word(node, "type", AgentDescription::TYPE),
    }
    desk.need_text(node, "name", "what people call the agent");
    if desk.may_text(node, "description").is_none() && node.get("description").is_none() {
        desk.better(node, "description", "clients in use refuse agents that do not say what they are for");
    }
    desk.may_url(node, "url");
    desk.may_time(node, "created");
    if let Some(did) = node.get("did") {
        check_did(desk, &did);
    }
    if let Some(owner) = node.get("owner")
        && desk.object(&owner)
    {
        for name in ["type", "name", "email"] {
            desk.may_text(&owner, name);
        }
        desk.may_url(&owner, "url");
    }
    check_security(desk, node);
    let known = object_of(node, "securityDefinitions");
    check_information(desk, node, known);
    check_capabilities(desk, node);
    check_interfaces(desk, node, known);
    if let Some(proof) = node.get("proof") {
        check_proof(desk, &proof, node.text_of("did").filter(|did| did.starts_with("did:")));
    }
}

fn check_did(desk: &mut Desk, did: &Node<'_>) {
    if let Some(text) = desk.filled(did) {
        let mut parts = text.splitn(3, ':');
        let is_did = parts.next() == Some("did")
            && parts.next().is_some_and(|method| !method.is_empty())
            && parts.next().is_some_and(|rest| !rest.is_empty());
        if !is_did || text.contains(['#', '?', '/', ' ']) {
            desk.error(did, "must be a DID, without a fragment", "did:wba:…");
        }
    }
}

fn check_security(desk: &mut Desk, node: &Node<'_>) {
    match node.get("securityDefinitions") {
        Some(definitions) => security::definitions(desk, &definitions),
        None => desk.missing(node, "securityDefinitions", "the ways to show who one is, by name"),
    }
    let Some(security) = node.get("security") else {
        desk.missing(node, "security", "the name of one of securityDefinitions");
        return;
    };
    if !security.value.is_string() {
        desk.warning(&security, "should be one name; not everybody reads more", "the name of a definition");
    }
    security::reference(desk, &security, object_of(node, "securityDefinitions"));
}

fn check_information(desk: &mut Desk, node: &Node<'_>, known: Option<&Map<String, Value>>) {
    let mut spelt = INFORMATION.iter().filter_map(|name| Some((*name, node.get(name)?)));
    let Some((name, list)) = spelt.next() else { return };
    for (_, other) in spelt {
        desk.error(&other, format!("must not stand beside {name}, which is the same"), "one of the spellings");
    }
    if name != INFORMATION[0] {
        desk.warning(&list, "is spelt \"Infomations\" in the specification", INFORMATION[0]);
    }
    if !desk.list(&list) {
        return;
    }
    for item in list.items() {
        if desk.is_full() {
            return;
        }
        if !desk.object(&item) {
            continue;
        }
        desk.need_text(&item, "type", "what sort of thing it is, such as \"Product\"");
        if desk.may_text(&item, "description").is_none() && item.get("description").is_none() {
            desk.better(&item, "description", "readers choose by it what to read");
        }
        desk.may_url(&item, "url");
        desk.may_say(&item, "content");
        if item.get("url").is_none() && item.get("content").is_none() {
            desk.missing(&item, "url", "where it is");
        }
        if let Some(security) = item.get("security") {
            security::reference(desk, &security, known);
        }
    }
}

fn check_capabilities(desk: &mut Desk, node: &Node<'_>) {
    let Some(list) = node.get("capabilities") else { return };
    if !desk.list(&list) {
        return;
    }
    let mut ids = HashSet::new();
    for item in list.items() {
        if desk.is_full() {
            return;
        }
        if !desk.object(&item) {
            continue;
        }
        unique(desk, &item, "id", &mut ids, true);
        desk.may_text(&item, "name");
        desk.may_text(&item, "description");
        desk.may_texts(&item, "intentTags");
        desk.may_flag(&item, "requiresHumanAuthorization");
    }
}

fn check_interfaces(desk: &mut Desk, node: &Node<'_>, known: Option<&Map<String, Value>>) {
    let Some(list) = node.get("interfaces") else {
        desk.better(node, "interfaces", "nobody can use the agent");
        return;
    };
    if !desk.list(&list) {
        return;
    }
    let capabilities: HashSet<&str> =
        node.get("capabilities").iter().flat_map(|list| list.items().filter_map(|item| item.text_of("id"))).collect();
    let mut ids = HashSet::new();
    for item in list.items() {
        if desk.is_full() {
            return;
        }
        if !desk.object(&item) {
            continue;
        }
        unique(desk, &item, "id", &mut ids, false);
        check_interface(desk, &item);
        if let Some(security) = item.get("security") {
            security::reference(desk, &security, known);
        }
        for reference in item.get("capabilityRefs").iter().flat_map(Node::items) {
            if reference.text().is_some_and(|id| !capabilities.contains(id)) {
                desk.warning(&reference, "is the id of none of the capabilities", Value::Null);
            }
        }
    }
}

fn check_interface(desk: &mut Desk, node: &Node<'_>) {
    let kind = desk.need_text(node, "type", "what sort of interface it is");
    let known = [Interface::STRUCTURED, Interface::NATURAL_LANGUAGE, Interface::META];
    if let (Some(kind), Some(found)) = (kind, node.get("type"))
        && !known.contains(&kind)
    {
        desk.warning(&found, "is not a type of interface readers know", known.to_vec());
    }
    for name in ["version", "profile", "binding", "description"] {
        desk.may_text(node, name);
    }
    for name in ["methods", "securityProfiles", "negotiates", "capabilityRefs"] {
        desk.may_texts(node, name);
    }
    desk.may_flag(node, "humanAuthorization");
    desk.may_url(node, "url");
    desk.may_say(node, "content");
    let protocol = desk.may_text(node, "protocol");
    if kind == Some(Interface::META) {
        check_meta(desk, node);
        return;
    }
    if protocol.is_none() && node.get("protocol").is_none() {
        desk.missing(node, "protocol", "what it speaks, such as \"openrpc\"");
    }
    if node.get("url").is_none() && node.get("content").is_none() {
        desk.missing(node, "url", "where it is described; or content, which describes it here");
    }
    if let (Some(word), Some(found)) = (protocol, node.get("protocol"))
        && word.eq_ignore_ascii_case("openrpc")
    {
        if word != "openrpc" {
            desk.warning(&found, "is spelt \"openrpc\"; clients in use compare to the letter", "openrpc");
        }
        if let Some(content) = node.get("content").filter(|content| !content.value.is_null()) {
            openrpc::check(desk, &content);
        }
    }
}

/// Checks a `MetaProtocolInterface` (ANP-06 §5.2).
fn check_meta(desk: &mut Desk, node: &Node<'_>) {
    desk.need_word(node, "profile", profile::NEGOTIATION);
    desk.need_word(node, "binding", "jsonrpc-2.0");
    if node.get("url").is_none() {
        desk.missing(node, "url", "where negotiations are held");
    }
    match node.get("methods") {
        None => desk.missing(node, "methods", &format!("a list with {:?}", method::NEGOTIATE)),
        Some(methods) if methods.items().any(|item| item.text() == Some(method::NEGOTIATE)) => {}
        Some(methods) => desk.error(&methods, format!("must have {:?}", method::NEGOTIATE), method::NEGOTIATE),
    }
    for name in ["id", "protocol", "version", "securityProfiles", "negotiates", "description"] {
        if node.get(name).is_none() {
            desk.better(node, name, "a MetaProtocolInterface should say it");
        }
    }
}

fn check_proof(desk: &mut Desk, node: &Node<'_>, did: Option<&str>) {
    if !desk.object(node) {
        return;
    }
    desk.need_text(node, "type", "by which rules it is made");
    desk.need_text(node, "proofValue", "the signature");
    desk.may_time(node, "created");
    desk.may_text(node, "proofPurpose");
    desk.may_text(node, "domain");
    desk.may_text(node, "challenge");
    if node.get("domain").is_some() && node.get("challenge").is_none() {
        desk.missing(node, "challenge", "it must be said where domain is");
    }
    let key = desk.need_text(node, "verificationMethod", "the key it is made with");
    let owner = key.map(|key| key.split('#').next().unwrap_or_default());
    if let (Some(owner), Some(did), Some(found)) = (owner, did, node.get("verificationMethod"))
        && !owner.is_empty()
        && owner != did
    {
        desk.error(&found, "must be a key of the agent's own DID", did);
    }
}

/// Checks a list of agents (ANP-08).
pub(super) fn check_page(desk: &mut Desk, node: &Node<'_>) {
    if !desk.object(node) {
        return;
    }
    desk.need_word(node, "@type", "CollectionPage");
    desk.may_url(node, "url");
    desk.may_url(node, "next");
    if let (Some(here), Some(next)) = (node.text_of("url"), node.get("next"))
        && next.text() == Some(here)
    {
        desk.error(&next, "must not be the page itself", "another page");
    }
    let Some(items) = node.get("items") else {
        desk.missing(node, "items", "a list of agents");
        return;
    };
    if !desk.list(&items) {
        return;
    }
    for item in items.items() {
        if desk.is_full() {
            return;
        }
        if !desk.object(&item) {
            continue;
        }
        if item.get("@id").is_none() {
            desk.missing(&item, "@id", "where the agent is described");
        }
        desk.may_url(&item, "@id");
        desk.may_text(&item, "@type");
        desk.may_text(&item, "name");
    }
}

/// Checks a string that must be unique among the items.
fn unique<'a>(desk: &mut Desk, node: &Node<'a>, name: &str, seen: &mut HashSet<&'a str>, needed: bool) {
    let found = if needed { desk.need_text(node, name, "an id of its own") } else { desk.may_text(node, name) };
    if let (Some(text), Some(found)) = (found, node.get(name))
        && !seen.insert(text)
    {
        desk.error(&found, "must be unique: an earlier one is the same", "an id of its own");
    }
}
