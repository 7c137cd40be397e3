//! Keys, the audit log, circuit breakers and published signals: of the server that was named, with an administrator's key; else of the
//! folder, also while its server runs. Write access to the folder needs no key.

use std::sync::Arc;

use anyhow::Result;
use waypost_ports::access::{AuditEntry, AuditRequest};
use waypost_ports::clock::{Clock as _, SystemClock};
use waypost_server::access::keys;
use waypost_server::problem::{Code, Problem};
use waypost_server::reader::PAGE_MAX;
use waypost_server::wire;
use waypost_server::wire::payload::Short;
use waypost_server::wire::request::RoleName;

use super::answered;
use super::folder::reader;
use super::requests::actor;
use crate::backend::{self, Backend};
use crate::client::{Address, Ask, Client};
use crate::settings::Settings;

/// Where keys and the audit log are.
pub(crate) enum AdminTarget {
    Remote(Client),
    Folder(Arc<dyn Backend>),
}

impl AdminTarget {
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        match Address::named(settings)? {
            Some(address) => {
                Ok(Self::Remote(Client::new(address, settings.remote.key.as_deref())?))
            }
            None => Ok(Self::Folder(backend::open(settings)?)),
        }
    }

    /// As `open`, but the folder may be new: a server off loopback needs a key before its start.
    pub(crate) fn open_or_create(settings: &Settings) -> Result<Self> {
        if Address::named(settings)?.is_none() {
            backend::create(settings)?;
        }
        Self::open(settings)
    }

    pub(crate) async fn create_key(&self, name: &str, role: RoleName) -> Result<wire::MadeKey> {
        match self {
            Self::Remote(client) => {
                let asked = wire::NewApiKey { name: Short(name.to_owned()), role };
                Ok(client.ask(Ask::post(&["keys"]).json(&asked)?).await?.body)
            }
            Self::Folder(store) => {
                let (new, key) = keys::make(name, role.into());
                store.add_key(&new)?;
                let id = new.id.to_string();
                record(store, "createKey", &id, 201)?;
                Ok(wire::MadeKey { id, name: name.to_owned(), role, key })
            }
        }
    }

    pub(crate) async fn keys(&self) -> Result<wire::ApiKeyList> {
        match self {
            Self::Remote(client) => client.get(&["keys"]).await,
            Self::Folder(store) => answered(reader(store).keys()),
        }
    }

    pub(crate) async fn revoke_key(&self, id: &str) -> Result<()> {
        match self {
            Self::Remote(client) => client.tell(Ask::delete(&["keys", id])).await,
            Self::Folder(store) => {
                if !store.revoke_key(id)? {
                    let detail = format!("no key has the id {id:?}");
                    return answered(Err(Problem::new(Code::UnknownKey, detail)));
                }
                record(store, "revokeKey", id, 204)
            }
        }
    }

    pub(crate) async fn breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<wire::BreakerList> {
        match self {
            Self::Remote(client) => {
                let ask =
                    Ask::get(&["breakers"]).query("cursor", after).query("limit", Some(limit));
                Ok(client.ask(ask).await?.body)
            }
            Self::Folder(store) => answered(reader(store).breakers(after, limit)),
        }
    }

    pub(crate) async fn reset_breaker(&self, key: &str) -> Result<()> {
        match self {
            Self::Remote(client) => {
                let asked = wire::BreakerReset { key: Short(key.to_owned()) };
                client.tell(Ask::post(&["breakers", "reset"]).json(&asked)?).await
            }
            Self::Folder(store) => {
                answered(reader(store).reset_breaker(key))?;
                record(store, "resetBreaker", key, 204)
            }
        }
    }

    pub(crate) async fn publish(&self, signal: wire::Publish) -> Result<wire::PublishResult> {
        match self {
            Self::Remote(client) => {
                Ok(client.ask(Ask::post(&["signals"]).json(&signal)?).await?.body)
            }
            Self::Folder(store) => {
                let subject = format!("{}[{}]", signal.name.0, signal.key.0);
                let published = answered(reader(store).publish(signal, actor()))?;
                record(store, "publishSignal", &subject, 200)?;
                Ok(published.result)
            }
        }
    }

    pub(crate) async fn audit(&self, request: AuditRequest) -> Result<wire::AuditList> {
        let request = AuditRequest { limit: request.limit.min(PAGE_MAX), ..request };
        match self {
            Self::Remote(client) => {
                let ask = Ask::get(&["audit"])
                    .query("actor", request.actor)
                    .query("cursor", request.before)
                    .query("limit", Some(request.limit));
                Ok(client.ask(ask).await?.body)
            }
            Self::Folder(store) => answered(reader(store).audit(&request)),
        }
    }
}

/// Changes made to a folder by hand are recorded in its audit log, too.
pub(super) fn record(
    store: &Arc<dyn Backend>,
    action: &str,
    subject: &str,
    status: u16,
) -> Result<()> {
    let entry = AuditEntry {
        at: SystemClock.now(),
        actor: "local".into(),
        address: "folder".into(),
        action: action.into(),
        subject: Some(Arc::from(subject)),
        status,
    };
    Ok(store.record(&[entry])?)
}
