//! Faults in an agent file, with their positions.

use std::fmt;

use nuncio_core::text::join_lines;

/// An error or a warning about an agent file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFileFault {
    /// Name of the agent file as given to the parser.
    pub file: String,
    /// Line of the fault; starts at 1.
    pub line: usize,
    /// Column of the fault in characters; starts at 1.
    pub column: usize,
    /// Key with the fault, for example `tool "make_reservation".scope`; empty for the whole file.
    pub key: String,
    pub found: String,
    /// What the agent file may contain instead, or what was probably meant.
    pub help: Option<String>,
}

impl fmt::Display for AgentFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.found)?;
        match &self.help {
            Some(help) => write!(f, "\n  {help}"),
            None => Ok(()),
        }
    }
}

/// All faults of an agent file in file order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", join_lines(.0))]
pub struct AgentFileFaults(pub Vec<AgentFileFault>);
