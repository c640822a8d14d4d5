//! The A2H Capability Manifest v1: what an agent may do with a person's devices, declared in public.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semver::Version;
use serde_json::Value;

use crate::agent::Sensitivity;
use crate::digest::{self, Digest};
use crate::ids::{ScopeId, ToolName};
use crate::json::{self, Unreadable};
use crate::schema::Schema;
use crate::text::LocalText;

mod fault;
mod input;
pub mod presets;
mod read;
mod scopes;
#[cfg(test)]
mod tests;
mod tools;
mod words;

pub use fault::{ManifestFault, ManifestFaults, ManifestRule, ManifestWarning, WarningRule};
pub use presets::Presets;

use fault::Notes;

/// The one version of the format there is.
pub const SCHEMA_VERSION: &str = "1.0";
/// How many bytes a manifest's canonical form may have.
pub const MAX_BYTES: usize = 131_072;
/// From how many canonical bytes on a manifest is worth a warning.
pub const LARGE_BYTES: usize = 65_536;
/// How many bytes a manifest may have as it is sent, spaces included.
pub const MAX_WRITTEN_BYTES: usize = 4 * MAX_BYTES;
/// How long a call may take when the manifest does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call may take at most.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The largest integer that every JSON reader holds exactly.
pub const MAX_INTEGER: u64 = (1 << 53) - 1;
/// Scope prefixes that belong to the platform.
pub const RESERVED_PREFIXES: [&str; 2] = ["hashee:", "system:"];

/// A manifest that keeps every rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The agent's own version.
    pub agent_version: Version,
    /// What the agent may ask a person's device to do.
    pub tools: Vec<ManifestTool>,
    /// The permissions those tools need.
    pub scopes: Vec<ManifestScope>,
    /// What the agent says it can do besides, such as `supports_streaming`.
    pub flags: BTreeMap<String, bool>,
    source: Arc<Value>,
}

/// One tool of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestTool {
    /// 2 to 32 lower-case letters, digits and underscores.
    pub name: ToolName,
    /// Where a client's bundle has the words for it.
    pub description_i18n_key: String,
    /// The agent's own words for it, for clients whose bundle has none.
    pub description_fallback: Option<LocalText>,
    /// What it takes; always an object.
    pub input: Schema,
    /// The permission it needs, declared in the same manifest.
    pub scope: ScopeId,
    /// Whether the agent is of no use without it.
    pub required: bool,
    /// How long a call may take.
    pub timeout: Duration,
}

/// One permission of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestScope {
    /// Its id, such as `filesystem:read`.
    pub id: ScopeId,
    /// Where a client's bundle has a few words for it.
    pub label_i18n_key: String,
    /// Where a client's bundle has a sentence for it.
    pub description_i18n_key: String,
    /// The agent's own few words, for clients whose bundle has none.
    pub label_fallback: Option<LocalText>,
    /// The agent's own sentence, for clients whose bundle has none.
    pub description_fallback: Option<LocalText>,
    /// How much is at stake.
    pub sensitivity: Sensitivity,
}

/// A manifest that was checked, with what identifies it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The manifest.
    pub manifest: Manifest,
    /// Its RFC 8785 form.
    pub canonical: Vec<u8>,
    /// SHA-256 over that form.
    pub hash: Digest,
    /// What is allowed, and probably not meant.
    pub warnings: Vec<ManifestWarning>,
}

impl Manifest {
    /// Reads a manifest as it was sent.
    ///
    /// # Errors
    /// Every rule it breaks, each with its place.
    pub fn parse(bytes: &[u8], presets: &Presets) -> Result<Checked, ManifestFaults> {
        let value = json::read(bytes, MAX_WRITTEN_BYTES).map_err(|why| unreadable(&why))?;
        Self::check(value, presets)
    }

    /// Reads a manifest that is JSON already. What a parser hides, such as a name that stood twice, is not seen here.
    ///
    /// # Errors
    /// Every rule it breaks, each with its place.
    pub fn check(value: Value, presets: &Presets) -> Result<Checked, ManifestFaults> {
        let mut notes = Notes::default();
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
            notes.warn(WarningRule::Large, "", message);
        }
        let read = read::manifest(&value, presets, &mut notes);
        let warnings = notes.finish()?;
        let Some(mut manifest) = read else {
            let message = "the manifest could not be read".to_owned();
            return Err(ManifestFaults::one(ManifestRule::WrongType, "", message));
        };
        manifest.source = Arc::new(value);
        let hash = Digest::of_bytes(&canonical);
        Ok(Checked { manifest, canonical, hash, warnings })
    }

    /// The tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ManifestTool> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// The scope of that id.
    #[must_use]
    pub fn scope(&self, id: &str) -> Option<&ManifestScope> {
        self.scopes.iter().find(|scope| scope.id.as_str() == id)
    }

    /// The manifest as it was written, with the fields we know nothing of.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.source
    }
}

fn unreadable(why: &Unreadable) -> ManifestFaults {
    let whole = |rule, message| ManifestFaults::one(rule, "", message);
    match why {
        Unreadable::TooLarge { most, found } => {
            let message = format!("the manifest has {found} bytes, no more than {most} are read; {MAX_BYTES} count");
            whole(ManifestRule::TooLarge, message)
        }
        Unreadable::TooManyValues => whole(ManifestRule::TooLarge, format!("the manifest {why}")),
        Unreadable::TooDeep => whole(ManifestRule::TooDeep, format!("the manifest {why}")),
        Unreadable::NotJson(_) => whole(ManifestRule::NotJson, format!("the manifest {why}")),
        Unreadable::Repeated(places) => {
            let mut notes = Notes::default();
            for place in places {
                let message = "stands twice in its object; readers differ on which one counts, leave one".to_owned();
                notes.fault(ManifestRule::RepeatedName, place, message);
            }
            notes.finish().err().unwrap_or_else(|| whole(ManifestRule::RepeatedName, why.to_string()))
        }
    }
}
