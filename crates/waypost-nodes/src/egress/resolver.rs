//! The resolver that clients use: it hands out only addresses that were checked.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::allowance::normalised;
use super::{Denied, Egress};

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Uses the operating system's resolver.
#[derive(Clone, Copy, Debug)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Resolves names for one port, each once per connection, and checks every address: a client
/// connects only to addresses that were checked.
#[derive(Clone, Debug)]
pub struct GuardedResolver {
    pub(super) egress: Egress,
    pub(super) port: u16,
}

/// Why a name gave no address to connect to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// It has addresses, and none of them is allowed.
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("cannot look up {name}: {cause}")]
    Lookup { name: String, cause: io::Error },
    #[error("{0} has no address")]
    Nothing(String),
}

impl GuardedResolver {
    /// The addresses of `name` that may be connected to; never an empty list.
    pub async fn addresses(&self, name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
        let found = if is_localhost(name) {
            // Decided here as RFC 6761 requires: a foreign resolver's answer for localhost, or the
            // spelling in a machine's hosts file, must not matter.
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        } else {
            Arc::clone(&self.egress.lookup)
                .lookup(name.to_owned())
                .await
                .map_err(|cause| ResolveError::Lookup { name: name.to_owned(), cause })?
        };
        let mut allowed = Vec::with_capacity(found.len());
        let mut first_denial = None;
        for address in found {
            match self.egress.check_address(Some(name), address, self.port) {
                Ok(()) => allowed.push(SocketAddr::new(address, self.port)),
                Err(denied) => {
                    first_denial.get_or_insert(denied);
                }
            }
        }
        match (allowed.is_empty(), first_denial) {
            (false, _) => Ok(allowed),
            (true, Some(denied)) => Err(denied.into()),
            (true, None) => Err(ResolveError::Nothing(name.to_owned())),
        }
    }
}

fn is_localhost(name: &str) -> bool {
    let name = normalised(name);
    name == "localhost" || name.ends_with(".localhost")
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
