//! Tools from an MCP server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::eprintln;
use nuncio_core::ids::{AgentName, BackendName};
use nuncio_core::text::TextByLanguage;
use nuncio_server::{McpOfferedTool, McpServerTools, McpStartOptions, ToolEffect, downloads_packages, mcp_offers};
use owo_colors::OwoColorize as _;
use serde_json::Value;
use tokio::sync::mpsc;

use super::access::GeneratedAgentFileAccess;
use super::sections::{self, AgentFileToolHead, GeneratedAgentParts};
use super::start_progress::McpStartProgress;
use super::{outside_data_name, toml};
use crate::cli::{DEFAULT_DATA, InitArguments};
use crate::commands::chat::clean::clean;
use crate::commands::confirm::confirm;
use crate::output::{WrongUsageError, counted};

/// Limit of the server's lines that wait to be shown.
const MAX_WAITING_LINES: usize = 256;

/// An MCP server as declared in the generated file.
pub(super) struct McpServerDraft {
    name: String,
    /// Line of the agent file: `command = […]` or `url = "…"`.
    line: String,
    /// The command; empty if the server is a URL.
    command: Vec<String>,
    /// Folder of the agent file, absolute.
    folder: PathBuf,
    /// Arguments of the command that would be relative paths of files that do not exist.
    missing: Vec<String>,
}

/// Starts or reaches the MCP server and imports its tools. Asks before it imports tools that may change something.
pub(super) async fn import(
    text: &str,
    agent: &AgentName,
    options: &InitArguments,
    json: bool,
) -> anyhow::Result<GeneratedAgentParts> {
    let server = McpServerDraft::parse(text, &options.folder)?;
    let McpServerTools { tools, unusable } = server.ask(agent, options, json).await?;
    let (tools, refused) = choose(&server.name, tools, options, json).await?;
    let mut skipped = unusable;
    skipped.extend(refused);
    Ok(server.sections(&tools, skipped))
}

/// Splits the tools into those that are imported and reasons why the others are not. Asks in the terminal about tools
/// that may change something; without a terminal they are left out unless `--yes` is given.
async fn choose(
    server: &str,
    tools: Vec<McpOfferedTool>,
    options: &InitArguments,
    json: bool,
) -> anyhow::Result<(Vec<McpOfferedTool>, Vec<String>)> {
    let (readers, writers): (Vec<_>, Vec<_>) =
        tools.into_iter().partition(|offered| options.yes || offered.effect == ToolEffect::ReadOnly);
    if writers.is_empty() {
        return Ok((readers, Vec::new()));
    }
    let number = writers.len() as u64;
    let asked = !json && std::io::IsTerminal::is_terminal(&std::io::stdin());
    if asked {
        eprintln!("{} of {server} may change something:", counted(number, "tool"));
        for McpOfferedTool { tool, effect } in &writers {
            let warning = if *effect == ToolEffect::Destroys { " (may delete or overwrite)" } else { "" };
            let what = tool
                .title
                .as_ref()
                .map_or_else(|| tool.description.lines().next().unwrap_or_default(), TextByLanguage::in_english);
            let what: String = clean(what).chars().take(60).collect();
            eprintln!("  {}{warning}  {what}", tool.name);
        }
    }
    let question = if number == 1 { "Take it over?" } else { "Take them over?" };
    let why = match confirm(question, json).await? {
        Some(true) => return Ok((readers.into_iter().chain(writers).collect(), Vec::new())),
        Some(false) => "may change something, and you declined",
        None => "may change something; to take it over, delete agent.toml and add --yes",
    };
    Ok((readers, writers.iter().map(|offered| format!("`{}` {why}", offered.tool.name)).collect()))
}

