//! The `skill` table: publication of a tool or the whole agent as a skill.

mod auth;
mod defaults;

use std::time::Duration;

use serde_json::Value;
use toml::de::DeValue;

use super::agent::web_address;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::similar;
use super::source::cut;
use nuncio_core::agent::{CapabilityType, Skill, SkillAccess, SkillAuth, SkillHttpMethod, SkillRetryPolicy};
use nuncio_core::time::Timestamp;

pub(super) use defaults::{SkillDefaultSource, SkillIdReader};

const MAX_ATTEMPTS: u64 = 10;
const DEFAULT_BACKOFF_MS: u64 = 1_000;
const MAX_BACKOFF_MS: u64 = 60_000;
const MAX_KEEP_HOURS: u64 = 8_760;
const MAX_CONCURRENCY: u64 = 1_024;

pub(super) fn read(
    table: &TomlTableReader<'_>,
    subject: &SkillDefaultSource<'_>,
    publisher: &SkillIdReader,
) -> Option<Skill> {
    let id = publisher.id(table, subject);
    let name = own_text(table, "name", subject.name);
    let description = own_text(table, "description", subject.description);
    let version = publisher.version(table);
    let kind = table.choice("type", &CapabilityType::ALL.map(|kind| (kind.as_str(), kind)));
    let usual_access = if subject.scope.is_some() { SkillAccess::Restricted } else { SkillAccess::Public };
    let accesses = SkillAccess::ALL.map(|access| (access.as_str(), access));
    let access = table.read_or("access", usual_access, |item| item.choice(&accesses));
    let auth = auth::read(table, access, subject.scope.is_some());
    let method = table.read_or("method", SkillHttpMethod::Post, |item| method(item, subject));
    let tags = table.item("tags").and_then(|item| item.distinct_texts());
    let documentation = table.item("documentation_url").and_then(|item| web_address(&item));
    let (created_at, updated_at) = history(table);
    let retry = table.table("retry").and_then(|table| retry(&table));
    let keep_hours = table.whole_number("keep_hours", 1..=MAX_KEEP_HOURS);
    let concurrency = table.whole_number("concurrency", 1..=MAX_CONCURRENCY);
    table.finish();
    if let (Some(scope), Some(SkillAuth::None), Some(SkillAccess::Public)) = (subject.scope, &auth, access) {
        note_anonymous(table, scope, publisher);
    }
    Some(Skill {
        id: id?,
        name: name?,
        description: description?,
        version: version?,
        kind: kind?,
        access: access?,
        auth: auth?,
        method: method?,
        tags: tags.unwrap_or_default(),
        documentation,
        created_at,
        updated_at,
        retry,
        retention: keep_hours.map(|hours| Duration::from_secs(hours * 3_600)),
        concurrency: concurrency.and_then(|number| usize::try_from(number).ok()),
    })
}

/// Reads a text of the skill, or takes that of the tool or agent that the skill publishes.
fn own_text(table: &TomlTableReader<'_>, key: &'static str, fallback: Option<&str>) -> Option<String> {
    match table.item(key) {
        Some(item) => item.text().map(str::to_owned),
        None => fallback.map(str::to_owned),
    }
}

fn method(item: &LocatedTomlValue<'_>, subject: &SkillDefaultSource<'_>) -> Option<SkillHttpMethod> {
    let method = item.choice(&SkillHttpMethod::ALL.map(|method| (method.as_str(), method)))?;
    let nested = |schema: &Value| matches!(schema["type"].as_str(), Some("object" | "array"));
    let properties = subject.input.and_then(|schema| schema["properties"].as_object());
    let nested = properties.into_iter().flatten().filter(|(_, schema)| nested(schema));
    let nested = similar::list(nested.map(|(key, _)| key.as_str()));
    if method.has_query() && !nested.is_empty() {
        item.position.note(
            format!("inputs are sent in the query, with {nested} as JSON"),
            r#""POST" and "PUT" take every input as it is"#,
        );
    }
    Some(method)
}

/// Reads the optional times of creation and last change of a skill.
fn history(table: &TomlTableReader<'_>) -> (Option<Timestamp>, Option<Timestamp>) {
    let created_at = table.item("created_at").and_then(|item| moment(&item));
    let updated = table.item("updated_at");
    let updated_at = updated.as_ref().and_then(moment);
    if let (Some(created_at), Some(updated_at), Some(item)) = (created_at, updated_at, updated)
        && updated_at < created_at
    {
        item.position.fault("is before \"created_at\"", "allowed: the same time, or a later one");
    }
    (created_at, updated_at)
}

/// Reads a time, given as text or as a TOML date. A date without time means midnight UTC.
pub(super) fn moment(item: &LocatedTomlValue<'_>) -> Option<Timestamp> {
    const ALLOWED_TIMES: &str = "an ISO 8601 time such as \"2026-01-15T08:00:00Z\", or a date";
    let text = match item.value {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        _ => return item.wrong_kind(ALLOWED_TIMES),
    };
    let day_alone = text.len() == "2026-01-15".len();
    let moment = Timestamp::try_from(if day_alone { format!("{text}T00:00:00Z") } else { text.clone() });
    let rejected = || item.position.reject(format!("found {:?}", cut(&text)), format!("allowed: {ALLOWED_TIMES}"));
    moment.ok().or_else(rejected)
}

fn retry(table: &TomlTableReader<'_>) -> Option<SkillRetryPolicy> {
    let attempts = table.required("max_attempts", &format!("a whole number from 1 to {MAX_ATTEMPTS}"));
    let attempts = attempts.and_then(|item| item.whole_number(1..=MAX_ATTEMPTS));
    let backoff = table.read_or("backoff_ms", DEFAULT_BACKOFF_MS, |item| item.whole_number(1..=MAX_BACKOFF_MS));
    table.finish();
    Some(SkillRetryPolicy { max_attempts: u32::try_from(attempts?).ok()?, backoff: Duration::from_millis(backoff?) })
}

/// Warns that anonymous callers have only the scopes granted to `anonymous`.
fn note_anonymous(table: &TomlTableReader<'_>, scope: &str, publisher: &SkillIdReader) {
    let position = table.key_position("auth").unwrap_or_else(|| table.position.clone());
    position.note(
        format!("its callers are \"anonymous\", and the tool needs {:?}", cut(scope)),
        format!(
            "they are refused until you run `nuncio grant create anonymous {} {}`",
            publisher.shown_name(),
            cut(scope)
        ),
    );
}
