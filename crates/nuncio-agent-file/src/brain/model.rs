//! `[brain] kind = "model"`: provider, model and its parameters.

use super::super::agent::web_address;
use super::super::names::{DeclaredNames, OptionSecrecy};
use super::super::reader::TomlTableReader;
use super::super::templates::{self, TemplateUse};
use nuncio_core::agent::{ModelBrainSpec, ModelOptionNames, ModelProvider};

/// Sampling temperatures that every model provider accepts.
const TEMPERATURES: std::ops::RangeInclusive<f64> = 0.0..=2.0;
const MAX_TOKENS: u64 = 1_000_000;
/// Smallest context window in tokens. A smaller window could not hold the latest exchange.
const MIN_WINDOW: u64 = 1_000;
const MAX_WINDOW: u64 = 100_000_000;

pub(super) fn read(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Option<ModelBrainSpec> {
    let provider = table.choice("provider", &ModelProvider::ALL.map(|provider| (provider.as_str(), provider)));
    let model = table.text("model");
    let base_url = table.item("base_url").and_then(|item| web_address(&item));
    let key = table.item("key").and_then(|item| names.secret(&item));
    let temperature = table.item("temperature").and_then(|item| item.number(TEMPERATURES));
    let max_tokens = table.whole_number("max_tokens", 1..=MAX_TOKENS);
    let instructions = table.item("instructions");
    let instructions = instructions.and_then(|item| templates::read(&item, TemplateUse::SystemPrompt, names));
    let window_tokens = table.whole_number("window_tokens", MIN_WINDOW..=MAX_WINDOW);
    let options = table.table("options").map(|table| options(&table, names)).unwrap_or_default();
    let provider = provider?;
    if !provider.is_keyless() && !table.has("base_url") && !table.has("key") && options.key.is_none() {
        table.position.here("key").note(
            format!("missing, and {:?} requires one", provider.as_str()),
            "name a secret from [secrets] that holds it, or let clients provide theirs with [brain.options]",
        );
    }
    Some(ModelBrainSpec {
        provider,
        model: model?,
        base_url,
        key,
        temperature,
        max_tokens,
        instructions,
        window_tokens,
        options,
    })
}

/// `[brain.options]`: which `[[option]]` overrides which setting.
fn options(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> ModelOptionNames {
    let option = |key, secrecy| table.item(key).and_then(|item| names.option(&item, secrecy));
    let options = ModelOptionNames {
        model: option("model", OptionSecrecy::Public),
        temperature: option("temperature", OptionSecrecy::Public),
        key: option("key", OptionSecrecy::Secret),
    };
    table.finish();
    options
}
