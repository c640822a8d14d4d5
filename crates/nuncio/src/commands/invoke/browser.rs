//! Opens a URL in the user's browser.

use std::process::{Command, Stdio};

/// Tries to open a URL in a browser; the URL is printed as well.
pub(super) fn open(url: &str) {
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
