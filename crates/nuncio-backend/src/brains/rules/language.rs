//! The two languages in which the brain speaks by itself.

use super::super::words::is_han;

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

impl Language {
    /// Its tag, as templates see it.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// The language of a message, given the one spoken so far: a number, an id or a single foreign
    /// word does not change it.
    pub(super) fn heard(self, message: &str) -> Self {
        if message.chars().any(is_han) {
            return Self::Chinese;
        }
        let words = message.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic));
        if words.take(2).count() == 2 { Self::English } else { self }
    }

    /// The language that a session's `language` option insists on. Only Chinese is insisted on:
    /// English is the default, and does not tell whether anyone chose it.
    pub(super) fn insisted(option: &str) -> Option<Self> {
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
    use super::Language::{Chinese, English};
    use super::*;

    #[test]
    fn an_id_or_a_number_does_not_change_the_language() {
        assert_eq!(English.heard("我要订房"), Chinese);
        assert_eq!(Chinese.heard("room-203"), Chinese);
        assert_eq!(Chinese.heard("2026-12-24"), Chinese);
        assert_eq!(Chinese.heard("find free rooms"), English);
        assert_eq!(English.heard("?"), English);
    }

    #[test]
    fn only_chinese_is_insisted_on() {
        assert_eq!(Language::insisted("简体中文"), Some(Chinese));
        assert_eq!(Language::insisted("zh-CN"), Some(Chinese));
        assert_eq!(Language::insisted("English"), None);
    }
}
