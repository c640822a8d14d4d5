//! Shared code of the commands that use remote skills.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstream::eprintln;
use anyhow::Context as _;
use nuncio_server::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_server::{SystemClock, SystemEntropy};
use nuncio_skill::client::oauth::{FileOAuthTokenStore, MemoryOAuthTokenStore, OAuthTokenStore};
use nuncio_skill::client::{
    InvocationProgress, ProgressCallback, SecretString, SkillConsumer, SkillConsumerOptions, SkillInvocationCredential,
};
use owo_colors::OwoColorize as _;

use super::chat::clean::clean;
use super::chat::wrap::WordWrapper;
use crate::cli::{CallerKey, OutboundOptions};
use crate::output::WrongUsageError;

/// The HTTP client, limited to the addresses that the user's flags allow.
pub(crate) fn fetch_client(outbound: &OutboundOptions) -> anyhow::Result<Arc<GuardedFetch>> {
    let allow = AllowedAddresses::parse(outbound.allow.iter().map(String::as_str)).map_err(WrongUsageError)?;
    Ok(Arc::new(guarded_fetch(allow, outbound.dev, outbound.extra_ca.as_deref())?))
}

/// An HTTP client that also trusts the certificate authorities in a PEM file.
pub(crate) fn guarded_fetch(
    allow: AllowedAddresses,
    dev: bool,
    extra_ca: Option<&Path>,
) -> anyhow::Result<GuardedFetch> {
    let read = |file: &Path| std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()));
    let roots = extra_ca.map(read).transpose()?;
    GuardedFetch::new(allow, dev, roots.as_deref()).map_err(anyhow::Error::msg)
}

/// A skill consumer with the user's address limits and stored tokens.
pub(crate) fn consumer(outbound: &OutboundOptions, watcher: ProgressCallback) -> anyhow::Result<SkillConsumer> {
    let fetch = fetch_client(outbound)?;
    let options = SkillConsumerOptions { caller_type: "user".to_owned(), ..SkillConsumerOptions::default() };
    let consumer = SkillConsumer::new(fetch, Arc::new(SystemClock), Arc::new(SystemEntropy), options);
    Ok(consumer.with_tokens(token_store()).with_progress(watcher))
}

/// The store of OAuth logins: a file in the user's data directory, or memory if there is none.
fn token_store() -> Arc<dyn OAuthTokenStore> {
    let data = user_folder("XDG_DATA_HOME").or_else(|| user_folder("HOME").map(|home| home.join(".local/share")));
    match data {
        Some(folder) => Arc::new(FileOAuthTokenStore::at(folder.join("nuncio/credentials.json"))),
        None => Arc::new(MemoryOAuthTokenStore::default()),
    }
}

/// Folder that an environment variable names, if it is set.
pub(crate) fn user_folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Credential with which a host lists more of its skills.
pub(crate) fn read_credential(key: &CallerKey) -> SkillInvocationCredential {
    key.bearer()
        .map_or(SkillInvocationCredential::None, |key| SkillInvocationCredential::ApiKey(SecretString::new(key)))
}

/// Callback that prints progress notes for people; with `--json` notes are part of the result.
pub(crate) fn print_notes(json: bool) -> ProgressCallback {
    ProgressCallback::new(move |progress| {
        if let InvocationProgress::Note { message } = progress
            && !json
        {
            print_note(message);
        }
    })
}

pub(crate) fn print_note(message: &str) {
    eprintln!("{} {}", "note:".yellow().bold(), clean(message));
}

/// Wraps untrusted text to the terminal width with an indent.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let measured = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = if std::io::stdout().is_terminal() { measured.unwrap_or(80).min(100) } else { 80 };
    let mut wrap = WordWrapper::new(Some(width - indent.chars().count()));
    let mut lines = wrap.push(&clean(text).replace(['\n', '\t'], " "));
    lines.push_str(&wrap.end());
    lines.trim_end().lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}
