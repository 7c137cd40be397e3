//! A store that fails, damages and panics when a test says so.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;
use waypost_core::breaker::BreakerChange;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_ports::breakers::{BreakerAnswer, BreakerRow, Breakers};
use waypost_ports::memory::MemoryStore;
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, MailOf, NewDefinition, Publication, Published, Receiver, Renewal, Store,
    StoreError, StoredFrame,
};

/// Which calls a fault concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Heartbeat,
    /// The last heartbeat, which says that the instance leaves.
    Leave,
    Append,
    Claim,
    Read,
    Deliver,
    Hold,
    Definition,
}

/// What happens to them.
#[derive(Clone)]
pub(crate) enum Fault {
    Fails(StoreError),
    /// It is done, and the caller does not hear of it.
    LosesReply,
    Panics,
    /// It is done as soon as the gate is open.
    Waits(Arc<Bar>),
}

/// What calls wait at.
pub(crate) struct Bar {
    reached: watch::Sender<bool>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Bar {
    fn pass(&self) {
        self.reached.send_replace(true);
        let mut open = self.open.lock();
        self.opened.wait_while(&mut open, |open| !*open);
    }
}

/// Holds calls up until it is opened; or dropped, so that a test that fails ends.
pub(crate) struct Gate(Arc<Bar>);

impl Gate {
    /// Waits until a call stands before it.
    pub(crate) async fn reached(&self) {
        self.0.reached.subscribe().wait_for(|reached| *reached).await.unwrap();
    }

    /// Lets everybody through, now and later.
    pub(crate) fn open(&self) {
        *self.0.open.lock() = true;
        self.0.opened.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

pub(crate) struct TestStore {
    pub(crate) inner: MemoryStore,
    faults: Mutex<Vec<(Call, Fault)>>,
    damaged: Mutex<BTreeSet<ExecutionNo>>,
    /// Calls that failed so far.
    failed: watch::Sender<u64>,
    /// Claims that were answered so far.
    claims: watch::Sender<u64>,
}

impl TestStore {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self {
            inner,
            faults: Mutex::default(),
            damaged: Mutex::default(),
            failed: watch::Sender::new(0),
            claims: watch::Sender::new(0),
        }
    }

    pub(crate) fn break_calls(&self, calls: &[Call], fault: &Fault) {
        self.faults.lock().extend(calls.iter().map(|call| (*call, fault.clone())));
    }

    /// From now on such a call waits until the gate is opened.
    pub(crate) fn gate(&self, call: Call) -> Gate {
        let (reached, open, opened) = (watch::Sender::new(false), Mutex::default(), Condvar::new());
        let bar = Arc::new(Bar { reached, open, opened });
        self.break_calls(&[call], &Fault::Waits(Arc::clone(&bar)));
        Gate(bar)
    }

    pub(crate) fn heal(&self) {
        self.faults.lock().clear();
    }

    /// From now on the last frame of this execution cannot be read.
    pub(crate) fn damage(&self, execution: ExecutionNo) {
        self.damaged.lock().insert(execution);
    }

    /// Waits until so many more calls have failed.
    pub(crate) async fn failures(&self, count: u64) {
        let mut failed = self.failed.subscribe();
        let enough = *failed.borrow_and_update() + count;
        failed.wait_for(|failed| *failed >= enough).await.unwrap();
    }

    /// Waits until an engine has claimed, whatever there was.
    pub(crate) async fn first_claim(&self) {
        self.claims.subscribe().wait_for(|claims| *claims > 0).await.unwrap();
    }

    fn call<T>(
        &self,
        call: Call,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.faults.lock().iter().find(|(of, _)| *of == call).map(|(_, f)| f.clone());
        let error = match fault {
            None => return act(),
            Some(Fault::Panics) => panic!("the store panics"),
            Some(Fault::Waits(bar)) => {
                bar.pass();
                return act();
            }
            Some(Fault::Fails(error)) => error,
            Some(Fault::LosesReply) => {
                act()?;
                StoreError::Unavailable("the connection broke".to_owned())
            }
        };
        self.failed.send_modify(|failed| *failed += 1);
        Err(error)
    }

    fn read(&self, mut history: History) -> History {
        self.spoil_last(history.execution, &mut history.frames);
        history
    }

    fn spoil_last(&self, execution: ExecutionNo, frames: &mut [StoredFrame]) {
        if self.damaged.lock().contains(&execution)
            && let Some(last) = frames.last_mut()
        {
            last.body = Err("the checksum is wrong".to_owned());
        }
    }
}

impl Breakers for TestStore {
    fn change_breaker(
        &self,
        key: &str,
        change: &BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        self.inner.change_breaker(key, change)
    }

    fn list_breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BreakerRow>, StoreError> {
        self.inner.list_breakers(after, limit)
    }
}

impl Store for TestStore {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        let beat = || self.call(Call::Heartbeat, || self.inner.heartbeat(heartbeat));
        match heartbeat.lease {
            Some(_) => beat(),
            None => self.call(Call::Leave, beat),
        }
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        self.call(Call::Append, || self.inner.append(batch))
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        let claims = self.call(Call::Claim, || self.inner.claim(request));
        self.claims.send_modify(|claims| *claims += 1);
        let claims = claims?;
        let claimed = claims.claimed.into_iter().map(|history| self.read(history)).collect();
        Ok(Claims { claimed, ..claims })
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        let history = self.call(Call::Read, || self.inner.load(execution))?;
        Ok(history.map(|history| self.read(history)))
    }

    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        let mut frames = self.call(Call::Read, || self.inner.load_after(execution, after))?;
        self.spoil_last(execution, &mut frames);
        Ok(frames)
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        self.call(Call::Deliver, || self.inner.deliver(mail))
    }

    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.call(Call::Read, || self.inner.collect(of, limit))
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.call(Call::Hold, || self.inner.hold(execution, owner, reason))
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.call(Call::Hold, || self.inner.doubt(owner, executions))
    }

    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError> {
        self.call(Call::Read, || self.inner.receiver(key))
    }

    fn publish(&self, publication: &Publication) -> Result<Published, StoreError> {
        self.call(Call::Deliver, || self.inner.publish(publication))
    }

    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError> {
        self.call(Call::Read, || self.inner.owners(executions))
    }

    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError> {
        self.call(Call::Read, || self.inner.signal_owners(names))
    }

    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError> {
        self.call(Call::Read, || self.inner.subscribed(between))
    }

    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError> {
        self.call(Call::Read, || self.inner.reserve_births(root, count))
    }

    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError> {
        self.inner.define(definition)
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.call(Call::Definition, || self.inner.definition(which))
    }
}
