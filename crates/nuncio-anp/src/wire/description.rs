//! The agent description (ANP-07), with the additions of ANP-06.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{OpenRpc, Security, SecurityDefinition, open};

open! {
    struct AgentDescription {
        /// Always `ANP`.
        protocol_type: String,
        protocol_version: String,
        /// Always `AgentDescription`.
        r#type: String,
        /// URL of the agent description itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Display name.
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        did: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Time of creation, RFC 3339.
        #[serde(skip_serializing_if = "Option::is_none")]
        created: Option<String>,
        /// Authentication schemes of the agent by name.
        security_definitions: BTreeMap<String, SecurityDefinition>,
        /// Authentication that applies unless an entry names another.
        security: Security,
        /// Published information. The specification misspells the name; other spellings are accepted.
        #[serde(
            rename = "Infomations",
            alias = "Informations",
            alias = "informations",
            skip_serializing_if = "Option::is_none"
        )]
        information: Option<Vec<Information>>,
        /// Capabilities, independent of the interface (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        capabilities: Option<Vec<Capability>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        interfaces: Option<Vec<Interface>>,
        /// Proof by the owner's key, added after the document is built.
        #[serde(skip_serializing_if = "Option::is_none")]
        proof: Option<Value>,
    }
}

impl AgentDescription {
    /// Value of `type`.
    pub const TYPE: &str = "AgentDescription";

    #[must_use]
    pub fn interface(&self, id: &str) -> Option<&Interface> {
        self.interfaces.iter().flatten().find(|interface| interface.id.as_deref() == Some(id))
    }

    /// The agent's negotiation interface.
    #[must_use]
    pub fn negotiation(&self) -> Option<&Interface> {
        let holds = |interface: &&Interface| {
            interface.r#type == Interface::META && interface.profile.as_deref() == Some(super::profile::NEGOTIATION)
        };
        self.interfaces.iter().flatten().find(holds)
    }
}

open! {
    struct Owner {
        /// Kind of owner: `Organization` or `Person`.
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        email: Option<String>,
    }
}

open! {
    /// A published document.
    struct Information {
        /// Kind of document, such as `Product`.
        r#type: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Inline content.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
        /// Authentication for the document, if it differs from the default.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Security>,
    }
}

open! {
    /// A capability of an agent (ANP-06 §14.1).
    struct Capability {
        id: String,
        /// Display name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Intents that this capability serves.
        #[serde(skip_serializing_if = "Option::is_none")]
        intent_tags: Option<Vec<String>>,
        /// Whether a person must approve uses of the capability.
        #[serde(skip_serializing_if = "Option::is_none")]
        requires_human_authorization: Option<bool>,
    }
}

open! {
    struct Interface {
        /// Interface id (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// `StructuredInterface`, `NaturalLanguageInterface` or `MetaProtocolInterface`.
        r#type: String,
        /// Protocol, such as `openrpc`.
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Profile of the interface (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// Transport binding; `jsonrpc-2.0` for negotiation.
        #[serde(skip_serializing_if = "Option::is_none")]
        binding: Option<String>,
        /// URL of the interface or of its document.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Inline interface document.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
        /// Method names of a negotiation interface.
        #[serde(skip_serializing_if = "Option::is_none")]
        methods: Option<Vec<String>>,
        /// Authentication for the interface, if it differs from the default.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Security>,
        #[serde(skip_serializing_if = "Option::is_none")]
        security_profiles: Option<Vec<String>>,
        /// What can be negotiated at the interface.
        #[serde(skip_serializing_if = "Option::is_none")]
        negotiates: Option<Vec<String>>,
        /// Ids of the interface's capabilities (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        capability_refs: Option<Vec<String>>,
        /// Whether a person must approve each use.
        #[serde(skip_serializing_if = "Option::is_none")]
        human_authorization: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    }
}

impl Interface {
    pub const STRUCTURED: &str = "StructuredInterface";
    pub const NATURAL_LANGUAGE: &str = "NaturalLanguageInterface";
    pub const META: &str = "MetaProtocolInterface";

    #[must_use]
    pub fn new(id: String, kind: &str, protocol: &str, description: String) -> Self {
        Self {
            id: Some(id),
            r#type: kind.to_owned(),
            protocol: Some(protocol.to_owned()),
            version: None,
            profile: None,
            binding: None,
            url: None,
            content: None,
            methods: None,
            security: None,
            security_profiles: None,
            negotiates: None,
            capability_refs: None,
            human_authorization: None,
            description: Some(description),
            extra: Map::new(),
        }
    }

    /// Returns whether a person must approve each use, also by `authorizationLevel` (ANP-02 §5).
    #[must_use]
    pub fn asks_a_person(&self) -> bool {
        let level = self.extra.get("authorizationLevel").and_then(Value::as_str);
        self.human_authorization == Some(true) || level == Some("user-presence-required")
    }

    /// The inline OpenRPC document.
    #[must_use]
    pub fn openrpc(&self) -> Option<OpenRpc> {
        serde_json::from_value(self.content.clone()?).ok()
    }
}
