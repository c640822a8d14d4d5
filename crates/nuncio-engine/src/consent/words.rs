//! Texts that people will read, and words by which agents are found.

use nuncio_core::Code;
use nuncio_core::account::Account;
use serde_json::Value;

use super::error::ConsentError;

/// The longest description of an agent, in characters.
const MAX_DESCRIPTION: usize = 1000;

/// How many words of a query count.
const MAX_QUERY_WORDS: usize = 8;

/// A text of one line that shows as it is: not empty, not too long, nothing hidden in it.
pub(super) fn line(what: &str, text: &str, most: usize) -> Result<String, ConsentError> {
    let text = text.trim();
    let wrong = |why: String| Err(ConsentError::new(Code::BadRequest, format!("{what} {why}")));
    if text.is_empty() || text.chars().count() > most {
        return wrong(format!("must have 1 to {most} characters"));
    }
    if let Some(hidden) = text.chars().find(|letter| letter.is_control() || is_invisible(*letter)) {
        return wrong(format!("must not contain U+{:04X}, which cannot be seen", u32::from(hidden)));
    }
    Ok(text.to_owned())
}

/// The same for a description, which may be missing.
pub(super) fn description(text: Option<&str>) -> Result<Option<String>, ConsentError> {
    text.filter(|text| !text.trim().is_empty()).map(|text| line("description", text, MAX_DESCRIPTION)).transpose()
}

/// Marks that turn the direction of a text, or take no room.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The words by which an account is found: its names, and those of what it can do.
pub(super) fn of(account: &Account, manifest: Option<&Value>) -> String {
    let mut words = vec![account.id.to_string(), account.display_name.clone()];
    words.extend(account.description.clone());
    for (list, name) in [("tools", "name"), ("permission_scopes", "id")] {
        let list = manifest.and_then(|it| it.get(list)).and_then(Value::as_array).into_iter().flatten();
        words.extend(list.filter_map(|one| one.get(name)?.as_str().map(str::to_owned)));
    }
    words.join("\n").to_lowercase()
}

/// The words of a query.
pub(super) fn of_query(query: &str) -> Vec<String> {
    query
        .split_whitespace()
        .take(MAX_QUERY_WORDS)
        .map(|word| word.chars().take(64).collect::<String>().to_lowercase())
        .collect()
}
