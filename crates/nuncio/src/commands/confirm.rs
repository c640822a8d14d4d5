//! Lines typed in the terminal: answers to yes-or-no questions, and passphrases.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use anstream::eprint;
use tokio::sync::oneshot;

use crate::output::wrong_usage;

/// Maximum length of a typed line, in bytes; the rest is ignored.
pub(super) const MAX_LINE: u64 = 4096;

/// Asks a yes-or-no question; `None` with `--json` or without a terminal. A command that ends after a no has exit
/// status 1: its arguments were right.
pub(super) async fn confirm(question: &str, json: bool) -> anyhow::Result<Option<bool>> {
    if json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    let line = read_line().await?;
    Ok(Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是")))
}

/// Asks before an action that cannot be undone, unless `--yes` was given; with `--json` or without a terminal, `--yes` is
/// needed.
pub(super) async fn require_yes(effect: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let question = format!("{effect} This cannot be undone. Continue?");
    match if yes { Some(true) } else { confirm(&question, json).await? } {
        Some(true) => Ok(()),
        Some(false) => Err(anyhow::anyhow!("nothing was changed")),
        None => Err(wrong_usage(format!("{effect} This cannot be undone; add --yes to confirm it without a terminal"))),
    }
}

/// Reads one line of standard input on its own thread, so that shutdown does not wait for it.
pub(super) async fn read_line() -> anyhow::Result<String> {
    let (sender, line) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().take(MAX_LINE).read_line(&mut line).map(|_| line);
        // The error is ignored: after an interruption nothing waits for the line.
        let _ = sender.send(read);
    });
    Ok(line.await??)
}
