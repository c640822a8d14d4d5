//! Generates an agent file for one of the common starts: tools of an MCP server or an OpenAPI document, a language model, a
//! person's device, or a program of the author's as the brain.

use std::fmt::Write as _;
use std::path::Path;

use nuncio_agent_file::STARTER;
use nuncio_core::ErrorCode;
use nuncio_core::agent::ModelProvider;
use nuncio_core::ids::AgentName;
use url::Url;

use super::sections::{self, GeneratedAgentParts, NeededSecret};
use super::{data_option, device, mcp, openapi, process, toml, until_interrupted};
use crate::cli::InitArguments;
use crate::output::{fault, shell_quote, wrong_usage};

/// The text of a generated agent file.
#[derive(Default)]
pub(super) struct AgentFileDraft {
    pub(super) text: String,
    /// Names and texts of the files beside the agent file.
    pub(super) files: Vec<(&'static str, &'static str)>,
    /// Reasons why some tools were left out.
    pub(super) skipped: Vec<String>,
    /// What the tools may do with the person's files, a sentence each.
    pub(super) access: Vec<String>,
    pub(super) secrets: Vec<NeededSecret>,
    /// Number of tools, if it is shown.
    pub(super) tools: Option<usize>,
    /// Further lines of what to do next, each a command or key with its purpose.
    pub(super) next: Vec<String>,
}

/// Generates an agent file; the commented starter if no start is chosen.
pub(super) async fn make(options: &InitArguments, json: bool) -> anyhow::Result<AgentFileDraft> {
    check_combination(options)?;
    let model = options.model.as_deref().map(|model| ProviderAndModel::parse(model, options.base_url.as_deref()));
    let model = model.transpose()?;
    let name = agent_name(&options.folder);
    let tools = match (&options.from_mcp, &options.from_openapi) {
        (Some(text), _) => Some(until_interrupted(mcp::import(text, &name, options, json)).await??),
        (None, Some(place)) => Some(openapi::import(place, name.as_str()).await?),
        (None, None) if options.device => Some(device::sections(&data_option(&options.folder))),
        (None, None) => None,
    };
    let mut draft = match (options.process, tools) {
        (Some(language), tools) => process::draft(language, &name, &options.folder, tools.as_ref()),
        (None, None) if model.is_none() => starter(&name),
        (None, tools) => draft(&name, model.as_ref(), tools.as_ref()),
    };
    draft.text = with_folder(&draft.text, &options.folder);
    // An invalid generated file is a defect of this program.
    nuncio_agent_file::parse("agent.toml", &draft.text).map_err(|faults| {
        fault(ErrorCode::Internal, format!("the generated file is invalid, please report this:\n{faults}"))
    })?;
    Ok(draft)
}

/// The text with the commands in its first comment changed so that they can be run in the current folder.
fn with_folder(text: &str, folder: &Path) -> String {
    let shown = shell_quote(&folder.display().to_string());
    let serve = format!("nuncio serve {shown}{}", data_option(folder));
    if serve.contains(char::is_control) {
        // A line break would end the comment.
        return text.to_owned();
    }
    text.replacen("nuncio lint  agent.toml", &format!("nuncio lint  {shown}"), 1).replacen(
        "nuncio serve agent.toml",
        &serve,
        1,
    )
}

/// The commented starter, under the agent's own name.
fn starter(name: &AgentName) -> AgentFileDraft {
    let text = STARTER.replacen("name = \"my-agent\"", &format!("name = \"{name}\""), 1);
    AgentFileDraft { text, ..AgentFileDraft::default() }
}

/// Refuses options that contradict each other.
fn check_combination(options: &InitArguments) -> anyhow::Result<()> {
    let sources = [
        ("--from-mcp", options.from_mcp.is_some()),
        ("--from-openapi", options.from_openapi.is_some()),
        ("--device", options.device),
    ];
    if options.process.is_some() && options.model.is_some() {
        return Err(wrong_usage(
            "--process and --model exclude each other: an agent has one brain, either your program or a language model",
        ));
    }
    let chosen: Vec<_> = sources.into_iter().filter(|(_, chosen)| *chosen).map(|(flag, _)| flag).collect();
    match chosen.as_slice() {
        [first, second, ..] => Err(wrong_usage(format!(
            "{first} and {second} exclude each other: choose one start, and add the rest to agent.toml afterwards"
        ))),
        _ if options.yes && options.from_mcp.is_none() => {
            Err(wrong_usage("--yes answers the question of --from-mcp; it has no meaning without it"))
        }
        _ => Ok(()),
    }
}

