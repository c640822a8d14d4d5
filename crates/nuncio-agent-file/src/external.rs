//! What an agent needs outside its file: programs, environment variables, files
//! and OAuth issuers.
//!
//! The parser only lists it. Whether it exists depends on the machine, so `nuncio lint` looks.

use std::fmt;
use std::path::PathBuf;

use nuncio_core::ids::InformationPath;
use url::Url;

use super::fault::AgentFileFault;

/// Where something is written in an agent file, without the text itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFilePosition {
    /// Name of the agent file as given to the parser.
    pub file: String,
    /// Line; starts at 1.
    pub line: usize,
    /// Column in characters; starts at 1.
    pub column: usize,
    /// Key at the position, for example `tool "clock".run.command[0]`.
    pub key: String,
}

/// Something outside the agent file that the agent needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalReference {
    pub position: AgentFilePosition,
    pub target: ExternalTarget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalTarget {
    /// Name or path of a program.
    Program(String),
    /// Script file of an interpreter, relative to the agent file.
    Script(String),
    /// JSON file that is published, relative to the agent file.
    InformationFile(InformationPath),
    /// OAuth issuer that the server must trust; `None` is the only one that it trusts.
    Issuer(Option<Url>),
    /// Environment variable that holds a secret.
    SecretVariable(String),
    /// File that holds a secret, relative to the agent file.
    SecretFile(PathBuf),
    /// Path in `[allow]`.
    AllowedPath(String),
}

impl AgentFilePosition {
    /// A fault at this position.
    pub fn fault(&self, found: impl Into<String>, help: impl Into<String>) -> AgentFileFault {
        let Self { file, line, column, key } = self.clone();
        AgentFileFault { file, line, column, key, found: found.into(), help: Some(help.into()) }
    }
}

impl fmt::Display for AgentFilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.key)
    }
}
