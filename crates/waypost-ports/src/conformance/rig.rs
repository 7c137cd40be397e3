//! Shared by the cases: a store under a clock that they set, and hands that write frames.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent, Origin, PauseReason, RunCreated, RunEvent, Wait};
use waypost_core::frame::{FrameHeader, Parent, encode};
use waypost_core::id::{AppendId, DefinitionHash, ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::permits::PermitRequest;
use waypost_core::time::{Millis, Timestamp};

use super::StoreUnderTest;
use crate::clock::{Clock, ManualClock};
use crate::inspect::{Examined, Inspect, Remedy, Repair};
use crate::query::{ExecutionPage, ListRequest, Query};
use crate::store::{
    About, Append, Appended, ClaimRequest, Claims, Control, ControlChange, Defined, Heartbeat,
    History, LEASE, Mail, MailBody, MailDelivery, NewDefinition, Renewal, Settled, Side, Store,
    Submission,
};

/// When every case begins.
pub const START: Timestamp = Timestamp(1_000_000);

/// The log format that instances read, unless a case chooses another.
pub const FOLD: u16 = 1;

/// The instance of cases that need only one. Reserving a number for an execution announces it.
pub const ONE: InstanceId = InstanceId(Uuid::from_u128(1));

/// A store under test.
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

    /// The store.
    pub fn store(&self) -> &B::Store {
        self.store.as_ref().expect("the store is open between the calls of a rig")
    }

    /// Closes the store and opens it again.
    pub fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(self.backend.open(self.clock.clone()));
    }

    /// Waits until lists show everything.
    pub fn settle(&self) {
        self.backend.settle(self.store());
    }

    /// Lets time pass.
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

    /// Numbers for new executions.
    pub fn numbers(&self, instance: InstanceId, count: u32) -> Vec<ExecutionNo> {
        let renewal = self.beat(&Heartbeat { numbers: count, ..heartbeat(instance) });
        renewal.numbers.map(ExecutionNo).collect()
    }

    /// A number for a new execution.
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

    /// Starts an execution and parks it.
    pub fn park(&self, instance: InstanceId, next_due: Option<Timestamp>) -> Hand {
        let mut hand = self.start(instance);
        self.commit(hand.next(1).control(ControlChange::Parked { next_due }));
        hand
    }

    /// Appends one frame.
    pub fn append(&self, append: impl Into<Append>) -> Appended {
        let mut outcomes = self.append_all(&[append.into()]);
        outcomes.pop().expect("one frame has one outcome")
    }

    /// Appends a batch.
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

    /// Claims by this request.
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

    /// Everything that is known of an execution.
    pub fn load(&self, execution: ExecutionNo) -> History {
        let history = self.store().load(execution).expect("the load is answered");
        history.expect("the execution is known")
    }

    /// Its control row.
    pub fn control(&self, execution: ExecutionNo) -> Control {
        self.load(execution).control.expect("the execution has a control row")
    }

    /// A page of executions.
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

    /// Sends one piece of mail.
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

/// A piece of mail.
pub fn mail(execution: ExecutionNo, message: &str, body: impl Into<MailBody>) -> Mail {
    Mail { execution, message: message.into(), actor: None, body: body.into() }
}

/// A definition that is to become the current version of its workflow.
pub fn new_definition(name: &str, canonical: &str) -> NewDefinition {
    let hash = DefinitionHash::of(canonical.as_bytes());
    NewDefinition { name: name.into(), hash, canonical: canonical.into(), make_current: true }
}

/// A repair of an execution that was just examined.
pub fn repair_of(examined: &Examined, remedy: Remedy) -> Repair {
    let last = examined.history.frames.last().map(|frame| frame.header.as_parent());
    let seen = examined.history.control.clone();
    Repair { execution: examined.history.execution, last, seen, remedy }
}

/// A signal without much in it.
pub fn signal() -> Request {
    Request::Signal { name: "go".into(), body: Json::null() }
}

/// Writes frames for one execution in the belief that it owns it. A clone is a future zombie: it
/// continues from the same frame.
#[derive(Clone)]
pub struct Hand {
    pub execution: ExecutionNo,
    /// The writing instance.
    pub instance: InstanceId,
    pub epoch: u32,
    /// The frame that it believes to be the last.
    pub parent: Option<Parent>,
    /// The seq that comes next.
    pub next_seq: u64,
    /// When it decides.
    pub now: Timestamp,
}

static APPEND_IDS: AtomicU64 = AtomicU64::new(1);

impl Hand {
    /// At the beginning of an execution.
    pub fn new(execution: ExecutionNo, instance: InstanceId) -> Self {
        Self { execution, instance, epoch: 1, parent: None, next_seq: 1, now: START }
    }

