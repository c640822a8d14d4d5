//! Text catalogs, one per language: TOML tables of sections with texts whose placeholders are written `{name}`.

use serde::de::DeserializeOwned;

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

            /// Differences between the catalogs, wrong punctuation, and missing or unused texts of scripts; for tests.
            #[cfg(test)]
            fn faults(assets: &$crate::pages::assets::Assets) -> Vec<String> {
                let mut faults = $crate::pages::contract::differences(Self::ENGLISH, Self::CHINESE);
                faults.extend($crate::pages::contract::half_width(Self::CHINESE));
                for language in $crate::pages::Language::ALL {
                    let there = Self::of(language).script.keys();
                    faults.extend($crate::pages::contract::unasked(assets, there.map(String::as_str)));
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
