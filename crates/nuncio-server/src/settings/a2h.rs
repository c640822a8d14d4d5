//! The settings section `[a2h]`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::ids::{AgentId, AgentName};
use nuncio_core::manifest::ScopePresets;
use nuncio_engine::consent::ConsentSettings;
use nuncio_engine::relay::RelaySettings;
use nuncio_judge::ChangeJudgingPolicy;
use serde::Deserialize;
use url::Url;

use super::read_secret;
use crate::error::OperatorError;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct A2hSettings {
    /// Whether people have to consent again when a manifest widens a granted scope.
    pub reauth_on_widening: bool,
    /// A file of additional scopes with their texts and sensitivity floors.
    pub scopes: Option<PathBuf>,
    /// Whether webhooks of agents may point to this machine.
    pub allow_loopback_webhooks: bool,
    /// Agents of this server whose people are reached through a relay on another server.
    pub relay: Vec<RemoteRelaySetting>,
}

/// The settings section `[[a2h.relay]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteRelaySetting {
    pub agent: AgentName,
    pub url: Url,
    pub agent_id: AgentId,
    /// The environment variable with the agent's token at the relay.
    pub token_env: Option<String>,
    pub token_file: Option<PathBuf>,
}

impl RemoteRelaySetting {
    /// The agent's token at the relay.
    pub fn token(&self) -> Result<String, OperatorError> {
        let token = read_secret("a2h.relay", "token", self.token_env.as_deref(), self.token_file.as_deref())?;
        token.ok_or_else(|| {
            let message = format!("a2h.relay of agent {}: name token_env or token_file", self.agent);
            OperatorError::new(ErrorCode::ConfigInvalid, message)
        })
    }
}

impl A2hSettings {
    #[must_use]
    pub fn relaying(&self) -> RelaySettings {
        let elsewhere = self.relay.iter().map(|relay| relay.agent.clone()).collect();
        RelaySettings { elsewhere, ..RelaySettings::default() }
    }

    /// The consent rules from these settings. Fails if the scopes file is invalid.
    pub fn rules(&self) -> Result<ConsentSettings, OperatorError> {
        let mut rules = ConsentSettings {
            policy: ChangeJudgingPolicy {
                reauth_on_widening: self.reauth_on_widening,
                ..ChangeJudgingPolicy::default()
            },
            ..ConsentSettings::default()
        };
        if let Some(path) = &self.scopes {
            let wrong = |why: &dyn std::fmt::Display| {
                OperatorError::new(ErrorCode::ConfigInvalid, format!("a2h.scopes: {}: {why}", path.display()))
            };
            let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
            let mut presets = ScopePresets::default();
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
    use super::super::tests::load;
    use super::*;

    #[test]
    fn scopes_file_adds_sensitivity_floors_and_cannot_lower_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            A2hSettings { reauth_on_widening: true, scopes: Some(path), ..A2hSettings::default() }.rules()
        };
        let text = "[[floor]]\nfamily = \"booking:*\"\nsensitivity = \"medium\"\n";
        let rules = write("scopes.toml", text).unwrap();
        assert!(rules.policy.reauth_on_widening);
        assert!(rules.presets.floor("booking:write").is_some());
        let json = r#"{"scope": [], "floor": [{"family": "booking:*", "sensitivity": "medium"}]}"#;
        assert!(write("scopes.json", json).is_ok());
        let lowered = "[[floor]]\nfamily = \"shell:*\"\nsensitivity = \"low\"\n";
        assert_eq!(write("low.toml", lowered).unwrap_err().code, ErrorCode::ConfigInvalid);
        let missing = A2hSettings { scopes: Some(folder.path().join("none")), ..A2hSettings::default() };
        assert_eq!(missing.rules().unwrap_err().code, ErrorCode::ConfigInvalid);
    }

    #[test]
    fn webhooks_to_this_machine_are_disabled_by_default() {
        assert!(!load("", &[]).unwrap().a2h.allow_loopback_webhooks);
        assert!(load("[a2h]\nallow_loopback_webhooks = true", &[]).unwrap().a2h.allow_loopback_webhooks);
        let variable = [("NUNCIO_A2H_ALLOW_LOOPBACK_WEBHOOKS", "true")];
        assert!(load("", &variable).unwrap().a2h.allow_loopback_webhooks);
    }
}
