//! Switches for language and theme in the header of every page; `assets/switches.js` implements their behaviour.

use askama::Template;

use super::Language;
use super::answer::own_path;

/// Switches of one page; a template inserts them by `{{ switches|safe }}`.
#[derive(Debug, Template)]
#[template(path = "switches.html")]
pub struct LanguageThemeSwitches {
    language: Language,
    links: Vec<LanguageLink>,
}

/// Link to the same page in another language.
#[derive(Debug)]
struct LanguageLink {
    language: Language,
    href: String,
}

impl LanguageThemeSwitches {
    /// Switches of the page at `path`, which may have a query; other query parameters are kept.
    #[must_use]
    pub fn new(path: &str, language: Language) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let path = own_path(path);
        let rest = query.split('&').filter(|pair| !pair.is_empty() && *pair != "lang" && !pair.starts_with("lang="));
        let rest: String = rest.flat_map(|pair| [pair, "&"]).collect();
        let link =
            |language: Language| LanguageLink { language, href: format!("{path}?{rest}lang={}", language.tag()) };
        Self { language, links: Language::ALL.map(link).into() }
    }
}

impl Language {
    const fn of_languages(self) -> &'static str {
        match self {
            Self::English => "Language",
            Self::Chinese => "语言",
        }
    }

    const fn of_theme(self) -> &'static str {
        match self {
            Self::English => "Light or dark",
            Self::Chinese => "浅色或深色",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_link_keeps_the_path_and_other_query_parameters() {
        for (path, expected) in [
            ("/", "/?lang=zh-CN"),
            ("/a?lang=en", "/a?lang=zh-CN"),
            ("/a?b=1&lang=en&c=%26&lang", "/a?b=1&c=%26&lang=zh-CN"),
            ("/a?language=en", "/a?language=en&lang=zh-CN"),
            ("//elsewhere.example/a", "/?lang=zh-CN"),
            ("/\\elsewhere.example/a", "/?lang=zh-CN"),
        ] {
            assert_eq!(LanguageThemeSwitches::new(path, Language::English).links[1].href, expected);
        }
    }

    #[test]
    fn current_language_is_marked_and_the_url_is_escaped_in_the_language_switch() {
        let html = LanguageThemeSwitches::new("/a?q=\"><script>", Language::Chinese).render().unwrap();
        assert_eq!(html.matches("aria-current").count(), 1);
        assert!(html.contains("aria-current=\"true\">中文</a>"), "{html}");
        assert!(html.contains("aria-label=\"语言\"") && !html.contains("<script>"), "{html}");
    }
}
