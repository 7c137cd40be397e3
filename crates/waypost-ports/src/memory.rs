//! A store without a disk, for tests and for the simulator.
//!
//! It exists to be obviously right, so that the other stores can be compared with it. Nothing is
//! cached and nothing is indexed twice; lists fold the whole log. [`Tables`] has the rows and the
//! statements that work on them; [`MemoryStore`] composes each operation of a store from those, one
//! operation at a time. The simulator runs the same statements with others in between.

mod access;
mod appending;
mod blob_refs;
mod breakers;
mod claiming;
mod inbox;
mod inspect;
mod outbox;
mod permits;
mod query;
mod reading;
mod tables;
mod tasks;
mod topics;
mod triggers;
mod waits;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;

use crate::clock::Clock;
use crate::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, MailOf, NewDefinition, Publication, Published, Receiver, Renewal, Store,
    StoreError, StoredFrame,
};

use crate::triggers::TRIGGERS_MAX;
use crate::triggers::rules::too_many_triggers;

pub use appending::Inserted;
pub use claiming::Claimable;
pub use reading::Pages;
pub use tables::Tables;
pub use tasks::MemoryTasks;
pub use triggers::HeldGroup;

/// A store in memory. Clones share their data, as connections to one database do.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Arc<Mutex<Tables>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tables: Arc::default() }
    }

    /// Its data under another clock.
    #[must_use]
    pub fn with_clock(&self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, tables: Arc::clone(&self.tables) }
    }

    /// Runs statements one by one on the same tables, with the store's time.
    pub fn with<T>(&self, action: impl FnOnce(&mut Tables, Timestamp) -> T) -> T {
        let mut tables = self.tables.lock();
        let now = tables.tell_time(self.clock.now());
        action(&mut tables, now)
    }
}

impl Store for MemoryStore {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        self.with(|tables, now| Ok(tables.renew(heartbeat, now)))
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        self.with(|tables, now| Ok(tables.append(batch, now)))
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        self.with(|tables, now| Ok(tables.claim(request, now)))
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.with(|tables, _| Ok(tables.load(execution)))
    }

    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        self.with(|tables, _| Ok(tables.load_after(execution, after)))
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        self.with(|tables, _| Ok(mail.iter().map(|mail| tables.deliver(mail)).collect()))
    }

    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.with(|tables, _| Ok(tables.collect(of, limit)))
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.with(|tables, _| {
            tables.hold(execution, owner, reason);
            Ok(())
        })
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.with(|tables, _| Ok(tables.doubt(owner, executions)))
    }

    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError> {
        self.with(|tables, _| Ok(tables.receiver(key)))
    }

    fn publish(&self, publication: &Publication) -> Result<Published, StoreError> {
        self.with(|tables, now| Ok(tables.publish(publication, now)))
    }

    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError> {
        self.with(|tables, _| Ok(tables.owners(executions)))
    }

    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError> {
        self.with(|tables, _| Ok(tables.signal_owners(names)))
    }

    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError> {
        self.with(|tables, _| Ok(tables.subscribed(between)))
    }

    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError> {
        self.with(|tables, now| Ok(tables.reserve_births(root, count, now)))
    }

    fn define(&self, new: &NewDefinition) -> Result<Defined, StoreError> {
        self.with(|tables, now| match tables.triggers.count_with(new) > TRIGGERS_MAX {
            true => Err(too_many_triggers()),
            false => Ok(tables.define(new, now)),
        })
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.with(|tables, _| Ok(tables.definition(which)))
    }
}
