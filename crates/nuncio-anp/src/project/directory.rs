//! The description of a host's directory as an agent (ANP-08 §5).

use serde_json::{Map, json};

use super::{DIDWBA, HostDocumentSettings, NOSEC, bare_description};
use crate::directory::{DESCRIPTION, PATH, PROFILE};
use crate::wire::{AgentDescription, Capability, Interface, SecurityReferences, texts};

const SEARCH: &str = "cap.directory.search";
const REGISTER: &str = "cap.directory.register";

impl HostDocumentSettings {
    /// Description of this host's directory, without a proof. With `takes`, it includes the registration interface.
    #[must_use]
    pub fn directory(&self, did: Option<&str>, takes: bool) -> AgentDescription {
        let name = self.base.split_once("://").map_or(self.base.as_str(), |(_, rest)| rest);
        let mut capabilities = vec![capability(
            SEARCH,
            "Find agents",
            "Finds agents by words, tags and capabilities.",
            &["agent.discovery.search"],
        )];
        let mut interfaces = vec![self.rest(
            "search",
            "GET lists agents: q, tag, capability, limit and cursor choose among them.",
            NOSEC,
            SEARCH,
        )];
        if takes {
            capabilities.push(capability(
                REGISTER,
                "Register an agent",
                "Lists an agent once its description was verified.",
                &["agent.discovery.register"],
            ));
            let about = "POST {\"url\": the address of your description}, signed by your DID; it is verified and listed. DELETE takes it out.";
            let mut register = self.rest("register", about, DIDWBA, REGISTER);
            register.profile = Some(PROFILE.to_owned());
            interfaces.push(register);
        }
        AgentDescription {
            url: Some(format!("{}{DESCRIPTION}", self.base)),
            description: Some("Lists agents whose descriptions were verified, and finds them.".to_owned()),
            capabilities: Some(capabilities),
            interfaces: Some(interfaces),
            ..bare_description(format!("Agent directory of {name}"), did, NOSEC)
        }
    }

    /// REST interface of the directory, described by OpenAPI.
    fn rest(&self, id_suffix: &str, about: &str, security: &str, capability: &str) -> Interface {
        let id = format!("interface.directory.{id_suffix}");
        let mut interface = Interface {
            version: Some("3.1.0".to_owned()),
            url: Some(format!("{}/openapi.json", self.base)),
            security: Some(SecurityReferences::Name(security.to_owned())),
            capability_refs: Some(vec![capability.to_owned()]),
            human_authorization: Some(false),
            ..Interface::new(id, Interface::STRUCTURED, "openapi", about.to_owned())
        };
        interface.extra.insert("endpoint".to_owned(), json!(format!("{}{PATH}", self.base)));
        interface
    }
}

fn capability(id: &str, name: &str, description: &str, tags: &[&str]) -> Capability {
    Capability {
        id: id.to_owned(),
        name: Some(name.to_owned()),
        description: Some(description.to_owned()),
        intent_tags: Some(texts(tags)),
        requires_human_authorization: Some(false),
        extra: Map::new(),
    }
}
