//! Information that an agent publishes: entries of its description, and the files themselves.

use nuncio_core::agent::{Agent, InformationDocument, InformationLocation};
use nuncio_core::json;
use serde_json::{Map, Value, json as value};

use super::{HostDocumentSettings, NOSEC};
use crate::validate::{self, AnpDocumentType, AnpValidationReport, DocumentFault};
use crate::wire::{self, PROTOCOL_TYPE, PROTOCOL_VERSION, Product, SecurityDefinition, SecurityReferences};

impl HostDocumentSettings {
    pub(super) fn information(&self, agent: &Agent, information: &InformationDocument) -> wire::InformationItem {
        // Files on this host are public; the protection of other URLs is unknown.
        let (url, security) = match &information.source {
            InformationLocation::Url(url) => (url.to_string(), None),
            InformationLocation::File(path) => {
                (self.information_url(&agent.name, path.stem()), Some(SecurityReferences::Name(NOSEC.to_owned())))
            }
        };
        wire::InformationItem {
            r#type: information.kind.clone(),
            description: Some(information.description.clone()),
            url: Some(url),
            content: None,
            security,
            extra: Map::new(),
        }
    }

    /// Content of a published file as served. Products are completed from the agent file and must then be valid.
    pub fn published_file(
        &self,
        agent: &Agent,
        information: &InformationDocument,
        bytes: &[u8],
    ) -> Result<Value, AnpValidationReport> {
        let InformationLocation::File(path) = &information.source else {
            let fault = DocumentFault::new("", "is not a file of this server", "a file", "an address");
            return Err(AnpValidationReport::new(AnpDocumentType::Product, vec![fault], Vec::new()));
        };
        let mut document = json::read(bytes, InformationDocument::MAX_BYTES)
            .map_err(|unreadable| AnpValidationReport::unreadable(AnpDocumentType::Product, &unreadable))?;
        if !information.is_product() {
            return Ok(document);
        }
        let defaults = [
            ("protocolType", value!(PROTOCOL_TYPE)),
            ("protocolVersion", value!(PROTOCOL_VERSION)),
            ("type", value!(Product::TYPE)),
            ("url", value!(self.information_url(&agent.name, path.stem()))),
            ("name", value!(path.stem())),
            ("description", value!(information.description)),
            ("security", value!({NOSEC: SecurityDefinition::nosec()})),
        ];
        if let Value::Object(members) = &mut document {
            for (key, default) in defaults {
                members.entry(key).or_insert(default);
            }
        }
        let report = validate::check(AnpDocumentType::Product, &document);
        if report.valid { Ok(document) } else { Err(report) }
    }
}
