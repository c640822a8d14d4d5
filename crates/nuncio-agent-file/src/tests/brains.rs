//! `[brain]` of kind `model`, `process` and `aap`: valid files, faults and warnings.

use super::{AGENT, faults, notes, refused};
use crate::{STARTER, parse};
use nuncio_core::agent::{
    AapBrainSpec, Agent, BrainSpec, CommandRunSpec, ModelBrainSpec, ModelOptionNames, ModelProvider,
};
use nuncio_core::ids::{AgentName, BackendName, OptionName};

fn agent(rest: &str) -> Agent {
    let declared = parse("agent.toml", &format!("{AGENT}{rest}")).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declared.notes, []);
    declared.agent
}

fn model(rest: &str) -> ModelBrainSpec {
    match agent(rest).brain {
        BrainSpec::Model(spec) => *spec,
        other => panic!("{other:?}"),
    }
}

#[test]
fn model_brain_with_all_keys_is_read() {
    let spec = model(
        r#"
[brain]
kind = "model"
provider = "openai"
model = "small-1"
base_url = "http://localhost:8080/v1"
key = "MODEL_KEY"
temperature = 0.25
max_tokens = 2048
instructions = "Answer in {{ options.language }}."
window_tokens = 32000
options = { model = "model", temperature = "mood", key = "own_key" }
[[option]]
name = "model"
type = "select"
options = ["small-1", "large-1"]
default = "small-1"
[[option]]
name = "mood"
type = "text"
[[option]]
name = "own_key"
type = "secret"
[[option]]
name = "language"
type = "text"
default = "English"
[secrets]
MODEL_KEY = { env = "MODEL_KEY" }
"#,
    );
    let option = |name: &str| Some(OptionName::parse(name).unwrap());
    assert_eq!((spec.provider, spec.model.as_str()), (ModelProvider::OpenAi, "small-1"));
    assert_eq!(spec.base_url.unwrap().as_str(), "http://localhost:8080/v1");
    assert_eq!(spec.key, Some(BackendName::parse("MODEL_KEY").unwrap()));
    assert_eq!((spec.temperature, spec.max_tokens, spec.window_tokens), (Some(0.25), Some(2048), Some(32000)));
    assert_eq!(spec.instructions.unwrap().as_str(), "Answer in {{ options.language }}.");
    let options = ModelOptionNames { model: option("model"), temperature: option("mood"), key: option("own_key") };
    assert_eq!(spec.options, options);
}

#[test]
fn model_brain_keys_left_out_stay_unset() {
    let spec = model("[brain]\nkind = 'model'\nprovider = 'ollama'\nmodel = 'm'\ntemperature = 1\n");
    assert_eq!((spec.provider, spec.temperature), (ModelProvider::Ollama, Some(1.0)));
    assert_eq!((spec.base_url, spec.key, spec.max_tokens, spec.window_tokens), (None, None, None, None));
    assert_eq!((spec.instructions, spec.options), (None, ModelOptionNames::default()));
}

#[test]
fn every_model_provider_is_read_by_its_exact_name() {
    for provider in ModelProvider::ALL {
        let name = provider.as_str();
        assert_eq!(ModelProvider::parse(name), Some(provider));
        let text = format!("[brain]\nkind = 'model'\nprovider = '{name}'\nmodel = 'm'\nbase_url = 'http://a/'\n");
        assert_eq!(model(&text).provider, provider);
    }
    assert_eq!(ModelProvider::parse("OpenAI"), None);
}

#[test]
fn process_brain_with_environment_is_read() {
    let agent = agent(
        r#"
[brain]
kind = "process"
command = ["python3", "brain.py"]
env = { KEY = "{{ secrets.KEY }}" }
[secrets]
KEY = { file = "key" }
"#,
    );
    let BrainSpec::Process(CommandRunSpec { command, env }) = &agent.brain else { panic!("{:?}", agent.brain) };
    assert_eq!(command.words().collect::<Vec<_>>(), ["python3", "brain.py"]);
    assert_eq!((env[0].0.as_str(), env[0].1.as_str()), ("KEY", "{{ secrets.KEY }}"));
    assert_eq!((agent.brain.kind(), agent.brain.key()), ("process", None));
}

