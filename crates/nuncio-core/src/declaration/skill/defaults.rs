//! What a skill is when its author says no more than its type.

use std::cell::RefCell;
use std::collections::BTreeMap;

use semver::Version;
use serde_json::Value;

use crate::agent::SkillVersion;
use crate::declaration::reader::Table;
use crate::declaration::source::cut;
use crate::ids::{AgentName, InvalidName, SkillId};

/// Stands for the agent's name in an id.
const PROVIDER: &str = "{provider}";

/// What a skill is made of, and so what it is called unless it says otherwise.
pub(in crate::declaration) struct Subject<'a> {
    /// The last part of its id; none where that is wrong already.
    pub(in crate::declaration) part: Option<&'a str>,
    /// What people call it.
    pub(in crate::declaration) name: Option<&'a str>,
    /// What it does; none where that is missing already.
    pub(in crate::declaration) description: Option<&'a str>,
    /// The permission its callers need.
    pub(in crate::declaration) scope: Option<&'a str>,
    /// The schema of what it takes.
    pub(in crate::declaration) input: Option<&'a Value>,
}

/// The agent, as far as its skills need to know it, and the ids they have taken.
pub(in crate::declaration) struct Publisher {
    name: Option<AgentName>,
    version: Option<Version>,
    /// On which line each id stands.
    taken: RefCell<BTreeMap<SkillId, usize>>,
}

impl Publisher {
    /// Reads what `[agent]` says. What is wrong there is not said here.
    pub(in crate::declaration) fn of(root: &Table<'_>) -> Self {
        let agent = root.peek("agent").and_then(|item| item.value.as_table());
        let text = |key: &str| agent.and_then(|table| table.get(key)).and_then(|value| value.get_ref().as_str());
        Self {
            name: text("name").and_then(|name| AgentName::parse(name).ok()),
            version: text("version").and_then(|version| Version::parse(version).ok()),
            taken: RefCell::default(),
        }
    }

    /// The agent's name, for a command to copy.
    pub(super) fn shown_name(&self) -> &str {
        self.name.as_ref().map_or("AGENT", AgentName::as_str)
    }

    /// An id that no other skill of the file has.
    pub(super) fn id(&self, table: &Table<'_>, subject: &Subject<'_>) -> Option<SkillId> {
        let (spot, missing, written) = match table.item("id") {
            Some(item) => (item.spot.clone(), "", item.text()?.to_owned()),
            None => (table.spot.here("id"), "missing, and ", format!("{PROVIDER}/{}", subject.part?)),
        };
        let text = match &self.name {
            Some(name) => written.replace(PROVIDER, name.as_str()),
            // What is wrong with the name is said already.
            None if written.contains(PROVIDER) => return None,
            None => written,
        };
        let id = match SkillId::parse(&text) {
            Ok(id) => id,
            Err(InvalidName { what, found, rule }) => {
                spot.fault(format!("{missing}{found:?} is not {what}"), format!("allowed: {rule}"));
                return None;
            }
        };
        let mut taken = self.taken.borrow_mut();
        if let Some(line) = taken.get(&id) {
            spot.fault(
                format!("the skill at line {line} has the id {:?} already", id.as_str()),
                "allowed: one that no other skill has",
            );
        } else {
            taken.insert(id.clone(), spot.line());
        }
        Some(id)
    }

    /// Its own version, or the agent's where that is plain enough.
    pub(super) fn version(&self, table: &Table<'_>) -> Option<SkillVersion> {
        if let Some(item) = table.item("version") {
            let text = item.any_text()?;
            let version = SkillVersion::parse(text);
            if version.is_none() {
                item.spot.fault(
                    format!("{:?} is not a version of a skill", cut(text)),
                    r#"allowed: MAJOR.MINOR.PATCH and nothing more, such as "1.0.0""#,
                );
            }
            return version;
        }
        let agents = self.version.as_ref()?.to_string();
        let version = SkillVersion::parse(&agents);
        if version.is_none() {
            table.spot.here("version").fault(
                format!("missing, and the agent's own, {:?}, is more than three numbers", cut(&agents)),
                r#"needed: MAJOR.MINOR.PATCH, such as "1.0.0""#,
            );
        }
        version
    }
}
