//! What each protocol publishes about an agent, for people to open and to copy.

use nuncio_core::agent::Agent;
use serde_json::json;

use super::texts::Texts;

/// One thing worth opening or trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    /// The protocol's name and version.
    pub(crate) protocol: &'static str,
    /// What it is, in the page's language.
    pub(crate) title: String,
    /// Where it is, from the server's root.
    pub(crate) path: String,
    /// Whether following a link to it shows it.
    pub(crate) opens: bool,
    /// What `curl` needs beside the address, ready for a shell: `-d '…'`.
    pub(crate) arguments: String,
    /// Whether it asks for a key where there are keys.
    pub(crate) needs_key: bool,
}

/// What one protocol publishes about an agent. Every protocol in the assembly brings its own.
pub(crate) type DocumentsOf = fn(&Agent, &Texts) -> Vec<Document>;

/// AAP: the description, and the request that begins a conversation.
pub(crate) fn aap(agent: &Agent, texts: &Texts) -> Vec<Document> {
    let tools: Vec<_> = agent.exposed_tools().map(|tool| json!({"name": tool.name})).collect();
    let session = json!({"agent": {"name": agent.name, "tools": tools}});
    vec![
        Document {
            protocol: "AAP v3",
            title: texts.documents.aap_meta.clone(),
            path: "/aap/meta".to_owned(),
            opens: true,
            arguments: String::new(),
            needs_key: false,
        },
        Document {
            protocol: "AAP v3",
            title: texts.documents.aap_session.clone(),
            path: "/aap/sessions".to_owned(),
            opens: false,
            arguments: format!("-H 'content-type: application/json' -d {}", quoted(&session.to_string())),
            needs_key: true,
        },
    ]
}

/// A text as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        assert_eq!(quoted(r#"{"a":"b"}"#), r#"'{"a":"b"}'"#);
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
