//! `[a2h]`

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::judge::ChangePolicy;
use nuncio_core::manifest::Presets;
use nuncio_engine::consent::ConsentRules;
use serde::Deserialize;

use crate::error::StartError;

/// `[a2h]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct A2hSettings {
    /// Whether people are asked again when an agent may do more with what they allowed.
    pub reauth_on_widening: bool,
    /// A file of scopes, words and floors beside those that every client knows.
    pub scopes: Option<PathBuf>,
}

impl A2hSettings {
    /// What people, their agents and what is between them follow.
    ///
    /// # Errors
    /// The file of scopes cannot be read, or is wrong.
    pub fn rules(&self) -> Result<ConsentRules, StartError> {
        let mut rules = ConsentRules {
            policy: ChangePolicy { reauth_on_widening: self.reauth_on_widening, ..ChangePolicy::default() },
            ..ConsentRules::default()
        };
        if let Some(path) = &self.scopes {
            let wrong = |why: &dyn std::fmt::Display| {
                StartError::new(Code::ConfigInvalid, format!("a2h.scopes: {}: {why}", path.display()))
            };
            let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
            let mut presets = Presets::default();
            let json = path.extension().is_some_and(|extension| extension == "json");
            let read = if json { presets.extend_json(&text) } else { presets.extend_toml(&text) };
            read.map_err(|faults| wrong(&faults))?;
            rules.presets = Arc::new(presets);
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_adds_scopes_and_raises_floors() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            A2hSettings { reauth_on_widening: true, scopes: Some(path) }.rules()
        };
        let text = "[[floor]]\nfamily = \"booking:*\"\nsensitivity = \"medium\"\n";
        let rules = write("scopes.toml", text).unwrap();
        assert!(rules.policy.reauth_on_widening);
        assert!(rules.presets.floor("booking:write").is_some());
        let json = r#"{"scope": [], "floor": [{"family": "booking:*", "sensitivity": "medium"}]}"#;
        assert!(write("scopes.json", json).is_ok());
        let lowered = "[[floor]]\nfamily = \"shell:*\"\nsensitivity = \"low\"\n";
        assert_eq!(write("low.toml", lowered).unwrap_err().code, Code::ConfigInvalid);
        let missing = A2hSettings { scopes: Some(folder.path().join("none")), ..A2hSettings::default() };
        assert_eq!(missing.rules().unwrap_err().code, Code::ConfigInvalid);
    }
}
