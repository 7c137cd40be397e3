//! An engine of this process over a folder, for as long as a command takes.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::mpsc;
use waypost_engine::config::{Config, Scope};
use waypost_engine::driver::Committed;
use waypost_engine::{Engine, Observer};
use waypost_ports::secret::Secrets;

use crate::backend::{self, Backend};
use crate::cluster_services::ClusterServices;
use crate::settings::Settings;
use crate::wiring;

/// Committed frames, for the progress display.
pub(crate) type Events = mpsc::UnboundedReceiver<Committed>;

/// An engine that drives the executions that this process starts or adopts, and no others of the
/// folder.
pub(crate) fn open(store: &Arc<dyn Backend>, settings: &Settings) -> Result<(Engine, Events)> {
    let (sender, events) = mpsc::unbounded_channel();
    let observer: Observer = Arc::new(move |committed: &Committed| {
        // The receiver is gone when the command is about to end.
        sender.send(committed.clone()).unwrap_or_default();
    });
    let config = Config { scope: Scope::Adopted, ..settings.engine.clone() };
    let around = ClusterServices::of(store, settings)?;
    let store = backend::store(store);
    let secrets = Arc::clone(&settings.secrets) as Arc<dyn Secrets>;
    let observer = Some(observer);
    let engine =
        wiring::open_engine_in(&around, store, &settings.nodes, secrets, config, observer)?;
    Ok((engine, events))
}
