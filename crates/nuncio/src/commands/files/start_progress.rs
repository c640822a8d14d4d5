//! Progress while an MCP server starts: its own output, and on a terminal a line that counts the seconds.

use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use anstream::{eprint, eprintln};
use owo_colors::OwoColorize as _;
use tokio::sync::mpsc;

use crate::commands::chat::clean::clean;

pub(super) struct McpStartProgress<'a> {
    /// Name of the server.
    pub(super) name: &'a str,
    /// Whether output is for programs; then nothing is shown.
    pub(super) json: bool,
    /// Whether packages may be downloaded before the server starts.
    pub(super) downloads: bool,
    /// Whether the server is a program; otherwise it is reached at a URL.
    pub(super) is_program: bool,
    pub(super) limit: Duration,
}

impl McpStartProgress<'_> {
    /// Waits for `work` and meanwhile shows the lines that the server writes.
    pub(super) async fn show<T>(&self, work: impl Future<Output = T>, mut lines: mpsc::Receiver<String>) -> T {
        if self.json {
            // Nothing reads the lines; a closed channel drops them.
            lines.close();
            return work.await;
        }
        self.announce();
        let live = std::io::stderr().is_terminal();
        let mut work = pin!(work);
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let mut elapsed: u64 = 0;
        let result = loop {
            tokio::select! {
                biased;
                Some(line) = lines.recv() => self.print(&line, live),
                result = &mut work => break result,
                _ = seconds.tick(), if live => {
                    eprint!("\r\u{1b}[K{}", format!("waiting for {} … {elapsed} s", self.name).dimmed());
                    let _ = std::io::stderr().flush();
                    elapsed += 1;
                }
            }
        };
        while let Ok(line) = lines.try_recv() {
            self.print(&line, live);
        }
        if live {
            eprint!("\r\u{1b}[K");
            let _ = std::io::stderr().flush();
        }
        result
    }

    fn announce(&self) {
        let name = self.name;
        match (self.is_program, self.downloads) {
            (false, _) => eprintln!("Asking {name} for its tools."),
            (true, false) => eprintln!("Starting {name}."),
            (true, true) => eprintln!(
                "Starting {name}. Its packages may have to be downloaded first; this may take up to {} s.",
                self.limit.as_secs()
            ),
        }
    }

    fn print(&self, line: &str, live: bool) {
        let start = if live { "\r\u{1b}[K" } else { "" };
        eprintln!("{start}{}", format!("{}: {}", self.name, clean(line.trim_end())).dimmed());
    }
}
