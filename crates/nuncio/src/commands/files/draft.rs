//! Generates an agent file for an MCP server's tools or for a language model.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use nuncio_core::Code;
use nuncio_core::agent::{Provider, Tool};
use nuncio_core::declaration;
use nuncio_core::ids::{AgentName, BackendName};
use nuncio_core::text::TextByLanguage;
use nuncio_server::{McpOffer, mcp_offers};
use serde_json::Value;

use super::{access, toml};
use crate::cli::Init;
use crate::output::{WrongUsage, fault, wrong_usage};

/// The text of a generated agent file.
pub(super) struct AgentFileDraft {
    pub(super) text: String,
    /// Reasons why some tools were left out.
    pub(super) skipped: Vec<String>,
    /// Environment variable that must hold the model's API key.
    pub(super) key: Option<&'static str>,
}

/// Generates an agent file; `None` if neither an MCP server nor a model is given.
pub(super) async fn make(options: &Init) -> anyhow::Result<Option<AgentFileDraft>> {
    let model = options.model.as_deref().map(ModelName::parse).transpose()?;
    let server = options.from_mcp.as_deref().map(|text| McpServerDraft::parse(text, &options.folder)).transpose()?;
    if model.is_none() && server.is_none() {
        return Ok(None);
    }
    let name = agent_name(&options.folder);
    let offer = match &server {
        Some(server) => Some(server.ask(&name, &options.folder).await?),
        None => None,
    };
    let McpOffer { tools, unusable } = offer.unwrap_or_default();
    let text = agent_file(&name, model.as_ref(), server.as_ref(), &tools);
    // An invalid generated file is a defect of this program.
    declaration::parse("agent.toml", &text).map_err(|faults| {
        fault(Code::Internal, format!("the generated file is invalid, please report this:\n{faults}"))
    })?;
    Ok(Some(AgentFileDraft { text, skipped: unusable, key: model.and_then(|model| model.variable()) }))
}

/// Parsed `PROVIDER/MODEL`.
struct ModelName {
    provider: Provider,
    name: String,
}

impl ModelName {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let parsed = text.split_once('/').and_then(|(provider, name)| Some((Provider::parse(provider)?, name)));
        match parsed {
            Some((provider, name)) if !name.trim().is_empty() => Ok(Self { provider, name: name.to_owned() }),
            _ => {
                let providers = Provider::ALL.map(Provider::as_str).join(", ");
                let message =
                    format!("--model {text}: say PROVIDER/MODEL, such as ollama/qwen3; providers: {providers}");
                Err(wrong_usage(message))
            }
        }
    }

    fn variable(&self) -> Option<&'static str> {
        match self.provider {
            Provider::OpenAi => Some("OPENAI_API_KEY"),
            Provider::Anthropic => Some("ANTHROPIC_API_KEY"),
            Provider::Gemini => Some("GEMINI_API_KEY"),
            Provider::OpenRouter => Some("OPENROUTER_API_KEY"),
            Provider::DeepSeek => Some("DEEPSEEK_API_KEY"),
            Provider::Mistral => Some("MISTRAL_API_KEY"),
            Provider::Groq => Some("GROQ_API_KEY"),
            Provider::Ollama => None,
        }
    }
}

/// An MCP server as declared in the generated file.
struct McpServerDraft {
    name: String,
    /// Line of the agent file: `command = […]` or `url = "…"`.
    line: String,
    /// Section `[allow]` with the folders that the command's arguments need; empty if they need none.
    allow: String,
}

impl McpServerDraft {
    fn parse(text: &str, folder: &Path) -> anyhow::Result<Self> {
        if text.starts_with("http://") || text.starts_with("https://") {
            let url = url::Url::parse(text).map_err(|error| WrongUsage(format!("--from-mcp {text}: {error}")))?;
            let host = url.host_str().unwrap_or_default();
            let label = host.split('.').find(|label| !matches!(*label, "www" | "mcp" | "api")).unwrap_or(host);
            let line = format!("url = {}", toml::text(text));
            return Ok(Self { name: server_name(label), line, allow: String::new() });
        }
        let words = split_command(text).map_err(|why| WrongUsage(format!("--from-mcp {text}: {why}")))?;
        let last_argument = words.iter().rev().find(|word| !word.starts_with('-') && !word.is_empty());
        let stem = last_argument
            .and_then(|word| Path::new(word).file_stem())
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let name = server_name(stem);
        let words: Vec<String> = words.iter().map(|word| absolute(word)).collect();
        let allow = access::allow_section(&words, &std::path::absolute(folder)?);
        Ok(Self { name, line: format!("command = {}", toml::value(&Value::from(words))), allow })
    }

