//! The reference of the agent file as data: every key with its type, default, example, audience and meaning.
//!
//! `nuncio explain agent.…`, the tables in `docs/agent-file.md` and the JSON Schema for editors are generated from it.
//! In debug builds the parser fails if it reads a key, a word, a range or a template that is not listed here.

mod access;
mod agent;
mod brain;
mod intents;
mod published;
mod run;
mod schema;
mod settings;
mod skill;
mod templates;
#[cfg(test)]
mod tests;
mod tools;
mod words;

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::similar;
use nuncio_core::policy::Protocol;

pub use schema::schema;
pub use templates::{DocumentedTemplateFilter, DocumentedTemplateVariable, FILTERS, VARIABLES};
pub use words::ReferenceLanguage;

/// An entry of the reference: what is allowed under one key.
#[derive(Debug, Clone, Copy)]
pub struct DocumentedAgentFileKey {
    /// Path of the key from the top of the file, such as `tool.run.command`; `*` stands for a name of the author's.
    pub path: &'static str,
    /// The kinds of value that the key accepts.
    pub values: &'static [AgentFileValueType],
    pub presence: KeyPresence,
    pub condition: KeyCondition,
    /// A value as written in TOML. Empty for a table, whose example consists of its required keys.
    written_example: &'static str,
    /// Protocols whose documents show the value or depend on it.
    pub protocols: &'static [Protocol],
    pub meaning: BilingualText,
}

/// A text of the reference in its two languages.
#[derive(Debug, Clone, Copy)]
pub struct BilingualText {
    pub en: &'static str,
    pub zh: &'static str,
}

/// A kind of value in the agent file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AgentFileValueType {
    Text,
    /// A list of texts that is not empty.
    Texts,
    /// A program, which is never a template, and its arguments, which are templates.
    Command,
    /// A text in the Jinja language; [`VARIABLES`] lists what it may use.
    Template,
    /// A table of templates whose keys are names.
    Templates,
    /// An `http:` or `https:` URL.
    WebAddress,
    Flag,
    /// The value `true` alone.
    True,
    /// Any whole number of 64 bits.
    Integer,
    /// A whole number from the first to the second.
    WholeNumber(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A list of some of a few words.
    Words(&'static [&'static str]),
    /// A date, or a time in ISO 8601.
    Time,
    /// A JSON Schema written as TOML.
    JsonSchema,
    /// A text, or a table of texts by language.
    TextByLanguage,
    /// A list of texts, or of tables of texts by language.
    TextsByLanguage,
    /// A table of `true` and `false` whose keys are names.
    Flags,
    Table,
    /// Any number of tables, written `[[key]]`.
    Sections,
    /// A table of tables whose keys are names.
    NamedTables,
    /// A table with the keys of the table at another path.
    TableLike(&'static str),
}

/// Whether a key must be given, and what applies otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyPresence {
    /// The table is refused without the key.
    Required,
    /// The table needs exactly one of its keys with this presence.
    OneOf,
    /// The table needs at least one of its keys with this presence.
    AnyOf,
    /// The table may have one of its keys with this presence.
    AtMostOneOf,
    /// Without the key nothing applies.
    Optional,
    /// The value without the key, as written in TOML.
    Default(&'static str),
    /// Description of the value without the key, in English and Chinese.
    DefaultText(&'static str, &'static str),
}