impl McpServerDraft {
    fn parse(text: &str, folder: &Path) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        if text.starts_with("http://") || text.starts_with("https://") {
            let url = url::Url::parse(text).map_err(|error| WrongUsageError(format!("--from-mcp {text}: {error}")))?;
            let host = url.host_str().unwrap_or_default();
            let label = host.split('.').find(|label| !matches!(*label, "www" | "mcp" | "api")).unwrap_or(host);
            let line = format!("url = {}", toml::text(text));
            return Ok(Self { name: server_name(label), line, command: Vec::new(), folder, missing: Vec::new() });
        }
        let words = split_command(text).map_err(|why| WrongUsageError(format!("--from-mcp {text}: {why}")))?;
        let is_plain = |word: &&String| !word.starts_with('-') && !word.is_empty();
        let package = words.first().is_some_and(|program| downloads_packages(program));
        let mut arguments = words.iter().skip(1);
        // A number, such as a port, says nothing about the server.
        let is_telling = |word: &&String| is_plain(word) && word.contains(char::is_alphabetic);
        let named_by = if package { arguments.find(is_plain) } else { words.iter().rev().find(is_telling) };
        let stem =
            named_by.and_then(|word| Path::new(word).file_stem()).and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = server_name(stem);
        let missing = missing_paths(&words);
        let words = absolute_paths(&words);
        let line = format!("command = {}", toml::value(&Value::from(words.clone())));
        Ok(Self { name, line, command: words, folder, missing })
    }

    /// Asks the MCP server for its tools, and shows its output while it starts.
    async fn ask(&self, agent: &AgentName, options: &InitArguments, json: bool) -> anyhow::Result<McpServerTools> {
        let text = format!(
            "[agent]\nname = \"{agent}\"\nversion = \"0.1.0\"\n{}[[mcp]]\nname = \"{}\"\n{}\n",
            GeneratedAgentFileAccess::of(&self.command, &self.folder, true).section(),
            self.name,
            self.line
        );
        let declared =
            nuncio_agent_file::parse("--from-mcp", &text).map_err(|faults| WrongUsageError(faults.to_string()))?;
        let executable = std::env::current_exe()?;
        let (stderr, lines) = mpsc::channel(MAX_WAITING_LINES);
        let timeout = Duration::from_secs(options.mcp_start_seconds);
        let start = McpStartOptions { timeout, stderr: Some(stderr) };
        let progress = McpStartProgress {
            name: &self.name,
            json,
            downloads: self.command.first().is_some_and(|program| downloads_packages(program)),
            is_program: !self.command.is_empty(),
            limit: timeout,
        };
        let offers = progress.show(mcp_offers(&declared.agent, self.folder.clone(), executable, start), lines).await;
        if offers.is_err() && !json {
            self.print_missing_paths();
        }
        Ok(offers?.into_iter().next().unwrap_or_default())
    }

    /// Says which arguments would be paths that do not exist. Any argument may be a path, so that this is only said when
    /// the server did not start. The server looks for relative paths in the agent's folder and names that one.
    fn print_missing_paths(&self) {
        let here = std::env::current_dir().unwrap_or_default();
        for word in &self.missing {
            eprintln!(
                "{} if `{}` is a path: it does not exist in {}",
                "note:".yellow().bold(),
                clean(word),
                here.display()
            );
        }
    }

    fn sections(&self, tools: &[McpOfferedTool], skipped: Vec<String>) -> GeneratedAgentParts {
        let changes = tools.iter().any(|offered| offered.effect != ToolEffect::ReadOnly);
        let access = GeneratedAgentFileAccess::of(&self.command, &self.folder, changes);
        let allow = access.section();
        let mut sections = String::new();
        if !allow.is_empty() {
            sections.push_str(
                "\n# What its programs may reach beside their own folders: files to read, and files to read and change.\n",
            );
            sections.push_str(&allow);
        }
        sections.push_str(&format!("\n# Where its tools run.\n[[mcp]]\nname = \"{}\"\n{}\n", self.name, self.line));
        let effects: Vec<_> = tools.iter().map(|offered| offered.effect).collect();
        sections.push_str(&sections::scopes(&self.name, &effects));
        GeneratedAgentParts {
            about: format!(" with the tools of {}", self.name),
            description: format!("Uses the tools of {}.", self.name),
            sections,
            tools: tools.iter().map(|offered| self.tool_section(offered)).collect(),
            names: tools.iter().map(|offered| offered.tool.name.to_string()).collect(),
            skipped,
            access: access.sentences(&data_directory(&self.folder)),
            ..GeneratedAgentParts::default()
        }
    }

    fn tool_section(&self, McpOfferedTool { tool, effect }: &McpOfferedTool) -> String {
        let description = tool.description.trim();
        let description =
            if description.is_empty() { format!("{} of {}.", tool.name, self.name) } else { description.to_owned() };
        let head = AgentFileToolHead {
            name: tool.name.as_str(),
            title: tool.title.as_ref().map(TextByLanguage::in_english),
            description: &description,
            scope: sections::scope_of(&self.name, *effect),
            hints: tool.hints,
        };
        let input = sections::schema("input", tool.input.source());
        let output = tool.output.as_ref().map(|output| sections::schema("output", output.source()));
        format!("{head}run = {{ mcp = \"{}\" }}\n{input}{}", self.name, output.unwrap_or_default())
    }
}

/// The data directory that `nuncio serve` would use from here for an agent in this folder, absolute.
fn data_directory(folder: &Path) -> PathBuf {
    if let (Some(name), Some(around)) = (outside_data_name(folder), folder.parent()) {
        return around.join(name);
    }
    let path = std::env::var_os("NUNCIO_DATA").map_or_else(|| PathBuf::from(DEFAULT_DATA), PathBuf::from);
    std::path::absolute(&path).unwrap_or(path)
}

