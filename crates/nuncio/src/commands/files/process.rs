//! The start with a program of the author's as the brain: the example of its language, under the agent's own name.

use std::path::Path;

use nuncio_core::ids::AgentName;

use super::draft::AgentFileDraft;
use crate::cli::ProcessLanguage;
use crate::output::shell_quote;

const PYTHON: &str = include_str!("../../../../../examples/process-python/agent.toml");
const PYTHON_BRAIN: &str = include_str!("../../../../../examples/process-python/brain.py");
const NODE: &str = include_str!("../../../../../examples/process-node/agent.toml");
const NODE_BRAIN: &str = include_str!("../../../../../examples/process-node/brain.mjs");

pub(super) fn draft(language: ProcessLanguage, name: &AgentName, folder: &Path) -> AgentFileDraft {
    let (example, text, file) = match language {
        ProcessLanguage::Python => ("process-python", PYTHON, ("brain.py", PYTHON_BRAIN)),
        ProcessLanguage::Node => ("process-node", NODE, ("brain.mjs", NODE_BRAIN)),
    };
    let text = text
        .replace(&format!("examples/{example}"), &shell_quote(&folder.display().to_string()))
        .replace(&format!("name = \"{example}\""), &format!("name = \"{name}\""));
    AgentFileDraft { text, files: vec![file], skipped: Vec::new(), secrets: Vec::new(), tools: 1 }
}
