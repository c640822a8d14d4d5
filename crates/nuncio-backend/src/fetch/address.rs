//! Decides which addresses belong to the public internet.
//!
//! The tables are IANA's special-purpose registries: <https://www.iana.org/assignments/iana-ipv4-special-registry> and
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is publicly routable. Loopback, private, unspecified and multicast addresses are not public,
/// and neither are IPv6 forms that embed such an IPv4 address.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // This network, private, loopback; multicast, reserved, broadcast.
        [0 | 10 | 127 | 224..=255, ..] => true,
        // Carrier-grade NAT.
        [100, 64..=127, ..] => true,
        // Link-local, which includes metadata services of clouds.
        [169, 254, ..] => true,
        // Private.
        [172, 16..=31, ..] | [192, 168, ..] => true,
        // Protocol assignments, the old 6to4 relays, benchmarking.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        // Documentation.
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // IPv4-mapped and NAT64 addresses are as public as the embedded address.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Teredo embeds its server, and the client with inverted bits.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            is_public_v4(embedded(server_high, server_low)) && is_public_v4(embedded(!high, !low))
        }
        // The rest of 2001::/23 is for protocols; the others are for documentation.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // Only 2000::/3 is assigned. Loopback, unspecified, IPv4-compatible, unique-local, link-local, site-local,
        // multicast, discard and local NAT64 prefixes are all outside.
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_purpose_addresses_are_not_public() {
        for address in [
            // IPv4
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            // IPv6
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fdff::1",
            "ff02::1",
            "100::1",
            "2001:db8::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "4000::1",
            // Embedded IPv4
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:8.8.8.8",
            "64:ff9b::10.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:c0a8:101::1",
            // Teredo: server 65.54.227.120 with client 192.168.1.1, then server 10.0.0.1 with client 8.8.8.8
            "2001:0:4136:e378:8000:63bf:3f57:fefe",
            "2001:0:a00:1:8000:63bf:f7f7:f7f7",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address} passed");
        }
    }

    #[test]
    fn publicly_routable_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.1.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.254",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2a00:1450:4001:81b::200e",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address} was refused");
        }
    }
}
