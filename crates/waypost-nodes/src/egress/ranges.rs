//! The addresses that are not public, and what they are.
//!
//! From IANA's registries of special-purpose addresses. IPv6 is turned round at the end: everything
//! outside of 2000::/3 is denied, known or not. Forms that carry an IPv4 address are judged by it
//! where they are in use (mapped, NAT64) and denied where they are history (6to4, Teredo).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const V4: &[(Ipv4Net, &str)] = &[
    (v4([0, 0, 0, 0], 8), "an unspecified address (0.0.0.0/8)"),
    (v4([10, 0, 0, 0], 8), "a private address (10.0.0.0/8)"),
    (v4([100, 64, 0, 0], 10), "a carrier-grade NAT address (100.64.0.0/10)"),
    (v4([127, 0, 0, 0], 8), "a loopback address (127.0.0.0/8)"),
    (v4([168, 63, 129, 16], 32), "a cloud provider's internal address (168.63.129.16)"),
    (v4([169, 254, 0, 0], 16), "a link-local or metadata address (169.254.0.0/16)"),
    (v4([172, 16, 0, 0], 12), "a private address (172.16.0.0/12)"),
    (v4([192, 0, 0, 0], 24), "a protocol assignment (192.0.0.0/24)"),
    (v4([192, 0, 2, 0], 24), "a documentation address (192.0.2.0/24)"),
    (v4([192, 88, 99, 0], 24), "a 6to4 relay address (192.88.99.0/24)"),
    (v4([192, 168, 0, 0], 16), "a private address (192.168.0.0/16)"),
    (v4([198, 18, 0, 0], 15), "a benchmarking address (198.18.0.0/15)"),
    (v4([198, 51, 100, 0], 24), "a documentation address (198.51.100.0/24)"),
    (v4([203, 0, 113, 0], 24), "a documentation address (203.0.113.0/24)"),
    (v4([224, 0, 0, 0], 4), "a multicast address (224.0.0.0/4)"),
    (v4([255, 255, 255, 255], 32), "the broadcast address"),
    (v4([240, 0, 0, 0], 4), "a reserved address (240.0.0.0/4)"),
];

const V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "the unspecified address (::)"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "the loopback address (::1)"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an IPv4-compatible address (::/96)"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "a local NAT64 address (64:ff9b:1::/48)"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "a Teredo address (2001::/32)"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "a protocol assignment (2001::/23)"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "a documentation address (2001:db8::/32)"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "a 6to4 address (2002::/16)"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "a documentation address (3fff::/20)"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "a unique local address (fc00::/7)"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "a link-local address (fe80::/10)"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a site-local address (fec0::/10)"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "a multicast address (ff00::/8)"),
];

const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The kind of an address that is not public.
pub(super) fn denied(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => denied_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => denied_v4(inner),
            None => denied_v6(address),
        },
    }
}

/// The IPv4 address that packets to this address end up at.
pub(super) fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if NAT64.contains(&address) {
        let [.., a, b, c, d] = address.octets();
        return Some(Ipv4Addr::new(a, b, c, d));
    }
    address.to_ipv4_mapped()
}

fn denied_v4(address: Ipv4Addr) -> Option<&'static str> {
    V4.iter().find(|(range, _)| range.contains(&address)).map(|(_, what)| *what)
}

fn denied_v6(address: Ipv6Addr) -> Option<&'static str> {
    let known = V6.iter().find(|(range, _)| range.contains(&address)).map(|(_, what)| *what);
    let public = GLOBAL_UNICAST.contains(&address);
    known.or_else(|| (!public).then_some("not a global unicast address (2000::/3)"))
}

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}
