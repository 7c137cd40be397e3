//! Whose request it is, where proxies pass it on.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of a request's sender: that of the connection, unless it is a trusted proxy. Each proxy adds the
/// address that it sees at the end of the header, so the last one that is no trusted proxy is the sender's;
/// what stands before it can be made up.
pub(super) fn client_address(
    peer: SocketAddr,
    headers: &HeaderMap,
    trusted: &[IpNet],
) -> SocketAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|net| net.contains(&address));
    let mut sender = peer.ip().to_canonical();
    if !is_trusted(sender) {
        return peer;
    }
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    'lines: for line in lines.into_iter().rev() {
        for address in line.to_str().unwrap_or_default().rsplit(',') {
            let Some(address) = parse(address.trim()) else { break 'lines };
            sender = address;
            if !is_trusted(address) {
                break 'lines;
            }
        }
    }
    SocketAddr::new(sender, peer.port())
}

/// An address, with or without a port.
fn parse(text: &str) -> Option<IpAddr> {
    let address = text.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|both| both.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_is_the_last_address_that_is_no_trusted_proxy() {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let of = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            let peer = SocketAddr::new(peer.parse().unwrap(), 1);
            client_address(peer, &headers, &trusted).ip().to_string()
        };
        assert_eq!(of("192.0.2.1", &["198.51.100.7"]), "192.0.2.1", "a stranger's word");
        assert_eq!(of("10.1.1.1", &[]), "10.1.1.1");
        assert_eq!(of("10.1.1.1", &["1.1.1.1, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(of("10.1.1.1", &["1.1.1.1", "198.51.100.7:80, 10.2.2.2"]), "198.51.100.7");
        assert_eq!(of("10.1.1.1", &["198.51.100.7, nonsense"]), "10.1.1.1");
        assert_eq!(of("::1", &["2001:db8::7"]), "2001:db8::7");
        assert_eq!(of("::ffff:10.1.1.1", &["198.51.100.7"]), "198.51.100.7");
    }
}
