//! The HTTP clients: created on first use, cached for their connections.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use reqwest::{Client, redirect, retry};
use rustls::ClientConfig;
use waypost_core::failure::{Failure, kind};
use waypost_core::time::Millis;

use crate::egress::Egress;
use crate::tls;

/// Clients that are cached. A definition can use any number of ports and timeouts, so the cache
/// needs a limit; few are in use at a time.
const CLIENTS_MAX: usize = 32;
/// How long an idle connection stays open. Short, because a server that closes one just as it is
/// used again costs an attempt.
const IDLE: Millis = Millis::from_secs(15);

pub(crate) struct Clients {
    egress: Egress,
    tls: OnceLock<ClientConfig>,
    made: Mutex<BTreeMap<ClientKey, Client>>,
}

/// What a client is created for: its resolver judges names for one port, and the connect timeout is
/// a property of a client, not of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientKey {
    pub(crate) port: u16,
    pub(crate) connect_timeout: Millis,
}

impl Clients {
    pub(crate) fn new(egress: Egress) -> Self {
        Self { egress, tls: OnceLock::new(), made: Mutex::default() }
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    pub(crate) fn client(&self, key: ClientKey) -> Result<Client, Failure> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&key) {
            return Ok(client.clone());
        }
        let client = self.build(key).map_err(|error| {
            let message = format!("cannot make an HTTP client: {error}");
            Failure { unsent: true, ..Failure::permanent(kind::CONNECTION, message) }
        })?;
        if made.len() >= CLIENTS_MAX {
            // Requests under way keep theirs; others are created again when needed.
            made.clear();
        }
        made.insert(key, client.clone());
        Ok(client)
    }

    fn build(&self, key: ClientKey) -> reqwest::Result<Client> {
        Client::builder()
            .tls_backend_preconfigured(self.tls.get_or_init(tls::client_config).clone())
            .dns_resolver(self.egress.resolver(key.port))
            .connect_timeout(key.connect_timeout.to_std())
            .pool_idle_timeout(IDLE.to_std())
            // Redirects are followed by hand, each hop judged anew.
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            // A proxy from the environment would connect on our behalf, past the guard.
            .no_proxy()
            .build()
    }
}
