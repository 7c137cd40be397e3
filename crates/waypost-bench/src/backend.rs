//! A fresh data folder or schema with a running engine, and what goes through it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_engine::{Engine, Observer, StartRequest};

use crate::committed::Committed;
use crate::{Common, DatabaseUsage, EngineSetup, Host, SystemUnderTest, disk};

pub(super) struct MeasuredBackend {
    pub(super) engine: Arc<Engine>,
    pub(super) system: Box<dyn SystemUnderTest>,
    /// Where the disk is probed, and where the data is unless it is in a database.
    pub(super) folder: PathBuf,
    keep: bool,
}

/// Results after the engine was closed.
pub(super) struct Closed {
    pub(super) committed: Committed,
    pub(super) bytes: u64,
    /// What was sent to the servers of a cluster.
    pub(super) sent: Option<DatabaseUsage>,
    /// The disk's own time for a commit.
    pub(super) disk: Duration,
}

impl MeasuredBackend {
    pub(super) fn open(
        common: &Common,
        host: &dyn Host,
        observer: Option<Observer>,
    ) -> Result<Self> {
        Self::open_with(common, host, EngineSetup { observer, ..EngineSetup::default() })
    }

    pub(super) fn open_with(common: &Common, host: &dyn Host, setup: EngineSetup) -> Result<Self> {
        let (folder, keep) = (common.place.fresh_folder()?, common.place.keep);
        Self::over(host.open(&folder)?, folder, keep, setup)
    }

    pub(super) fn over(
        system: Box<dyn SystemUnderTest>,
        folder: PathBuf,
        keep: bool,
        setup: EngineSetup,
    ) -> Result<Self> {
        let engine = Arc::new(system.open_engine(setup)?);
        Ok(Self { engine, system, folder, keep })
    }

    pub(super) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    pub(super) fn define(&self, source: &str) -> Result<Flow> {
        let (plan, version) = self.system.define(source)?;
        Ok(Flow { plan, version })
    }

    pub(super) fn committed(&self) -> Result<Committed> {
        let mut metrics = String::new();
        self.engine.metrics().render(&mut metrics);
        Committed::read(&metrics, Some("self"))
    }

    /// Stops the engine, closes the store, measures the folder and the disk under it.
    pub(super) async fn close(self) -> Result<Closed> {
        let committed = self.committed()?;
        self.engine.stop(Duration::from_secs(5)).await;
        drop(self.engine);
        let sent = self.system.close(self.keep)?;
        let bytes = match sent {
            Some(usage) => usage.bytes,
            None => disk::bytes_in(&self.folder)?,
        };
        let disk = disk::append_and_sync(&self.folder, committed.bytes_per_commit())?;
        if !self.keep {
            std::fs::remove_dir_all(&self.folder)?;
        }
        Ok(Closed { committed, bytes, sent, disk })
    }
}

/// A definition that is ready to be executed.
#[derive(Clone)]
pub(super) struct Flow {
    plan: Arc<Plan>,
    version: u32,
}

impl Flow {
    pub(super) fn request(&self, input: Json) -> StartRequest {
        StartRequest::new(Arc::clone(&self.plan), self.version, input)
    }
}
