//! `nuncio explain agent.…`: keys of the agent file.

use anstream::println;
use nuncio_agent_file::reference::{self, AgentFileValueType, DocumentedAgentFileKey, ReferenceLanguage};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::commands::consumer::wrapped;

/// What a name stands for in the agent file.
enum AgentFileTopic {
    WholeFile,
    Key(&'static DocumentedAgentFileKey),
}

/// Whether a name is meant as a key of the agent file and not as an error code: it has a dot, or is a section.
pub(super) fn is_path(name: &str) -> bool {
    name == "agent" || name.contains('.') || reference::find(name).is_some()
}

/// Prints the entry of a key. The error is the message about an unknown one.
pub(super) fn explain(name: &str, json: bool) -> Result<(), String> {
    match find(name).ok_or_else(|| unknown(name))? {
        AgentFileTopic::WholeFile if json => println!("{}", json!({"key": "agent", "keys": names("")})),
        AgentFileTopic::WholeFile => {
            println!("{}\n", "agent".bold());
            println!("An agent file (agent.toml) has these sections. `nuncio explain --schema` prints");
            println!("its JSON Schema for editors.\n");
            print_keys("");
        }
        AgentFileTopic::Key(key) if json => println!("{}", as_json(key)),
        AgentFileTopic::Key(key) => print(key),
    }
    Ok(())
}

/// Finds `agent.tool.run`, and `agent.name` as the short form of `agent.agent.name`.
fn find(name: &str) -> Option<AgentFileTopic> {
    if name == "agent" {
        return Some(AgentFileTopic::WholeFile);
    }
    let inside = name.strip_prefix("agent.").unwrap_or(name);
    reference::find(inside).or_else(|| reference::find(name)).map(AgentFileTopic::Key)
}

/// The name under which `nuncio explain` knows a key.
fn full_name(path: &str) -> String {
    if path.starts_with("agent.") { path.to_owned() } else { format!("agent.{path}") }
}

fn names(table: &str) -> Vec<String> {
    reference::children(table).iter().map(|key| full_name(key.path)).collect()
}

fn unknown(name: &str) -> String {
    let inside = name.strip_prefix("agent.").unwrap_or(name);
    let near: Vec<_> = reference::similar_paths(name).into_iter().map(full_name).collect();
    let perhaps = if near.is_empty() { String::new() } else { format!("perhaps: {}. ", near.join(", ")) };
    format!("the agent file has no key {inside:?}; {perhaps}`nuncio explain agent` lists the sections")
}

fn as_json(key: &DocumentedAgentFileKey) -> Value {
    json!({
        "key": full_name(key.path),
        "type": key.type_in_words(ReferenceLanguage::English),
        "default": key.default_in_words(ReferenceLanguage::English),
        "condition": key.condition_in_words(ReferenceLanguage::English),
        "example": example(key),
        "protocols": key.protocols,
        "variables": key.variables().map(|variable| variable.name).collect::<Vec<_>>(),
        "meaning": {"en": key.meaning.en, "zh-CN": key.meaning.zh},
        "keys": names(key.path),
    })
}

fn print(key: &DocumentedAgentFileKey) {
    println!("{}\n", full_name(key.path).bold());
    println!("{}\n", wrapped(key.meaning.en, ""));
    let plain = |text: String| text.replace('`', "");
    print_line("type", &plain(key.type_in_words(ReferenceLanguage::English)));
    print_line("default", &key.default_in_words(ReferenceLanguage::English).map_or("none".to_owned(), plain));
    if let Some(condition) = key.condition_in_words(ReferenceLanguage::English) {
        print_line("allowed", &plain(condition));
    }
    let audience = key.audience();
    print_line("seen by", if audience.is_empty() { "no protocol" } else { &audience });
    let variables: Vec<_> = key.variables().map(|variable| variable.name).collect();
    if !variables.is_empty() {
        print_line("variables", &variables.join(", "));
    }
    println!("\n{}\n", "Example".bold());
    example(key).lines().for_each(|line| println!("  {line}"));
    if !reference::children(key.path).is_empty() {
        println!("\n{}\n", "Keys".bold());
        print_keys(key.path);
    }
    if let [.., AgentFileValueType::TableLike(other)] = key.values {
        println!("\nThe keys are those of {}.", full_name(other));
    }
}

/// The lines of an example: a section of the file, or one key.
fn example(key: &DocumentedAgentFileKey) -> String {
    let is_section =
        key.table().is_empty() && matches!(key.values, [AgentFileValueType::Table | AgentFileValueType::Sections]);
    if is_section { key.section_example() } else { format!("{} = {}", key.name(), key.example()) }
}

/// Width of the labels, in columns.
const LABELS: usize = 11;

fn print_line(label: &str, text: &str) {
    let lines = wrapped(text, &" ".repeat(LABELS));
    println!("{label:<LABELS$}{}", lines.trim_start());
}

/// Prints the keys of a table, each with the first sentence of its meaning.
fn print_keys(table: &str) {
    let keys = reference::children(table);
    let width = keys.iter().map(|key| full_name(key.path).len()).max().unwrap_or_default() + 2;
    for key in keys {
        let name = full_name(key.path);
        let sentence = key.meaning.en.split_once(". ").map_or(key.meaning.en, |(first, _)| first).trim_end_matches('.');
        let lines = wrapped(sentence, &" ".repeat(width));
        println!("{name:<width$}{}", lines.trim_start());
    }
}
