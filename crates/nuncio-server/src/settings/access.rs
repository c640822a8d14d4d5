//! The settings section `[access]`.

use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessSettings {
    /// Access to a loopback server without a credential; by default allowed as `local` until the first key is created.
    pub loopback: Option<LoopbackAccess>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LoopbackAccess {
    /// Requests without a credential count as `local`, even if keys exist.
    Open,
    /// Requests need a credential, even if no key exists yet.
    Keys,
}

impl TryFrom<String> for LoopbackAccess {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "open" => Ok(Self::Open),
            "keys" => Ok(Self::Keys),
            _ => Err(format!(
                "{text:?} is not known: write \"open\" or \"keys\", or leave it out to require keys once one exists"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    #[test]
    fn loopback_setting_accepts_open_and_keys_and_defaults_to_unset() {
        assert_eq!(load("", &[]).unwrap().access.loopback, None);
        for (text, access) in [("open", LoopbackAccess::Open), ("keys", LoopbackAccess::Keys)] {
            assert_eq!(load(&format!("[access]\nloopback = {text:?}"), &[]).unwrap().access.loopback, Some(access));
            assert_eq!(load("", &[("NUNCIO_ACCESS_LOOPBACK", text)]).unwrap().access.loopback, Some(access));
        }
    }

    #[test]
    fn loopback_setting_other_than_open_or_keys_is_refused_by_name() {
        for wrong in ["closed", "Open", "", "true"] {
            let refused = load(&format!("[access]\nloopback = {wrong:?}"), &[]).unwrap_err();
            assert!(refused.starts_with("nuncio.toml: access.loopback: "), "{refused}");
            assert!(refused.contains(&format!("{wrong:?}")) && refused.contains("write \"open\""), "{refused}");
        }
        let refused = load("[access]\nloopback = true", &[]).unwrap_err();
        assert!(refused.starts_with("nuncio.toml: access.loopback: "), "{refused}");
        let refused = load("", &[("NUNCIO_ACCESS_LOOPBACK", "closed")]).unwrap_err();
        assert!(refused.starts_with("NUNCIO_ACCESS_LOOPBACK: \"closed\""), "{refused}");
    }
}