fn draft(name: &AgentName, model: Option<&ProviderAndModel>, tools: Option<&GeneratedAgentParts>) -> AgentFileDraft {
    let text = agent_file(name, model, tools);
    let (skipped, count) = tools.map_or((Vec::new(), 1), |tools| (tools.skipped.clone(), tools.names.len()));
    let mut next = tools.map(|tools| tools.next.clone()).unwrap_or_default();
    if model.is_none() && tools.is_some_and(|tools| tools.intents.is_empty() && !tools.names.is_empty()) {
        let until = "Until agent.toml has a language model or [[intent]] sections, conversations cannot use the tools.";
        next.push(until.to_owned());
    }
    let access = tools.map(|tools| tools.access.clone()).unwrap_or_default();
    AgentFileDraft {
        text,
        files: Vec::new(),
        skipped,
        access,
        secrets: secrets(model, tools),
        tools: Some(count),
        next,
    }
}

fn secrets(model: Option<&ProviderAndModel>, tools: Option<&GeneratedAgentParts>) -> Vec<NeededSecret> {
    let key = model.and_then(ProviderAndModel::variable).map(|name| NeededSecret { name: name.to_owned(), form: "" });
    let mut needed: Vec<_> = key.into_iter().collect();
    for secret in tools.into_iter().flat_map(|tools| &tools.secrets) {
        if needed.iter().all(|known| known.name != secret.name) {
            needed.push(secret.clone());
        }
    }
    needed
}

/// Parsed `PROVIDER/MODEL`, and the address of a server of the author's own.
struct ProviderAndModel {
    provider: ModelProvider,
    name: String,
    base_url: Option<String>,
}

impl ProviderAndModel {
    fn parse(text: &str, base_url: Option<&str>) -> anyhow::Result<Self> {
        // The agent file refuses a template as an address.
        let is_address = |text: &&str| {
            !["{{", "{%"].iter().any(|mark| text.contains(mark))
                && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        };
        if let Some(wrong) = base_url.filter(|text| !is_address(text)) {
            let message =
                format!("--base-url {wrong}: write an http or https address, such as http://localhost:8080/v1");
            return Err(wrong_usage(message));
        }
        let parsed = text.split_once('/').and_then(|(provider, name)| Some((ModelProvider::parse(provider)?, name)));
        match parsed {
            Some((provider, name)) if !name.trim().is_empty() => {
                Ok(Self { provider, name: name.to_owned(), base_url: base_url.map(str::to_owned) })
            }
            _ => {
                let providers = ModelProvider::ALL.map(ModelProvider::as_str).join(", ");
                let message =
                    format!("--model {text}: write PROVIDER/MODEL, such as ollama/qwen3; providers: {providers}");
                Err(wrong_usage(message))
            }
        }
    }

    /// Variable with the provider's key; a server of the author's own often needs none.
    fn variable(&self) -> Option<&'static str> {
        self.base_url.is_none().then(|| self.provider_variable()).flatten()
    }

    fn provider_variable(&self) -> Option<&'static str> {
        match self.provider {
            ModelProvider::OpenAi => Some("OPENAI_API_KEY"),
            ModelProvider::Anthropic => Some("ANTHROPIC_API_KEY"),
            ModelProvider::Gemini => Some("GEMINI_API_KEY"),
            ModelProvider::OpenRouter => Some("OPENROUTER_API_KEY"),
            ModelProvider::DeepSeek => Some("DEEPSEEK_API_KEY"),
            ModelProvider::Mistral => Some("MISTRAL_API_KEY"),
            ModelProvider::Groq => Some("GROQ_API_KEY"),
            ModelProvider::Ollama => None,
        }
    }
}

fn agent_name(folder: &Path) -> AgentName {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect();
    let fallback = || AgentName::parse("my-agent").expect("it is a name");
    AgentName::parse(name.trim_matches('-')).unwrap_or_else(|_| fallback())
}

fn agent_file(name: &AgentName, model: Option<&ProviderAndModel>, tools: Option<&GeneratedAgentParts>) -> String {
    let mut out = String::new();
    let about = tools.map(|tools| tools.about.as_str()).unwrap_or_default();
    let description = toml::text(tools.map_or("Answers questions, and knows the time.", |tools| &tools.description));
    let _ = write!(
        out,
        "# An agent{about}. Try it:\n#\n#   nuncio lint  agent.toml     says what is wrong, or could be better\n#   nuncio serve agent.toml     serves it on this machine\n\n\
         [agent]\nname = \"{name}\"\nversion = \"0.1.0\"\ndescription = {description}\n\n"
    );
    match model {
        Some(model) => out.push_str(&model_brain(model)),
        None => out.push_str(&rules_brain(tools)),
    }
    out.push_str(&sections::secrets(&secrets(model, tools)));
    let Some(tools) = tools else {
        out.push_str(CLOCK);
        return out;
    };
    add_tools(&mut out, tools);
    out
}

