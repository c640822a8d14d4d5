//! `[registry]`: which domains are followed, and how often they are visited.

use nuncio_engine::follow::Domain;
use serde::Deserialize;

/// `[registry]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrySettings {
    /// Domains whose skills are listed beside our own.
    pub follow: Vec<Domain>,
    /// How long it is at least from one visit of a domain to the next.
    pub interval_seconds: u64,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self { follow: Vec::new(), interval_seconds: 15 * 60 }
    }
}

impl RegistrySettings {
    /// A minute at least, for the sake of those who are visited.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.interval_seconds {
            60.. => Ok(()),
            _ => Err("registry.interval_seconds must be at least 60".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;

    #[test]
    fn domains_are_read_from_the_file_and_from_variables() {
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
    fn what_is_no_domain_or_too_often_is_named() {
        assert!(load("[registry]\nfollow = [\"a.example/x\"]", &[]).unwrap_err().contains("registry.follow[0]"));
        let often = load("[registry]\ninterval_seconds = 59", &[]).unwrap_err();
        assert_eq!(often, "registry.interval_seconds must be at least 60");
    }
}
