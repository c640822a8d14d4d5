//! Text catalogs, one per language: TOML tables of sections with texts whose placeholders are written `{name}`.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::assets::Assets;

/// Declares catalog sections as types. A text that is missing in a language, or that no page uses, fails the tests.
#[macro_export]
macro_rules! texts {
    ($($(#[$about:meta])* $section:ident { $($word:ident),* $(,)? })*) => {$(
        $(#[$about])*
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $section {
            $(pub(super) $word: String,)*
        }
    )*};
}

/// Loads the catalogs from the calling crate's folder `locales`, each once: `Texts::of(language)`.
#[macro_export]
macro_rules! catalogs {
    ($texts:ident) => {
        impl $texts {
            pub(super) fn of(language: $crate::pages::Language) -> &'static Self {
                use std::sync::LazyLock;
                static ENGLISH: LazyLock<$texts> = LazyLock::new(|| $crate::pages::catalog::read($texts::ENGLISH));
                static CHINESE: LazyLock<$texts> = LazyLock::new(|| $crate::pages::catalog::read($texts::CHINESE));
                match language {
                    $crate::pages::Language::English => &ENGLISH,
                    $crate::pages::Language::Chinese => &CHINESE,
                }
            }

            const ENGLISH: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/locales/en.toml"));
            const CHINESE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/locales/zh-CN.toml"));

            /// Faults of the catalogs, for tests.
            #[cfg(test)]
            fn faults(assets: &$crate::pages::assets::Assets) -> Vec<String> {
                let mut faults = $crate::pages::catalog::differences(Self::ENGLISH, Self::CHINESE);
                faults.extend($crate::pages::catalog::half_width(Self::CHINESE));
                for language in $crate::pages::Language::ALL {
                    let there = Self::of(language).script.keys();
                    faults.extend($crate::pages::catalog::unasked(assets, there.map(String::as_str)));
                }
                faults
            }
        }
    };
}

/// Parses a compiled-in catalog.
///
/// # Panics
/// The catalog does not match its type; a test parses every catalog.
#[must_use]
pub fn read<T: DeserializeOwned>(catalog: &str) -> T {
    toml::from_str(catalog).expect("the catalogs are compiled in, and a test reads each of them")
}

/// Texts that scripts request by `say("…")` and that are missing, and texts that no script requests; for tests.
#[must_use]
pub fn unasked<'a>(assets: &Assets, there: impl Iterator<Item = &'a str>) -> Vec<String> {
    let calls = assets.scripts().flat_map(|(_, source)| source.split("say(\"").skip(1));
    let asked: BTreeSet<_> = calls.filter_map(|rest| rest.split('"').next()).collect();
    let there: BTreeSet<_> = there.collect();
    asked.symmetric_difference(&there).map(|word| format!("script.{word}")).collect()
}

/// All texts of a catalog by path.
fn entries(catalog: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = catalog.parse().map_err(|why| format!("{why}"))?;
    let mut entries = BTreeMap::new();
    for (section, texts) in &table {
        let texts = texts.as_table().ok_or_else(|| format!("{section} is no section"))?;
        for (key, text) in texts {
            let text = text.as_str().ok_or_else(|| format!("{section}.{key} is no text"))?;
            entries.insert(format!("{section}.{key}"), text.to_owned());
        }
    }
    Ok(entries)
}

fn blanks(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

/// Texts or placeholders in which two catalogs differ; for tests.
#[must_use]
pub fn differences(one: &str, other: &str) -> Vec<String> {
    let (one, other) = match (entries(one), entries(other)) {
        (Ok(one), Ok(other)) => (one, other),
        (one, other) => return [one.err(), other.err()].into_iter().flatten().collect(),
    };
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differs = |key: &&String| match (one.get(*key), other.get(*key)) {
        (Some(one), Some(other)) => one.trim().is_empty() || other.trim().is_empty() || blanks(one) != blanks(other),
        _ => true,
    };
    keys.into_iter().filter(differs).cloned().collect()
}

/// Texts of a Chinese catalog with half-width punctuation outside of code; for tests.
#[must_use]
pub fn half_width(chinese: &str) -> Vec<String> {
    let is_chinese = |c: char| ('\u{3400}'..='\u{9fff}').contains(&c);
    let is_half = |c: char| matches!(c, ',' | ';' | ':' | '?' | '!');
    let wrong = |text: &str| {
        let words: String = text.split('`').step_by(2).collect();
        let chars: Vec<char> = words.chars().collect();
        chars.windows(2).any(|two| is_chinese(two[0]) && is_half(two[1]) || is_half(two[0]) && is_chinese(two[1]))
    };
    let Ok(entries) = entries(chinese) else { return vec!["it cannot be read".to_owned()] };
    entries.into_iter().filter(|(_, text)| wrong(text)).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::assets::Asset;

    #[test]
    fn catalog_check_finds_missing_and_empty_texts_and_differing_placeholders() {
        let one = "[a]\nsame = \"x {n}\"\nempty = \"x\"\nblank = \"{n}\"\nmissing = \"x\"\n";
        let other = "[a]\nsame = \"{n} y\"\nempty = \" \"\nblank = \"{m}\"\nmore = \"x\"\n";
        assert_eq!(differences(one, other), ["a.blank", "a.empty", "a.missing", "a.more"]);
        assert_eq!(differences(one, one), Vec::<String>::new());
    }

    #[test]
    fn catalog_check_finds_missing_and_unused_texts_of_scripts() {
        const SCRIPTS: &[Asset] = &[Asset { name: "a.js", content: r#"show(say("sent", n)); say("lost")"# }];
        let assets = Assets::new(SCRIPTS, String::new);
        assert_eq!(unasked(&assets, ["lost", "sent"].into_iter()), Vec::<String>::new());
        assert_eq!(unasked(&assets, ["sent", "unused"].into_iter()), ["script.lost", "script.unused"]);
    }

    #[test]
    fn catalog_check_finds_half_width_punctuation_in_chinese() {
        let catalog = "[a]\ngood = \"打开，`a: b`。\"\nhalf = \"打开,或关闭\"\nend = \"真的吗?\"\n";
        assert_eq!(half_width(catalog), ["a.end", "a.half"]);
    }
}
