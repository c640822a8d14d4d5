//! `[[scope]]`: the permissions its tools need.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::reader::{Item, Table};
use super::similar;
use crate::agent::{Scope, Sensitivity};
use crate::ids::ScopeId;
use crate::text::LocalText;

const SENSITIVITIES: [(&str, Sensitivity); 3] =
    [("low", Sensitivity::Low), ("medium", Sensitivity::Medium), ("high", Sensitivity::High)];

pub(super) fn read(root: &Table<'_>) -> Vec<Scope> {
    root.tables("scope", "id").iter().filter_map(scope).collect()
}

fn scope(table: &Table<'_>) -> Option<Scope> {
    let id = table.name("id", ScopeId::parse);
    let label = table.required("label", "a text, or one for each language").and_then(|item| local_text(&item));
    let description = table.item("description").and_then(|item| local_text(&item));
    let sensitivity = table.choice("sensitivity", &SENSITIVITIES);
    table.finish();
    let scope = Scope { id: id?, label: label?, description, sensitivity: sensitivity? };
    note_untold(table, &scope);
    Some(scope)
}

/// A text, or a table of texts by language.
fn local_text(item: &Item<'_>) -> Option<LocalText> {
    if let DeValue::String(_) = item.value {
        return item.text().map(LocalText::english);
    }
    if !item.value.is_table() {
        item.wrong_kind(r#"a text, or a table such as { en = "Read", zh-CN = "读取" }"#);
        return None;
    }
    let mut texts = BTreeMap::new();
    for (language, item) in item.table()?.entries() {
        if !is_language(language) {
            item.spot.fault("not a language", r#"allowed: a language tag such as "en" or "zh-CN""#);
        }
        if let Some(text) = item.text() {
            texts.insert(language.to_owned(), text.to_owned());
        }
    }
    if texts.is_empty() {
        item.spot.fault("found no text", "allowed: at least one language");
    }
    LocalText::in_languages(texts)
}

/// The shape of a BCP 47 tag, not whether anyone speaks it.
fn is_language(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let part = |part: &str, least: usize| {
        (least..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let language = parts.next().unwrap_or_default();
    part(language, 2) && language.bytes().all(|byte| byte.is_ascii_alphabetic()) && parts.all(|rest| part(rest, 1))
}

/// Whoever decides should be told what about, in every language the scope has a label in.
fn note_untold(table: &Table<'_>, scope: &Scope) {
    let Some(description) = &scope.description else {
        if scope.sensitivity == Sensitivity::High {
            table.spot.here("description").note(
                "missing, though the sensitivity is high",
                "whoever is asked sees only the label; add a sentence that says what is at stake",
            );
        }
        return;
    };
    let told: Vec<_> = description.languages().map(|(tag, _)| tag).collect();
    let untold: Vec<_> = scope.label.languages().map(|(tag, _)| tag).filter(|tag| !told.contains(tag)).collect();
    if !untold.is_empty() {
        let spot = table.key_spot("description").unwrap_or_else(|| table.spot.clone());
        spot.note(
            format!("not given in {}", similar::list(untold)),
            "the label has these languages; give the description in them too",
        );
    }
}
