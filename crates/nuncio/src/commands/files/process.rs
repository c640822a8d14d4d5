//! The start with a program of the author's as the brain: the example of its language, under the agent's own name.

use std::path::Path;

use nuncio_core::ids::AgentName;

use super::data_option;
use super::draft::{self, AgentFileDraft};
use super::sections::{self, GeneratedAgentParts};
use crate::cli::ProcessLanguage;
use crate::output::shell_quote;

const PYTHON: &str = include_str!("../../../../../examples/process-python/agent.toml");
const PYTHON_BRAIN: &str = include_str!("../../../../../examples/process-python/brain.py");
const NODE: &str = include_str!("../../../../../examples/process-node/agent.toml");
const NODE_BRAIN: &str = include_str!("../../../../../examples/process-node/brain.mjs");

/// The tool of both examples.
const EXAMPLE_TOOL: &str = "clock";

/// The example of the language. Imported tools are offered to its program as well.
pub(super) fn draft(
    language: ProcessLanguage,
    name: &AgentName,
    folder: &Path,
    tools: Option<&GeneratedAgentParts>,
) -> AgentFileDraft {
    let (example, text, file, unused_tools) = match language {
        ProcessLanguage::Python => (
            "process-python",
            PYTHON,
            ("brain.py", PYTHON_BRAIN),
            "Until brain.py calls the tools that were added, conversations cannot use them.",
        ),
        ProcessLanguage::Node => (
            "process-node",
            NODE,
            ("brain.mjs", NODE_BRAIN),
            "Until brain.mjs calls the tools that were added, conversations cannot use them.",
        ),
    };
    let served = format!("{}{}", shell_quote(&folder.display().to_string()), data_option(folder));
    let mut text = text
        .replace(&format!("examples/{example}"), &served)
        .replace(&format!("name = \"{example}\""), &format!("name = \"{name}\""));
    let files = vec![file];
    let Some(tools) = tools else {
        return AgentFileDraft { text, files, tools: Some(1), ..AgentFileDraft::default() };
    };
    let has_clock = !tools.names.iter().any(|name| name == EXAMPLE_TOOL);
    if !has_clock && let Some(at) = text.find("\n[[tool]]") {
        text.truncate(at);
    }
    text.push_str(&sections::secrets(&tools.secrets));
    draft::add_tools(&mut text, tools);
    AgentFileDraft {
        text,
        files,
        skipped: tools.skipped.clone(),
        access: tools.access.clone(),
        secrets: tools.secrets.clone(),
        tools: Some(tools.names.len() + usize::from(has_clock)),
        next: tools.next.iter().cloned().chain([unused_tools.to_owned()]).collect(),
    }
}