    /// Asks the MCP server for its tools.
    async fn ask(&self, agent: &AgentName, folder: &Path) -> anyhow::Result<McpOffer> {
        let text = format!(
            "[agent]\nname = \"{agent}\"\nversion = \"0.1.0\"\n{}[[mcp]]\nname = \"{}\"\n{}\n",
            self.allow, self.name, self.line
        );
        let declared = declaration::parse("--from-mcp", &text).map_err(|faults| WrongUsage(faults.to_string()))?;
        let executable = std::env::current_exe()?;
        let folder = std::path::absolute(folder)?;
        let offers = mcp_offers(&declared.agent, folder, executable).await?;
        Ok(offers.into_iter().next().unwrap_or_default())
    }
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
        _ => Err("say the command that starts the server, or its address"),
    }
}

/// Makes a path absolute, because programs are started in the agent's folder.
fn absolute(word: &str) -> String {
    let path = Path::new(word);
    if word.contains('/') && path.is_relative() && path.exists() {
        let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(word));
        return path.display().to_string();
    }
    word.to_owned()
}

fn agent_name(folder: &Path) -> AgentName {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect();
    let fallback = || AgentName::parse("my-agent").expect("it is a name");
    AgentName::parse(name.trim_matches('-')).unwrap_or_else(|_| fallback())
}

fn server_name(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(64).collect();
    let name = name.trim_matches('_').to_owned();
    if BackendName::parse(&name).is_ok() { name } else { "server".to_owned() }
}

fn agent_file(name: &AgentName, model: Option<&ModelName>, server: Option<&McpServerDraft>, tools: &[Tool]) -> String {
    let mut out = String::new();
    let title = server.map(|server| format!(" with the tools of {}", server.name)).unwrap_or_default();
    let _ = write!(
        out,
        "# An agent{title}. Try it:\n#\n#   nuncio lint  agent.toml     says what is wrong, or could be better\n#   nuncio serve agent.toml     serves it on this machine\n\n\
         [agent]\nname = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"Says what it can do, and does it.\"\n\n"
    );
    match model {
        Some(model) => out.push_str(&model_brain(model)),
        None => out.push_str(&rules_brain(tools)),
    }
    match server {
        Some(server) => {
            if !server.allow.is_empty() {
                let _ = write!(
                    out,
                    "\n# What its programs may reach beside their own folders: files to read, and files to read and change.\n{}",
                    server.allow
                );
            }
            let _ = write!(out, "\n# Where its tools run.\n[[mcp]]\nname = \"{}\"\n{}\n", server.name, server.line);
            out.push_str(
                "\n# What it can do. Change the words to fit your agent; give a tool that changes something a `scope`,\n\
                 # or `human_authorization = true`, so that a person is asked.\n",
            );
            tools.iter().for_each(|tool| out.push_str(&tool_section(tool, &server.name)));
        }
        None => out.push_str(CLOCK),
    }
    out
}

fn model_brain(model: &ModelName) -> String {
    let (provider, name) = (model.provider.as_str(), toml::text(&model.name));
    let mut out = format!(
        "# How it thinks: a language model.\n[brain]\nkind = \"model\"\nprovider = \"{provider}\"\nmodel = {name}\n"
    );
    if let Some(variable) = model.variable() {
        let _ = writeln!(out, "key = \"{variable}\"");
    }
    out.push_str(
        "instructions = \"You are a helpful assistant. Use your tools where they help; say so when they fail.\"\n",
    );
    out.push_str("# base_url = \"http://localhost:8080/v1\"   # where it is, if it is elsewhere\n# temperature = 0.7\n# max_tokens = 4096\n# window_tokens = 100000            # how much of a long conversation it is shown\n");
    if let Some(variable) = model.variable() {
        let _ = write!(
            out,
            "\n# The key stays out of this file: it is read from the environment, or from a file.\n[secrets]\n{variable} = {{ env = \"{variable}\" }}       # or: {{ file = \"path\" }}\n"
        );
    }
    out
}

