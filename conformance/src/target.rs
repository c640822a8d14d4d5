//! The server under test, and the credentials for testing it.

use std::time::Duration;

use reqwest::{Client, Url};

/// The server under test, at a base URL.
#[derive(Debug, Clone)]
pub struct ServerUnderTest {
    /// Base address without a trailing slash.
    pub(crate) base: String,
    /// API key for requests to the server.
    pub(crate) key: Option<String>,
    /// Key of a second owner, for checks of ownership.
    pub(crate) other_key: Option<String>,
    /// Secret for signing requests.
    pub(crate) secret: Option<String>,
    /// Number of checks that run at the same time.
    pub(crate) parallel: usize,
    /// Time limit of a check.
    pub(crate) patience: Duration,
    /// Connection pool shared by all checks.
    pub(crate) http: Client,
}

impl ServerUnderTest {
    /// Server without keys at `base`: for AAP usually `http://…/aap`, for Skill Sharing the origin.
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

    /// Sets the API key. AAP requests send it as bearer token; checks of Skill Sharing choose the header.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a key of another owner; without it, rows about ownership are skipped.
    #[must_use]
    pub fn with_other_key(mut self, key: impl Into<String>) -> Self {
        self.other_key = Some(key.into());
        self
    }

    /// Adds a signing secret; without it, rows about signed requests are skipped.
    #[must_use]
    pub fn with_secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets the number of concurrent checks; at least one.
    #[must_use]
    pub fn with_parallel(mut self, checks: usize) -> Self {
        self.parallel = checks.max(1);
        self
    }

    /// Whether the base address is a loopback address.
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

/// HTTP client without redirects and proxies. It may reach any address, because the person who runs the suite names it.
fn client() -> Client {
    // The result is ignored: another part of the process may have installed a TLS provider already.
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
    use super::ServerUnderTest;

    #[test]
    fn target_is_loopback_for_localhost_and_loopback_addresses_only() {
        for (base, loopback) in [
            ("http://127.0.0.1:7400/aap", true),
            ("http://localhost/aap/", true),
            ("http://[::1]:7400/aap", true),
            ("https://agents.example/aap", false),
            ("not an address", false),
        ] {
            assert_eq!(ServerUnderTest::new(base).is_loopback(), loopback, "{base}");
        }
    }
}