/// Adds the tools and the sections that they need.
pub(super) fn add_tools(out: &mut String, tools: &GeneratedAgentParts) {
    out.push_str(&tools.sections);
    out.push_str(
        "\n# What it can do. Adapt titles and descriptions to your agent. Give a tool that changes something a\n\
         # `scope` of high sensitivity, or `human_authorization = true`, so that a person is asked first.\n",
    );
    out.push_str(&tools.tools);
    // Blank lines between sections that were put together.
    while out.contains("\n\n\n") {
        *out = out.replace("\n\n\n", "\n\n");
    }
}

fn model_brain(model: &ProviderAndModel) -> String {
    let (provider, name) = (model.provider.as_str(), toml::text(&model.name));
    let mut out = format!(
        "# How it thinks: a language model.\n[brain]\nkind = \"model\"\nprovider = \"{provider}\"\nmodel = {name}\n"
    );
    let mut key_hint = String::new();
    let mut base_url = "# base_url = \"http://localhost:8080/v1\"   # address of another server\n".to_owned();
    if let Some(url) = &model.base_url {
        base_url.clear();
        let _ = writeln!(out, "base_url = {}", toml::text(url));
        if let Some(variable) = model.provider_variable() {
            key_hint = format!(
                "# If the server needs a key: `key = \"{variable}\"` here, and below [secrets]\n\
                 # `{variable} = {{ env = \"{variable}\" }}`.\n"
            );
        }
    } else if let Some(variable) = model.variable() {
        let _ = writeln!(out, "key = \"{variable}\"");
        key_hint = format!("# A server at base_url that needs no key: delete `key`, and {variable} below [secrets].\n");
    }
    out.push_str(
        "instructions = \"You are a helpful assistant. Use your tools where they help; say so when they fail.\"\n",
    );
    out.push_str(&key_hint);
    out.push_str(&base_url);
    out.push_str("# temperature = 0.7\n# max_tokens = 4096\n# window_tokens = 100000            # length of the conversation that the model sees\n");
    out
}

fn rules_brain(tools: Option<&GeneratedAgentParts>) -> String {
    let (help, intents) = tools.map_or(("", ""), |tools| (tools.help.as_str(), tools.intents.as_str()));
    let names = tools.map(|tools| tools.names.join(", ")).unwrap_or_default();
    let answer = toml::text(&match (help, names.as_str()) {
        ("", "") => "I have no tools yet.".to_owned(),
        ("", names) => format!("I have these tools, but no rules yet for using them in a conversation: {names}."),
        (help, _) => help.to_owned(),
    });
    format!(
        "# How it thinks: by rules, without a language model. A rule is an [[intent]]; `nuncio explain agent.intent`\n\
         # describes it. For a language model, replace this section:\n#\n#   [brain]\n#   kind = \"model\"\n\
         #   provider = \"ollama\"\n#   model = \"qwen3\"\n#\n[brain]\nkind = \"rules\"\nfallback = {answer}\n\n\
         [[intent]]\nname = \"help\"\nkeywords = [\"help\", \"hello\", \"what can you do\"]\nanswer = {answer}\n{intents}"
    )
}

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
    fn agent_name_comes_from_the_folder() {
        assert_eq!(agent_name(Path::new("/tmp/My Agent!")).as_str(), "my-agent");
        assert_eq!(agent_name(Path::new("/")).as_str(), "my-agent");
    }

    #[test]
    fn model_option_without_a_known_provider_and_a_model_is_refused() {
        assert!(
            ProviderAndModel::parse("openrouter/meta/llama-4", None).is_ok_and(|model| model.name == "meta/llama-4")
        );
        for wrong in ["gpt-5", "open-ai/gpt-5", "openai/", "/x"] {
            let why = ProviderAndModel::parse(wrong, None).err().unwrap().to_string();
            assert!(why.contains("PROVIDER/MODEL") && why.contains("openai, anthropic"), "{why}");
        }
        for wrong in ["localhost:8080", "ftp://models.example", "http://localhost/{{ x }}", ""] {
            let why = ProviderAndModel::parse("openai/qwen3", Some(wrong)).err().unwrap().to_string();
            assert!(why.contains("http or https address"), "{why}");
        }
    }

    #[test]
    fn every_generated_agent_file_passes_lint_without_notes() {
        let name = AgentName::parse("a").unwrap();
        let model = |provider, base_url: Option<&str>| {
            let base_url = base_url.map(str::to_owned);
            ProviderAndModel { provider, name: "m \"1\"".into(), base_url }
        };
        let models =
            ModelProvider::ALL.map(|provider| [None, Some("http://localhost:8080/v1")].map(|url| model(provider, url)));
        for model in models.iter().flatten().map(Some).chain([None]) {
            for tools in [None, Some(device::sections(""))] {
                let text = agent_file(&name, model, tools.as_ref());
                let declared =
                    nuncio_agent_file::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
                assert_eq!(declared.notes, [], "{text}");
            }
        }
    }
}
