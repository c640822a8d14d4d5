//! Checks of templates: syntax, and that they use only known variables, filters, tests and functions.
//!
//! What makes every rendering fail is a fault. What is only left out, or fails for some calls, is a warning.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{DeclaredNames, OptionSecrecy};
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::reference;
use super::similar;
use super::source::{FilePosition, cut};
use super::template_paths::{SchemaPathLookupResult, UnknownSchemaKey, follow};
use nuncio_core::template::{self, Template, TemplateReferenceKind, VariablePath};

/// The use of a template, which decides the variables it may refer to.
#[derive(Clone, Copy)]
pub(super) enum TemplateUse<'n> {
    /// A template of text that a rules brain says: no secrets.
    Reply(&'n ReplyTemplateVariables<'n>),
    /// A template sent to a tool's backend: `args`, which fit this schema, and `secrets`.
    BackendRequest(Option<&'n Value>),
    /// A template shown to the person who carries out a task: `args`, no secrets.
    TaskText(Option<&'n Value>),
    /// A template of a credential for another host: `secrets`.
    Credential,
    /// A template used once, to connect to a server: `secrets`.
    ServerStart,
    /// A template in the command line or environment of a process brain: `secrets`.
    BrainEnvironment,
    /// A template of a language model's system prompt: `options`, no secrets.
    SystemPrompt,
}

/// Variables of a reply beside `language` and `options`.
#[derive(Default)]
pub(super) struct ReplyTemplateVariables<'n> {
    /// Slots of the intent; `None` for a reply without an intent.
    pub(super) slots: Option<&'n BTreeSet<&'n str>>,
    /// Further variables of the reply: `text`, `result`, `error`, `denied` or `intents`.
    pub(super) others: &'static [&'static str],
    /// Output schema of the intent's tool, for `result`.
    pub(super) output: Option<&'n Value>,
}

impl ReplyTemplateVariables<'_> {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let slots = self.slots.iter().flat_map(|_| ["slots", "spoken"]);
        slots.chain(["language", "options"]).chain(self.others.iter().copied())
    }
}

impl TemplateUse<'_> {
    /// Names of the variables that a template of this use may refer to.
    fn variables(&self) -> Vec<&'static str> {
        match self {
            Self::Reply(variables) => variables.names().collect(),
            Self::BackendRequest(_) => vec!["args", "secrets"],
            Self::TaskText(_) => vec!["args"],
            Self::Credential | Self::ServerStart | Self::BrainEnvironment => vec!["secrets"],
            Self::SystemPrompt => vec!["options"],
        }
    }

    /// What happens if a value is missing; `None` if it is left out.
    fn effect_of_missing_value(&self) -> Option<&'static str> {
        match self {
            Self::Reply(_) | Self::TaskText(_) | Self::SystemPrompt => None,
            Self::BackendRequest(_) | Self::Credential => Some("so every call would fail"),
            Self::ServerStart => Some("so the server could not be reached"),
            Self::BrainEnvironment => Some("so the program could not be started"),
        }
    }
}

/// Reads a template and checks that it uses only the variables of its use.
pub(super) fn read(item: &LocatedTomlValue<'_>, used: TemplateUse<'_>, names: &DeclaredNames<'_>) -> Option<Template> {
    let path = item.position.path();
    debug_assert!(
        reference::template_variables(path)
            .is_some_and(|listed| matches!(used, TemplateUse::Reply(_)) || listed == used.variables()),
        "`reference` lists no template with these variables for {path:?}"
    );
    let text = item.any_text()?;
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            return item.position.reject(
                format!("not a template: {}", error.reason()),
                "allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language",
            );
        }
    };
    for name in template.names() {
        let position = item.position.in_text(text, name.offset);
        match name.kind {
            TemplateReferenceKind::Filter(name) if !template::is_filter(&name) => {
                position.fault(
                    format!("there is no filter {:?}", cut(&name)),
                    suggest(&name, "filters", &template::FILTERS),
                );
            }
            TemplateReferenceKind::Test(name) if !template::is_test(&name) => {
                position.fault(format!("there is no test {:?}", cut(&name)), suggest(&name, "tests", &template::TESTS));
            }
            TemplateReferenceKind::Function(name) if !template::is_function(&name) => check_function(&position, &name),
            TemplateReferenceKind::Variable(path) => check_variable(&position, &path, used, names),
            TemplateReferenceKind::Filter(_) | TemplateReferenceKind::Test(_) | TemplateReferenceKind::Function(_) => {}
        }
    }
    if let Some(Err(error)) = template.render_constant()
        && !has_unknown_filter(&template)
    {
        return item.position.reject(
            format!("cannot be rendered: {}", error.reason()),
            "allowed: a template that can be rendered with any values",
        );
    }
    Some(template)
}

/// Whether the template has a filter or test that was reported as unknown.
fn has_unknown_filter(template: &Template) -> bool {
    template.names().iter().any(|name| match &name.kind {
        TemplateReferenceKind::Filter(name) => !template::is_filter(name),
        TemplateReferenceKind::Test(name) => !template::is_test(name),
        TemplateReferenceKind::Function(_) | TemplateReferenceKind::Variable(_) => false,
    })
}

