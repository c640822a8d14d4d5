//! Addresses that the operator exempts from the rules for untrusted addresses.

use std::net::IpAddr;

use nuncio_http::network::IpNetwork;
use url::{Host, Origin, Url};

/// The operator's exceptions from the rule that untrusted addresses must be public.
#[derive(Debug, Clone, Default)]
pub struct AllowedAddresses {
    hosts: Vec<String>,
    origins: Vec<Origin>,
    networks: Vec<IpNetwork>,
}

impl AllowedAddresses {
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses exceptions, each one of
    /// - a host such as `hotel.internal`, over `https:`, at any address;
    /// - an origin such as `http://hotel.internal:8080`, with that scheme and port only;
    /// - an address or a network such as `10.1.2.3`, `10.0.0.0/8` or `fd00::/8`.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut allow = Self::none();
        for entry in entries {
            allow.add(entry).map_err(|why| format!("{entry:?} cannot be allowed: {why}"))?;
        }
        Ok(allow)
    }

    fn add(&mut self, entry: &str) -> Result<(), String> {
        if entry.contains("://") {
            let url = Url::parse(entry).map_err(|error| format!("it is not an origin ({error})"))?;
            let bare =
                url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
            if !matches!(url.scheme(), "http" | "https") || !bare || url.password().is_some() {
                return Err(
                    "an origin is http:// or https://, a host and optionally a port, such as http://hotel.internal:8080"
                        .into(),
                );
            }
            self.origins.push(url.origin());
            return Ok(());
        }
        if let Some(network) = IpNetwork::parse(entry) {
            self.networks.push(network);
            return Ok(());
        }
        match Host::parse(entry) {
            Ok(Host::Domain(host)) if !entry.contains('/') => self.hosts.push(bare_name(&host)),
            _ => return Err("it is neither a host, an origin, an address nor a network such as 10.0.0.0/8".into()),
        }
        Ok(())
    }

    /// Whether the operator allowed this origin, with its scheme and port.
    pub(super) fn origin(&self, url: &Url) -> bool {
        self.origins.contains(&url.origin())
    }

    /// Whether the operator allowed this host.
    pub(super) fn host(&self, name: &str) -> bool {
        let name = bare_name(name);
        self.hosts.contains(&name)
    }

    /// Whether the operator allowed a network or an address.
    pub(super) fn any_network(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Whether an allowed network contains this address.
    pub(super) fn address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }
}

/// Host name for comparison: lower case, without a trailing dot.
pub(super) fn bare_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_network_contains_its_addresses_only() {
        let allow = AllowedAddresses::parse(["10.0.0.0/8", "192.168.1.7", "fd00::/8", "172.16.0.0/12"]).unwrap();
        for inside in ["10.255.0.1", "192.168.1.7", "fdab::1", "172.31.0.1", "::ffff:10.0.0.1"] {
            assert!(allow.address(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "192.168.1.8", "fe80::1", "172.32.0.1", "::1"] {
            assert!(!allow.address(outside.parse().unwrap()), "{outside}");
        }
        assert!(AllowedAddresses::parse(["0.0.0.0/0"]).unwrap().address("9.9.9.9".parse().unwrap()));
    }

    #[test]
    fn allowed_origins_and_hosts_match_exactly() {
        let allow = AllowedAddresses::parse(["http://hotel.internal:8080", "Billing.Internal"]).unwrap();
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(allow.origin(&url("http://hotel.internal:8080/rooms")));
        assert!(!allow.origin(&url("https://hotel.internal:8080/")));
        assert!(!allow.origin(&url("http://hotel.internal/")));
        assert!(allow.host("billing.internal."));
        assert!(!allow.host("x.billing.internal"));
    }

    #[test]
    fn invalid_entry_of_the_allow_list_is_named_in_the_error() {
        for bad in ["10.0.0.0/33", "http://a/path", "ftp://a", "http://user@a", "a b", "a/b", ""] {
            let why = AllowedAddresses::parse([bad]).unwrap_err();
            assert!(why.contains(&format!("{bad:?}")), "{why}");
        }
    }
}
