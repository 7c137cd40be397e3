//! Where outbound calls may go.
//!
//! ```text
//!   URL ─▶ check_url: scheme, userinfo, literal address ─▶ client ─▶ resolver: looks the name up
//!    ▲                                                               once, keeps the addresses that
//!    └── every redirect hop starts here again                        pass, connects to no others
//! ```
//!
//! A definition is written by one person and its inputs come from another; neither may use the engine
//! to reach what only the engine's machine can reach. So the guard is on by default: public addresses
//! may be called, all others (`egress/ranges.rs`) only if an operator's [`Allowance`] says so. Names
//! are judged by the addresses they resolve to, at the moment of connecting: a name that resolves
//! differently the second time gains nothing.

mod allowance;
mod ranges;
mod resolver;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use url::{Host, Url};
use waypost_core::failure::{Failure, kind};

pub use allowance::{Allowance, BadAllowance};
pub use resolver::{GuardedResolver, Lookup, ResolveError, SystemLookup};

/// The policy: which addresses are denied by default, and which exceptions an operator allowed.
#[derive(Clone)]
pub struct Egress {
    allowed: Arc<[Allowance]>,
    lookup: Arc<dyn Lookup>,
}

/// Why a target may not be called.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The address is in a range that is not public.
    #[error(
        "{target} is denied: {address} is {range}; an operator can allow it with --allow-egress \
         {target} or in WAYPOST_ALLOW_EGRESS"
    )]
    Address {
        /// Host and port, as an allowance would spell them.
        target: String,
        /// The address that the host has or is.
        address: IpAddr,
        range: &'static str,
    },
    #[error("only http and https may be called, not {0}:")]
    Scheme(String),
    /// `https://user:password@host`: such secrets end up in logs.
    #[error("the URL contains a user name or password; use an `authorization` header instead")]
    UserInfo,
    #[error("the URL names no host")]
    NoHost,
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::permanent(kind::EGRESS_DENIED, denied.to_string())
    }
}

impl Default for Egress {
    /// Public addresses only.
    fn default() -> Self {
        Self::new([])
    }
}

impl Egress {
    /// Public addresses, and those that are allowed besides.
    pub fn new(allowed: impl IntoIterator<Item = Allowance>) -> Self {
        Self { allowed: allowed.into_iter().collect(), lookup: Arc::new(SystemLookup) }
    }

    /// This policy with `lookup` for the addresses of names.
    #[must_use]
    pub fn with_lookup(self, lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, ..self }
    }

    /// Checks what a URL alone shows; returns its port. A host that is a name passes: it is judged
    /// when it is resolved, by the resolver for that port.
    pub fn check_url(&self, url: &Url) -> Result<u16, Denied> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Denied::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Denied::UserInfo);
        }
        let port = url.port_or_known_default().ok_or(Denied::NoHost)?;
        // The url crate has turned every spelling of an IPv4 address (decimal, hex, octal, short,
        // full-width digits) into `Host::Ipv4` by now.
        match url.host().ok_or(Denied::NoHost)? {
            Host::Domain("") => Err(Denied::NoHost),
            Host::Domain(_) => Ok(port),
            Host::Ipv4(address) => self.check_address(None, address.into(), port).map(|()| port),
            Host::Ipv6(address) => self.check_address(None, address.into(), port).map(|()| port),
        }
    }

    /// May this address be connected to, for this name if it came from one?
    pub fn check_address(
        &self,
        name: Option<&str>,
        address: IpAddr,
        port: u16,
    ) -> Result<(), Denied> {
        let Some(range) = ranges::denied(address) else { return Ok(()) };
        if self.allowed.iter().any(|allowance| allowance.covers(name, address, port)) {
            return Ok(());
        }
        let target = match (name, address) {
            (Some(name), _) => format!("{name}:{port}"),
            (None, IpAddr::V4(address)) => format!("{address}:{port}"),
            (None, IpAddr::V6(address)) => format!("[{address}]:{port}"),
        };
        Err(Denied::Address { target, address, range })
    }

    /// Does the allow-list name the host of this URL, or its address where the host is one? Ranges do not
    /// name a host.
    pub fn names(&self, url: &Url) -> bool {
        let Some(port) = url.port_or_known_default() else { return false };
        let (name, address) = match url.host() {
            Some(Host::Domain(name)) => (Some(name), IpAddr::from([0, 0, 0, 0])),
            Some(Host::Ipv4(address)) => (None, address.into()),
            Some(Host::Ipv6(address)) => (None, address.into()),
            None => return false,
        };
        self.allowed.iter().any(|allowance| allowance.covers(name, address, port))
    }

    /// The resolver for clients that connect to `port` only: reqwest resolves names without a port,
    /// while an allowance may be for one port.
    pub fn resolver(&self, port: u16) -> GuardedResolver {
        GuardedResolver { egress: self.clone(), port }
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}
