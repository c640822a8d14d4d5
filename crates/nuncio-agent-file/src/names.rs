//! Names declared in the agent file, collected before references to them are checked.
//!
//! A name counts as declared even if the rest of its section is wrong, so that one fault does not cause others.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeValue;

use super::reader::{LocatedTomlValue, TomlTableReader};
use super::similar;
use super::source::{FilePosition, cut};
use nuncio_core::ids::{BackendName, OptionName, ScopeId, ToolName};

pub(super) struct DeclaredNames<'a> {
    tools: BTreeMap<&'a str, ToolArgumentNames<'a>>,
    scopes: BTreeSet<&'a str>,
    servers: BTreeSet<&'a str>,
    secrets: BTreeSet<&'a str>,
    options: BTreeMap<&'a str, OptionSecrecy>,
    /// Names of declared tools, and of tools imported by name from MCP servers.
    callable: BTreeSet<&'a str>,
    /// Whether some MCP server imports all its tools, whose names are unknown to the parser.
    imports_all: bool,
}

/// The arguments of a tool, as far as its schema lists them.
#[derive(Default)]
pub(super) struct ToolArgumentNames<'a> {
    /// Names of the arguments; `None` when the schema lists no properties.
    pub(super) properties: Option<BTreeSet<&'a str>>,
    pub(super) required: Vec<&'a str>,
}

/// Whether the value of an option may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionSecrecy {
    /// The option's value is visible to everyone who may see the session.
    Public,
    /// The option's value is never shown.
    Secret,
}

impl<'a> DeclaredNames<'a> {
    /// Collects the names declared in the agent file and reports duplicates.
    pub(super) fn collect(root: &TomlTableReader<'a>) -> Self {
        let secrecy = |option: &TomlTableReader<'_>| match option.peek("type").and_then(|item| item.value.as_str()) {
            Some("secret") => OptionSecrecy::Secret,
            _ => OptionSecrecy::Public,
        };
        let options = unique(root, "option", "name", "option");
        unique(root, "intent", "name", "intent");
        unique(root, "capability", "id", "capability");
        unique(root, "interface", "name", "interface");
        let servers = unique(root, "mcp", "name", "MCP server");
        let imports = || servers.values().filter_map(|server| server.peek("import"));
        let tools: BTreeMap<_, _> = unique(root, "tool", "name", "tool")
            .into_iter()
            .map(|(name, tool)| (name, ToolArgumentNames::of(&tool)))
            .collect();
        let imported = imports().flat_map(|import| texts(&import));
        Self {
            scopes: unique(root, "scope", "id", "scope").into_keys().collect(),
            secrets: keys(root.peek("secrets").as_ref()),
            options: options.iter().map(|(name, option)| (*name, secrecy(option))).collect(),
            callable: tools.keys().copied().chain(imported).collect(),
            imports_all: imports().any(|import| import.value.as_bool() == Some(true)),
            tools,
            servers: servers.into_keys().collect(),
        }
    }

    /// Reads a reference to a declared scope.
    pub(super) fn scope(&self, item: &LocatedTomlValue<'_>) -> Option<ScopeId> {
        let id = item.name(ScopeId::parse)?;
        known(item, id.as_str(), "scope", &self.scopes).then_some(id)
    }

    /// Reads a reference to a declared MCP server.
    pub(super) fn server(&self, item: &LocatedTomlValue<'_>) -> Option<BackendName> {
        let name = item.name(BackendName::parse)?;
        known(item, name.as_str(), "mcp", &self.servers).then_some(name)
    }

    /// Reads a reference to a declared or imported tool.
    pub(super) fn tool(&self, item: &LocatedTomlValue<'_>) -> Option<ToolName> {
        let name = item.name(ToolName::parse)?;
        (self.imports_all || known(item, name.as_str(), "tool", &self.callable)).then_some(name)
    }

    /// The arguments of a tool that the file declares.
    pub(super) fn input(&self, tool: &ToolName) -> Option<&ToolArgumentNames<'a>> {
        self.tools.get(tool.as_str())
    }

    pub(super) fn has_tool(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// Reads a reference to a declared secret.
    pub(super) fn secret(&self, item: &LocatedTomlValue<'_>) -> Option<BackendName> {
        let name = item.name(BackendName::parse)?;
        self.knows_secret(&item.position, name.as_str()).then_some(name)
    }

    /// Checks that a secret is declared, and reports a fault otherwise.
    pub(super) fn knows_secret(&self, position: &FilePosition<'_>, name: &str) -> bool {
        let known = self.secrets.contains(name);
        if !known {
            let help = similar::help_or("the file has no [secrets] at all", name, "declared", &self.secrets);
            position.fault(format!("no secret is named {:?}", cut(name)), help);
        }
        known
    }

    /// Reads a reference to an option, which must be as secret as its use requires.
    pub(super) fn option(&self, item: &LocatedTomlValue<'_>, secrecy: OptionSecrecy) -> Option<OptionName> {
        let name = item.name(OptionName::parse)?;
        let declared: BTreeSet<_> = self.options.keys().copied().collect();
        if !known(item, name.as_str(), "option", &declared) {
            return None;
        }
        match (self.options.get(name.as_str()), secrecy) {
            (Some(OptionSecrecy::Public), OptionSecrecy::Secret) => item.position.reject(
                format!("{name:?} is visible to everyone who can read the session"),
                r#"allowed: an option of type "secret""#,
            ),
            (Some(OptionSecrecy::Secret), OptionSecrecy::Public) => item
                .position
                .reject(format!("{name:?} is a secret"), r#"allowed: an option of type "text" or "select""#),
            _ => Some(name),
        }
    }

    /// The declared options and the secrecy of their values.
    pub(super) fn options(&self) -> &BTreeMap<&'a str, OptionSecrecy> {
        &self.options
    }
}

