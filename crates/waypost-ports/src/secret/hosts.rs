//! Where a secret may be sent: the entries of its `hosts`.
//!
//! Names are compared, never resolved addresses: a server with a valid certificate for a name may
//! have the secret. So encryption is required unless the target is this machine or the entry itself
//! says `http://`. (Whether an address may be connected to at all is decided by the egress guard.)

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Where a request goes, in the spelling of a parsed URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target<'a> {
    /// Name or address; IPv6 with or without brackets.
    pub host: &'a str,
    pub port: u16,
    pub https: bool,
}

/// Hosts that may have a secret: `api.example.com`, `*.example.com:8443`, `http://legacy.internal`.
/// Without a port it means the scheme's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPattern {
    /// In lower case, without a final dot; an address as it prints itself.
    name: String,
    /// Does it mean the names below, and not the name itself?
    below: bool,
    port: Option<u16>,
    /// May it go there without encryption?
    plain: bool,
}

/// Why a text is not a [`HostPattern`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{entry:?} is not a host to send a secret to: {reason}")]
pub struct BadHost {
    entry: String,
    reason: &'static str,
}

impl HostPattern {
    /// May a secret for these hosts go there?
    pub fn covers(&self, target: &Target<'_>) -> bool {
        let host = normalised(target.host);
        let named = match self.below {
            true => host
                .strip_suffix(self.name.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            false => host == self.name,
        };
        let own_port = if target.https { 443 } else { 80 };
        let safe = target.https || self.plain || is_loopback(&host);
        named && safe && self.port.unwrap_or(own_port) == target.port
    }
}

fn normalised(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Traffic to it does not leave the machine.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl FromStr for HostPattern {
    type Err = BadHost;

    fn from_str(entry: &str) -> Result<Self, BadHost> {
        parse(entry).map_err(|reason| BadHost { entry: entry.to_owned(), reason })
    }
}

fn parse(entry: &str) -> Result<HostPattern, &'static str> {
    let (plain, rest) = match entry.strip_prefix("http://") {
        Some(rest) => (true, rest),
        None => (false, entry),
    };
    if rest.contains("://") {
        return Err("give a host, not a URL; https is what is meant without `http://`");
    }
    if rest.contains(['/', '@', '?', '#']) {
        return Err("give a host, not a URL");
    }
    let (host, port) = split_port(rest)?;
    let (host, below) = match host.strip_prefix("*.") {
        Some(suffix) => (suffix, true),
        None => (host, false),
    };
    let name = name(host)?;
    if below && name.parse::<IpAddr>().is_ok() {
        return Err("`*.` goes with names, not with addresses");
    }
    Ok(HostPattern { name, below, port, plain })
}

/// Takes the port off; IPv6 needs brackets to have one.
fn split_port(entry: &str) -> Result<(&str, Option<u16>), &'static str> {
    let after_host = entry.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some((_, port)) = entry.get(after_host..).and_then(|rest| rest.rsplit_once(':')) else {
        return Ok((entry, None));
    };
    if entry.parse::<IpAddr>().is_ok() {
        return Ok((entry, None));
    }
    let host = entry.get(..entry.len() - port.len() - 1).unwrap_or_default();
    match port.parse() {
        Ok(port @ 1..) => Ok((host, Some(port))),
        _ => Err("the port must be a number from 1 to 65535"),
    }
}

fn name(host: &str) -> Result<String, &'static str> {
    let name = normalised(host);
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    if name.contains('*') {
        return Err("`*` may stand only at the start, as in *.example.com");
    }
    if !name.is_ascii() {
        return Err("write the name as it stands in the DNS, with xn--");
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    if !name.split('.').all(is_label) {
        return Err("not a host name or an address");
    }
    // A URL's parser would take it for an address, in a spelling of its own.
    let looks_like_v4 = name.rsplit('.').next().is_some_and(|last| last.parse::<u32>().is_ok());
    if looks_like_v4 && name.parse::<Ipv4Addr>().is_err() {
        return Err("not an address such as 10.1.2.3");
    }
    Ok(name)
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.plain { "http://" } else { "" };
        let star = if self.below { "*." } else { "" };
        match (self.port, self.name.contains(':')) {
            (Some(port), true) => write!(f, "{scheme}[{}]:{port}", self.name),
            (Some(port), false) => write!(f, "{scheme}{star}{}:{port}", self.name),
            (None, _) => write!(f, "{scheme}{star}{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, scheme: &str, host: &str, port: u16) -> bool {
        let pattern: HostPattern = pattern.parse().unwrap();
        assert_eq!(pattern.to_string().parse::<HostPattern>().unwrap(), pattern);
        pattern.covers(&Target { host, port, https: scheme == "https" })
    }

    #[test]
    fn a_secret_goes_where_it_may_and_nowhere_else() {
        for (pattern, scheme, host, port, expected) in [
            ("api.stripe.com", "https", "api.stripe.com", 443, true),
            ("API.stripe.com.", "https", "api.stripe.com.", 443, true),
            ("api.stripe.com", "https", "api.stripe.com", 8443, false),
            ("api.stripe.com", "http", "api.stripe.com", 80, false),
            ("api.stripe.com", "https", "stripe.com", 443, false),
            ("api.stripe.com", "https", "api.stripe.com.evil.example", 443, false),
            ("api.stripe.com", "https", "xapi.stripe.com", 443, false),
            ("*.stripe.com:8443", "https", "a.b.stripe.com", 8443, true),
            ("*.stripe.com:8443", "https", "a.stripe.com", 443, false),
            ("*.stripe.com", "https", "stripe.com", 443, false),
            ("*.stripe.com", "https", ".stripe.com", 443, false),
            ("*.stripe.com", "https", "evilstripe.com", 443, false),
            ("http://legacy.internal", "http", "legacy.internal", 80, true),
            ("http://legacy.internal", "https", "legacy.internal", 443, true),
            ("http://legacy.internal:8080", "http", "legacy.internal", 80, false),
            ("127.0.0.1:9000", "http", "127.0.0.1", 9000, true),
            ("localhost", "http", "localhost", 80, true),
            ("::1", "http", "[::1]", 80, true),
            ("[::1]:9000", "http", "[::1]", 9000, true),
            ("10.0.0.1", "http", "10.0.0.1", 80, false),
            ("10.0.0.1", "https", "10.0.0.1", 443, true),
        ] {
            let found = covers(pattern, scheme, host, port);
            assert_eq!(found, expected, "{pattern} for {scheme}://{host}:{port}");
        }
    }

    #[test]
    fn host_pattern_that_is_no_host_is_refused_with_a_reason() {
        for (entry, reason) in [
            ("https://api.stripe.com", "not a URL; https is what is meant"),
            ("http://https://x", "not a URL"),
            ("api.stripe.com/v1", "not a URL"),
            ("user@api.stripe.com", "not a URL"),
            ("*", "only at the start"),
            ("api.*.com", "only at the start"),
            ("*.10.0.0.1", "not with addresses"),
            ("api.stripe.com:0", "from 1 to 65535"),
            ("api.stripe.com:https", "from 1 to 65535"),
            ("", "not a host name"),
            ("a..b", "not a host name"),
            ("a b", "not a host name"),
            ("127.1", "such as 10.1.2.3"),
            ("bücher.example", "xn--"),
        ] {
            let error = entry.parse::<HostPattern>().unwrap_err().to_string();
            assert!(error.contains(reason), "{entry}: {error}");
        }
    }
}
