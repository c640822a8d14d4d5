//! Links to the documents that a front publishes about an agent, with `curl` commands for developers.

use std::collections::BTreeMap;

use nuncio_core::text::TextByLanguage;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleRequest {
    pub title: TextByLanguage,
    pub path: String,
    /// Whether a browser shows the document when a person follows a link to it.
    pub opens: bool,
    /// Path of the `curl` command; `path` if absent.
    pub request: Option<String>,
    /// Arguments of `curl` beside the address, quoted for a shell: `-d '…'`.
    pub arguments: String,
    /// Whether the `curl` command sends a key if the server asks for keys.
    pub needs_key: bool,
}

impl SampleRequest {
    /// A document that anyone may read.
    #[must_use]
    pub fn document(title: TextByLanguage, path: impl Into<String>) -> Self {
        Self { title, path: path.into(), opens: true, request: None, arguments: String::new(), needs_key: false }
    }

    /// A `POST` request with a JSON body.
    #[must_use]
    pub fn post(title: TextByLanguage, path: impl Into<String>, body: &Value) -> Self {
        let arguments = format!("-H 'content-type: application/json' -d {}", shell_quoted(&body.to_string()));
        Self { opens: false, arguments, needs_key: true, ..Self::document(title, path) }
    }
}

/// A title in English and Chinese, the languages of the pages.
#[must_use]
pub fn title(english: impl Into<String>, chinese: impl Into<String>) -> TextByLanguage {
    let texts = [("en".to_owned(), english.into()), ("zh-CN".to_owned(), chinese.into())];
    TextByLanguage::in_languages(BTreeMap::from(texts)).expect("there are two texts")
}

#[must_use]
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_quoted_text_is_in_single_quotes_and_inner_quotes_are_escaped() {
        assert_eq!(shell_quoted(r#"{"a":"b"}"#), r#"'{"a":"b"}'"#);
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
    }
}
