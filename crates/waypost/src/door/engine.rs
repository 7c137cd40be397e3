//! An engine of this process over a folder, for as long as a command takes.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::mpsc;
use waypost_engine::config::{Config, Scope};
use waypost_engine::driver::Committed;
use waypost_engine::{Engine, Observer};
use waypost_ports::secret::Secrets;
use waypost_ports::store::Store;
use waypost_sqlite::SqliteStore;

use crate::settings::Settings;
use crate::wiring;

/// Everything that becomes durable, for whoever draws it.
pub(crate) type Events = mpsc::UnboundedReceiver<Committed>;

/// An engine that drives what this process starts or adopts, and nothing else in the folder.
pub(crate) fn open(store: &Arc<SqliteStore>, settings: &Settings) -> Result<(Engine, Events)> {
    let (sender, events) = mpsc::unbounded_channel();
    let observer: Observer = Arc::new(move |committed: &Committed| {
        // The receiver is gone when the command is about to end.
        sender.send(committed.clone()).unwrap_or_default();
    });
    let config = Config { scope: Scope::Adopted, ..settings.engine.clone() };
    let store = Arc::clone(store) as Arc<dyn Store>;
    let secrets = Arc::clone(&settings.secrets) as Arc<dyn Secrets>;
    let engine = wiring::open_engine(store, &settings.nodes, secrets, config, Some(observer))?;
    Ok((engine, events))
}
