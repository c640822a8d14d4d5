//! Passphrases: typed without echo, or read from a file or a pipe; never an argument, which everyone on the machine can
//! see.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;

use anstream::eprint;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

use super::commands::Passphrase;
use crate::output::WrongUsage;

/// Number of bytes read of a passphrase, at most.
const MOST: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassphraseUse {
    New,
    Known,
}

/// Reads a passphrase from the named file, the terminal, or standard input.
pub(super) async fn read(file: Option<&Path>, asked: PassphraseUse) -> anyhow::Result<Passphrase> {
    if let Some(file) = file {
        let unusable = |why| WrongUsage(format!("the passphrase file {}: {why}", file.display()));
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(unusable)?;
        opened.take(MOST).read_to_string(&mut text).map_err(unusable)?;
        return parse(&text);
    }
    if !std::io::stdin().is_terminal() {
        return parse(&line().await?);
    }
    let first = prompt_hidden("Passphrase: ").await?;
    if asked == PassphraseUse::New && prompt_hidden("Once more: ").await? != first {
        return Err(WrongUsage("the passphrases do not match; nothing was done".to_owned()).into());
    }
    parse(&first)
}

fn parse(text: &str) -> anyhow::Result<Passphrase> {
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Passphrase(line.to_owned())),
        None => {
            Err(WrongUsage("there is no passphrase: type one, or name a file with --passphrase-file".to_owned()).into())
        }
    }
}

async fn prompt_hidden(prompt: &str) -> anyhow::Result<String> {
    let _quiet = EchoOff::begin()?;
    eprint!("{prompt}");
    let line = tokio::select! {
        line = line() => line,
        _ = tokio::signal::ctrl_c() => Err(WrongUsage("nothing was done".to_owned()).into()),
    };
    anstream::eprintln!();
    line
}

/// Reads one line of standard input on its own thread, so that shutdown does not wait for it.
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

/// Turns terminal echo off until dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn begin() -> anyhow::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks for confirmation in the terminal; `None` without a terminal.
pub(super) async fn confirmed(question: &str, json: bool) -> anyhow::Result<Option<bool>> {
    if json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    let line = line().await?;
    Ok(Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes")))
}
