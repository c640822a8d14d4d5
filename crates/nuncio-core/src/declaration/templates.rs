//! Checks of templates: syntax, and that they refer only to available variables.

use std::collections::BTreeSet;

use minijinja::Environment;

use super::names::{DeclaredNames, Secrecy, ToolArguments};
use super::reader::{TomlItem, TomlTable};
use super::similar;
use super::source::cut;
use crate::template::Template;

/// The use of a template, which decides the variables it may refer to.
#[derive(Clone, Copy)]
pub(super) enum TemplateUse<'n> {
    /// A template of text for a person: no secrets.
    Said,
    /// A template sent to a tool's backend: `args` and `secrets`.
    Sent(&'n ToolArguments<'n>),
    /// A template shown to the person who carries out a task: `args`, no secrets.
    Shown(&'n ToolArguments<'n>),
    /// A template of a credential for another host: `secrets`.
    Credential,
    /// A template used once, to connect to a server: `secrets`.
    Started,
    /// A template in the environment of a process brain: `secrets`.
    Thinking,
    /// A template of a language model's system prompt: `options`, no secrets.
    Instructing,
}

/// Reads a template and checks that it uses only the variables of its use.
pub(super) fn read(item: &TomlItem<'_>, used: TemplateUse<'_>, names: &DeclaredNames<'_>) -> Option<Template> {
    let text = item.any_text()?;
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.strip_prefix("template: ").unwrap_or(&reason);
            item.spot.fault(
                format!("not a template: {reason}"),
                "allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language",
            );
            return None;
        }
    };
    for name in named_in(&template) {
        let (root, rest) = name.split_once('.').unwrap_or((&name, ""));
        match (root, used) {
            ("secrets", TemplateUse::Said) => item.spot.fault(
                "a secret would be said to people",
                "allowed: secrets in headers, bodies, addresses and environment variables",
            ),
            ("secrets", TemplateUse::Shown(_)) => {
                item.spot.fault("a secret would be shown to the person who does the task", "allowed: {{ args.NAME }}");
            }
            ("secrets", TemplateUse::Instructing) => {
                item.spot.fault("a secret would be sent to the model", "allowed: variables without secrets");
            }
            (
                "secrets",
                TemplateUse::Sent(_) | TemplateUse::Credential | TemplateUse::Started | TemplateUse::Thinking,
            ) => {
                check_secret(item, rest, names);
            }
            ("options", TemplateUse::Instructing) => note_option(item, rest, names),
            ("args", TemplateUse::Sent(input) | TemplateUse::Shown(input)) => note_argument(item, rest, input),
            (_, TemplateUse::Said) => {}
            (_, TemplateUse::Sent(_)) => {
                item.spot.note(format!("{:?} is unknown, so every call would fail", cut(root)), "known: args, secrets");
            }
            (_, TemplateUse::Shown(_)) => {
                item.spot.note(format!("{:?} is unknown and will be left out", cut(root)), "known: args");
            }
            (_, TemplateUse::Credential) => {
                item.spot.note(format!("{:?} is unknown, so every call would fail", cut(root)), "known: secrets");
            }
            (_, TemplateUse::Started) => item
                .spot
                .note(format!("{:?} is unknown, so the server could not be reached", cut(root)), "known: secrets"),
            (_, TemplateUse::Thinking) => item
                .spot
                .note(format!("{:?} is unknown, so the program could not be started", cut(root)), "known: secrets"),
            (_, TemplateUse::Instructing) => {
                item.spot.note(format!("{:?} is unknown and will be left out", cut(root)), "known: options");
            }
        }
    }
    Some(template)
}

/// The templates of a table whose keys are names.
pub(super) fn named(
    table: &TomlTable<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
    check: fn(&str) -> Result<(), &'static str>,
) -> Vec<(String, Template)> {
    let read = |(name, item): (&str, TomlItem<'_>)| {
        if let Err(what) = check(name) {
            item.spot.fault(format!("{:?} is not {what}", cut(name)), None);
        }
        Some((name.to_owned(), read(&item, used, names)?))
    };
    table.entries().into_iter().filter_map(read).collect()
}

/// The secrets a template refers to.
pub(super) fn secrets_in(template: &Template) -> impl Iterator<Item = String> {
    named_in(template).into_iter().filter_map(|name| {
        let path = name.strip_prefix("secrets.")?;
        path.split('.').next().map(str::to_owned)
    })
}

fn check_secret(item: &TomlItem<'_>, rest: &str, names: &DeclaredNames<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    if name.is_empty() {
        item.spot.fault("names no secret", "allowed: {{ secrets.NAME }}, with the name written out");
    } else {
        names.knows_secret(item, name);
    }
}

fn note_option(item: &TomlItem<'_>, rest: &str, names: &DeclaredNames<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    match names.options().get(name) {
        _ if name.is_empty() => {}
        Some(Secrecy::Shown) => {}
        Some(Secrecy::Secret) => {
            item.spot.note(format!("{:?} is a secret and is left out", cut(name)), "secrets are never sent to models");
        }
        None => {
            let help = similar::help(name, "declared", names.options().keys().copied());
            item.spot.note(format!("no [[option]] is called {:?}", cut(name)), help);
        }
    }
}

fn note_argument(item: &TomlItem<'_>, rest: &str, input: &ToolArguments<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    if let Some(properties) = &input.properties
        && !name.is_empty()
        && !properties.contains(name)
    {
        let help = similar::help(name, "properties", properties.iter().copied());
        item.spot.note(format!("the input has no property {:?}", cut(name)), help);
    }
}

/// The variables a template refers to, such as `args.room`, without the template language's built-in names.
fn named_in(template: &Template) -> BTreeSet<String> {
    let environment = Environment::new();
    let Ok(parsed) = environment.template_from_str(template.as_str()) else {
        return BTreeSet::new();
    };
    let builtin = |name: &String| environment.globals().any(|(global, _)| global == name);
    parsed.undeclared_variables(true).into_iter().filter(|name| !builtin(name)).collect()
}
