//! Warnings that need the whole agent file, about declarations that are allowed but probably unintended.

use std::collections::BTreeSet;

use super::external::AgentFilePosition;
use super::reader::TomlTableReader;
use super::templates::secrets_in;
use nuncio_core::agent::{Agent, BrainSpec, Sensitivity, ToolRunSpec};
use nuncio_core::ids::{BackendName, ScopeId};
use nuncio_core::template::Template;

/// Warns about declarations that nothing uses.
pub(super) fn unused(agent: &Agent, root: &TomlTableReader<'_>) {
    let imports = || agent.mcp.iter().filter_map(|server| Some((server, server.import.as_ref()?)));

    let scopes = agent.tools.iter().filter_map(|tool| tool.scope.as_ref());
    let scopes = scopes.chain(imports().filter_map(|(_, import)| import.scope.as_ref()));
    let scopes: BTreeSet<_> = scopes.map(ScopeId::as_str).collect();
    for (id, table) in root.peek_named("scope", "id") {
        if !scopes.contains(id) {
            table.position.note("no tool needs this scope", "use it in a tool, or remove it");
        }
    }

    let servers = agent.tools.iter().filter_map(|tool| match &tool.run {
        ToolRunSpec::Mcp { server, .. } => Some(server),
        ToolRunSpec::Http(_)
        | ToolRunSpec::Command(_)
        | ToolRunSpec::Human(_)
        | ToolRunSpec::Skill(_)
        | ToolRunSpec::Anp(_)
        | ToolRunSpec::Answer(_)
        | ToolRunSpec::Device(_) => None,
    });
    let servers = servers.chain(imports().map(|(server, _)| &server.name));
    let servers: BTreeSet<_> = servers.map(BackendName::as_str).collect();
    for (name, table) in root.peek_named("mcp", "name") {
        if !servers.contains(name) {
            table.position.note("no tool uses this server", "import its tools, or name it in a tool's run");
        }
    }

    let key = agent.brain.key().map(ToString::to_string);
    let named: BTreeSet<_> = templates(agent).into_iter().flat_map(secrets_in).chain(key).collect();
    let secrets = root.peek("secrets").and_then(|item| item.table());
    for (name, item) in secrets.iter().flat_map(TomlTableReader::entries) {
        if !named.contains(name) {
            item.position
                .note("no template uses this secret", format!("write {{{{ secrets.{name} }}}}, or leave it out"));
        }
    }

    let BrainSpec::Rules(rules) = &agent.brain else {
        return;
    };
    let called: BTreeSet<_> = rules.intents.iter().filter_map(|intent| intent.tool.as_ref()).collect();
    for (name, table) in root.peek_named("tool", "name") {
        if agent.tool(name).is_some_and(|tool| {
            !tool.exposed && !called.contains(&tool.name) && !matches!(tool.run, ToolRunSpec::Device(_))
        }) {
            table.position.note("the tool cannot be called", "it is hidden, and no intent uses it");
        }
    }
}

/// Positions of tools and imports that have no scope and are offered to callers.
pub(super) fn unscoped(agent: &Agent, root: &TomlTableReader<'_>) -> Vec<AgentFilePosition> {
    let is_open_tool = |name: &str| {
        agent
            .tool(name)
            .is_some_and(|tool| tool.exposed && tool.scope.is_none() && !matches!(tool.run, ToolRunSpec::Device(_)))
    };
    let is_open_import = |name: &str| {
        let server = agent.mcp.iter().find(|server| server.name.as_str() == name);
        let import = server.and_then(|server| server.import.as_ref());
        import.is_some_and(|import| import.exposed && import.scope.is_none())
    };
    let tools = root.peek_named("tool", "name").into_iter().filter(|(name, _)| is_open_tool(name));
    let imports = root.peek_named("mcp", "name").into_iter().filter(|(name, _)| is_open_import(name));
    tools.chain(imports).map(|(_, table)| table.position.to_owned_position()).collect()
}

/// Warns about server tools that change data under a `low` scope, which run without asking. On devices such scopes
/// count as `medium`.
pub(super) fn low_mutating_scopes(agent: &Agent, root: &TomlTableReader<'_>) {
    let server_tools = agent.tools.iter().filter(|tool| !matches!(tool.run, ToolRunSpec::Device(_)));
    let imports = agent.mcp.iter().filter_map(|server| server.import.as_ref()?.scope.as_ref());
    let used: BTreeSet<_> = server_tools.filter_map(|tool| tool.scope.as_ref()).chain(imports).collect();
    for (id, table) in root.peek_named("scope", "id") {
        let Some(scope) = agent.scopes.iter().find(|scope| scope.id.as_str() == id) else { continue };
        if scope.sensitivity == Sensitivity::Low && scope.id.is_mutating() && used.contains(&scope.id) {
            table.position.here("sensitivity").note(
                "is \"low\", though the scope lets tools change something",
                "only calls under a \"high\" scope need approval; \"medium\" shows people that the scope matters",
            );
        }
    }
}

/// Every template of the agent that may refer to a secret.
fn templates(agent: &Agent) -> Vec<&Template> {
    let mut templates = Vec::new();
    for tool in &agent.tools {
        match &tool.run {
            ToolRunSpec::Mcp { .. }
            | ToolRunSpec::Human(_)
            | ToolRunSpec::Anp(_)
            | ToolRunSpec::Answer(_)
            | ToolRunSpec::Device(_) => {}
            ToolRunSpec::Skill(skill) => templates.extend(skill.templates()),
            ToolRunSpec::Http(http) => templates.extend(http.templates()),
            ToolRunSpec::Command(command) => templates.extend(command.templates()),
        }
    }
    for server in &agent.mcp {
        templates.extend(server.transport.templates());
    }
    if let BrainSpec::Process(program) = &agent.brain {
        templates.extend(program.templates());
    }
    templates
}