    /// The hand of the instance that claimed this execution.
    pub fn of(history: &History) -> Self {
        let control = history.control.as_ref().expect("what was claimed has a control row");
        let last = history.frames.last().expect("what was claimed has frames").header;
        Self {
            execution: history.execution,
            instance: control.owner.expect("what was claimed has an owner"),
            epoch: control.epoch,
            parent: Some(last.as_parent()),
            next_seq: last.last_seq + 1,
            now: START,
        }
    }

    /// A frame of so many events that it could append now.
    pub fn frame(&self, events: u64) -> Draft {
        let append_id = APPEND_IDS.fetch_add(1, Ordering::Relaxed);
        let header = FrameHeader {
            execution: self.execution,
            first_seq: self.next_seq,
            last_seq: self.next_seq + events - 1,
            append_id: AppendId(Uuid::from_u128(u128::from(append_id))),
            parent: self.parent,
            instance: self.instance,
            epoch: self.epoch,
            decided_at: self.now,
            requires: FOLD,
        };
        Draft(Append { header, body: b"[]".to_vec(), side: Side::default() })
    }

    /// As `frame`, and continues from it without waiting for the answer.
    pub fn next(&mut self, events: u64) -> Draft {
        let draft = self.frame(events);
        self.parent = Some(draft.0.header.as_parent());
        self.next_seq = draft.0.header.last_seq + 1;
        draft
    }

    /// A frame of these events; continues from it.
    pub fn write(&mut self, events: &[Event]) -> Draft {
        let mut draft = self.next(events.len() as u64);
        draft.0.body = encode(events);
        draft
    }

    /// The first frame of an execution of this key, with its names.
    pub fn create(&mut self, key: &str, workflow: &str) -> Draft {
        self.create_as(created(key, workflow))
    }

    /// As `create`, with this first event.
    pub fn create_as(&mut self, run: RunCreated) -> Draft {
        let submission = Submission { key: run.key.clone(), idempotency: None };
        let owned = Event::Run(RunEvent::Owned { instance: self.instance, epoch: self.epoch });
        let draft = self.write(&[Event::Run(RunEvent::Created(Box::new(run))), owned]);
        draft.control(ControlChange::Owned).submission(submission)
    }
}

/// A minimal first event of an execution.
pub fn created(key: &str, workflow: &str) -> RunCreated {
    RunCreated {
        key: ExecutionId(key.into()),
        workflow: workflow.into(),
        version: 1,
        definition: DefinitionHash::of(workflow.as_bytes()),
        input: Json::null(),
        labels: BTreeMap::new(),
        deadline: None,
        origin: Origin::default(),
    }
}

/// The first attempt of a node starts.
pub fn started(node: &str) -> Event {
    Event::Node(NodeEvent::Started {
        node: node.into(),
        attempt: 1,
        worker: Some(ONE),
        remote: None,
        token: None,
        due: None,
    })
}

/// A node starts and waits for 900 ms from [`START`] on, and its execution with it.
pub fn delayed(node: &str) -> [Event; 3] {
    let wait = Wait::Delay { due: Timestamp(START.0 + 900) };
    let waiting = NodeEvent::Waiting { node: node.into(), attempt: 1, wait, span: None };
    let paused = RunEvent::Paused { reason: PauseReason::Waits };
    [started(node), Event::Node(waiting), Event::Run(paused)]
}

/// A frame that is being put together.
#[derive(Clone)]
pub struct Draft(pub Append);

impl Draft {
    /// With a change of the control row.
    #[must_use]
    pub fn control(mut self, change: ControlChange) -> Self {
        self.0.side.control = Some(change);
        self
    }

    /// With names.
    #[must_use]
    pub fn submission(mut self, submission: Submission) -> Self {
        self.0.side.submission = Some(submission);
        self
    }

    /// With mail that it consumes.
    #[must_use]
    pub fn consuming(mut self, messages: &[&str]) -> Self {
        self.0.side.consumed = messages.iter().map(|&message| message.into()).collect();
        self
    }

    /// Adds what it proves of an execution that was in hand at a death.
    #[must_use]
    pub fn settled(mut self, settled: Settled) -> Self {
        self.0.side.settled = Some(settled);
        self
    }

    /// With a place in the queue of a concurrency key.
    #[must_use]
    pub fn permit(mut self, request: PermitRequest) -> Self {
        self.0.side.permit = Some(request);
        self
    }

    /// With a snapshot.
    #[must_use]
    pub fn snapshot(mut self, body: &[u8]) -> Self {
        self.0.side.snapshot = Some(body.to_vec());
        self
    }
}

impl From<Draft> for Append {
    fn from(draft: Draft) -> Self {
        draft.0
    }
}
