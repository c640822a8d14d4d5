//! The agent description (ANP-07), with the additions of ANP-06.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SecurityDefinition, SecurityReferences, open};

open! {
    struct AgentDescription {
        /// Always `ANP`.
        protocol_type: String,
        protocol_version: String,
        /// Always `AgentDescription`.
        r#type: String,
        /// URL of the agent description itself.
        url?: String,
        name: String,
        did?: String,
        owner?: Owner,
        description?: String,
        /// Time of creation, RFC 3339.
        created?: String,
        /// Authentication schemes of the agent by name.
        security_definitions: BTreeMap<String, SecurityDefinition>,
        /// Default authentication of the agent's interfaces and information.
        security: SecurityReferences,
        /// Published information. The specification misspells the name; other spellings are accepted.
        #[serde(rename = "Infomations", alias = "Informations", alias = "informations")]
        information?: Vec<InformationItem>,
        /// Capabilities, independent of the interface (ANP-06).
        capabilities?: Vec<Capability>,
        interfaces?: Vec<Interface>,
        /// Proof by the key of the agent's DID, added after the document is built.
        proof?: Value,
    }
}

impl AgentDescription {
    pub const TYPE: &str = "AgentDescription";

    #[must_use]
    pub fn interface(&self, id: &str) -> Option<&Interface> {
        self.interfaces.iter().flatten().find(|interface| interface.id.as_deref() == Some(id))
    }

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
        r#type?: String,
        name?: String,
        url?: String,
        email?: String,
    }
}

open! {
    struct InformationItem {
        /// Kind of document, such as `Product`.
        r#type: String,
        description?: String,
        url?: String,
        /// Content of the document, if it is embedded instead of linked.
        content?: Value,
        /// Authentication for the document, if it differs from the default.
        security?: SecurityReferences,
    }
}

open! {
    /// A capability of an agent (ANP-06 §14.1).
    struct Capability {
        id: String,
        name?: String,
        description?: String,
        /// Intents that this capability serves.
        intent_tags?: Vec<String>,
        requires_human_authorization?: bool,
    }
}

open! {
    #[derive(Default)]
    struct Interface {
        /// Interface id (ANP-06).
        id?: String,
        /// `StructuredInterface`, `NaturalLanguageInterface` or `MetaProtocolInterface`.
        r#type: String,
        /// Protocol, such as `openrpc`.
        protocol?: String,
        version?: String,
        /// Profile of the interface (ANP-06).
        profile?: String,
        /// Transport binding; `jsonrpc-2.0` for negotiation.
        binding?: String,
        /// URL of the interface or of its document.
        url?: String,
        /// Inline interface document.
        content?: Value,
        /// Method names of a negotiation interface.
        methods?: Vec<String>,
        /// Authentication for the interface, if it differs from the default.
        security?: SecurityReferences,
        security_profiles?: Vec<String>,
        /// Names of the subjects that can be negotiated at the interface.
        negotiates?: Vec<String>,
        /// Ids of the interface's capabilities (ANP-06).
        capability_refs?: Vec<String>,
        /// Whether a person must approve each use.
        human_authorization?: bool,
        description?: String,
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
            description: Some(description),
            ..Self::default()
        }
    }

    /// Whether a person must approve each use, by `humanAuthorization` or `authorizationLevel` (ANP-02 §5).
    #[must_use]
    pub fn asks_a_person(&self) -> bool {
        let level = self.extra.get("authorizationLevel").and_then(Value::as_str);
        self.human_authorization == Some(true) || level == Some("user-presence-required")
    }
}
