//! Shared by the cases: a store under a clock that they set.

mod hand;

use std::sync::Arc;

use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::event::RunCreated;
use waypost_core::frame::FrameHeader;
use waypost_core::id::{DefinitionHash, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};

use super::StoreUnderTest;
use crate::clock::{Clock, ManualClock};
use crate::inspect::{Examined, Inspect, Remedy, Repair};
use crate::query::{ExecutionPage, ListRequest, Query};
use crate::store::{
    About, Append, Appended, ClaimRequest, Claims, Control, ControlChange, Defined, Heartbeat,
    History, LEASE, Mail, MailBody, MailDelivery, NewDefinition, Renewal, Share, Store,
};

pub use hand::{Draft, Hand, birth, created, delayed, started};

/// When every case begins.
pub const START: Timestamp = Timestamp(1_000_000);

/// The log format that instances read, unless a case chooses another.
pub const FOLD: u16 = 1;

/// The instance of cases that need only one. Reserving a number for an execution announces it.
pub const ONE: InstanceId = InstanceId(Uuid::from_u128(1));

pub struct Rig<B: StoreUnderTest> {
    // Before the backend, whose data it uses: dropped in this order.
    store: Option<B::Store>,
    backend: B,
    pub clock: Arc<ManualClock>,
}

impl<B: StoreUnderTest> Rig<B> {
    /// Opens the backend's data.
    pub fn new(backend: B) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let store = Some(backend.open(clock.clone()));
        Self { store, backend, clock }
    }

    pub fn store(&self) -> &B::Store {
        self.store.as_ref().expect("the store is open between the calls of a rig")
    }

    pub fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(self.backend.open(self.clock.clone()));
    }

    /// Waits until lists show everything.
    pub fn settle(&self) {
        self.backend.settle(self.store());
    }

    pub fn advance(&self, millis: u64) {
        self.clock.advance(Millis(millis));
    }

    /// An instance that has announced itself.
    pub fn instance(&self, number: u128) -> InstanceId {
        let instance = InstanceId(Uuid::from_u128(number));
        self.announce(instance);
        instance
    }

    /// Renews a lease.
    pub fn announce(&self, instance: InstanceId) {
        self.beat(&heartbeat(instance));
    }

    /// Ends a lease.
    pub fn leave(&self, instance: InstanceId) {
        self.beat(&Heartbeat { lease: None, ..heartbeat(instance) });
    }

    /// Sends any heartbeat.
    pub fn beat(&self, heartbeat: &Heartbeat) -> Renewal {
        self.store().heartbeat(heartbeat).expect("a heartbeat is taken")
    }

    pub fn numbers(&self, instance: InstanceId, count: u32) -> Vec<ExecutionNo> {
        let renewal = self.beat(&Heartbeat { numbers: count, ..heartbeat(instance) });
        renewal.numbers.map(ExecutionNo).collect()
    }

    pub fn number(&self, instance: InstanceId) -> ExecutionNo {
        self.numbers(instance, 1).pop().expect("one number was reserved")
    }

    /// The hand of `instance` for an execution that does not exist yet.
    pub fn hand(&self, instance: InstanceId) -> Hand {
        Hand::new(self.number(instance), instance)
    }

    /// Starts an execution with names.
    pub fn create(&self, key: &str, workflow: &str) -> Hand {
        let mut hand = self.hand(ONE);
        self.commit(hand.create(key, workflow));
        hand
    }

    /// Starts executions in one batch; returns their hands.
    pub fn create_all(&self, instance: InstanceId, runs: Vec<RunCreated>) -> Vec<Hand> {
        let count = u32::try_from(runs.len()).expect("a case starts a few executions");
        let numbers = self.numbers(instance, count).into_iter();
        let now = self.clock.now();
        let mut hands: Vec<_> =
            numbers.map(|number| Hand { now, ..Hand::new(number, instance) }).collect();
        let batch: Vec<Append> =
            hands.iter_mut().zip(runs).map(|(hand, run)| hand.create_as(run).into()).collect();
        self.commit_all(&batch);
        hands
    }

    /// Starts an execution that `instance` owns at epoch 1; its log has two events.
    pub fn start(&self, instance: InstanceId) -> Hand {
        let mut hand = self.hand(instance);
        self.commit(hand.next(2).control(ControlChange::Owned));
        hand
    }

    pub fn park(&self, instance: InstanceId, next_due: Option<Timestamp>) -> Hand {
        let mut hand = self.start(instance);
        self.commit(hand.next(1).control(ControlChange::Parked { next_due }));
        hand
    }

    pub fn append(&self, append: impl Into<Append>) -> Appended {
        let mut outcomes = self.append_all(&[append.into()]);
        outcomes.pop().expect("one frame has one outcome")
    }

    pub fn append_all(&self, batch: &[Append]) -> Vec<Appended> {
        let outcomes = self.store().append(batch).expect("the batch is taken");
        assert_eq!(outcomes.len(), batch.len(), "one outcome for each frame");
        outcomes
    }

    /// Appends one frame that must be inserted; returns the store's time.
    pub fn commit(&self, append: impl Into<Append>) -> Timestamp {
        match self.append(append) {
            Appended::Committed { at } => at,
            other => panic!("the frame did not go in: {other:?}"),
        }
    }

    /// Appends a batch of frames that must all be inserted.
    pub fn commit_all(&self, batch: &[Append]) {
        for outcome in self.append_all(batch) {
            assert!(matches!(outcome, Appended::Committed { .. }), "{outcome:?}");
        }
    }

    /// Claims everything that `instance` can get.
    pub fn claim(&self, instance: InstanceId) -> Claims {
        self.claim_as(&claim_request(instance))
    }

    pub fn claim_as(&self, request: &ClaimRequest) -> Claims {
        self.store().claim(request).expect("the claim is answered")
    }

    /// The hand of `instance` after it has claimed at least one execution, for the first.
    pub fn take(&self, instance: InstanceId, why: &str) -> Hand {
        Hand::of(self.claim(instance).claimed.first().expect(why))
    }

    /// The executions that `instance` gets when it claims.
    pub fn claimed(&self, instance: InstanceId) -> Vec<ExecutionNo> {
        executions(&self.claim(instance))
    }

    pub fn load(&self, execution: ExecutionNo) -> History {
        let history = self.store().load(execution).expect("the load is answered");
        history.expect("the execution is known")
    }

    pub fn control(&self, execution: ExecutionNo) -> Control {
        self.load(execution).control.expect("the execution has a control row")
    }

    pub fn list(&self, request: &ListRequest) -> ExecutionPage {
        self.store().list(request).expect("the list is answered")
    }

    /// Stores a definition as the current version of its workflow.
    pub fn define(&self, name: &str, canonical: &str) -> Defined {
        self.store().define(&new_definition(name, canonical)).expect("the definition is kept")
    }

    /// Everything that is stored of an execution.
    pub fn examine(&self, execution: ExecutionNo) -> Examined {
        let mut examined = self.store().examine(&[execution]).expect("it is examined");
        examined.pop().expect("the execution is known")
    }

    /// Repairs an execution as it was examined; returns whether it was still the same.
    pub fn repair(&self, repair: &Repair) -> bool {
        self.store().repair(repair).expect("it is answered")
    }

    pub fn deliver(&self, mail: Mail) -> MailDelivery {
        let mut deliveries = self.store().deliver(&[mail]).expect("the mail is answered");
        deliveries.pop().expect("one piece of mail has one answer")
    }

    /// Sends one piece of mail that must be accepted.
    pub fn send(&self, execution: ExecutionNo, message: &str, body: impl Into<MailBody>) {
        let delivery = self.deliver(mail(execution, message, body));
        assert!(matches!(delivery, MailDelivery::Accepted { .. }), "{message}: {delivery:?}");
    }
}

