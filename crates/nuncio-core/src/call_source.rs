//! Where a tool call comes from, for the person who decides on it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::plain;
use crate::time::Timestamp;

/// Limit of each text, in characters; the texts are shown to a person.
const MAX_CHARS: usize = 120;

/// The caller and the conversation behind a tool call, as the agent states them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSource {
    /// Stable text form of the agent's caller.
    pub caller: String,
    /// Name of the app that the caller uses, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Creation time of the caller's key, if the key has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_created_at: Option<Timestamp>,
    /// Id of the caller's conversation with the agent; `None` for a single call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
}

impl CallSource {
    /// The texts without control and bidirectional characters, each cut to 120 characters.
    #[must_use]
    pub fn readable(&self) -> Self {
        let text = |text: &String| plain(text).chars().take(MAX_CHARS).collect::<String>();
        Self {
            caller: text(&self.caller),
            app: self.app.as_ref().map(text),
            key_created_at: self.key_created_at,
            conversation: self.conversation.as_ref().map(text),
        }
    }

    /// Digest of caller and conversation, which distinguishes sources; the app's name may change.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_json(&serde_json::json!([self.caller, self.conversation]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_digest_depends_on_caller_and_conversation_and_not_on_the_app_name() {
        let source = |caller: &str, app: Option<&str>, conversation: Option<&str>| CallSource {
            caller: caller.to_owned(),
            app: app.map(str::to_owned),
            key_created_at: None,
            conversation: conversation.map(str::to_owned),
        };
        let first = source("key:key_1", Some("notes"), Some("ses_1")).digest();
        assert_eq!(source("key:key_1", Some("renamed"), Some("ses_1")).digest(), first);
        for other in [
            source("key:key_2", Some("notes"), Some("ses_1")),
            source("key:key_1", Some("notes"), Some("ses_2")),
            source("key:key_1", Some("notes"), None),
        ] {
            assert_ne!(other.digest(), first);
        }
        let shown = source("key:\u{202e}1", Some(&"x".repeat(500)), None).readable();
        assert!(!shown.caller.contains('\u{202e}'));
        assert_eq!(shown.app.unwrap().chars().count(), MAX_CHARS);
    }
}
