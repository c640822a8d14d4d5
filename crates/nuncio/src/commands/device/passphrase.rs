//! Passphrases: typed without being shown, or from a file or a pipe; never an argument, which everyone on the machine
//! can see.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;

use anstream::eprint;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

use super::orders::Passphrase;
use crate::output::WrongUsage;

/// How much is read of one, at most.
const MOST: u64 = 4096;

/// How it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// For the first time: it is typed twice.
    New,
    /// It was set before.
    Known,
}

/// Reads one: from the file that was named, from who types, or from what is piped in.
pub(super) async fn read(file: Option<&Path>, asked: Asked) -> anyhow::Result<Passphrase> {
    if let Some(file) = file {
        let unusable = |why| WrongUsage(format!("the passphrase file {}: {why}", file.display()));
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(unusable)?;
        opened.take(MOST).read_to_string(&mut text).map_err(unusable)?;
        return given(&text);
    }
    if !std::io::stdin().is_terminal() {
        return given(&line().await?);
    }
    let first = typed("Passphrase: ").await?;
    if asked == Asked::New && typed("Once more: ").await? != first {
        return Err(WrongUsage("the two are not the same; nothing was done".to_owned()).into());
    }
    given(&first)
}

fn given(text: &str) -> anyhow::Result<Passphrase> {
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Passphrase(line.to_owned())),
        None => {
            Err(WrongUsage("there is no passphrase: type one, or name a file with --passphrase-file".to_owned()).into())
        }
    }
}

async fn typed(prompt: &str) -> anyhow::Result<String> {
    let _quiet = Quiet::begin()?;
    eprint!("{prompt}");
    let line = tokio::select! {
        line = line() => line,
        _ = tokio::signal::ctrl_c() => Err(WrongUsage("nothing was done".to_owned()).into()),
    };
    anstream::eprintln!();
    line
}

/// One line of what is typed or piped in, read apart: nothing waits for it at the end.
async fn line() -> anyhow::Result<String> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().take(MOST).read_line(&mut line).map(|_| line);
        // Nobody waits any more after an interruption.
        let _ = tell.send(read);
    });
    Ok(told.await??)
}

/// Nothing that is typed is shown, until it is dropped.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> anyhow::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks for a yes in the terminal; none where nobody sits at one.
pub(super) async fn confirmed(question: &str, json: bool) -> anyhow::Result<Option<bool>> {
    if json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    let line = line().await?;
    Ok(Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes")))
}