/// Splits a command line with shell quoting, without other shell features.
fn split_command(text: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote, mut escaped) = (Vec::new(), None::<String>, None, false);
    for c in text.chars() {
        match (quote, c) {
            _ if escaped => {
                escaped = false;
                word.get_or_insert_default().push(c);
            }
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match words.first() {
        _ if quote.is_some() => Err("a quote is not closed"),
        Some(first) if !first.is_empty() => Ok(words),
        _ => Err("name the command that starts the server, or its address"),
    }
}

/// Makes relative paths of existing files absolute, because programs are started in the agent's folder. A word without
/// a slash counts as a path unless it is the program, the package of a package runner or the module of an interpreter.
fn absolute_paths(words: &[String]) -> Vec<String> {
    words.iter().enumerate().map(|(at, word)| absolute(word, is_name(words, at))).collect()
}

/// Whether the word names a program, the package of a package runner or the module of an interpreter.
fn is_name(words: &[String], at: usize) -> bool {
    let runs_package = words.first().is_some_and(|program| downloads_packages(program));
    let package = words.iter().skip(1).position(|word| !word.starts_with('-')).filter(|_| runs_package);
    at == 0 || Some(at - 1) == package || words[at - 1] == "-m"
}

/// Arguments that would be relative paths of files that do not exist.
fn missing_paths(words: &[String]) -> Vec<String> {
    let arguments = words.iter().enumerate().filter(|(at, word)| !is_name(words, *at) && !word.starts_with('-'));
    let paths = arguments.map(|(_, word)| word).filter(|word| !word.is_empty() && !word.contains("://"));
    paths.filter(|word| Path::new(word).is_relative() && !Path::new(word).exists()).cloned().collect()
}

/// Makes the word, or the value of an option such as `--root=notes`, absolute. `is_name` says that a word without a slash
/// is no path.
fn absolute(word: &str, is_name: bool) -> String {
    let (option, text) = match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => (format!("{option}="), value),
        _ => (String::new(), word),
    };
    let path = Path::new(text);
    let is_path = text.contains('/') || !is_name && !text.is_empty();
    if is_path && path.is_relative() && path.exists() {
        // The absolute form of `.` has a dot at its end, and parts such as `..` are kept for links.
        let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(text));
        let path: PathBuf = path.components().collect();
        return format!("{option}{}", path.display());
    }
    word.to_owned()
}

fn server_name(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(64).collect();
    let name = name.trim_matches('_').to_owned();
    if BackendName::parse(&name).is_ok() { name } else { "server".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_command_is_split_into_words_by_the_quoting_rules_of_a_shell() {
        assert_eq!(split_command("npx -y  @scope/server").unwrap(), ["npx", "-y", "@scope/server"]);
        assert_eq!(split_command(r#"a "b c" 'd "e"' f\ g "" h"i""#).unwrap(), ["a", "b c", "d \"e\"", "f g", "", "hi"]);
        for wrong in ["", "  ", "\"\"", "a 'b"] {
            assert!(split_command(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn existing_paths_in_an_mcp_command_become_absolute_at_any_position() {
        // Tests run in the folder of their crate.
        let here = std::env::current_dir().unwrap();
        let at = |path: &str| here.join(path).display().to_string();
        let made = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            absolute_paths(&words)[1..].join(" ")
        };
        assert_eq!(made("npx -y @x/server ."), format!("-y @x/server {}", here.display()));
        assert_eq!(made("npx server src"), format!("server {}", at("src")));
        assert_eq!(made("npx src ./src no-such"), format!("src {} no-such", at("src")));
        assert_eq!(made("node Cargo.toml --root=src"), format!("{} --root={}", at("Cargo.toml"), at("src")));
        assert_eq!(made("python3 -m src ../nuncio"), format!("-m src {}", at("../nuncio")));
        assert_eq!(made("src /tmp"), "/tmp");
        let words = ["npx", "-y", "pkg", "no-such", "src", "/no-such", "http://localhost", "--no-such"];
        assert_eq!(missing_paths(&words.map(str::to_owned)), ["no-such"]);
    }

    #[test]
    fn mcp_server_name_comes_from_the_command_or_the_host() {
        for (text, name) in [
            ("npx -y @modelcontextprotocol/server-everything", "server-everything"),
            ("npx -y @modelcontextprotocol/server-filesystem .", "server-filesystem"),
            ("node /opt/tools/index.js --verbose", "index"),
            ("nuncio demo hotel", "hotel"),
            ("sleep 100", "sleep"),
            ("python3 -m tools 8080", "tools"),
            ("https://mcp.example.com/mcp", "example"),
            ("http://127.0.0.1:9/", "127"),
            ("./€", "server"),
        ] {
            assert_eq!(McpServerDraft::parse(text, Path::new(".")).unwrap().name, name);
        }
    }
}
