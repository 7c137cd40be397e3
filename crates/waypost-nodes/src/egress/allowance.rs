//! Allowances: the entries of an operator's allow-list.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use url::Host;

use super::ranges;

/// A target that may be called although its address is not public: `api.internal`,
/// `api.internal:8080`, `*.internal`, `10.1.0.0/16`, `10.1.2.3:8080`, `[fd00::/8]:443`.
///
/// A name is trusted with whatever addresses it resolves to; a range is trusted under any name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowance {
    target: AllowedTarget,
    port: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum AllowedTarget {
    Name(String),
    /// What a name must end with, without the `*.`.
    Below(String),
    Range(IpNet),
}

/// Why a text is not an allowance.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{entry:?} is not a target to allow: {reason}")]
pub struct BadAllowance {
    entry: String,
    reason: &'static str,
}

impl Allowance {
    /// Does it allow this address, for this name if it came from one?
    pub(super) fn covers(&self, name: Option<&str>, address: IpAddr, port: u16) -> bool {
        if self.port.is_some_and(|only| only != port) {
            return false;
        }
        let name = name.map(normalised);
        match &self.target {
            AllowedTarget::Name(allowed) => name.as_ref() == Some(allowed),
            AllowedTarget::Below(suffix) => name
                .as_deref()
                .and_then(|name| name.strip_suffix(suffix.as_str()))
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            AllowedTarget::Range(range) => {
                range.contains(&address) || range.contains(&inner(address))
            }
        }
    }
}

/// The IPv4 address inside a mapped or NAT64 address; else the address itself.
fn inner(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => ranges::embedded_v4(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// `API.internal.` and `api.internal` are one name.
pub(super) fn normalised(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl FromStr for Allowance {
    type Err = BadAllowance;

    fn from_str(entry: &str) -> Result<Self, BadAllowance> {
        let entry = entry.trim();
        let refuse = |reason| BadAllowance { entry: entry.to_owned(), reason };
        if entry.contains("://") {
            return Err(refuse("give a host, not a URL"));
        }
        if let Some(target) = range(entry) {
            return Ok(Self { target, port: None });
        }
        let (host, port) = split_port(entry).map_err(refuse)?;
        let target = target(host).map_err(refuse)?;
        Ok(Self { target, port })
    }
}

/// Takes the port off; IPv6 needs brackets to have one.
fn split_port(entry: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = entry.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("`[` is not closed by `]`")?;
        match after.strip_prefix(':') {
            Some(port) => (host, port),
            None if after.is_empty() => return Ok((host, None)),
            None => return Err("`]` must be followed by `:` and a port"),
        }
    } else {
        match entry.rsplit_once(':') {
            Some(parts) => parts,
            None => return Ok((entry, None)),
        }
    };
    match port.parse() {
        Ok(port @ 1..) => Ok((host, Some(port))),
        _ => Err("the port must be a number from 1 to 65535"),
    }
}

fn range(text: &str) -> Option<AllowedTarget> {
    let range = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    range.map(|range| AllowedTarget::Range(range.trunc()))
}

fn target(host: &str) -> Result<AllowedTarget, &'static str> {
    if let Some(range) = range(host) {
        return Ok(range);
    }
    if host.contains('/') {
        return Err("not a range of addresses such as 10.0.0.0/8");
    }
    let (name, below) = match host.strip_prefix("*.") {
        Some(suffix) => (suffix, true),
        None => (host, false),
    };
    if name.contains('*') {
        return Err("`*` is only allowed at the start, as in *.internal");
    }
    match Host::parse(name) {
        Ok(Host::Domain(name)) if below => Ok(AllowedTarget::Below(normalised(&name))),
        Ok(Host::Domain(name)) => Ok(AllowedTarget::Name(normalised(&name))),
        Ok(Host::Ipv4(address)) if !below => Ok(AllowedTarget::Range(IpAddr::from(address).into())),
        Ok(_) => Err("`*.` is for names, not for addresses"),
        Err(_) => Err("not a host name, an address or a range of addresses"),
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.port) {
            (AllowedTarget::Name(name), _) => f.write_str(name)?,
            (AllowedTarget::Below(suffix), _) => write!(f, "*.{suffix}")?,
            (AllowedTarget::Range(range @ IpNet::V6(_)), Some(_)) => write!(f, "[{range}]")?,
            (AllowedTarget::Range(range), _) => write!(f, "{range}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}
