//! Who a request comes from: the bearer of an API key, or of a link, whose token is in the path.
//!
//! A token is verified before anything else of the request is looked at. A wrong one gets the response of
//! a path that does not exist, and counts against the rate of its sender's address: senders of right ones,
//! perhaps behind the same proxy, are not affected by it. The token itself goes no further than this file;
//! logs have its digest.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{HeaderMap, header};
use waypost_engine::links::{self, Link, LinkFault, LinkPurpose};
use waypost_ports::access::Role;

use super::dispatch::{Known, Peer};
use super::guard::Reach;
use super::route::{Access, Matched};
use crate::access::{Identity, keys};
use crate::problem::{Code, Problem};
use crate::server::Server;

/// The parameter in the path of a route for links.
pub const TOKEN: &str = "token";

/// Bits of an IPv6 address that are the network of one sender.
const IPV6_NETWORK_BITS: u32 = 64;

/// A request whose sender is known.
pub(super) struct Entered {
    pub(super) identity: Identity,
    /// The claims of the token, for a route that takes one.
    pub(super) link: Option<Link>,
}

/// How a request may reach this server: links are also for the name of `public_url`.
pub(super) fn reach(matched: &Matched<'_>) -> Reach {
    match matched {
        Matched::Route(route, _) if matches!(route.access, Access::Link(_)) => Reach::Link,
        Matched::Route(route, _) if route.access == Access::Signed => Reach::Hook,
        Matched::Route(..) | Matched::Methods(_) | Matched::Nothing => Reach::Api,
    }
}

/// Finds out who sends a request, and counts it against that sender's rate.
pub(super) fn enter(
    server: &Server,
    matched: &mut Matched<'static>,
    headers: &HeaderMap,
    peer: &Peer,
    known: &mut Known,
) -> Result<Entered, Problem> {
    match matched {
        Matched::Route(route, path) => match route.access {
            Access::Public => return Ok(Entered { identity: Identity::local(), link: None }),
            Access::Link(purpose) => return by_link(server, purpose, path, peer, known),
            Access::Signed => return by_signature(server, peer),
            Access::Roles(_) => {}
        },
        Matched::Methods(_) | Matched::Nothing => {}
    }
    let identity = identify(server, headers)?;
    known.identity = Some(identity.clone());
    let limit = server.config.requests_per_second;
    let taken = server.rate.take(&identity.actor, Instant::now());
    taken.map_err(|wait| too_many(limit, wait))?;
    Ok(Entered { identity, link: None })
}

fn by_link(
    server: &Server,
    purpose: LinkPurpose,
    path: &mut BTreeMap<&'static str, String>,
    peer: &Peer,
    known: &mut Known,
) -> Result<Entered, Problem> {
    let token = path.remove(TOKEN).unwrap_or_default();
    let digest = links::digest(&token);
    known.subject = Some(format!("link {digest}").into());
    let verified = server.engine.links().verify(purpose, &token, server.clock.now());
    let sender: Arc<str> = match verified {
        Err(LinkFault::Unknown) => network(peer.address.ip()).into(),
        Ok(_) | Err(LinkFault::Expired) => format!("{}:{digest}", purpose.name()).into(),
    };
    let limit = server.config.link_requests_per_second;
    let taken = server.link_rate.take(&sender, Instant::now());
    taken.map_err(|wait| too_many(limit, wait))?;
    let link = verified.map_err(|fault| match fault {
        LinkFault::Unknown => nowhere(),
        LinkFault::Expired => Problem::new(Code::LinkExpired, "the link has expired")
            .hint("ask its sender for a new one"),
    })?;
    // A link gives no right but its own.
    let identity = Identity { actor: sender, name: Arc::clone(&link.subject), role: Role::Viewer };
    known.identity = Some(identity.clone());
    Ok(Entered { identity, link: Some(link) })
}

/// A request that its action verifies. Its sender is unknown yet; an address from which too many
/// requests failed is refused.
fn by_signature(server: &Server, peer: &Peer) -> Result<Entered, Problem> {
    let limit = server.config.hook_failures_per_second;
    let sender: Arc<str> = network(peer.address.ip()).into();
    server.hooks.failures.check(&sender, Instant::now()).map_err(|wait| too_many(limit, wait))?;
    let identity = Identity { actor: sender, name: "webhook".into(), role: Role::Viewer };
    Ok(Entered { identity, link: None })
}

/// What one sender has of the addresses.
pub(crate) fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> IPV6_NETWORK_BITS << IPV6_NETWORK_BITS;
            format!("{}/{IPV6_NETWORK_BITS}", Ipv6Addr::from_bits(bits))
        }
    }
}

fn identify(server: &Server, headers: &HeaderMap) -> Result<Identity, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (None, _) if server.config.needs_keys() => Err(keys::unauthenticated("there is no key")),
        (None, _) => Ok(Identity::local()),
        (Some(_), Some(_)) => Err(keys::unauthenticated("there is more than one key")),
        (Some(given), None) => {
            let text = given.to_str().unwrap_or_default();
            let (scheme, key) = text.split_once(' ').unwrap_or_default();
            match scheme.eq_ignore_ascii_case("bearer") {
                true => server.keys.identify(key.trim()),
                false => Err(keys::unauthenticated("keys are sent as `Bearer <key>`")),
            }
        }
    }
}

pub(crate) fn too_many(limit: u32, wait: Duration) -> Problem {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    Problem::new(Code::RateLimited, format!("at most {limit} requests a second are taken"))
        .retry_after(seconds)
}

/// The response for a path that does not exist, and for a link that was never issued.
pub(super) fn nowhere() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this path")
        .hint("/openapi.json lists all paths")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_wrong_links_is_by_address_and_with_ipv6_by_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("10.1.2.3"), "10.1.2.3");
        assert_eq!(of("::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(of("2001:db8:1:2::9"), of("2001:db8:1:2:3:4:5:6"));
    }
}
