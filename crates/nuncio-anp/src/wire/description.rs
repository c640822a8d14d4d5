//! The agent description: an agent's front page (ANP-07), with what ANP-06 adds.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{OpenRpc, Security, SecurityDefinition, open};

open! {
    /// An agent, as strangers find it.
    struct AgentDescription {
        /// `ANP`.
        protocol_type: String,
        /// The version of the protocol.
        protocol_version: String,
        /// `AgentDescription`.
        r#type: String,
        /// Where this document is.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// What people call the agent.
        name: String,
        /// Who it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        did: Option<String>,
        /// Who answers for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
        /// What it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Since when it exists.
        #[serde(skip_serializing_if = "Option::is_none")]
        created: Option<String>,
        /// The ways to show who one is, by name.
        security_definitions: BTreeMap<String, SecurityDefinition>,
        /// What protects everything that says nothing else.
        security: Security,
        /// What there is to read. The name is spelt so; other spellings are read.
        #[serde(
            rename = "Infomations",
            alias = "Informations",
            alias = "informations",
            skip_serializing_if = "Option::is_none"
        )]
        information: Option<Vec<Information>>,
        /// What it can do, whichever interface is used (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        capabilities: Option<Vec<Capability>>,
        /// How to use it.
        #[serde(skip_serializing_if = "Option::is_none")]
        interfaces: Option<Vec<Interface>>,
        /// What shows that its owner wrote it; whoever holds the key attaches it.
        #[serde(skip_serializing_if = "Option::is_none")]
        proof: Option<Value>,
    }
}

impl AgentDescription {
    /// What its `type` is.
    pub const TYPE: &str = "AgentDescription";

    /// The interface of that id.
    #[must_use]
    pub fn interface(&self, id: &str) -> Option<&Interface> {
        self.interfaces.iter().flatten().find(|interface| interface.id.as_deref() == Some(id))
    }

    /// Where negotiations are held.
    #[must_use]
    pub fn negotiation(&self) -> Option<&Interface> {
        let holds = |interface: &&Interface| {
            interface.r#type == Interface::META && interface.profile.as_deref() == Some(super::profile::NEGOTIATION)
        };
        self.interfaces.iter().flatten().find(holds)
    }
}

open! {
    /// Who answers for an agent.
    struct Owner {
        /// `Organization` or `Person`.
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<String>,
        /// What they are called.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Their page.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Where to write to them.
        #[serde(skip_serializing_if = "Option::is_none")]
        email: Option<String>,
    }
}

open! {
    /// Something to read.
    struct Information {
        /// What sort of thing, such as `Product`.
        r#type: String,
        /// What is in it.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Where it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The thing itself, where it is given here.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
        /// What protects it, if not what protects the rest.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Security>,
    }
}

open! {
    /// Something an agent can do (ANP-06 §14.1).
    struct Capability {
        /// Its id.
        id: String,
        /// What people call it.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// What people may want when they need it.
        #[serde(skip_serializing_if = "Option::is_none")]
        intent_tags: Option<Vec<String>>,
        /// Whether a person must agree.
        #[serde(skip_serializing_if = "Option::is_none")]
        requires_human_authorization: Option<bool>,
    }
}

open! {
    /// A way to use an agent.
    struct Interface {
        /// Its id (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// `StructuredInterface`, `NaturalLanguageInterface` or `MetaProtocolInterface`.
        r#type: String,
        /// What it speaks, such as `openrpc`.
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        /// Of which version.
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The profile it follows (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// How it is carried; of negotiations `jsonrpc-2.0`.
        #[serde(skip_serializing_if = "Option::is_none")]
        binding: Option<String>,
        /// Where it is, or is described.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Its description, where it is given here.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
        /// The methods of a negotiation.
        #[serde(skip_serializing_if = "Option::is_none")]
        methods: Option<Vec<String>>,
        /// What protects it, if not what protects the rest.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Security>,
        /// How what is said on it can be protected.
        #[serde(skip_serializing_if = "Option::is_none")]
        security_profiles: Option<Vec<String>>,
        /// What can be negotiated.
        #[serde(skip_serializing_if = "Option::is_none")]
        negotiates: Option<Vec<String>>,
        /// The capabilities it gives (ANP-06).
        #[serde(skip_serializing_if = "Option::is_none")]
        capability_refs: Option<Vec<String>>,
        /// Whether a person must agree to each use.
        #[serde(skip_serializing_if = "Option::is_none")]
        human_authorization: Option<bool>,
        /// What it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    }
}

impl Interface {
    /// Calls with arguments.
    pub const STRUCTURED: &str = "StructuredInterface";
    /// Talking.
    pub const NATURAL_LANGUAGE: &str = "NaturalLanguageInterface";
    /// Negotiations.
    pub const META: &str = "MetaProtocolInterface";

    /// An interface of which only this is known.
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

    /// Whether a person must agree to each use, by either word for it (`authorizationLevel` of ANP-02 §5).
    #[must_use]
    pub fn asks_a_person(&self) -> bool {
        let level = self.extra.get("authorizationLevel").and_then(Value::as_str);
        self.human_authorization == Some(true) || level == Some("user-presence-required")
    }

    /// Its OpenRPC document, where it is given here.
    #[must_use]
    pub fn openrpc(&self) -> Option<OpenRpc> {
        serde_json::from_value(self.content.clone()?).ok()
    }
}
