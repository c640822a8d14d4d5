//! Languages of the built-in sentences.

use super::super::chunks::is_han;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DialogueLanguage {
    English,
    Chinese,
}

impl DialogueLanguage {
    /// Returns the argument that belongs to this language.
    pub(super) fn choose<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }

    /// Language tag for templates.
    pub(super) fn tag(self) -> &'static str {
        self.choose("en", "zh-CN")
    }

    /// Language after a user message, given the current language. A number, an id or a single foreign word does not
    /// change it.
    pub(super) fn after_message(self, message: &str) -> Self {
        if message.chars().any(is_han) {
            return Self::Chinese;
        }
        let words = message.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic));
        if words.take(2).count() == 2 { Self::English } else { self }
    }

    /// Language that a session's `language` option enforces. Only Chinese is enforced, because English is the default
    /// and may not have been chosen.
    pub(super) fn enforced(option: &str) -> Option<Self> {
        let option = option.trim().to_lowercase();
        let chinese = option == "zh"
            || option.starts_with("zh-")
            || option.contains("chinese")
            || option.contains("中文")
            || option.contains("汉语");
        chinese.then_some(Self::Chinese)
    }
}

#[cfg(test)]
mod tests {
    use super::DialogueLanguage::{Chinese, English};
    use super::*;

    #[test]
    fn sentence_changes_the_language_but_id_or_number_does_not() {
        assert_eq!(English.after_message("我要订房"), Chinese);
        assert_eq!(Chinese.after_message("room-203"), Chinese);
        assert_eq!(Chinese.after_message("2026-12-24"), Chinese);
        assert_eq!(Chinese.after_message("find free rooms"), English);
        assert_eq!(English.after_message("?"), English);
    }

    #[test]
    fn language_option_enforces_chinese_but_not_english() {
        assert_eq!(DialogueLanguage::enforced("简体中文"), Some(Chinese));
        assert_eq!(DialogueLanguage::enforced("zh-CN"), Some(Chinese));
        assert_eq!(DialogueLanguage::enforced("English"), None);
    }
}
