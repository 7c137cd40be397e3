//! The store in memory, which takes no writes of the engine when it is told to.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::breaker::BreakerChange;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_ports::breakers::{BreakerAnswer, BreakerRow, Breakers};
use waypost_ports::memory::MemoryStore;
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, MailOf, NewDefinition, Publication, Published, Receiver, Renewal, Store,
    StoreError, StoredFrame,
};

pub(crate) struct Failing {
    store: Arc<MemoryStore>,
    error: Mutex<Option<StoreError>>,
}

impl Failing {
    pub(crate) fn over(store: Arc<MemoryStore>) -> Self {
        Self { store, error: Mutex::default() }
    }

    /// From now on appends and mail fail so, or are taken again.
    pub(crate) fn fail(&self, error: Option<StoreError>) {
        *self.error.lock() = error;
    }

    fn check(&self) -> Result<(), StoreError> {
        self.error.lock().clone().map_or(Ok(()), Err)
    }
}

impl Breakers for Failing {
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        self.store.change_breaker(key, change)
    }

    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError> {
        self.store.list_breakers(after, limit)
    }
}

impl Store for Failing {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        self.store.heartbeat(heartbeat)
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        self.check()?;
        self.store.append(batch)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        self.store.claim(request)
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.store.load(execution)
    }

    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        self.store.load_after(execution, after)
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        self.check()?;
        self.store.deliver(mail)
    }

    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.store.collect(of, limit)
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.store.hold(execution, owner, reason)
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.store.doubt(owner, executions)
    }

    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError> {
        self.store.receiver(key)
    }

    fn publish(&self, publication: &Publication) -> Result<Published, StoreError> {
        self.store.publish(publication)
    }

    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError> {
        self.store.owners(executions)
    }

    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError> {
        self.store.signal_owners(names)
    }

    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError> {
        self.store.subscribed(between)
    }

    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError> {
        self.store.reserve_births(root, count)
    }

    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError> {
        self.store.define(definition)
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.store.definition(which)
    }
}
