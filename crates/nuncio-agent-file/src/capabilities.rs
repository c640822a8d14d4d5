//! The `[capabilities]` section: AAP features offered to clients.

use std::collections::BTreeMap;

use super::reader::TomlTableReader;
use super::similar;
use nuncio_core::agent::AapCapabilities;

pub(super) fn read(root: &TomlTableReader<'_>) -> AapCapabilities {
    let mut capabilities = AapCapabilities::default();
    let Some(table) = root.table("capabilities") else {
        return capabilities;
    };
    if let Some([compacted, full]) = listed(&table, "history", ["compacted", "full"]) {
        capabilities.compacted_history = compacted;
        capabilities.full_history = full;
    }
    if let Some([delta, message, none]) = listed(&table, "stream", ["delta", "message", "none"]) {
        capabilities.stream_delta = delta;
        capabilities.stream_message = message;
        capabilities.stream_none = none;
        if !(delta || message || none)
            && let Some(item) = table.peek("stream")
        {
            item.position.fault(
                "found an empty list, so no client could receive an answer",
                r#"allowed: at least one of "delta", "message", "none""#,
            );
        }
    }
    if let Some(allowed) = table.flag("application_tools") {
        capabilities.application_tools = allowed;
    }
    if let Some([https, data]) = listed(&table, "images", ["https", "data"]) {
        capabilities.image_https = https;
        capabilities.image_data = data;
    }
    table.finish();
    capabilities
}

/// `[capability_flags]`: A2H flags such as `supports_voice`.
pub(super) fn flags(root: &TomlTableReader<'_>) -> BTreeMap<String, bool> {
    let Some(table) = root.table("capability_flags") else { return BTreeMap::new() };
    table.entries().into_iter().filter_map(|(name, item)| Some((name.to_owned(), item.boolean()?))).collect()
}

/// For each word, whether the list under `key` contains it; `None` if there is no list, or it has a fault.
fn listed<const N: usize>(
    table: &TomlTableReader<'_>,
    key: &'static str,
    words: [&'static str; N],
) -> Option<[bool; N]> {
    let items = table.list(key, &format!("a list of {}", similar::list(words)))?;
    let choices: Vec<_> = words.into_iter().zip(0..).collect();
    let mut found = [false; N];
    for item in items {
        let index: usize = item.choice(&choices)?;
        found[index] = true;
    }
    Some(found)
}