/// When a key is allowed in its table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyCondition {
    Always,
    /// Another key of the table has one of these words.
    If(&'static str, &'static [&'static str]),
    /// The table has the other key too.
    With(&'static str),
}

const fn key(
    path: &'static str,
    values: &'static [AgentFileValueType],
    example: &'static str,
    en: &'static str,
    zh: &'static str,
) -> DocumentedAgentFileKey {
    DocumentedAgentFileKey {
        path,
        values,
        presence: KeyPresence::Optional,
        condition: KeyCondition::Always,
        written_example: example,
        protocols: &[],
        meaning: BilingualText { en, zh },
    }
}

impl DocumentedAgentFileKey {
    const fn required(self) -> Self {
        Self { presence: KeyPresence::Required, ..self }
    }

    const fn one_of(self) -> Self {
        Self { presence: KeyPresence::OneOf, ..self }
    }

    const fn any_of(self) -> Self {
        Self { presence: KeyPresence::AnyOf, ..self }
    }

    const fn at_most_one_of(self) -> Self {
        Self { presence: KeyPresence::AtMostOneOf, ..self }
    }

    const fn default(self, value: &'static str) -> Self {
        Self { presence: KeyPresence::Default(value), ..self }
    }

    const fn default_text(self, en: &'static str, zh: &'static str) -> Self {
        Self { presence: KeyPresence::DefaultText(en, zh), ..self }
    }

    const fn only_if(self, key: &'static str, words: &'static [&'static str]) -> Self {
        Self { condition: KeyCondition::If(key, words), ..self }
    }

    const fn only_with(self, key: &'static str) -> Self {
        Self { condition: KeyCondition::With(key), ..self }
    }

    const fn seen_by(self, protocols: &'static [Protocol]) -> Self {
        Self { protocols, ..self }
    }

    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Path of the table that has the key; empty at the top of the file.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// A value of the key as written in TOML, on one line.
    #[must_use]
    pub fn example(&self) -> String {
        if !self.written_example.is_empty() {
            return self.written_example.to_owned();
        }
        let entries = example_keys(self.path).into_iter().map(|key| format!("{} = {}", key.name(), key.example()));
        let table = format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "));
        if self.values == [AgentFileValueType::Sections] { format!("[{table}]") } else { table }
    }

    /// Whether the value is a template, or has templates in it.
    #[must_use]
    pub fn is_template(&self) -> bool {
        let has_template = |form: &AgentFileValueType| {
            matches!(form, AgentFileValueType::Template | AgentFileValueType::Templates | AgentFileValueType::Command)
        };
        self.values.iter().any(has_template)
    }

    /// The template variables that the value may use; empty if it is no template.
    pub fn variables(&self) -> impl Iterator<Item = &'static DocumentedTemplateVariable> {
        let path = self.path;
        VARIABLES.iter().filter(move |variable| variable.keys.contains(&path))
    }
}

/// All keys of the agent file: each table is followed by its keys.
pub fn keys() -> impl Iterator<Item = &'static DocumentedAgentFileKey> {
    let parts: [&'static [DocumentedAgentFileKey]; 9] = [
        agent::KEYS,
        brain::KEYS,
        intents::KEYS,
        tools::KEYS,
        run::KEYS,
        skill::KEYS,
        access::KEYS,
        settings::KEYS,
        published::KEYS,
    ];
    parts.into_iter().flatten()
}

/// The key at a path of the file, such as `tool.run`.
#[must_use]
pub fn find(path: &str) -> Option<&'static DocumentedAgentFileKey> {
    let path = canonical(path);
    let exact = keys().find(|key| key.path == path);
    exact.or_else(|| keys().find(|key| matches_with_names(key.path, &path))).or_else(|| {
        // An entry of a table with names of the author's, such as `mcp.env.TOKEN`.
        let (table, _) = path.rsplit_once('.')?;
        keys().find(|key| {
            key.path == table && key.values.iter().any(|form| matches!(form, AgentFileValueType::Templates))
        })
    })
}

/// Whether a path names a key, with names of the author's where the reference has `*`.
fn matches_with_names(known: &str, path: &str) -> bool {
    known.split('.').count() == path.split('.').count()
        && known.split('.').zip(path.split('.')).all(|(known, part)| known == "*" || known == part)
}

/// The keys of the table at a path; the tables of the file for an empty path.
#[must_use]
pub fn children(table: &str) -> Vec<&'static DocumentedAgentFileKey> {
    let table = canonical(table);
    let table = match find(&table) {
        Some(key) => match key.values.iter().find_map(|form| form.table_path(key.path)) {
            Some(path) => path,
            None => return Vec::new(),
        },
        None => table,
    };
    keys().filter(|key| key.table() == table).collect()
}

