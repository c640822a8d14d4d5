//! The address a request comes from: the other end of its connection, or, where that is a trusted proxy, the address
//! the proxy names in `X-Forwarded-For`.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use ::http::{HeaderMap, HeaderName};
use axum::extract::Request;
use nuncio_auth::is_forwarded;
pub(crate) use nuncio_http::ClientAddress;
use nuncio_http::network::IpNetwork;

use super::MiddlewareState;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Limit of unlisted proxies that are logged, since anyone can send the headers of a proxy.
const MAX_REPORTED: usize = 32;

/// Remote address of a connection. The listener adds it to each request as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// The proxies the operator listed in `[http] trusted_proxies`.
#[derive(Debug, Default)]
pub(crate) struct TrustedProxies {
    networks: Vec<IpNetwork>,
    reported: Mutex<HashSet<IpAddr>>,
}

impl TrustedProxies {
    pub(crate) fn new(networks: &[IpNetwork]) -> Self {
        Self { networks: networks.to_vec(), reported: Mutex::default() }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The caller's address. Each proxy appends the address it was reached from, so the list is read from its end: the
    /// first entry that is no trusted proxy is the caller. The entries before it may be forged by the caller.
    fn resolve(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        if !self.contains(peer) {
            self.report_unlisted(peer, headers);
            return ClientAddress { peer, caller: peer, is_proxied: false };
        }
        let mut caller = peer;
        let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
        for entry in lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(',')) {
            // Entries before an invalid one cannot be trusted.
            let Some(address) = read_address(entry.trim()) else { break };
            caller = address;
            if !self.contains(address) {
                break;
            }
        }
        ClientAddress { peer, caller, is_proxied: true }
    }

    fn report_unlisted(&self, peer: IpAddr, headers: &HeaderMap) {
        if !is_forwarded(headers) {
            return;
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_REPORTED && reported.insert(peer) {
            tracing::warn!(
                %peer,
                "requests come through a proxy that is not in [http] trusted_proxies: all its callers count as one \
                 address; add the proxy to nuncio.toml"
            );
        }
    }
}

/// Adds the client's address to a request that came over a listener.
pub(super) fn insert(shared: &MiddlewareState, request: &mut Request) {
    if let Some(&PeerAddress(peer)) = request.extensions().get() {
        let address = shared.proxies.resolve(peer, request.headers());
        request.extensions_mut().insert(address);
    }
}

/// Parses an address, with or without a port, which some proxies add.
fn read_address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().ok().or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(peer: &str, lines: &[&str]) -> String {
        let networks = ["10.0.0.0/8", "::1"].map(|text| IpNetwork::parse(text).unwrap());
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        TrustedProxies::new(&networks).resolve(peer.parse().unwrap(), &headers).caller.to_string()
    }

    #[test]
    fn rightmost_forwarded_address_that_is_not_a_trusted_proxy_is_the_caller() {
        for (peer, lines, expected) in [
            ("10.0.0.1", &["203.0.113.9"][..], "203.0.113.9"),
            ("::1", &["203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1", "203.0.113.9", "10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("10.0.0.1", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["1.1.1.1, "], "10.0.0.1"),
        ] {
            assert_eq!(caller(peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_for_header_of_an_unlisted_proxy_is_ignored() {
        assert_eq!(caller("203.0.113.9", &["127.0.0.1"]), "203.0.113.9");
        assert_eq!(caller("127.0.0.1", &["10.0.0.1"]), "127.0.0.1");
    }

    #[test]
    fn number_of_unlisted_proxies_that_are_logged_is_limited() {
        let proxies = TrustedProxies::default();
        let mut headers = HeaderMap::new();
        headers.insert("via", "1.1 proxy".parse().unwrap());
        for last in 0..=255 {
            proxies.resolve(IpAddr::from([203, 0, 113, last]), &headers);
        }
        assert_eq!(proxies.reported.lock().unwrap().len(), MAX_REPORTED);
    }
}
