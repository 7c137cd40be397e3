//! A fresh data folder with a running engine, and what goes through it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_engine::config::Config;
use waypost_engine::{Engine, Observer, StartRequest};
use waypost_ports::query::{ExecutionPage, ListRequest};
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, NewDefinition, Renewal, Store, StoreError,
};

use crate::report::Counts;
use crate::{Common, DatabaseUsage, Host, SystemUnderTest, disk};

pub(super) struct MeasuredBackend {
    engine: Arc<Engine>,
    back: Box<dyn SystemUnderTest>,
    counting: Arc<Counting>,
    /// Where the disk is probed, and where the data is unless it is in a database.
    folder: PathBuf,
    keep: bool,
}

/// Results after the engine was closed.
pub(super) struct Closed {
    pub(super) bytes: u64,
    /// What was sent to the servers of a cluster.
    pub(super) sent: Option<DatabaseUsage>,
}

impl MeasuredBackend {
    pub(super) fn open(
        common: &Common,
        host: &dyn Host,
        observer: Option<Observer>,
        adjust: impl FnOnce(&mut Config),
    ) -> Result<Self> {
        let (folder, keep) = (common.place.fresh_folder()?, common.place.keep);
        let back = host.open(&folder)?;
        Self::over(back, folder, keep, observer, adjust)
    }

    pub(super) fn open_at(
        folder: PathBuf,
        keep: bool,
        host: &dyn Host,
        observer: Option<Observer>,
        adjust: impl FnOnce(&mut Config),
    ) -> Result<Self> {
        let back = host.open_folder(&folder)?;
        Self::over(back, folder, keep, observer, adjust)
    }

    fn over(
        back: Box<dyn SystemUnderTest>,
        folder: PathBuf,
        keep: bool,
        observer: Option<Observer>,
        adjust: impl FnOnce(&mut Config),
    ) -> Result<Self> {
        let counting = Arc::new(Counting::new(back.store()));
        let mut config = Config::default();
        adjust(&mut config);
        let store = Arc::clone(&counting) as Arc<dyn Store>;
        let engine = Arc::new(back.open_engine(store, config, observer)?);
        Ok(Self { engine, back, counting, folder, keep })
    }

    pub(super) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn list(&self, request: &ListRequest) -> Result<ExecutionPage> {
        self.back.list(request)
    }

    pub(super) fn define(&self, source: &str) -> Result<Flow> {
        let (plan, version) = self.back.define(source)?;
        Ok(Flow { plan, version })
    }

    pub(super) fn wait_projected(&self) -> Result<()> {
        self.back.wait_projected()
    }

    pub(super) fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            commits: load(&self.counting.commits),
            frames: load(&self.counting.frames),
            commit_bytes: load(&self.counting.sampled_bytes)
                .saturating_mul(load(&self.counting.commits))
                / load(&self.counting.sampled).max(1),
        }
    }

    /// Stops the engine, closes the store, measures the folder and the disk under it.
    pub(super) async fn close(self, counts: &Counts) -> Result<(Closed, Duration)> {
        self.engine.stop(Duration::from_secs(5)).await;
        drop((self.engine, self.counting));
        let sent = self.back.close(self.keep)?;
        let bytes = match sent {
            Some(usage) => usage.bytes,
            None => disk::bytes_in(&self.folder)?,
        };
        let disk = disk::append_and_sync(&self.folder, counts.bytes_per_commit())?;
        if !self.keep {
            std::fs::remove_dir_all(&self.folder)?;
        }
        Ok((Closed { bytes, sent }, disk))
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

/// A store that counts the appends to another one.
struct Counting {
    inner: Arc<dyn Store>,
    commits: AtomicU64,
    frames: AtomicU64,
    /// Commits whose bytes were counted, and those bytes.
    sampled: AtomicU64,
    sampled_bytes: AtomicU64,
}

/// One commit in so many has its bytes counted; asking the system costs as much as a small commit.
const SAMPLE_EVERY: u64 = 64;

impl Counting {
    fn new(inner: Arc<dyn Store>) -> Self {
        let zero = || AtomicU64::new(0);
        Self { inner, commits: zero(), frames: zero(), sampled: zero(), sampled_bytes: zero() }
    }

    /// Appends, and counts the bytes that this thread wrote to files meanwhile.
    fn append_sampled(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        let before = disk::bytes_written_by_thread();
        let appended = self.inner.append(batch);
        if let (Some(before), Some(after)) = (before, disk::bytes_written_by_thread()) {
            self.sampled.fetch_add(1, Ordering::Relaxed);
            self.sampled_bytes.fetch_add(after - before, Ordering::Relaxed);
        }
        appended
    }
}

impl Store for Counting {
    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        let commit = self.commits.fetch_add(1, Ordering::Relaxed);
        self.frames.fetch_add(u64::try_from(batch.len()).unwrap_or(0), Ordering::Relaxed);
        if commit.is_multiple_of(SAMPLE_EVERY) {
            return self.append_sampled(batch);
        }
        self.inner.append(batch)
    }

    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        self.inner.heartbeat(heartbeat)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        self.inner.claim(request)
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.inner.load(execution)
    }

    fn load_all(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.inner.load_all(execution)
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        self.inner.deliver(mail)
    }

    fn collect(&self, owner: InstanceId, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.inner.collect(owner, limit)
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.inner.hold(execution, owner, reason)
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.inner.doubt(owner, executions)
    }

    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError> {
        self.inner.define(definition)
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.inner.definition(which)
    }
}
