//! Sections of a generated agent file: tools, their schemas, and the permissions and secrets that they need.

use std::fmt::{self, Write as _};

use nuncio_core::agent::ToolHints;
use nuncio_server::ToolEffect;
use serde_json::Value;

use super::toml;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Parts of a generated agent file: tools and what they need.
#[derive(Debug, Default)]
pub(super) struct GeneratedAgentParts {
    /// Completes the sentence "An agent".
    pub(super) about: String,
    /// Sections that the tools need: servers and permissions.
    pub(super) sections: String,
    /// The `[[tool]]` sections.
    pub(super) tools: String,
    pub(super) names: Vec<String>,
    pub(super) secrets: Vec<NeededSecret>,
    /// Reasons why some tools were left out.
    pub(super) skipped: Vec<String>,
    /// What the tools may do with the person's files, a sentence each.
    pub(super) access: Vec<String>,
    /// Description of the agent.
    pub(super) description: String,
    /// The `[[intent]]` sections that use the tools. If empty, the only intent of a rule brain lists the tools.
    pub(super) intents: String,
    /// What a rule brain with these intents says that it can do.
    pub(super) help: String,
    /// Lines of what to do next.
    pub(super) next: Vec<String>,
}

/// A secret of a generated agent, read from the environment variable of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NeededSecret {
    pub(super) name: String,
    /// What the value must be if it is not the secret itself, such as "base64 of user:password"; else empty.
    pub(super) form: &'static str,
}

/// The first keys of a `[[tool]]` section.
pub(super) struct AgentFileToolHead<'a> {
    pub(super) name: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) description: &'a str,
    pub(super) scope: Option<String>,
    pub(super) hints: ToolHints,
}

impl fmt::Display for AgentFileToolHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n[[tool]]\nname = \"{}\"\n", self.name)?;
        if let Some(title) = self.title.filter(|title| !title.trim().is_empty()) {
            writeln!(f, "title = {}", toml::text(title))?;
        }
        writeln!(f, "description = {}", toml::prose(self.description))?;
        if let Some(scope) = &self.scope {
            writeln!(f, "scope = \"{scope}\"")?;
        }
        if let Some(effect) = self.hints.effect {
            writeln!(f, "effect = \"{effect}\"")?;
        }
        for (key, flag) in [("idempotent", self.hints.idempotent), ("open_world", self.hints.open_world)] {
            if let Some(flag) = flag {
                writeln!(f, "{key} = {flag}")?;
            }
        }
        Ok(())
    }
}

/// The scope of a tool with this effect; tools that only read need none.
pub(super) fn scope_of(prefix: &str, effect: ToolEffect) -> Option<String> {
    match effect {
        ToolEffect::ReadOnly => None,
        ToolEffect::Writes => Some(format!("{prefix}:write")),
        ToolEffect::Destroys => Some(format!("{prefix}:delete")),
    }
}

/// The `[[scope]]` sections that tools with these effects need.
pub(super) fn scopes(prefix: &str, effects: &[ToolEffect]) -> String {
    let mut out = String::new();
    for (effect, label, description, sensitivity) in [
        (
            ToolEffect::Writes,
            (format!("Make changes with {prefix}"), format!("通过 {prefix} 进行更改")),
            ("Adds or changes something.", "新增或更改内容。"),
            "medium",
        ),
        (
            ToolEffect::Destroys,
            (format!("Delete with {prefix}"), format!("通过 {prefix} 进行删除")),
            ("Deletes or overwrites something. This may be final.", "删除或覆盖内容，可能无法撤销。"),
            "high",
        ),
    ] {
        let Some(id) = scope_of(prefix, effect).filter(|_| effects.contains(&effect)) else { continue };
        if out.is_empty() {
            out.push_str(
                "\n# Permissions of the tools that change something. A call under a `high` one needs approval: by the app's own\n\
                 # user, or else by an operator (`nuncio approve`).\n",
            );
        }
        let _ = write!(
            out,
            "[[scope]]\nid = \"{id}\"\nlabel = {{ en = \"{}\", zh-CN = \"{}\" }}\n\
             description = {{ en = \"{}\", zh-CN = \"{}\" }}\nsensitivity = \"{sensitivity}\"\n\n",
            label.0, label.1, description.0, description.1
        );
    }
    out
}

/// The `[secrets]` section, read from environment variables of the same names; empty without secrets.
pub(super) fn secrets(needed: &[NeededSecret]) -> String {
    let mut out = String::new();
    for NeededSecret { name, form } in needed {
        if out.is_empty() {
            out.push_str(
                "\n# Secrets stay out of this file: they are read from the environment, or from a file.\n[secrets]\n",
            );
        }
        let form = if form.is_empty() { String::new() } else { format!("{form}; ") };
        let _ = writeln!(out, "{name} = {{ env = \"{name}\" }}       # {form}or: {{ file = \"path\" }}");
    }
    out
}

/// A schema as TOML sections: keywords of the whole schema, then a line for each property.
pub(super) fn schema(key: &str, schema: &Value) -> String {
    let Some(object) = schema.as_object() else { return String::new() };
    let mut keywords = object.clone();
    // Draft 2020-12 is the default dialect.
    if keywords.get("$schema").and_then(Value::as_str) == Some(DIALECT) {
        keywords.shift_remove("$schema");
    }
    let properties = object.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty());
    if properties.is_some() {
        keywords.shift_remove("properties");
    }
    let mut out = format!("\n[tool.{key}]\n");
    toml::entries(&keywords).iter().for_each(|entry| out.extend([entry, "\n"]));
    if let Some(properties) = properties {
        let _ = write!(out, "\n[tool.{key}.properties]\n");
        toml::entries(properties).iter().for_each(|entry| out.extend([entry, "\n"]));
    }
    out
}
