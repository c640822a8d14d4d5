//! Validation of texts shown to people, and search words of agents.

use nuncio_core::ErrorCode;
use nuncio_core::account::AgentAccount;
use serde_json::Value;

use crate::consent_error::ConsentError;

/// Maximum description length, in characters.
const MAX_DESCRIPTION: usize = 1000;

/// Maximum number of words of a search query that are used.
const MAX_QUERY_WORDS: usize = 8;

/// Validates a one-line text: not empty, at most `most` characters, no control or invisible ones. Returns it trimmed.
pub(crate) fn one_line(what: &str, text: &str, most: usize) -> Result<String, ConsentError> {
    let text = text.trim();
    let wrong = |why: String| Err(ConsentError::new(ErrorCode::BadRequest, format!("{what} {why}")));
    if text.is_empty() || text.chars().count() > most {
        return wrong(format!("must have 1 to {most} characters"));
    }
    if let Some(hidden) = text.chars().find(|letter| letter.is_control() || is_invisible(*letter)) {
        return wrong(format!("must not contain U+{:04X}, which is invisible", u32::from(hidden)));
    }
    Ok(text.to_owned())
}

/// Validates an optional description; blank counts as missing.
pub(crate) fn description(text: Option<&str>) -> Result<Option<String>, ConsentError> {
    text.filter(|text| !text.trim().is_empty()).map(|text| one_line("description", text, MAX_DESCRIPTION)).transpose()
}

/// Whether the character changes text direction or has no width.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Lower-case search text of an account: its id, display name and description, its tools and scopes.
pub(crate) fn search_words(account: &AgentAccount, manifest: Option<&Value>) -> String {
    let mut words = vec![account.id.to_string(), account.display_name.clone()];
    words.extend(account.description.clone());
    for (list, name) in [("tools", "name"), ("permission_scopes", "id")] {
        let list = manifest.and_then(|it| it.get(list)).and_then(Value::as_array).into_iter().flatten();
        words.extend(list.filter_map(|one| one.get(name)?.as_str().map(str::to_owned)));
    }
    words.join("\n").to_lowercase()
}

pub(crate) fn query_words(query: &str) -> Vec<String> {
    query
        .split_whitespace()
        .take(MAX_QUERY_WORDS)
        .map(|word| word.chars().take(64).collect::<String>().to_lowercase())
        .collect()
}
