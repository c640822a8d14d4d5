//! The agent file: TOML parsed into an [`Agent`] that satisfies every check.
//!
//! All faults of a file are reported together, each with its line, its key, what was found and what is allowed. There
//! is one module per section; `reader` has the shared parsing helpers.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod agent;
mod allow;
mod brain;
mod capabilities;
mod command;
mod external;
mod fault;
mod http;
mod intents;
mod mcp;
mod names;
mod notes;
mod options;
mod published;
mod reader;
pub mod reference;
mod run;
mod schemas;
mod scopes;
mod secrets;
mod similar;
mod skill;
mod slots;
mod source;
mod strings;
mod template_paths;
mod templates;
#[cfg(test)]
mod tests;
mod tools;

use toml::de::DeTable;

use nuncio_core::agent::Agent;

pub use external::{AgentFilePosition, ExternalReference, ExternalTarget};
pub use fault::{AgentFileFault, AgentFileFaults};

use names::DeclaredNames;
use reader::TomlTableReader;
use skill::SkillIdReader;
use source::AgentFileSource;

/// Size limit of an agent file, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Template for new agent files. It works without network or other programs.
pub const STARTER: &str = include_str!("starter.toml");

/// An agent with warnings for its author.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedAgentFile {
    pub agent: Agent,
    /// Warnings about allowed but probably unintended declarations, in file order.
    pub notes: Vec<AgentFileFault>,
    /// Programs, environment variables and files that the agent needs.
    pub references: Vec<ExternalReference>,
    /// Tools and imports without a scope, which every caller of the agent may use.
    pub unscoped: Vec<AgentFilePosition>,
}

/// Parses an agent file. `file` is the name shown in faults.
///
/// # Errors
///
/// All faults in file order; for invalid TOML only the first syntax error.
pub fn parse(file: &str, text: &str) -> Result<ParsedAgentFile, AgentFileFaults> {
    let source = AgentFileSource::new(file, text);
    if text.len() > MAX_BYTES {
        source.root().fault(format!("the file has {} bytes", text.len()), format!("allowed: at most {MAX_BYTES}"));
        return Err(source.into_faults());
    }
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            source
                .position(error.span().map_or(0, |span| span.start))
                .fault(format!("not TOML: {}", error.message()), "");
            return Err(source.into_faults());
        }
    };
    let root = TomlTableReader::root(&source, document.get_ref());
    match (read(&root), source.has_faults()) {
        (Some(agent), false) => {
            let (references, unscoped) = (source.references(), notes::unscoped(&agent, &root));
            Ok(ParsedAgentFile { agent, notes: source.into_notes(), references, unscoped })
        }
        _ => Err(source.into_faults()),
    }
}

/// Reads every section; a fault in one section does not stop the others.
fn read(root: &TomlTableReader<'_>) -> Option<Agent> {
    let names = DeclaredNames::collect(root);
    let publisher = SkillIdReader::of(root);
    let identity = agent::read(root, &publisher);
    let capabilities = capabilities::read(root);
    let options = options::read(root);
    let scopes = scopes::read(root);
    let tools = tools::read(root, &names, &publisher);
    let brain = brain::read(root, &names, &tools);
    let mcp = mcp::read(root, &names);
    let secrets = secrets::read(root);
    let allow = allow::read(root);
    let information = published::information(root);
    let abilities = published::abilities(root, &names, &tools);
    let interfaces = published::interfaces(root);
    let flags = capabilities::flags(root);
    root.finish();

    let identity = identity?;
    let agent = Agent {
        name: identity.name,
        title: identity.title,
        version: identity.version,
        description: identity.description,
        examples: identity.examples,
        ask: identity.ask,
        owner: identity.owner,
        brain: brain?,
        capabilities,
        options,
        scopes,
        tools,
        mcp,
        secrets,
        allow,
        skill: identity.skill.map(Box::new),
        created: identity.created,
        presence: identity.presence,
        information,
        abilities,
        interfaces,
        flags,
    };
    notes::unused(&agent, root);
    notes::low_mutating_scopes(&agent, root);
    Some(agent)
}
