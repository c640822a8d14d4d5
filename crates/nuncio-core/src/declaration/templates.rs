//! Checks of templates: syntax, and that they refer only to available variables.

use std::collections::BTreeSet;

use minijinja::Environment;

use super::names::{Input, Names, Secrecy};
use super::reader::{Table, TomlItem};
use super::similar;
use super::source::cut;
use crate::template::Template;

/// The use of a template, which decides the variables it may refer to.
#[derive(Clone, Copy)]
pub(super) enum TemplateUse<'n> {
    /// Text for a person: no secrets.
    Said,
    /// Sent to a tool's backend: `args` and `secrets`.
    Sent(&'n Input<'n>),
    /// Shown to the person who carries out a task: `args`, no secrets.
    Shown(&'n Input<'n>),
    /// A credential for another host: `secrets`.
    Credential,
    /// Used once, to connect to a server: `secrets`.
    Started,
    /// Environment of a process brain: `secrets`.
    Thinking,
    /// System prompt of a language model: `options`, no secrets.
    Instructing,
}

/// A template that is valid for its use.
pub(super) fn read(item: &TomlItem<'_>, used: TemplateUse<'_>, names: &Names<'_>) -> Option<Template> {
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
                item.spot.fault("a secret would be shown to whoever does the work", "allowed: {{ args.NAME }}");
            }
            ("secrets", TemplateUse::Instructing) => {
                item.spot.fault("a secret would be told to the model", "allowed: what may be said again");
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
            (_, TemplateUse::Sent(_)) => item.spot.note(
                format!("{:?} will not be known, so that every call will fail", cut(root)),
                "known here: args, secrets",
            ),
            (_, TemplateUse::Shown(_)) => {
                item.spot.note(format!("{:?} will not be known, and be left out", cut(root)), "known here: args");
            }
            (_, TemplateUse::Credential) => item.spot.note(
                format!("{:?} will not be known, so that every call will fail", cut(root)),
                "known here: secrets",
            ),
            (_, TemplateUse::Started) => item.spot.note(
                format!("{:?} will not be known, so that the server cannot be reached", cut(root)),
                "known here: secrets",
            ),
            (_, TemplateUse::Thinking) => item.spot.note(
                format!("{:?} will not be known, so that the program cannot be started", cut(root)),
                "known here: secrets",
            ),
            (_, TemplateUse::Instructing) => {
                item.spot.note(format!("{:?} will not be known, and be left out", cut(root)), "known here: options");
            }
        }
    }
    Some(template)
}

/// The templates of a table whose keys are names.
pub(super) fn named(
    table: &Table<'_>,
    used: TemplateUse<'_>,
    names: &Names<'_>,
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

fn check_secret(item: &TomlItem<'_>, rest: &str, names: &Names<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    if name.is_empty() {
        item.spot.fault("does not say which secret", "allowed: {{ secrets.NAME }}, with the name written out");
    } else {
        names.knows_secret(item, name);
    }
}

fn note_option(item: &TomlItem<'_>, rest: &str, names: &Names<'_>) {
    let name = rest.split('.').next().unwrap_or_default();
    match names.options().get(name) {
        _ if name.is_empty() => {}
        Some(Secrecy::Shown) => {}
        Some(Secrecy::Secret) => {
            item.spot.note(format!("{:?} is a secret, and is left out", cut(name)), "models are told no secrets");
        }
        None => {
            let help = similar::help(name, "declared", names.options().keys().copied());
            item.spot.note(format!("no [[option]] is called {:?}", cut(name)), help);
        }
    }
}

fn note_argument(item: &TomlItem<'_>, rest: &str, input: &Input<'_>) {
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
