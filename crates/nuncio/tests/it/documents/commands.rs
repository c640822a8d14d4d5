//! Reads the commands of a document: of its `sh`, `bash` and `console` blocks, in order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, iter};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A command as a document shows it, with its continuation lines.
#[derive(Debug, Clone)]
pub(super) struct DocumentedCommand {
    pub(super) text: String,
    /// What a console block shows below the command.
    pub(super) shown: Vec<String>,
}

pub(super) fn path_of(document: &str) -> PathBuf {
    Path::new(REPOSITORY).join(document)
}

pub(super) fn read(document: &str) -> String {
    fs::read_to_string(path_of(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// The blocks of a document in these languages, without their fences: language and lines.
pub(super) fn blocks<'a>(markdown: &'a str, languages: &[&str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in markdown.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language, Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    blocks.retain(|(language, _)| languages.contains(language));
    blocks
}

/// The commands of a document, in order.
pub(super) fn commands(markdown: &str) -> Vec<DocumentedCommand> {
    let mut commands = Vec::new();
    for (language, lines) in blocks(markdown, &["sh", "bash", "console"]) {
        let mut lines = lines.into_iter().peekable();
        while let Some(line) = lines.next() {
            let first = match (language, line.strip_prefix("$ ")) {
                ("console", None) => continue,
                (_, Some(command)) => command,
                (_, None) if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
                (_, None) => line,
            };
            let mut text = first.to_owned();
            while !is_complete(&text) {
                let next = lines.next().unwrap_or_else(|| panic!("the command does not end: {text}"));
                text = format!("{text}\n{next}");
            }
            let shown = iter::from_fn(|| lines.next_if(|line| language == "console" && !line.starts_with("$ ")));
            commands.push(DocumentedCommand { text, shown: shown.map(str::to_owned).collect() });
        }
    }
    commands
}

fn is_complete(text: &str) -> bool {
    let quiet = || Stdio::null();
    let mut bash = Command::new("bash");
    let parsed = bash.args(["-n", "-c", text]).stdin(quiet()).stdout(quiet()).stderr(quiet()).status().unwrap();
    parsed.success() && !text.ends_with('\\')
}

/// A command as every translation of its document has it: without comments and without what is said to the agent.
pub(super) fn without_words(command: &str) -> String {
    let line = |line: &str| {
        let code = line.split(" #").next().unwrap_or_default().trim_end();
        if code.starts_with("say '") { "say".to_owned() } else { code.to_owned() }
    };
    command.lines().map(line).collect::<Vec<_>>().join("\n")
}
