//! Checks of templates: syntax, and that they refer only to available variables.

use super::names::{ArgumentNames, DeclaredNames, OptionSecrecy};
use super::reader::{TomlItem, TomlTable};
use super::similar;
use super::source::cut;
use crate::template::Template;

/// The use of a template, which decides the variables it may refer to.
#[derive(Clone, Copy)]
pub(super) enum TemplateUse<'n> {
    /// A template of text for a person: no secrets.
    Reply,
    /// A template sent to a tool's backend: `args` and `secrets`.
    BackendRequest(&'n ArgumentNames<'n>),
    /// A template shown to the person who carries out a task: `args`, no secrets.
    TaskText(&'n ArgumentNames<'n>),
    /// A template of a credential for another host: `secrets`.
    Credential,
    /// A template used once, to connect to a server: `secrets`.
    ServerStart,
    /// A template in the environment of a process brain: `secrets`.
    BrainEnvironment,
    /// A template of a language model's system prompt: `options`, no secrets.
    SystemPrompt,
}

/// Reads a template and checks that it uses only the variables of its use.
pub(super) fn read(item: &TomlItem<'_>, used: TemplateUse<'_>, names: &DeclaredNames<'_>) -> Option<Template> {
    let text = item.any_text()?;
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.strip_prefix("template: ").unwrap_or(&reason);
            return item.position.reject(
                format!("not a template: {reason}"),
                "allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language",
            );
        }
    };
    for name in template.variables() {
        let (root, rest) = name.split_once('.').unwrap_or((&name, ""));
        match (root, used) {
            ("secrets", TemplateUse::Reply) => item.position.fault(
                "a secret would be said to people",
                "allowed: secrets in headers, bodies, addresses and environment variables",
            ),
            ("secrets", TemplateUse::TaskText(_)) => {
                item.position
                    .fault("a secret would be shown to the person who does the task", "allowed: {{ args.NAME }}");
            }
            ("secrets", TemplateUse::SystemPrompt) => {
                item.position.fault("a secret would be sent to the model", "allowed: variables without secrets");
            }
            ("secrets", _) => check_secret(item, rest, names),
            ("options", TemplateUse::SystemPrompt) => note_option(item, rest, names),
            ("args", TemplateUse::BackendRequest(input) | TemplateUse::TaskText(input)) => {
                note_argument(item, rest, input);
            }
            (unknown, _) => note_unknown(item, unknown, used),
        }
    }
    Some(template)
}

fn note_unknown(item: &TomlItem<'_>, variable: &str, used: TemplateUse<'_>) {
    let (effect, known) = match used {
        // The rules brain defines the variables of its replies.
        TemplateUse::Reply => return,
        TemplateUse::BackendRequest(_) => (", so every call would fail", "known: args, secrets"),
        TemplateUse::TaskText(_) => (" and will be left out", "known: args"),
        TemplateUse::Credential => (", so every call would fail", "known: secrets"),
        TemplateUse::ServerStart => (", so the server could not be reached", "known: secrets"),
        TemplateUse::BrainEnvironment => (", so the program could not be started", "known: secrets"),
        TemplateUse::SystemPrompt => (" and will be left out", "known: options"),
    };
    item.position.note(format!("{:?} is unknown{effect}", cut(variable)), known);
}

/// Reads a table of templates by name; `what` describes a valid name in faults.
pub(super) fn named(
    table: &TomlTable<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
    what: &str,
    fits: fn(&str) -> bool,
) -> Vec<(String, Template)> {
    let read = |(name, item): (&str, TomlItem<'_>)| {
        if !fits(name) {
            item.position.fault(format!("{:?} is not {what}", cut(name)), "");
        }
        Some((name.to_owned(), read(&item, used, names)?))
    };
    table.entries().into_iter().filter_map(read).collect()
}

/// The secrets a template refers to.
pub(super) fn secrets_in(template: &Template) -> impl Iterator<Item = String> {
    template.variables().into_iter().filter_map(|name| {
        let path = name.strip_prefix("secrets.")?;
        path.split('.').next().map(str::to_owned)
    })
}

fn check_secret(item: &TomlItem<'_>, rest: &str, names: &DeclaredNames<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    if name.is_empty() {
        item.position.fault("names no secret", "allowed: {{ secrets.NAME }}, with the name written out");
    } else {
        names.knows_secret(item, name);
    }
}

fn note_option(item: &TomlItem<'_>, rest: &str, names: &DeclaredNames<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    match names.options().get(name) {
        _ if name.is_empty() => {}
        Some(OptionSecrecy::Public) => {}
        Some(OptionSecrecy::Secret) => {
            item.position
                .note(format!("{:?} is a secret and is left out", cut(name)), "secrets are never sent to models");
        }
        None => {
            let help = similar::help(name, "declared", names.options().keys().copied());
            item.position.note(format!("no [[option]] is called {:?}", cut(name)), help);
        }
    }
}

fn note_argument(item: &TomlItem<'_>, rest: &str, input: &ArgumentNames<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    if let Some(properties) = &input.properties
        && !name.is_empty()
        && !properties.contains(name)
    {
        let help = similar::help(name, "properties", properties.iter().copied());
        item.position.note(format!("the input has no property {:?}", cut(name)), help);
    }
}
