//! Languages of the pages, and the choice of one for a reader.

use http::{HeaderMap, header};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// All languages, in the order of the language switch.
    pub const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// Language tag, as in `lang="…"` and in an agent file's texts.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// Name of the language in the language itself.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "中文",
        }
    }

    /// Language of a tag by its first part: `zh-Hant` readers get Chinese rather than English.
    #[must_use]
    pub fn parse(tag: &str) -> Option<Self> {
        match tag.trim().split(['-', '_']).next()?.to_ascii_lowercase().as_str() {
            "en" => Some(Self::English),
            "zh" => Some(Self::Chinese),
            _ => None,
        }
    }

    /// Preferred language by `Accept-Language`; English if that header names no supported language.
    #[must_use]
    pub fn accepted(headers: &HeaderMap) -> Self {
        let preferences = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
        let mut best: Option<(f32, Self)> = None;
        for preference in preferences.flat_map(|value| value.split(',')) {
            let (tag, quality) = preference.split_once(';').unwrap_or((preference, ""));
            let quality = quality.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>).unwrap_or(0.0);
            if let Some(language) = Self::parse(tag)
                && quality > best.map_or(0.0, |(before, _)| before)
            {
                best = Some((quality, language));
            }
        }
        best.map_or(Self::English, |(_, language)| language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &'static str) -> Language {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_LANGUAGE, value.parse().unwrap());
        Language::accepted(&headers)
    }

    #[test]
    fn language_is_chosen_by_accept_language_and_defaults_to_english() {
        assert_eq!(accepted("zh-CN,zh;q=0.9,en;q=0.8"), Language::Chinese);
        assert_eq!(accepted("en-GB, zh-CN;q=0.9"), Language::English);
        assert_eq!(accepted("en;q=0.4, zh-TW;q=0.5"), Language::Chinese);
        assert_eq!(accepted("de, fr;q=0.5"), Language::English);
        assert_eq!(accepted("de, zh-Hans;q=0.1"), Language::Chinese);
        assert_eq!(accepted("zh;q=0, *"), Language::English);
        assert_eq!(accepted("zh;q=nonsense"), Language::English);
        assert_eq!(Language::accepted(&HeaderMap::new()), Language::English);
    }
}
