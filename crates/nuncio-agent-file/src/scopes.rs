//! The `[[scope]]` sections: permissions that tools need.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::reader::{LocatedTomlValue, TomlTableReader};
use super::similar;
use nuncio_core::agent::{Scope, Sensitivity};
use nuncio_core::ids::ScopeId;
use nuncio_core::text::{TextByLanguage, is_i18n_key, is_language};

pub(super) fn read(root: &TomlTableReader<'_>) -> Vec<Scope> {
    root.tables("scope", "id").iter().filter_map(scope).collect()
}

fn scope(table: &TomlTableReader<'_>) -> Option<Scope> {
    let id = table.name("id", ScopeId::parse);
    let label = table.required("label", "a text, or one for each language").and_then(|item| local_text(&item));
    let description = table.item("description").and_then(|item| local_text(&item));
    let sensitivity = table.choice("sensitivity", &Sensitivity::ALL.map(|level| (level.as_str(), level)));
    let label_key = table.item("label_i18n_key").and_then(|item| i18n_key(&item));
    let description_key = table.item("description_i18n_key").and_then(|item| i18n_key(&item));
    table.finish();
    let scope = Scope { id: id?, label: label?, description, sensitivity: sensitivity?, label_key, description_key };
    note_missing_translations(table, &scope);
    Some(scope)
}

/// Reads a translation key.
pub(super) fn i18n_key(item: &LocatedTomlValue<'_>) -> Option<String> {
    let text = item.text()?;
    if !is_i18n_key(text) {
        let allowed = r#"allowed: 1 to 200 letters, digits, '_', '-' and '.', such as "agent.scope.mail_send.label""#;
        return item.position.reject("is not a translation key", allowed);
    }
    Some(text.to_owned())
}

/// Reads a text, or a table of texts by language.
pub(super) fn local_text(item: &LocatedTomlValue<'_>) -> Option<TextByLanguage> {
    if let DeValue::String(_) = item.value {
        return item.text().map(TextByLanguage::english);
    }
    if !item.value.is_table() {
        return item.wrong_kind(r#"a text, or a table such as { en = "Read", zh-CN = "读取" }"#);
    }
    let mut texts = BTreeMap::new();
    for (language, item) in item.table()?.entries() {
        if !is_language(language) {
            item.position.fault("not a language", r#"allowed: a language tag such as "en" or "zh-CN""#);
        }
        if let Some(text) = item.text() {
            texts.insert(language.to_owned(), text.to_owned());
        }
    }
    if texts.is_empty() {
        item.position.fault("found no text", "allowed: at least one language");
    }
    TextByLanguage::in_languages(texts)
}

/// Warns about languages in which the scope has a label but no description.
fn note_missing_translations(table: &TomlTableReader<'_>, scope: &Scope) {
    let Some(description) = &scope.description else {
        if scope.sensitivity == Sensitivity::High {
            table.position.here("description").note(
                "missing, though the sensitivity is high",
                "the person who is asked sees only the label; add a sentence that says what the scope allows",
            );
        }
        return;
    };
    let described: Vec<_> = description.languages().map(|(tag, _)| tag).collect();
    let missing: Vec<_> = scope.label.languages().map(|(tag, _)| tag).filter(|tag| !described.contains(tag)).collect();
    if !missing.is_empty() {
        let position = table.key_position("description").unwrap_or_else(|| table.position.clone());
        position.note(
            format!("not given in {}", similar::list(missing)),
            "the label has these languages; give the description in them too",
        );
    }
}
