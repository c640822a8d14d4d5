//! Passphrases: typed without echo, or read from a file or a pipe; never an argument, which everyone on the machine can
//! see.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use anstream::eprint;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::commands::Passphrase;
use super::texts::DeviceTexts;
use crate::cli::PassphraseSource;
use crate::commands::confirm::{MAX_LINE, read_line};
use crate::output::{WrongUsageError, wrong_usage};

/// Whether a passphrase is chosen now, and so typed twice, or was chosen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassphraseUse {
    New,
    Known,
}

impl PassphraseSource {
    pub(super) async fn read(&self, purpose: PassphraseUse) -> anyhow::Result<Passphrase> {
        read(self.passphrase_file.as_deref(), purpose).await
    }
}

/// Reads a passphrase from the named file, the terminal, or standard input.
pub(super) async fn read(file: Option<&Path>, purpose: PassphraseUse) -> anyhow::Result<Passphrase> {
    if let Some(file) = file {
        let unusable = |why| WrongUsageError(format!("the passphrase file {}: {why}", file.display()));
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(unusable)?;
        opened.take(MAX_LINE).read_to_string(&mut text).map_err(unusable)?;
        return parse(&text);
    }
    if !std::io::stdin().is_terminal() {
        return parse(&read_line().await?);
    }
    let texts = DeviceTexts::of_environment();
    let first = prompt_hidden(texts.passphrase).await?;
    if purpose == PassphraseUse::New && prompt_hidden(texts.once_more).await? != first {
        return Err(wrong_usage("the passphrases do not match; nothing was done"));
    }
    parse(&first)
}

fn parse(text: &str) -> anyhow::Result<Passphrase> {
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Passphrase(line.to_owned())),
        None => Err(wrong_usage("there is no passphrase: type one, or name a file with --passphrase-file")),
    }
}

async fn prompt_hidden(prompt: &str) -> anyhow::Result<String> {
    let _echo_off = TerminalEchoGuard::begin()?;
    eprint!("{prompt}");
    let line = tokio::select! {
        line = read_line() => line,
        _ = tokio::signal::ctrl_c() => Err(wrong_usage("nothing was done")),
    };
    anstream::eprintln!();
    line
}

/// Turns terminal echo off until dropped.
struct TerminalEchoGuard(Termios);

impl TerminalEchoGuard {
    fn begin() -> anyhow::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for TerminalEchoGuard {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}
