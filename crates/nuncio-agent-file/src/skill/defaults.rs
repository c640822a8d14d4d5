//! Defaults of a skill that its author left out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use semver::Version;
use serde_json::Value;

use crate::reader::TomlTableReader;
use crate::source::cut;
use nuncio_core::agent::SkillVersion;
use nuncio_core::ids::{AgentName, InvalidName, SkillId};

/// Placeholder for the agent's name in a skill id.
const PROVIDER: &str = "{provider}";

/// The tool or agent that a skill publishes, as the source of default values.
pub(crate) struct SkillDefaultSource<'a> {
    /// Last part of the default skill id; `None` if the name of the tool is invalid.
    pub(crate) part: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    /// Description of the tool or agent; `None` if it is missing, which is reported elsewhere.
    pub(crate) description: Option<&'a str>,
    /// Permission that callers of the skill need.
    pub(crate) scope: Option<&'a str>,
    pub(crate) input: Option<&'a Value>,
}

/// The agent's name and version, and the skill ids used so far.
pub(crate) struct SkillIdReader {
    name: Option<AgentName>,
    version: Option<Version>,
    /// The skill ids used so far, each with its line in the agent file.
    taken: RefCell<BTreeMap<SkillId, usize>>,
}

impl SkillIdReader {
    /// Reads name and version from `[agent]` without reporting faults, which `[agent]` itself reports.
    pub(crate) fn of(root: &TomlTableReader<'_>) -> Self {
        let agent = root.peek("agent").and_then(|item| item.value.as_table());
        let text = |key: &str| agent.and_then(|table| table.get(key)).and_then(|value| value.get_ref().as_str());
        Self {
            name: text("name").and_then(|name| AgentName::parse(name).ok()),
            version: text("version").and_then(|version| Version::parse(version).ok()),
            taken: RefCell::default(),
        }
    }

    /// The agent's name as shown in a suggested command.
    pub(super) fn shown_name(&self) -> &str {
        self.name.as_ref().map_or("AGENT", AgentName::as_str)
    }

    /// Reads a skill id, or derives it from the tool's name, and checks that the id is unique in the file.
    pub(super) fn id(&self, table: &TomlTableReader<'_>, subject: &SkillDefaultSource<'_>) -> Option<SkillId> {
        let (position, missing, written) = match table.item("id") {
            Some(item) => (item.position.clone(), "", item.text()?.to_owned()),
            None => (table.position.here("id"), "missing, and ", format!("{PROVIDER}/{}", subject.part?)),
        };
        let text = match &self.name {
            Some(name) => written.replace(PROVIDER, name.as_str()),
            // The invalid agent name is reported by the `[agent]` section.
            None if written.contains(PROVIDER) => return None,
            None => written,
        };
        let id = match SkillId::parse(&text) {
            Ok(id) => id,
            Err(InvalidName { what, found, rule }) => {
                return position.reject(format!("{missing}{found:?} is not {what}"), format!("allowed: {rule}"));
            }
        };
        let mut taken = self.taken.borrow_mut();
        if let Some(line) = taken.get(&id) {
            position.fault(
                format!("the skill at line {line} already has the id {:?}", id.as_str()),
                "allowed: one that no other skill has",
            );
        } else {
            taken.insert(id.clone(), position.line());
        }
        Some(id)
    }

    /// The skill's version. If absent, the agent's version, which must then be three plain numbers.
    pub(super) fn version(&self, table: &TomlTableReader<'_>) -> Option<SkillVersion> {
        if let Some(item) = table.item("version") {
            let text = item.any_text()?;
            return SkillVersion::parse(text).or_else(|| {
                item.position.reject(
                    format!("{:?} is not a version of a skill", cut(text)),
                    r#"allowed: MAJOR.MINOR.PATCH and nothing more, such as "1.0.0""#,
                )
            });
        }
        let agents = self.version.as_ref()?.to_string();
        SkillVersion::parse(&agents).or_else(|| {
            table.position.here("version").reject(
                format!("missing, and the agent's version {:?} is not three numbers", cut(&agents)),
                r#"needed: MAJOR.MINOR.PATCH, such as "1.0.0""#,
            )
        })
    }
}
