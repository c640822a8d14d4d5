use std::fmt;

/// API key of an AAP server. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Parses a key, which must be visible ASCII to fit into a header.
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
    fn api_key_is_trimmed_hidden_in_debug_and_must_be_visible_ascii() {
        let key = ApiKey::parse(" nk_hunter2\n").unwrap();
        assert_eq!(key.expose(), "nk_hunter2");
        assert_eq!(format!("{key:?}"), "ApiKey(***)");
        for bad in ["", "  ", "a b", "a\nb", "ключ"] {
            assert_eq!(ApiKey::parse(bad), None, "{bad:?}");
        }
    }
}
