//! The settings section `[registry]`: followed domains, who may register in the directory, and directories that list
//! the agents of this server.

use nuncio_anp::directory::RegistrationPolicy;
use nuncio_engine::directory::DirectoryLimits;
use nuncio_engine::follow::ServerOrigin;
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrySettings {
    /// Domains whose skills are listed beside those of this server.
    pub follow: Vec<ServerOrigin>,
    /// Minimum time between two visits of a domain.
    pub interval_seconds: u64,
    /// Directories that the agents of this server register with.
    pub register: Vec<ServerOrigin>,
    pub accept: RegistrationPolicy,
    /// Time between two checks of a registered agent.
    pub check_seconds: u64,
    /// Limit of agents of other hosts in the directory.
    pub max_agents: usize,
    pub max_agents_per_host: usize,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            follow: Vec::new(),
            interval_seconds: 15 * 60,
            register: Vec::new(),
            accept: RegistrationPolicy::default(),
            check_seconds: 6 * 60 * 60,
            max_agents: 10_000,
            max_agents_per_host: 100,
        }
    }
}

impl RegistrySettings {
    /// Refuses intervals under a minute, to spare the visited servers.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.interval_seconds, self.check_seconds) {
            (60.., 60..) => Ok(()),
            (60.., _) => Err("registry.check_seconds must be at least 60".to_owned()),
            _ => Err("registry.interval_seconds must be at least 60".to_owned()),
        }
    }

    pub(crate) fn limits(&self) -> DirectoryLimits {
        DirectoryLimits { entries: self.max_agents, per_host: self.max_agents_per_host }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    #[test]
    fn followed_domains_are_read_from_file_and_environment() {
        let settings = load("[registry]\nfollow = [\"example.com\", \"localhost:7400\"]", &[]).unwrap().registry;
        assert_eq!(settings.interval_seconds, 900);
        let names: Vec<_> = settings.follow.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["https://example.com", "http://localhost:7400"]);
        let variables =
            [("NUNCIO_REGISTRY_FOLLOW", "a.example, b.example"), ("NUNCIO_REGISTRY_INTERVAL_SECONDS", "60")];
        let settings = load("[registry]\nfollow = [\"example.com\"]", &variables).unwrap().registry;
        let names: Vec<_> = settings.follow.iter().map(ToString::to_string).collect();
        assert_eq!((names.join(" ").as_str(), settings.interval_seconds), ("https://a.example https://b.example", 60));
    }

    #[test]
    fn invalid_followed_domain_and_too_short_interval_are_refused() {
        assert!(load("[registry]\nfollow = [\"a.example/x\"]", &[]).unwrap_err().contains("registry.follow[0]"));
        let often = load("[registry]\ninterval_seconds = 59", &[]).unwrap_err();
        assert_eq!(often, "registry.interval_seconds must be at least 60");
    }

    #[test]
    fn directory_settings_are_read_from_file_and_environment_and_checked() {
        let settings = load("", &[]).unwrap().registry;
        assert_eq!((settings.accept, settings.check_seconds), (RegistrationPolicy::Known, 21_600));
        assert_eq!(settings.limits(), DirectoryLimits { entries: 10_000, per_host: 100 });
        let file = "[registry]\naccept = \"anyone\"\nregister = [\"dir.example\"]\nmax_agents = 5";
        let settings = load(file, &[("NUNCIO_REGISTRY_REGISTER", "a.example, b.example")]).unwrap().registry;
        assert_eq!((settings.accept, settings.register.len(), settings.max_agents), (RegistrationPolicy::Anyone, 2, 5));
        assert!(load("[registry]\naccept = \"some\"", &[]).unwrap_err().contains("registry.accept"));
        assert!(load("[registry]\nregister = [\"a.example/x\"]", &[]).unwrap_err().contains("registry.register[0]"));
        let often = load("[registry]\ncheck_seconds = 5", &[]).unwrap_err();
        assert_eq!(often, "registry.check_seconds must be at least 60");
    }
}
