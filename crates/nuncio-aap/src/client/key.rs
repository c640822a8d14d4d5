//! The key a server asks for.

use std::fmt;

/// An API key. It is not shown, not even to whoever debugs.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, when the text can be one: visible ASCII, as a header takes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown_and_always_fits_a_header() {
        let key = ApiKey::parse(" nk_hunter2\n").unwrap();
        assert_eq!(key.expose(), "nk_hunter2");
        assert_eq!(format!("{key:?}"), "ApiKey(***)");
        for bad in ["", "  ", "a b", "a\nb", "ключ"] {
            assert_eq!(ApiKey::parse(bad), None, "{bad:?}");
        }
    }
}
