//! Progress of a remote execution: one changing line for people, one event per line for programs.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{eprint, println};
use nuncio_skill::client::{InvocationProgress, ProgressCallback};
use owo_colors::OwoColorize as _;

use crate::commands::chat::clean::clean;
use crate::commands::consumer::print_note;

#[derive(Debug)]
pub(super) struct ProgressLine {
    json: bool,
    /// Whether the output is a terminal, on which the line can be overwritten.
    live: bool,
    /// Whether the progress line is currently shown.
    used: AtomicBool,
}

impl ProgressLine {
    pub(super) fn new(json: bool) -> Self {
        Self { json, live: !json && std::io::stderr().is_terminal(), used: AtomicBool::new(false) }
    }

    pub(super) fn watcher(line: &Arc<Self>) -> ProgressCallback {
        let line = Arc::clone(line);
        ProgressCallback::new(move |progress| line.report(progress))
    }

    pub(super) fn clear(&self) {
        if self.live && self.used.swap(false, Ordering::Relaxed) {
            eprint!("\r\u{1b}[K");
            let _ = std::io::stderr().flush();
        }
    }

    fn report(&self, progress: &InvocationProgress) {
        if self.json {
            println!("{}", serde_json::json!(progress));
        }
        match progress {
            InvocationProgress::Authorize { url } => {
                if !self.json {
                    self.clear();
                    anstream::eprintln!("Grant access in your browser:\n  {}", clean(url));
                }
                open_browser(url);
            }
            _ if self.json => {}
            InvocationProgress::Note { message } => {
                self.clear();
                print_note(message);
            }
            InvocationProgress::Discovered { skills, .. } => self.show(&format!("found {skills} skills")),
            InvocationProgress::Described { skill_id, .. } => self.show(&format!("invoking {skill_id}")),
            InvocationProgress::Retrying { attempt, delay_ms, why } => {
                self.show(&format!("attempt {attempt} failed, next in {delay_ms} ms: {why}"));
            }
            InvocationProgress::Accepted { execution_id } => self.show(&format!("accepted: {execution_id}")),
            InvocationProgress::Running { execution_id, .. } => self.show(&format!("running: {execution_id}")),
            InvocationProgress::Completed { .. } => self.clear(),
        }
    }

    fn show(&self, text: &str) {
        if self.live {
            let text: String = clean(text).chars().take(78).collect();
            eprint!("\r\u{1b}[K{}", text.dimmed());
            let _ = std::io::stderr().flush();
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

/// Tries to open a URL in a browser; the URL is printed as well.
fn open_browser(url: &str) {
    let default = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = std::env::var("BROWSER").unwrap_or_else(|_| default.to_owned());
    if program.is_empty() {
        return;
    }
    let started =
        Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut browser) = started {
        // Waiting for the browser keeps it from becoming a zombie process.
        std::thread::spawn(move || browser.wait());
    }
}
