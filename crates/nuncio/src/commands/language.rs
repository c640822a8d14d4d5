//! Fixed texts of commands in English and Chinese, chosen by the user's locale.

use nuncio_device::pages::Language;

/// Defines a struct of texts, each with its English and its Chinese wording.
macro_rules! texts_by_language {
    ($(#[$attribute:meta])* $Texts:ident { $($name:ident: $english:literal, $chinese:literal;)* }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $Texts {
            $(pub(super) $name: &'static str,)*
        }

        impl $Texts {
            const ENGLISH: Self = Self { $($name: $english,)* };
            const CHINESE: Self = Self { $($name: $chinese,)* };

            pub(super) const fn of(language: nuncio_device::pages::Language) -> Self {
                match language {
                    nuncio_device::pages::Language::English => Self::ENGLISH,
                    nuncio_device::pages::Language::Chinese => Self::CHINESE,
                }
            }
        }
    };
}
pub(super) use texts_by_language;

/// The language of the user's environment.
pub(super) fn user_language() -> Language {
    language_of(|name| std::env::var(name).ok())
}

fn language_of(variable: impl Fn(&str) -> Option<String>) -> Language {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set);
    let name = locale.as_deref().and_then(|locale| locale.split('.').next());
    name.and_then(Language::parse).unwrap_or(Language::English)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_locale_selects_chinese_and_any_other_english() {
        let language = |variables: &[(&str, &str)]| {
            language_of(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(language(&[("LANG", "zh_CN.UTF-8")]), Language::Chinese);
        assert_eq!(language(&[("LC_ALL", ""), ("LC_MESSAGES", "zh.UTF-8"), ("LANG", "de_DE")]), Language::Chinese);
        assert_eq!(language(&[("LC_ALL", "C.UTF-8"), ("LANG", "zh_CN.UTF-8")]), Language::English);
        assert_eq!(language(&[]), Language::English);
    }
}
