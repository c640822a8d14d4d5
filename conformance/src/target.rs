//! The server under test, and what the caller can offer to test it with.

use std::time::Duration;

use reqwest::{Client, Url};

/// A server, reached at its base address.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address paths are appended to, without a slash at its end.
    pub(crate) base: String,
    /// The bearer key to send, if the server wants one.
    pub(crate) key: Option<String>,
    /// A second key, of another owner, for what one owner must not see of the other.
    pub(crate) other_key: Option<String>,
    /// A secret to sign requests with.
    pub(crate) secret: Option<String>,
    /// How many checks run at once.
    pub(crate) parallel: usize,
    /// The longest a single check may take.
    pub(crate) patience: Duration,
    /// One pool of connections for all checks.
    pub(crate) http: Client,
}

impl Target {
    /// A server at `base`, for AAP usually `http://…/aap`, for Skill Sharing its bare origin, that asks
    /// for no key.
    #[must_use]
    pub fn new(base: impl Into<String>) -> Self {
        Self {
            base: base.into().trim_end_matches('/').to_owned(),
            key: None,
            other_key: None,
            secret: None,
            parallel: 8,
            patience: Duration::from_secs(90),
            http: client(),
        }
    }

    /// Sends `Authorization: Bearer key` with every request.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a key of another owner; rows about ownership are skipped without it.
    #[must_use]
    pub fn with_other_key(mut self, key: impl Into<String>) -> Self {
        self.other_key = Some(key.into());
        self
    }

    /// Adds a secret; rows about signed requests are skipped without it.
    #[must_use]
    pub fn with_secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// How many checks run at once; one at least.
    #[must_use]
    pub fn with_parallel(mut self, checks: usize) -> Self {
        self.parallel = checks.max(1);
        self
    }

    /// Whether the base address names the machine itself.
    pub(crate) fn is_loopback(&self) -> bool {
        let Ok(url) = Url::parse(&self.base) else {
            return false;
        };
        match url.host_str() {
            Some("localhost" | "[::1]") => true,
            Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
            None => false,
        }
    }
}

/// The client of the suite. It is not the guarded outbound client of the server: it is a stranger
/// that talks to whatever address a person named, so it follows no redirect and uses no proxy.
fn client() -> Client {
    // Another part of the process may have installed a provider already; either one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .build()
        .expect("a client of constant settings can be built")
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn loopback_is_recognised() {
        for (base, loopback) in [
            ("http://127.0.0.1:7400/aap", true),
            ("http://localhost/aap/", true),
            ("http://[::1]:7400/aap", true),
            ("https://agents.example/aap", false),
            ("not an address", false),
        ] {
            assert_eq!(Target::new(base).is_loopback(), loopback, "{base}");
        }
    }
}
