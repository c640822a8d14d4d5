//! The public URL from which the DIDs of this server are made, and changes of it.

use nuncio_core::ErrorCode;
use nuncio_core::ids::AgentName;
use nuncio_identity::{Did, SigningKey};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::error::OperatorError;
use crate::keyring::ServerKeyring;

/// Name of the entry in the keyring.
pub(super) const BASE_ENTRY: &str = "did/base";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DidBaseUrl {
    /// The public URL without a trailing slash.
    pub(super) base: String,
    /// The DID of the service: the bare domain.
    pub(super) service: Did,
}

impl DidBaseUrl {
    /// Parses a public URL; the error says why no DID can be made of it.
    pub(super) fn at(base: &str) -> Result<Self, String> {
        let base = base.trim_end_matches('/');
        let url = Url::parse(base).map_err(|fault| format!("the public address {base:?} is not valid: {fault}"))?;
        let host = match url.host() {
            Some(Host::Domain(host)) => host,
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => {
                return Err(format!(
                    "a DID needs a domain name, but the public address {base} has an IP address; give a domain name \
                     with --public-url"
                ));
            }
            None => return Err(format!("the public address {base} has no host")),
        };
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(format!(
                "DID documents have fixed paths on a domain, but the public address {base} has a path of its own; give \
                 a domain without a path with --public-url"
            ));
        }
        // DIDs are resolved over https, so only port 443 is left out of the DID.
        let port = if url.scheme() == "https" { url.port() } else { url.port_or_known_default() };
        let service = Did::new(host, port, &[])
            .map_err(|fault| format!("the public address {base} cannot form a DID: {fault}"))?;
        Ok(Self { base: base.to_owned(), service })
    }

    pub(super) fn agent(&self, name: &AgentName, key: &SigningKey) -> Did {
        let (host, port) = (self.service.host(), self.service.port());
        Did::for_key(host, port, &["agents", name.as_str()], key)
            .expect("a valid host, an agent's name and a fingerprint make a DID")
    }

    /// Whether a DID has the host and port of this server; a DID without a port has port 443.
    pub(super) fn contains(&self, did: &Did) -> bool {
        let port = |did: &Did| did.port().unwrap_or(443);
        did.host() == self.service.host() && port(did) == port(&self.service)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PublicUrlSource {
    ByOperator,
    ByListening,
}

/// The public URL that the stored DIDs were made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedDidBaseUrl {
    pub(super) base: String,
    pub(super) chosen: PublicUrlSource,
}

impl RecordedDidBaseUrl {
    pub(super) fn parse(content: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(content).map_err(|fault| fault.to_string())
    }

    /// Stores the URL in place of the one at `revision`, which is 0 before the first DID.
    pub(super) async fn write(&self, keyring: &ServerKeyring, revision: u64) -> Result<(), OperatorError> {
        let content = serde_json::to_string(self).expect("a recorded base is JSON");
        keyring.replace(BASE_ENTRY, &content, revision).await.map(drop)
    }

    /// Whether the DIDs may be moved to another URL without the operator: no operator chose either URL, and both are on
    /// this machine.
    pub(super) fn may_follow(&self, did_base: &DidBaseUrl, chosen: PublicUrlSource) -> bool {
        let local = |did_base: &DidBaseUrl| did_base.service.host() == "localhost";
        let is_default = self.chosen == PublicUrlSource::ByListening && chosen == PublicUrlSource::ByListening;
        is_default && local(did_base) && DidBaseUrl::at(&self.base).is_ok_and(|from| local(&from))
    }
}

/// The error of a start with another public URL than before.
pub(super) fn url_changed(from: &str, to: &str) -> OperatorError {
    let message = format!(
        "the DIDs here were made for {from}, and under {to} they could not be resolved; start with `--public-url {from}`, or move them with `nuncio did rotate --to {to}`"
    );
    OperatorError::new(ErrorCode::PublicUrlChanged, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_of_dids_needs_a_domain_name_and_no_path() {
        for (base, did) in [
            ("http://localhost:7400", "did:wba:localhost%3A7400"),
            ("https://agents.example.com", "did:wba:agents.example.com"),
            ("https://agents.example.com:443/", "did:wba:agents.example.com"),
            ("https://Agents.example.com:8443", "did:wba:agents.example.com%3A8443"),
            ("http://agents.example.com", "did:wba:agents.example.com%3A80"),
        ] {
            assert_eq!(DidBaseUrl::at(base).unwrap().service.as_str(), did, "{base}");
        }
        for (base, why) in [
            ("http://127.0.0.1:7400", "IP address"),
            ("http://[::1]:7400", "IP address"),
            ("http://2130706433", "IP address"),
            ("https://example.com/nuncio", "has a path"),
            ("", "is not valid"),
            ("https://a_b.example", "cannot form a DID"),
        ] {
            let error = DidBaseUrl::at(base).unwrap_err();
            assert!(error.contains(why), "{base}: {error}");
        }
    }

    #[test]
    fn dids_follow_a_changed_localhost_url_only_if_no_operator_chose_either_url() {
        let local = DidBaseUrl::at("http://localhost:1").unwrap();
        let recorded = |base: &str, chosen| RecordedDidBaseUrl { base: base.to_owned(), chosen };
        let (operator, listening) = (PublicUrlSource::ByOperator, PublicUrlSource::ByListening);
        assert!(recorded("http://localhost:2", listening).may_follow(&local, listening));
        assert!(!recorded("http://localhost:2", operator).may_follow(&local, listening));
        assert!(!recorded("http://localhost:2", listening).may_follow(&local, operator));
        assert!(!recorded("https://a.example", listening).may_follow(&local, listening));
        let public = DidBaseUrl::at("https://a.example").unwrap();
        assert!(!recorded("http://localhost:2", listening).may_follow(&public, listening));
    }

    #[test]
    fn did_without_a_port_and_with_port_443_belong_to_the_same_host() {
        let did_base = DidBaseUrl::at("https://a.example").unwrap();
        for (did, expected) in [
            ("did:wba:a.example", true),
            ("did:wba:a.example%3A443:x", true),
            ("did:wba:a.example%3A8443", false),
            ("did:wba:b.a.example", false),
        ] {
            assert_eq!(did_base.contains(&Did::parse(did).unwrap()), expected, "{did}");
        }
    }
}
