//! The start of MCP servers that are programs.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;

/// Programs that download the MCP server they start if it is not in their cache.
const DOWNLOADERS: [&str; 13] =
    ["npx", "npm", "pnpm", "yarn", "bun", "bunx", "uvx", "uv", "pipx", "deno", "docker", "podman", "nerdctl"];

/// How MCP servers are started.
#[derive(Debug, Clone)]
pub struct McpStartOptions {
    /// Time limit from the start of a server's program to the end of the handshake.
    pub timeout: Duration,
    /// Receives the lines that servers write to standard error, without secrets. Lines are dropped while it is full.
    pub stderr: Option<mpsc::Sender<String>>,
}

impl McpStartOptions {
    /// Default time limit: the first start may have to download packages.
    pub const TIMEOUT: Duration = Duration::from_secs(120);
}

impl Default for McpStartOptions {
    fn default() -> Self {
        Self { timeout: Self::TIMEOUT, stderr: None }
    }
}

/// Whether the program may download packages before it starts the MCP server.
#[must_use]
pub fn downloads_packages(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| DOWNLOADERS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_runners_are_recognised_by_the_name_of_their_program() {
        assert!(downloads_packages("npx") && downloads_packages("/usr/local/bin/uvx"));
        assert!(!downloads_packages("node") && !downloads_packages("npx/node") && !downloads_packages(""));
    }
}
