//! The simulated store: the tables of the store in memory, behind connections that fail.
//!
//! Reads, claims, heartbeats and holds come through [`Connection`], the product's own port, and are
//! done at one moment. Appends and deliveries are several statements with time in between, so the
//! simulation runs those one by one on [`SimStore::with`].

mod triggers;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waypost_core::blob::BlobDigest;
use waypost_core::breaker::BreakerChange;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::blobs::BlobRefs;
use waypost_ports::breakers::{BreakerAnswer, BreakerRow, Breakers};
use waypost_ports::memory::{Claimable, Pages, Tables};
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, MailOf, NewDefinition, Publication, Published, Receiver, Renewal, Store,
    StoreError, StoredFrame,
};

use crate::clock::TrueTime;
use crate::fault::{Fault, Weather};
use crate::random::Random;

/// The one store of a world. Clones share it.
#[derive(Clone)]
pub struct SimStore {
    inner: Arc<Mutex<Inner>>,
    truth: TrueTime,
}

/// The state of the store.
pub struct Inner {
    pub tables: Tables,
    /// Its faults.
    pub weather: Weather,
    /// Does it answer no calls?
    pub outage: bool,
    /// Is there no space left?
    pub full: bool,
    /// The claimable executions when the claim under way began; others have come in between.
    pub listed: Option<Claimable>,
    /// By which clock leases are judged, where a planted bug has it so.
    pub claimers_clock: Option<Timestamp>,
}

impl SimStore {
    /// An empty store. In half of all worlds its pages are so small that most reads take several.
    pub fn new(truth: TrueTime, weather: Weather, random: &mut Random) -> Self {
        let mut tables = Tables::default();
        if random.percent(50) {
            tables.pages = Pages { log_bytes: *random.pick(&[1, 500]), mail: 1 + random.index(3) };
        }
        let inner = Inner {
            tables,
            weather,
            outage: false,
            full: false,
            listed: None,
            claimers_clock: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)), truth }
    }

    /// Everything inside.
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic while it was held is a finding of its own; the tables are whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a statement.
    pub fn with<T>(&self, statement: impl FnOnce(&mut Tables, Timestamp) -> T) -> T {
        let mut inner = self.inner();
        let now = inner.tables.tell_time(self.truth.now());
        statement(&mut inner.tables, now)
    }

    /// Does this fault strike?
    pub fn strikes(&self, fault: Fault) -> bool {
        self.inner().weather.strikes(fault)
    }

    /// Can the store be reached and, for a write, has it space?
    pub fn check(&self, writes: bool) -> Result<(), StoreError> {
        let mut inner = self.inner();
        if inner.outage || inner.weather.strikes(Fault::Fails) {
            return Err(StoreError::Unavailable("no connection".to_owned()));
        }
        if writes && inner.full {
            return Err(StoreError::Full("no space is left".to_owned()));
        }
        Ok(())
    }
}

/// A connection of one process, as the product's code sees it.
#[derive(Clone)]
pub struct Connection(pub SimStore);

impl Connection {
    fn call<T>(
        &self,
        writes: bool,
        statement: impl FnOnce(&mut Tables, Timestamp) -> T,
    ) -> Result<T, StoreError> {
        self.0.check(writes)?;
        let value = self.0.with(statement);
        match self.0.strikes(Fault::LostReply) {
            true => Err(StoreError::Unavailable("the reply was lost".to_owned())),
            false => Ok(value),
        }
    }
}

impl Breakers for Connection {
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        self.call(true, |tables, now| tables.change_breaker(key, change, now))
    }

    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError> {
        self.call(false, |tables, now| tables.list_breakers(after, limit, now))
    }
}

impl Store for Connection {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        self.call(true, |tables, now| tables.renew(heartbeat, now))
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        self.call(true, |tables, now| tables.append(batch, now))
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        let (listed, clock) = {
            let mut inner = self.0.inner();
            (inner.listed.take(), inner.claimers_clock.take())
        };
        self.call(true, |tables, now| match listed {
            _ if clock.is_some() => tables.claim(request, clock.unwrap_or(now)),
            None => tables.claim(request, now),
            Some(listed) => tables.take_listed(listed, request, now),
        })
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.call(false, |tables, _| tables.load(execution))
    }

    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        self.call(false, |tables, _| tables.load_after(execution, after))
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        self.call(true, |tables, _| mail.iter().map(|mail| tables.deliver(mail)).collect())
    }

    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.call(false, |tables, _| tables.collect(of, limit))
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.call(true, |tables, _| tables.hold(execution, owner, reason))
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.call(true, |tables, _| tables.doubt(owner, executions))
    }

    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError> {
        self.call(false, |tables, _| tables.receiver(key))
    }

    fn publish(&self, publication: &Publication) -> Result<Published, StoreError> {
        self.call(true, |tables, now| tables.publish(publication, now))
    }

    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError> {
        self.call(false, |tables, _| tables.owners(executions))
    }

    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError> {
        self.call(false, |tables, _| tables.signal_owners(names))
    }

    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError> {
        self.call(false, |tables, _| tables.subscribed(between))
    }

    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError> {
        self.call(true, |tables, now| tables.reserve_births(root, count, now))
    }

    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError> {
        self.call(true, |tables, now| tables.define(definition, now))
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.call(false, |tables, _| tables.definition(which))
    }
}

impl BlobRefs for Connection {
    fn referenced(&self, digests: &[BlobDigest]) -> Result<Vec<BlobDigest>, StoreError> {
        self.call(false, |tables, _| tables.referenced(digests))
    }

    fn named_blobs(
        &self,
        after: Option<&BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, StoreError> {
        self.call(false, |tables, _| tables.named_blobs(after, limit))
    }

    fn named_by(&self, digest: &BlobDigest) -> Result<Option<ExecutionNo>, StoreError> {
        self.call(false, |tables, _| tables.named_by(digest))
    }

    fn take_blob_sweep(&self, instance: InstanceId, lease: Millis) -> Result<bool, StoreError> {
        self.call(true, |tables, now| tables.take_blob_sweep(instance, lease, now))
    }
}
