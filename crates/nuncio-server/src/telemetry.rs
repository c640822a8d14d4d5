//! Logs: for people at a terminal, as JSON for machines. What goes in is chosen at each place; no
//! request body, header or key ever does.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

const QUIET: [&str; 6] = ["rmcp=warn", "hyper=warn", "hyper_util=warn", "h2=warn", "reqwest=warn", "rustls=warn"];

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error. Does nothing when it has been started before.
pub fn start(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    // Libraries that would write down what passes through them, whatever the level.
    let filter = QUIET.iter().filter_map(|directive| directive.parse().ok()).fold(filter, EnvFilter::add_directive);
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start is a test's or a library user's; the first one stays.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