#[test]
fn aap_brain_with_and_without_agent_and_key_is_read() {
    let plain = agent("[brain]\nkind = 'aap'\nurl = 'http://localhost:7400/aap'\n").brain;
    let url = "http://localhost:7400/aap".parse().unwrap();
    assert_eq!(plain, BrainSpec::Aap(AapBrainSpec { url, agent: None, key: None }));
    let text = "[brain]\nkind = 'aap'\nurl = 'https://a.example/'\nagent = 'hotel'\nkey = 'KEY'\n[secrets]\nKEY = { env = 'KEY' }\n";
    let BrainSpec::Aap(whole) = agent(text).brain else { panic!("not aap") };
    assert_eq!(whole.agent, Some(AgentName::parse("hotel").unwrap()));
    assert_eq!(whole.key, Some(BackendName::parse("KEY").unwrap()));
}

#[test]
fn model_brain_without_key_or_with_unknown_instruction_variables_gets_warnings() {
    let said = notes(&format!(
        "{AGENT}{}",
        r#"[brain]
kind = "model"
provider = "anthropic"
model = "m"
instructions = "{{ options.languge }} {{ options.pin }} {{ agent }} {{ options.language }}"
[[option]]
name = "language"
type = "text"
[[option]]
name = "pin"
type = "secret"
[secrets]
KEY = { env = "KEY" }
"#
    ));
    let expected = r#"
agent.toml:4:1: brain.key: missing, and "anthropic" requires one
  name a secret from [secrets] that holds it, or let clients provide theirs with [brain.options]
agent.toml:8:20: brain.instructions: no [[option]] is named "languge"
  did you mean "language"? declared: "language", "pin"
agent.toml:8:42: brain.instructions: "pin" is a secret and is left out
  templates of texts never get secret options
agent.toml:8:60: brain.instructions: "agent" is unknown and will be left out
  known: options
agent.toml:16:7: secrets.KEY: no template uses this secret
  write {{ secrets.KEY }}, or leave it out
"#;
    assert_eq!(said, expected.trim());
    let keyless = "[brain]\nkind = \"model\"\nprovider = \"gemini\"\nmodel = \"m\"\noptions = { key = \"k\" }\n[[option]]\nname = \"k\"\ntype = \"secret\"\n";
    assert_eq!(notes(&format!("{AGENT}{keyless}")), "");
}

#[test]
fn unknown_variable_in_process_brain_environment_is_refused() {
    let text = format!("{AGENT}[brain]\nkind = \"process\"\ncommand = [\"x\"]\nenv = {{ A = \"{{{{ args.q }}}}\" }}\n");
    let expected =
        "agent.toml:7:17: brain.env.A: \"args\" is unknown, so the program could not be started\n  known: secrets";
    assert_eq!(faults(&text), expected);
}

#[test]
fn each_commented_out_brain_of_the_starter_file_is_valid() {
    let mut kinds = Vec::new();
    for block in STARTER.split("#   [brain]").skip(1) {
        let lines = block.lines().skip(1).map_while(|line| line.strip_prefix('#'));
        let lines: Vec<_> = lines.take_while(|line| line.is_empty() || line.starts_with("   ")).collect();
        kinds.push(agent(&format!("[brain]\n{}\n", lines.join("\n"))).brain.kind());
    }
    assert_eq!(kinds, ["model", "process", "aap"]);
}