fn rules_brain(tools: &[Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let abilities = if names.is_empty() { "nothing yet".to_owned() } else { names.join(", ") };
    let answer = toml::text(&format!("I can: {abilities}."));
    format!(
        "# How it thinks: by rules, without a language model. For one, make the file again with\n# --model PROVIDER/MODEL. `nuncio init` without flags writes a file that explains intents.\n[brain]\nkind = \"rules\"\nfallback = {answer}\n\n\
         [[intent]]\nname = \"help\"\nkeywords = [\"help\", \"hello\", \"what can you do\"]\nanswer = {answer}\n"
    )
}

fn tool_section(tool: &Tool, server: &str) -> String {
    let mut out = format!("\n[[tool]]\nname = \"{}\"\n", tool.name);
    if let Some(title) = tool.title.as_ref().map(TextByLanguage::in_english).filter(|title| !title.trim().is_empty()) {
        let _ = writeln!(out, "title = {}", toml::text(title));
    }
    let description = tool.description.trim();
    let description =
        if description.is_empty() { format!("{} of {server}.", tool.name) } else { description.to_owned() };
    let _ = writeln!(out, "description = {}", toml::prose(&description));
    let _ = writeln!(out, "run = {{ mcp = \"{server}\" }}");
    out.push_str(&schema_sections("input", tool.input.source()));
    if let Some(output) = &tool.output {
        out.push_str(&schema_sections("output", output.source()));
    }
    out
}

/// A schema as TOML sections: keywords of the whole schema, then a line for each property.
fn schema_sections(key: &str, schema: &Value) -> String {
    let Some(object) = schema.as_object() else { return String::new() };
    let mut keywords = object.clone();
    // Draft 2020-12 is the default dialect.
    if keywords.get("$schema").and_then(Value::as_str) == Some(DIALECT) {
        keywords.shift_remove("$schema");
    }
    let properties = object.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty());
    if properties.is_some() {
        keywords.shift_remove("properties");
    }
    let mut out = format!("\n[tool.{key}]\n");
    toml::entries(&keywords).iter().for_each(|entry| out.extend([entry, "\n"]));
    if let Some(properties) = properties {
        let _ = write!(out, "\n[tool.{key}.properties]\n");
        toml::entries(properties).iter().for_each(|entry| out.extend([entry, "\n"]));
    }
    out
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

const CLOCK: &str = r#"
# What it can do. A command is started for each call, without a shell. It gets the arguments as JSON
# on its standard input, and those it names here in its environment. What it prints is the result.
[[tool]]
name = "clock"
description = "Tells the time in a time zone."
run = { command = ["date", "+%H:%M"], env = { TZ = "{{ args.zone }}" } }

[tool.input]                        # JSON Schema, written as TOML
type = "object"
properties = { zone = { type = "string", pattern = "^[A-Za-z0-9/_+-]+$" } }
required = ["zone"]
additionalProperties = false
"#;

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
    fn mcp_server_name_comes_from_the_command_and_agent_name_from_the_folder() {
        for (text, name) in [
            ("npx -y @modelcontextprotocol/server-everything", "server-everything"),
            ("node /opt/tools/index.js --verbose", "index"),
            ("nuncio demo hotel", "hotel"),
            ("https://mcp.example.com/mcp", "example"),
            ("http://127.0.0.1:9/", "127"),
            ("./€", "server"),
        ] {
            assert_eq!(McpServerDraft::parse(text, Path::new(".")).unwrap().name, name);
        }
        assert_eq!(agent_name(Path::new("/tmp/My Agent!")).as_str(), "my-agent");
        assert_eq!(agent_name(Path::new("/")).as_str(), "my-agent");
    }

    #[test]
    fn model_option_without_a_known_provider_and_a_model_is_refused() {
        assert!(ModelName::parse("openrouter/meta/llama-4").is_ok_and(|model| model.name == "meta/llama-4"));
        for wrong in ["gpt-5", "open-ai/gpt-5", "openai/", "/x"] {
            let why = ModelName::parse(wrong).err().unwrap().to_string();
            assert!(why.contains("PROVIDER/MODEL") && why.contains("openai, anthropic"), "{why}");
        }
    }

    #[test]
    fn every_generated_agent_file_passes_lint_without_notes() {
        let name = AgentName::parse("a").unwrap();
        let models = Provider::ALL.map(|provider| ModelName { provider, name: "m \"1\"".into() });
        for model in models.iter().map(Some).chain([None]) {
            let text = agent_file(&name, model, None, &[]);
            let declared = declaration::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
            assert_eq!(declared.notes, [], "{text}");
        }
    }
}