impl<'a> ToolArgumentNames<'a> {
    /// Reads the argument names from the tool's input schema.
    pub(super) fn of(tool: &TomlTableReader<'a>) -> Self {
        let schema = tool.peek("input");
        let schema = schema.as_ref().and_then(|item| item.value.as_table());
        let Some(schema) = schema else { return Self::default() };
        let properties = schema.get("properties").and_then(|value| value.get_ref().as_table());
        let required = schema.get("required").and_then(|value| value.get_ref().as_array());
        Self {
            properties: properties.map(|properties| properties.keys().map(|key| key.get_ref().as_ref()).collect()),
            required: required
                .into_iter()
                .flat_map(|names| names.iter())
                .filter_map(|name| name.get_ref().as_str())
                .collect(),
        }
    }
}

/// Collects the sections by name. A repeated name is a fault of the later section.
fn unique<'a>(
    root: &TomlTableReader<'a>,
    section: &'static str,
    key: &str,
    what: &str,
) -> BTreeMap<&'a str, TomlTableReader<'a>> {
    let mut seen: BTreeMap<&str, TomlTableReader<'_>> = BTreeMap::new();
    for (name, table) in root.peek_named(section, key) {
        if let Some(first) = seen.get(name) {
            if let Some(item) = table.peek(key) {
                let line = first.position.line();
                item.position.fault(
                    format!("the {what} at line {line} already has this {key}"),
                    format!("allowed: one that no other {what} has"),
                );
            }
            continue;
        }
        seen.insert(name, table);
    }
    seen
}

/// Checks that the agent file declares the name, and reports a fault otherwise.
fn known(item: &LocatedTomlValue<'_>, name: &str, section: &str, declared: &BTreeSet<&str>) -> bool {
    if declared.contains(name) {
        return true;
    }
    let help = similar::help_or(&format!("the file has no [[{section}]] sections"), name, "declared", declared);
    item.position.fault(format!("no [[{section}]] is named {:?}", cut(name)), help);
    false
}

fn keys<'a>(item: Option<&LocatedTomlValue<'a>>) -> BTreeSet<&'a str> {
    let table = item.and_then(|item| item.value.as_table());
    table.into_iter().flat_map(|table| table.keys()).map(|key| key.get_ref().as_ref()).collect()
}

fn texts<'a>(item: &LocatedTomlValue<'a>) -> Vec<&'a str> {
    let DeValue::Array(items) = item.value else {
        return Vec::new();
    };
    items.iter().filter_map(|item| item.get_ref().as_str()).collect()
}
