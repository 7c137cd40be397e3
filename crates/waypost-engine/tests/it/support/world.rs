//! What drivers share: the store, the clock, and the outside world that handlers act on.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::command::Outcome;
use waypost_core::event::{Event, NodeEvent};
use waypost_core::failure::Failure;
use waypost_core::flow;
use waypost_core::frame::decode;
use waypost_core::id::{DefinitionHash, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};
use waypost_engine::check::{CheckOptions, check};
use waypost_engine::driver::TaskOrder;
use waypost_engine::{Plans, fold};
use waypost_ports::clock::{Clock, ManualClock};
use waypost_ports::memory::MemoryStore;
use waypost_ports::store::{Append, Appended, Control, LEASE, LogReader, NewDefinition, Store};

/// A moment in 2026: tests that print times stay readable.
pub(crate) const START: Timestamp = Timestamp(1_780_000_000_000);

type Calls = BTreeMap<(ExecutionNo, Arc<str>), (u32, String)>;

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: MemoryStore,
    pub(crate) plans: Plans,
    /// Calls of each node's handler: how many, and under which idempotency key.
    calls: RefCell<Calls>,
    instances: Cell<u128>,
    /// Executions whose first frame went in.
    executions: RefCell<BTreeSet<ExecutionNo>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        Self {
            store: MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            plans: Plans::new(Box::new(flow::compile)),
            calls: RefCell::default(),
            instances: Cell::new(0),
            executions: RefCell::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.advance(Millis(ms));
    }

    /// Longer than any lease: an instance that did not renew it is dead.
    pub(crate) fn outlive_leases(&self) {
        self.pass(LEASE.0 + 1);
    }

    pub(crate) fn new_instance(&self) -> InstanceId {
        self.instances.set(self.instances.get() + 1);
        InstanceId(Uuid::from_u128(self.instances.get()))
    }

    /// Stores a definition in the language of `waypost_core::flow`, and compiles it.
    pub(crate) fn flow(&self, text: &str) -> Arc<Plan> {
        self.named("flow", text)
    }

    /// As `flow`, under another name.
    pub(crate) fn named(&self, name: &str, text: &str) -> Arc<Plan> {
        let hash = DefinitionHash::of(text.as_bytes());
        let definition = NewDefinition {
            name: name.into(),
            hash,
            canonical: text.into(),
            make_current: true,
            triggers: Vec::new(),
            paused: false,
        };
        self.store.define(&definition).unwrap();
        self.plans.get(hash, &self.store).unwrap()
    }

    /// Runs a handler: what happens in the outside world, and what its worker will report.
    ///
    /// Nodes called `flaky…` fail in their first two calls, `bad…` always, `panics…` are lost.
    pub(crate) fn call(&self, order: &TaskOrder, caller: InstanceId) -> Outcome {
        let (execution, task) = (order.execution, &order.task);
        self.check_call(order, caller);
        let key = (execution, Arc::clone(&task.path));
        let mut calls = self.calls.borrow_mut();
        let (count, idempotency_key) =
            calls.entry(key).or_insert_with(|| (0, task.idempotency_key.clone()));
        let again = self.names(execution).contains(&"RunReopened");
        let same = *idempotency_key == task.idempotency_key;
        assert!(same || again, "the key of {} changed within a generation", task.path);
        *count += 1;
        match &*task.path {
            path if path.starts_with("flaky") && *count <= 2 => {
                Outcome::Failed(Failure::transient("flaky", "not yet"))
            }
            path if path.starts_with("bad") => Outcome::Failed(Failure::permanent("bad", "never")),
            path if path.starts_with("panics") => {
                Outcome::Lost(Failure::transient("panic", "the handler panicked"))
            }
            path => Outcome::Completed(Json::parse(&format!("{path:?}")).unwrap()),
        }
    }

    /// Nothing leaves before the commit that records it; and while its caller owns the execution,
    /// a completed node is never called again. (An instance that lost the execution and does not
    /// know it yet may call again: under the same key.)
    fn check_call(&self, order: &TaskOrder, caller: InstanceId) {
        let events = self.events(order.execution);
        let started = |event: &Event| matches!(event, Event::Node(NodeEvent::Started { token: Some(token), .. }) if *token == order.task.token);
        assert!(events.iter().any(started), "{} runs before its start is durable", order.task.path);
        let completed = |event: &Event| matches!(event, Event::Node(NodeEvent::Completed { node, .. }) if *node == order.task.path);
        if self.control(order.execution).is_some_and(|control| control.owner == Some(caller)) {
            assert!(!events.iter().any(completed), "{} is completed already", order.task.path);
        }
    }

    /// How often a node's handler was called.
    pub(crate) fn calls(&self, execution: ExecutionNo, node: &str) -> u32 {
        self.calls.borrow().get(&(execution, node.into())).map_or(0, |(count, _)| *count)
    }

    /// The whole log of an execution.
    pub(crate) fn events(&self, execution: ExecutionNo) -> Vec<Event> {
        let frames = LogReader::whole(&self.store, execution).map(Result::unwrap);
        frames.flat_map(|frame| decode(frame.body.as_ref().unwrap()).unwrap()).collect()
    }

    /// The names of its events, to compare with.
    pub(crate) fn names(&self, execution: ExecutionNo) -> Vec<&'static str> {
        self.events(execution).iter().map(Event::name).collect()
    }

    pub(crate) fn frames(&self, execution: ExecutionNo) -> usize {
        LogReader::whole(&self.store, execution).count()
    }

    pub(crate) fn control(&self, execution: ExecutionNo) -> Option<Control> {
        self.store.load(execution).unwrap().and_then(|history| history.control)
    }

    pub(crate) fn state(&self, execution: ExecutionNo) -> State {
        let history = self.store.load(execution).unwrap().unwrap();
        fold(history, &self.plans, &self.store).unwrap().state
    }

    pub(crate) fn status(&self, execution: ExecutionNo) -> Status {
        self.state(execution).status
    }

    /// Appends a frame, as the store does it.
    pub(crate) fn append(&self, append: &Append) -> Appended {
        let appended = self.store.append(std::slice::from_ref(append)).unwrap().remove(0);
        if matches!(appended, Appended::Committed { .. }) {
            let births = append.side.births.iter().map(|birth| birth.header.execution);
            self.executions.borrow_mut().extend(births.chain([append.header.execution]));
        }
        appended
    }

    /// Every execution there is.
    pub(crate) fn executions(&self) -> Vec<ExecutionNo> {
        self.executions.borrow().iter().copied().collect()
    }

    /// The first execution that has not ended.
    pub(crate) fn first_open(&self) -> Option<ExecutionNo> {
        self.executions().into_iter().find(|id| self.control(*id).is_some())
    }

    /// Checks the invariants of every log and of what stands beside it.
    pub(crate) fn check(&self) {
        let report = check(&self.store, &self.plans, &CheckOptions::default(), &|_| {}).unwrap();
        let lines: Vec<String> =
            report.findings.iter().map(|finding| finding.violation.to_string()).collect();
        assert!(lines.is_empty(), "{lines:#?}");
        assert!(report.tally.executions >= self.executions.borrow().len() as u64);
    }
}
