//! The A2H Capability Manifest v1: an agent's public declaration of the tools and permissions it needs on people's
//! devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semver::Version;
use serde_json::Value;

use crate::agent::Sensitivity;
use crate::digest::{self, Digest};
use crate::ids::{ScopeId, ToolName};
use crate::json::{self, JsonDocumentError};
use crate::schema::Schema;
use crate::text::TextByLanguage;

mod display_text;
mod fault;
mod input;
pub mod presets;
mod read;
mod scopes;
#[cfg(test)]
mod tests;
mod tools;

pub use fault::{ManifestFault, ManifestFaults, ManifestRule, ManifestWarning, ManifestWarningRule};
pub use presets::ScopePresets;

pub use tools::is_device_tool_name;

use fault::ManifestFindings;

/// The only defined version of the manifest format.
pub const SCHEMA_VERSION: &str = "1.0";
/// Size limit of a manifest in canonical form, in bytes.
pub const MAX_BYTES: usize = 131_072;
/// Canonical size in bytes from which a manifest gets a warning.
pub const LARGE_BYTES: usize = 65_536;
/// Size limit of a manifest as sent, including white space, in bytes.
pub const MAX_WRITTEN_BYTES: usize = 4 * MAX_BYTES;
/// Time limit of a device tool's call if the manifest gives none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The largest integer that every JSON parser represents exactly.
pub const MAX_INTEGER: u64 = (1 << 53) - 1;
/// Scope prefixes reserved for the platform.
pub const RESERVED_PREFIXES: [&str; 2] = ["hashee:", "system:"];

/// A valid manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub agent_version: Version,
    /// Tools on people's devices that the agent may call.
    pub tools: Vec<ManifestTool>,
    /// Permissions that the tools need.
    pub scopes: Vec<ManifestScope>,
    /// Capability flags, such as `supports_streaming`.
    pub flags: BTreeMap<String, bool>,
    source: Arc<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ManifestTool {
    /// Tool name of 2 to 32 lower-case letters, digits and underscores.
    pub name: ToolName,
    /// Translation key of the tool's description on devices.
    pub description_i18n_key: String,
    /// The agent's own description of the tool, for devices without a translation.
    pub description_fallback: Option<TextByLanguage>,
    /// Schema of the arguments; always an object.
    pub input: Schema,
    /// Scope that the tool needs, declared in the same manifest.
    pub scope: ScopeId,
    /// Whether the agent cannot work without the tool.
    pub required: bool,
    /// Time limit of a call of the tool.
    pub timeout: Duration,
}

/// One permission of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestScope {
    /// Scope id, for example `filesystem:read`.
    pub id: ScopeId,
    /// Translation key of the scope's label on devices.
    pub label_i18n_key: String,
    /// Translation key of the scope's description on devices.
    pub description_i18n_key: String,
    /// The agent's own label of the scope, for devices without a translation.
    pub label_fallback: Option<TextByLanguage>,
    /// The agent's own description of the scope, for devices without a translation.
    pub description_fallback: Option<TextByLanguage>,
    pub sensitivity: Sensitivity,
}

/// A valid manifest with its canonical form and hash.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedManifest {
    pub manifest: Manifest,
    /// The manifest in RFC 8785 canonical form.
    pub canonical: Vec<u8>,
    /// SHA-256 of the manifest's canonical form.
    pub hash: Digest,
    pub warnings: Vec<ManifestWarning>,
}

impl Manifest {
    /// Parses a manifest as it was sent. The error lists the broken rules with their JSON pointers, at most 256; of
    /// bytes that cannot be read as JSON, only the faults of the JSON.
    pub fn parse(bytes: &[u8], presets: &ScopePresets) -> Result<CheckedManifest, ManifestFaults> {
        let value = json::read(bytes, MAX_WRITTEN_BYTES).map_err(|why| unreadable(&why))?;
        Self::check(value, presets)
    }

    /// Validates a manifest that is already parsed. Faults that a parser hides, such as repeated names, are not
    /// detected. The error lists the broken rules with their JSON pointers, at most 256.
    pub fn check(value: Value, presets: &ScopePresets) -> Result<CheckedManifest, ManifestFaults> {
        let mut notes = ManifestFindings::default();
        read::numbers(&value, "", &mut notes);
        let canonical = digest::canonical(&value);
        if canonical.len() > MAX_BYTES {
            let message = format!(
                "the manifest has {} bytes in canonical form, at most {MAX_BYTES} are allowed; shorten schemas and texts",
                canonical.len()
            );
            notes.fault(ManifestRule::TooLarge, "", message);
        } else if canonical.len() >= LARGE_BYTES {
            let message = format!(
                "the manifest has {} bytes in canonical form, more than half of the {MAX_BYTES} allowed",
                canonical.len()
            );
            notes.warn(ManifestWarningRule::Large, "", message);
        }
        let read = read::manifest(&value, presets, &mut notes);
        let warnings = notes.finish()?;
        let Some(mut manifest) = read else {
            let message = "the manifest could not be read".to_owned();
            return Err(ManifestFaults::one(ManifestRule::WrongType, "", message));
        };
        manifest.source = Arc::new(value);
        let hash = Digest::of_bytes(&canonical);
        Ok(CheckedManifest { manifest, canonical, hash, warnings })
    }

    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ManifestTool> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    #[must_use]
    pub fn scope(&self, id: &str) -> Option<&ManifestScope> {
        self.scopes.iter().find(|scope| scope.id.as_str() == id)
    }

    /// The manifest as written by its author, including unknown fields.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.source
    }
}

fn unreadable(why: &JsonDocumentError) -> ManifestFaults {
    let whole = |rule, message| ManifestFaults::one(rule, "", message);
    match why {
        JsonDocumentError::TooLarge { most, found } => {
            let message = format!(
                "the manifest has {found} bytes; at most {most} are read, and at most {MAX_BYTES} are allowed in \
                 canonical form"
            );
            whole(ManifestRule::TooLarge, message)
        }
        JsonDocumentError::TooManyValues => whole(ManifestRule::TooLarge, format!("the manifest {why}")),
        JsonDocumentError::TooDeep => whole(ManifestRule::TooDeep, format!("the manifest {why}")),
        JsonDocumentError::NotJson(_) => whole(ManifestRule::NotJson, format!("the manifest {why}")),
        JsonDocumentError::Repeated(pointers) => {
            let mut notes = ManifestFindings::default();
            for location in pointers {
                let message = "occurs twice in its object, and parsers differ on which one counts; keep one".to_owned();
                notes.fault(ManifestRule::RepeatedName, location, message);
            }
            notes.finish().err().unwrap_or_else(|| whole(ManifestRule::RepeatedName, why.to_string()))
        }
    }
}
