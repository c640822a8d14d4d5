//! Shared code of the commands that use remote skills.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use anstream::eprintln;
use anyhow::Context as _;
use nuncio_server::fetch::{Allow, GuardedFetch};
use nuncio_server::{SystemClock, SystemEntropy};
use nuncio_skill::client::oauth::{FileTokens, MemoryTokens, TokenStore};
use nuncio_skill::client::{Consumer, Credential, Options, Progress, ProgressCallback, Secret};
use owo_colors::OwoColorize as _;

use super::chat::clean::clean;
use super::chat::wrap::Wrap;
use crate::cli::OutboundOptions;
use crate::output::WrongUsage;

/// The HTTP client, limited to the addresses that the user's flags allow.
pub(crate) fn way_out(reach: &OutboundOptions) -> anyhow::Result<Arc<GuardedFetch>> {
    let roots = reach.extra_ca.as_ref();
    let roots = roots.map(|file| std::fs::read(file).with_context(|| format!("{} cannot be read", file.display())));
    let allow = Allow::parse(reach.allow.iter().map(String::as_str)).map_err(WrongUsage)?;
    let fetch = GuardedFetch::new(allow, reach.dev, roots.transpose()?.as_deref()).map_err(anyhow::Error::msg)?;
    Ok(Arc::new(fetch))
}

/// A skill consumer with the user's address limits and stored tokens.
pub(crate) fn consumer(reach: &OutboundOptions, watcher: ProgressCallback) -> anyhow::Result<Consumer> {
    let fetch = way_out(reach)?;
    let options = Options { caller_type: "user".to_owned(), ..Options::default() };
    let consumer = Consumer::new(fetch, Arc::new(SystemClock), Arc::new(SystemEntropy), options);
    Ok(consumer.with_tokens(tokens()).with_progress(watcher))
}

/// The file of stored OAuth logins, if there is a config directory.
fn tokens() -> Arc<dyn TokenStore> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    match data {
        Some(folder) => Arc::new(FileTokens::at(folder.join("nuncio/credentials.json"))),
        None => Arc::new(MemoryTokens::default()),
    }
}

/// The credential that lets a host show more of its skills.
pub(crate) fn for_discovery(api_key: Option<&String>, token: Option<&String>) -> Credential {
    match (api_key, token) {
        (Some(key), _) => Credential::ApiKey(Secret::new(key)),
        (None, Some(token)) => Credential::Token(Secret::new(token)),
        (None, None) => Credential::None,
    }
}

/// Prints a progress note for people; with `--json` notes are part of the result.
pub(crate) fn notes(json: bool) -> ProgressCallback {
    ProgressCallback::new(move |progress| {
        if let Progress::Note { message } = progress
            && !json
        {
            note(message);
        }
    })
}

pub(crate) fn note(message: &str) {
    eprintln!("{} {}", "note:".yellow().bold(), clean(message));
}

/// Wraps untrusted text to the terminal width with an indent.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let measured = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = if std::io::stdout().is_terminal() { measured.unwrap_or(80).min(100) } else { 80 };
    let mut wrap = Wrap::new(Some(width - indent.chars().count()));
    let mut lines = wrap.push(&clean(text).replace(['\n', '\t'], " "));
    lines.push_str(&wrap.end());
    lines.trim_end().lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}