refused! {
model_brain_without_provider_and_model_is_refused:
r#"
[brain]
kind = "model"
"#
=>
r#"
agent.toml:4:1: brain.provider: missing
  needed: one of "openai", "anthropic", "gemini", "ollama", "openrouter", "deepseek", "mistral", "groq"
agent.toml:4:1: brain.model: missing
  needed: a text
"#;

all_invalid_keys_of_a_model_brain_are_reported:
r#"
[brain]
kind = "model"
provider = "open-ai"
model = ""
base_url = "localhost:8080"
key = "KYE"
temperature = 2.5
max_tokens = 0
instructions = "{{ secrets.KEY }}"
window_tokens = 10
fallback = "?"
tempreature = 1
[secrets]
KEY = { env = "KEY" }
[[intent]]
name = "x"
"#
=>
r#"
agent.toml:6:12: brain.provider: found "open-ai"
  did you mean "openai"? allowed: "openai", "anthropic", "gemini", "ollama", "openrouter", "deepseek", "mistral", "groq"
agent.toml:7:9: brain.model: found an empty text
  allowed: a non-empty text
agent.toml:8:12: brain.base_url: "localhost:8080" is not a web address: its scheme is "localhost"
  allowed: an address beginning with "https://" or "http://"
agent.toml:9:7: brain.key: no secret is named "KYE"
  did you mean "KEY"? declared: "KEY"
agent.toml:10:15: brain.temperature: found 2.5
  allowed: a number from 0 to 2
agent.toml:11:14: brain.max_tokens: found 0
  allowed: a whole number from 1 to 1000000
agent.toml:12:20: brain.instructions: a secret would be sent to the model
  allowed: variables without secrets
agent.toml:13:17: brain.window_tokens: found 10
  allowed: a whole number from 1000 to 100000000
agent.toml:14:1: brain.fallback: not allowed here
  only a brain of kind "rules" has a fallback
agent.toml:15:1: brain.tempreature: unknown key
  did you mean "temperature"? allowed: "kind", "provider", "model", "base_url", "key", "temperature", "max_tokens", "instructions", "window_tokens", "options"
agent.toml:18:3: intent: not allowed here
  only a brain of kind "rules" has intents
"#;

model_brain_keys_of_wrong_type_are_refused:
r#"
[brain]
kind = "model"
provider = 1
model = ["m"]
key = { env = "KEY" }
temperature = "0.5"
options = "model"
"#
=>
r#"
agent.toml:6:12: brain.provider: found the number 1
  allowed: a text
agent.toml:7:9: brain.model: found a list
  allowed: a text
agent.toml:8:7: brain.key: found a table
  allowed: a text
agent.toml:9:15: brain.temperature: found the text "0.5"
  allowed: a number from 0 to 2
agent.toml:10:11: brain.options: found the text "model"
  allowed: a table
"#;

brain_key_is_refused_if_the_file_declares_no_secrets:
r#"
[brain]
kind = "aap"
url = "https://a.example/"
key = "KEY"
"#
=>
r#"
agent.toml:7:7: brain.key: no secret is named "KEY"
  the file has no [secrets] at all
"#;

brain_option_that_is_undeclared_or_of_wrong_secrecy_is_refused:
r#"
[brain]
kind = "model"
provider = "openai"
model = "m"
[brain.options]
model = "modle"
temperature = "pin"
key = "model"
max_tokens = "model"
[[option]]
name = "model"
type = "text"
[[option]]
name = "pin"
type = "secret"
"#
=>
r#"
agent.toml:9:9: brain.options.model: no [[option]] is named "modle"
  did you mean "model"? declared: "model", "pin"
agent.toml:10:15: brain.options.temperature: "pin" is a secret
  allowed: an option of type "text" or "select"
agent.toml:11:7: brain.options.key: "model" is visible to everyone who can read the session
  allowed: an option of type "secret"
agent.toml:12:1: brain.options.max_tokens: unknown key
  allowed: "model", "temperature", "key"
"#;

brain_option_is_refused_if_the_file_declares_no_options:
r#"
[brain]
kind = "model"
provider = "ollama"
model = "m"
options = { model = "model" }
"#
=>
r#"
agent.toml:8:21: brain.options.model: no [[option]] is named "model"
  the file has no [[option]] sections
"#;

process_brain_without_command_is_refused:
r#"
[brain]
kind = "process"
env = { "A=B" = "1", C = "{{ secrets.D }}" }
model = "m"
"#
=>
r#"
agent.toml:4:1: brain.command: missing
  needed: a program and its arguments, such as ["python3", "brain.py"]
agent.toml:6:17: brain.env."A=B": "A=B" is not the name of an environment variable
agent.toml:6:30: brain.env.C: no secret is named "D"
  the file has no [secrets] at all
agent.toml:7:1: brain.model: unknown key
  allowed: "kind", "command", "env"
"#;

process_brain_with_empty_command_is_refused:
r#"
[brain]
kind = "process"
command = []
"#
=>
r#"
agent.toml:6:11: brain.command: found an empty list
  allowed: a list of a program and its arguments, not empty
"#;

aap_brain_without_url_is_refused:
r#"
[brain]
kind = "aap"
agent = "My Agent"
"#
=>
r#"
agent.toml:4:1: brain.url: missing
  needed: the base URL of the other server's AAP interface
agent.toml:6:9: brain.agent: "My Agent" is not an agent name
  allowed: 1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit
"#;

misspelt_brain_kind_is_reported_without_faults_of_other_brain_keys:
r#"
[brain]
kind = "modle"
provider = "openai"
model = "m"
"#
=>
r#"
agent.toml:5:8: brain.kind: found "modle"
  did you mean "model"? allowed: "rules", "script", "model", "process", "aap"
"#;
}
