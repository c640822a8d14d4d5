//! Chat message in display form: content is plain text, in which only unambiguous URLs become links.

use nuncio_core::ErrorCode;
use nuncio_core::bundle::SealMode;
use nuncio_core::time::Timestamp;
use serde::Serialize;
use url::Url;

use super::super::DevicePages;
use super::super::frame::SignedInRequest;
use super::super::texts::TalkTexts;
use crate::known_agents::KnownAgent;
use crate::talk::{ChatContent, ChatMessage, MessageDeliveryState, MessageOpenFailure, StoredChatMessage};

#[derive(Serialize)]
pub(super) struct ChatMessageView {
    /// Stable key of the message, by which the page's script finds its element again.
    pub(super) key: String,
    pub(super) mine: bool,
    pub(super) who: String,
    pub(super) at: Timestamp,
    /// Content of the message, split into text and links.
    pub(super) parts: Vec<MessageTextPart>,
    /// Remark of the device about the message.
    pub(super) note: Option<String>,
    /// Whether the remark about the message is a warning.
    pub(super) alarm: bool,
    /// Heading shown before the message if the agent's keys changed with it.
    pub(super) before: Option<String>,
    /// Delivery state of the message: `sent`, `sending` or `failed`.
    pub(super) state: &'static str,
    /// Delivery state as text; `None` once the message is sent.
    pub(super) how_far: Option<String>,
}

/// A part of a message: plain text, or one link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MessageTextPart {
    pub(super) text: String,
    /// Target of the link; equal to `text`.
    pub(super) href: Option<String>,
}

impl ChatMessageView {
    pub(super) fn new(pages: &DevicePages, visit: &SignedInRequest, known: &KnownAgent, message: &ChatMessage) -> Self {
        let text = &visit.text.talk;
        let record = &message.record;
        let here = record.device.as_ref().is_none_or(|device| *device == pages.device.identity().device);
        let position = message.position.map(|position| position.to_string());
        let key = record.client_id.as_ref().map(ToString::to_string).or(position);
        let (parts, note, alarm) = content(text, record);
        let (state, how_far) = state(text, &message.state);
        Self {
            key: key.unwrap_or_else(|| "stranger".to_owned()),
            who: match (record.mine, here) {
                (true, true) => text.you.clone(),
                (true, false) => text.you_elsewhere.clone(),
                (false, _) => known.name.clone(),
            },
            mine: record.mine,
            at: record.at,
            parts,
            note,
            alarm,
            before: record.new_keys.then(|| text.new_keys.clone()),
            state,
            how_far,
        }
    }
}

/// Content of a message, the device's remark, and whether the remark is a warning.
fn content(text: &TalkTexts, record: &StoredChatMessage) -> (Vec<MessageTextPart>, Option<String>, bool) {
    let is_weaker = record.mode == Some(SealMode::Stateless) && !record.mine;
    let note = |words: &String| (Vec::new(), Some(words.clone()), false);
    match &record.content {
        ChatContent::Text { text: words, cut: true } => (parts(words), Some(text.cut.clone()), false),
        ChatContent::Text { text: words, cut: false } => {
            (parts(words), is_weaker.then(|| text.weaker_line.clone()), false)
        }
        ChatContent::Other => note(&text.other),
        ChatContent::Stranger => note(&text.stranger),
        ChatContent::Refused { why, .. } => {
            let words = match (record.mine, why) {
                (true, MessageOpenFailure::Untrusted) => &text.own_untrusted,
                (true, MessageOpenFailure::NotForUs) => &text.own_not_for_us,
                (false, MessageOpenFailure::Untrusted) => &text.refused_untrusted,
                (false, MessageOpenFailure::NotForUs) => &text.refused_not_for_us,
                (_, MessageOpenFailure::Lost) => &text.refused_lost,
                (_, MessageOpenFailure::Weaker) => &text.refused_weaker,
                (_, MessageOpenFailure::Changed) => &text.refused_changed,
            };
            (Vec::new(), Some(words.clone()), true)
        }
    }
}

fn state(text: &TalkTexts, state: &MessageDeliveryState) -> (&'static str, Option<String>) {
    match state {
        MessageDeliveryState::Sent => ("sent", None),
        MessageDeliveryState::Sending => ("sending", Some(text.sending.clone())),
        MessageDeliveryState::Failed { code, why } => {
            let why = match code {
                ErrorCode::RelationRequired => text.failed_relation.clone(),
                ErrorCode::DeviceUntrusted => text.failed_keys.clone(),
                ErrorCode::KeysNotFound => text.failed_no_keys.clone(),
                ErrorCode::EndpointUnreachable => text.failed_unreachable.clone(),
                _ => text.failed.replace("{why}", why),
            };
            ("failed", Some(why))
        }
    }
}

/// Splits a message text into plain text and links.
fn parts(text: &str) -> Vec<MessageTextPart> {
    let mut parts: Vec<MessageTextPart> = Vec::new();
    let mut plain = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        match address(word) {
            Some(address) => {
                let (before, after) = word.split_once(address).unwrap_or((word, ""));
                plain.push_str(before);
                if !plain.is_empty() {
                    parts.push(MessageTextPart { text: std::mem::take(&mut plain), href: None });
                }
                parts.push(MessageTextPart { text: address.to_owned(), href: Some(address.to_owned()) });
                plain.push_str(after);
            }
            None => plain.push_str(word),
        }
    }
    if !plain.is_empty() {
        parts.push(MessageTextPart { text: plain, href: None });
    }
    parts
}

/// The URL in a word, if it is unambiguous: http or https, ASCII, without a user name before the host.
fn address(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(['(', '[', '<', '"', '\'']);
    let address = word.trim_end_matches(|c: char| c.is_whitespace() || ".,;:!?)]>\"'".contains(c));
    let after = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))?;
    let host = after.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let url = Url::parse(address).ok()?;
    // The host that a browser parses must be the host that a person reads.
    let same = url.host_str().is_some_and(|read| read.eq_ignore_ascii_case(host));
    (same && address.is_ascii() && !address.contains(['@', '\\'])).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(text: &str) -> Vec<String> {
        let parts = parts(text);
        assert_eq!(parts.iter().map(|part| part.text.as_str()).collect::<String>(), text, "nothing is lost");
        assert!(parts.iter().all(|part| part.href.as_ref().is_none_or(|href| *href == part.text)));
        parts.into_iter().filter_map(|part| part.href).collect()
    }

    #[test]
    fn only_unambiguous_web_addresses_become_links() {
        let text =
            "See https://a.example/x?y=z#w, (http://b.example:8080) and\nhttps://c.example?at=https://d.example.";
        let expected = ["https://a.example/x?y=z#w", "http://b.example:8080", "https://c.example?at=https://d.example"];
        assert_eq!(links(text), expected);
        for none in [
            "",
            "plain words",
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://a.example",
            "https://",
            "https://bank.example@evil.example/",
            "https://bänk.example/",
            "https:\\\\evil.example",
            "https://a.example\\@evil.example",
            "xhttps://a.example",
            "//evil.example",
            "http://0x7f.1/",
        ] {
            assert_eq!(links(none), Vec::<String>::new(), "{none}");
        }
    }
}