/// At most three paths that are similar to one that does not exist. `agent.` before it may stand for the file.
#[must_use]
pub fn similar_paths(path: &str) -> Vec<&'static str> {
    let path = path.to_lowercase();
    let inside = path.strip_prefix("agent.").unwrap_or(&path);
    // A third of the letters may differ, at most three.
    let limit = inside.chars().count().div_ceil(3).min(3);
    let name = inside.rsplit('.').next().unwrap_or(inside);
    let distance = |key: &DocumentedAgentFileKey| {
        let whole = strsim::osa_distance(inside, key.path).min(strsim::osa_distance(&path, key.path));
        // A key of the right name in another table comes after a misspelt key of this table.
        if name == key.name() { whole.min(limit) } else { whole }
    };
    let near = keys().map(|key| (distance(key), key.path)).filter(|(distance, _)| *distance <= limit);
    let mut near: Vec<_> = near.collect();
    near.sort_unstable();
    near.into_iter().map(|(_, path)| path).take(similar::MAX_SIMILAR).collect()
}

impl AgentFileValueType {
    /// Path of the table whose keys the value has, for the value of the key at `path`.
    fn table_path(self, path: &'static str) -> Option<Cow<'static, str>> {
        match self {
            Self::Table | Self::Sections => Some(Cow::Borrowed(path)),
            Self::NamedTables => Some(Cow::Owned(format!("{path}.*"))),
            Self::TableLike(other) => Some(Cow::Borrowed(other)),
            _ => None,
        }
    }
}

/// The path under which the reference lists a key: a table with the keys of another is listed once.
fn canonical(path: &str) -> Cow<'_, str> {
    for key in keys() {
        if let Some(AgentFileValueType::TableLike(other)) =
            key.values.iter().find(|form| matches!(form, AgentFileValueType::TableLike(_)))
            && let Some(rest) = path.strip_prefix(key.path)
            && rest.starts_with('.')
        {
            return Cow::Owned(format!("{other}{rest}"));
        }
    }
    Cow::Borrowed(path)
}

/// The keys that an example of a table needs.
fn example_keys(table: &str) -> Vec<&'static DocumentedAgentFileKey> {
    let children = children(table);
    let is_required =
        |key: &&DocumentedAgentFileKey| key.presence == KeyPresence::Required && key.condition == KeyCondition::Always;
    let mut needed: Vec<_> = children.iter().copied().filter(is_required).collect();
    for choice in [KeyPresence::OneOf, KeyPresence::AnyOf] {
        needed.extend(children.iter().copied().find(|key| key.presence == choice));
    }
    if needed.is_empty() {
        needed.extend(children.first());
    }
    needed
}

/// Whether the reference has the key in the table. Used by the parser in debug builds.
pub(super) fn has_key(table: &str, key: &str) -> bool {
    find(&if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }).is_some()
}

/// Whether the reference has the same words for the key at the path. Used by the parser in debug builds.
pub(super) fn has_words<T>(path: &str, words: &[(&'static str, T)]) -> bool {
    forms(path).any(|form| match form {
        AgentFileValueType::Word(listed) | AgentFileValueType::Words(listed) => {
            listed.iter().eq(words.iter().map(|(word, _)| word))
        }
        _ => false,
    })
}

/// Whether the reference has the same range for the key at the path. Used by the parser in debug builds.
pub(super) fn has_range(path: &str, range: &RangeInclusive<u64>) -> bool {
    forms(path).any(|form| form == AgentFileValueType::WholeNumber(*range.start(), *range.end()))
}

/// Whether the reference has the same range for the key at the path. Used by the parser in debug builds.
pub(super) fn has_number_range(path: &str, range: &RangeInclusive<f64>) -> bool {
    forms(path).any(|form| form == AgentFileValueType::Number(*range.start(), *range.end()))
}

/// Names of the variables that the template at the path may use; `None` if the reference has no template there.
pub(super) fn template_variables(path: &str) -> Option<Vec<&'static str>> {
    let key = find(path.strip_suffix(".*").unwrap_or(path)).filter(|key| key.is_template())?;
    Some(key.variables().map(|variable| variable.name).collect())
}

fn forms(path: &str) -> impl Iterator<Item = AgentFileValueType> {
    find(path).into_iter().flat_map(|key| key.values.iter().copied())
}