/// A heartbeat that renews the lease, and reserves no numbers.
pub fn heartbeat(instance: InstanceId) -> Heartbeat {
    let about = About::default();
    Heartbeat { instance, numbers: 0, fold: FOLD, lease: Some(LEASE), about }
}

/// A claim of everything that is claimable now, one suspect included.
pub fn claim_request(instance: InstanceId) -> ClaimRequest {
    ClaimRequest {
        instance,
        fold: FOLD,
        limit: 100,
        share: Share::ALL,
        only: None,
        held: None,
        suspects: true,
        ahead: Millis(0),
    }
}

/// The executions of a claim, in its order.
pub fn executions(claims: &Claims) -> Vec<ExecutionNo> {
    claims.claimed.iter().map(|history| history.execution).collect()
}

pub fn mail(execution: ExecutionNo, message: &str, body: impl Into<MailBody>) -> Mail {
    Mail { execution, message: message.into(), actor: None, body: body.into(), blobs: Vec::new() }
}

/// A definition that is to become the current version of its workflow.
pub fn new_definition(name: &str, canonical: &str) -> NewDefinition {
    let hash = DefinitionHash::of(canonical.as_bytes());
    NewDefinition {
        name: name.into(),
        hash,
        canonical: canonical.into(),
        make_current: true,
        triggers: Vec::new(),
        paused: false,
    }
}

/// A repair of an execution that was just examined.
pub fn repair_of(examined: &Examined, remedy: Remedy) -> Repair {
    let last = examined.history.last_header().map(FrameHeader::as_parent);
    let seen = examined.history.control.clone();
    Repair { execution: examined.history.execution, last, seen, remedy }
}

/// A signal without much in it.
pub fn signal() -> Request {
    Request::Signal { name: "go".into(), body: Json::null() }
}
