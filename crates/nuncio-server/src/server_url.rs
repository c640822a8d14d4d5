//! URLs of the server, by the addresses that it listens on.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The URL without `--public-url`, for people on this machine and in published documents. A server that listens on
/// loopback or on all addresses is `localhost`: nobody can open an unspecified address.
pub(crate) fn by_listening(addresses: &[SocketAddr], tls: bool) -> String {
    match addresses.first() {
        Some(address) if address.ip().is_loopback() || address.ip().is_unspecified() => {
            with_host(&format!("localhost:{}", address.port()), tls)
        }
        Some(address) => with_host(&address.to_string(), tls),
        None => String::new(),
    }
}

/// The URL that DIDs are made for without `--public-url`. A server on all addresses has no lasting one: a trial of such
/// a server must not fix `localhost` as the name of its DIDs.
pub(crate) fn for_dids(addresses: &[SocketAddr], tls: bool) -> Option<String> {
    let is_on_all = addresses.first().is_some_and(|address| address.ip().is_unspecified());
    (!is_on_all).then(|| by_listening(addresses, tls))
}

/// The URL for people in the same network, if the server listens on all addresses of this machine.
pub(crate) fn in_network(addresses: &[SocketAddr], tls: bool) -> Option<String> {
    let address = addresses.first().filter(|address| address.ip().is_unspecified())?;
    let own = network_address(address.is_ipv4())?;
    Some(with_host(&SocketAddr::new(own, address.port()).to_string(), tls))
}

fn with_host(host: &str, tls: bool) -> String {
    format!("{}://{host}", if tls { "https" } else { "http" })
}

/// The address from which this machine reaches others; none without a network. Nothing is sent: connecting a UDP socket
/// only chooses a route. The remote addresses are those for documentation (RFC 5737, RFC 3849).
fn network_address(four: bool) -> Option<IpAddr> {
    let (local, remote) = if four { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let socket = UdpSocket::bind(local).ok()?;
    socket.connect(remote).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_on_all_addresses_has_a_url_that_can_be_opened() {
        let all: SocketAddr = "0.0.0.0:7400".parse().unwrap();
        let six: SocketAddr = "[::]:7400".parse().unwrap();
        let one: SocketAddr = "192.0.2.7:80".parse().unwrap();
        assert_eq!(by_listening(&[all], false), "http://localhost:7400");
        assert_eq!(by_listening(&[six], true), "https://localhost:7400");
        assert_eq!(by_listening(&[one], false), "http://192.0.2.7:80");
        assert_eq!(for_dids(&[all], false), None);
        assert_eq!(for_dids(&[one], false).as_deref(), Some("http://192.0.2.7:80"));
        assert_eq!(in_network(&[one], false), None);
        assert!(in_network(&[all], false).is_none_or(|url| !url.contains("0.0.0.0")));
    }
}