fn suggest(name: &str, label: &str, known: &[&'static str]) -> String {
    match similar::similar(name, known.iter().copied()) {
        Some(guess) => format!("did you mean {guess:?}?"),
        None => format!("{label}: {}", known.join(", ")),
    }
}

fn check_function(position: &FilePosition<'_>, name: &str) {
    match name.rsplit_once('.') {
        Some((_, method)) => {
            let help = if template::is_filter(method) {
                format!("values have no methods; use the filter: {{{{ … | {method} }}}}")
            } else {
                "values have no methods; use a filter".to_owned()
            };
            position.fault(format!("{:?} cannot be called", cut(name)), help);
        }
        None => {
            let help = suggest(name, "functions", &template::FUNCTIONS);
            position.fault(format!("there is no function {:?}", cut(name)), help);
        }
    }
}

fn check_variable(position: &FilePosition<'_>, path: &VariablePath, used: TemplateUse<'_>, names: &DeclaredNames<'_>) {
    let key = path.keys().next().unwrap_or_default();
    match (path.root.as_str(), used) {
        ("secrets", TemplateUse::Reply(_)) => position.fault(
            "a secret would be shown to people",
            "allowed: secrets in headers, bodies, addresses and environment variables",
        ),
        ("secrets", TemplateUse::TaskText(_)) => {
            position.fault("a secret would be shown to the person who does the task", "allowed: {{ args.NAME }}");
        }
        ("secrets", TemplateUse::SystemPrompt) => {
            position.fault("a secret would be sent to the model", "allowed: variables without secrets");
        }
        ("secrets", _) if key.is_empty() => {
            position.fault("names no secret", "allowed: {{ secrets.NAME }}, with the name written out");
        }
        ("secrets", _) => {
            if names.knows_secret(position, key) && path.steps.len() > 1 {
                position.fault(
                    format!("the secret {:?} is a text and has no fields", cut(key)),
                    format!("write {{{{ secrets.{key} }}}}"),
                );
            }
        }
        ("options", TemplateUse::SystemPrompt | TemplateUse::Reply(_)) => note_option(position, key, names),
        ("slots" | "spoken", TemplateUse::Reply(ReplyTemplateVariables { slots: Some(slots), .. })) => {
            if !key.is_empty() && !slots.contains(key) {
                let help = similar::help_or("the intent has no [[intent.slot]] at all", key, "slots", slots);
                position.fault(format!("the intent has no slot {:?}", cut(key)), help);
            }
        }
        ("result", TemplateUse::Reply(ReplyTemplateVariables { output: Some(schema), others, .. }))
            if others.contains(&"result") =>
        {
            check_path(position, path, schema, "the output", used);
        }
        ("args", TemplateUse::BackendRequest(schema) | TemplateUse::TaskText(schema)) => {
            if let Some(schema) = schema {
                check_path(position, path, schema, "the input", used);
            }
        }
        (name, _) if used.variables().contains(&name) || template::is_function(name) => {}
        (unknown, _) => {
            let known = used.variables();
            let guess = similar::similar(unknown, known.iter().copied());
            let guess = guess.map(|guess| format!("did you mean {guess:?}? ")).unwrap_or_default();
            let help = format!("{guess}known: {}", known.join(", "));
            match used.effect_of_missing_value().filter(|_| !path.is_guarded) {
                Some(effect) => position.fault(format!("{:?} is unknown, {effect}", cut(unknown)), help),
                None => position.note(format!("{:?} is unknown and will be left out", cut(unknown)), help),
            }
        }
    }
}

/// Checks the keys of a variable whose schema is known. `what` is the subject of the messages.
fn check_path(position: &FilePosition<'_>, path: &VariablePath, schema: &Value, what: &str, used: TemplateUse<'_>) {
    let effect = used.effect_of_missing_value().filter(|_| !path.is_guarded);
    match (follow(schema, &path.steps), effect) {
        (SchemaPathLookupResult::Unknown(UnknownSchemaKey { key, properties, is_refused }), effect) => {
            let found = format!("{what} has no property {:?}", cut(key));
            let help = match properties.as_slice() {
                [] if is_refused => String::new(),
                [] => format!("it lists no properties: add {key:?}, and require it if every call needs it"),
                properties => similar::help(key, "properties", properties.iter().copied()),
            };
            match effect.filter(|_| is_refused) {
                // Results often have more properties than their schema lists.
                None if matches!(used, TemplateUse::Reply(_)) && !is_refused => {}
                Some(effect) => position.fault(format!("{found}, {effect}"), help),
                None => position.note(found, help),
            }
        }
        (SchemaPathLookupResult::Optional(key), Some(_)) => position.note(
            format!("{:?} is optional, and a call without it would fail", cut(key)),
            format!("require it in the input, or write {{{{ {path} | default(\"\") }}}}"),
        ),
        (SchemaPathLookupResult::Optional(_) | SchemaPathLookupResult::Known, _) => {}
    }
}

/// Reads a table of templates by name; `what` describes a valid name in faults.
pub(super) fn named(
    table: &TomlTableReader<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
    what: &str,
    fits: fn(&str) -> bool,
) -> Vec<(String, Template)> {
    let read = |(name, item): (&str, LocatedTomlValue<'_>)| {
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

fn note_option(position: &FilePosition<'_>, name: &str, names: &DeclaredNames<'_>) {
    match names.options().get(name) {
        _ if name.is_empty() => {}
        Some(OptionSecrecy::Public) => {}
        Some(OptionSecrecy::Secret) => {
            position.note(
                format!("{:?} is a secret and is left out", cut(name)),
                "templates of texts never get secret options",
            );
        }
        None => {
            let declared = names.options().keys().copied().collect();
            let help = similar::help_or("the file has no [[option]] sections", name, "declared", &declared);
            position.note(format!("no [[option]] is named {:?}", cut(name)), help);
        }
    }
}
