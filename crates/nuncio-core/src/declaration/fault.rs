//! Faults in an agent file, with their positions.

use std::fmt;

/// An error or a warning about an agent file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFileFault {
    /// File name as given to the parser.
    pub file: String,
    /// Starts at 1.
    pub line: usize,
    /// Starts at 1, in characters.
    pub column: usize,
    /// For example `tool "make_reservation".scope`; empty for the whole file.
    pub key: String,
    pub found: String,
    /// What is allowed, or what was probably meant.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFileFaults(pub Vec<AgentFileFault>);

impl fmt::Display for AgentFileFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for AgentFileFaults {}
