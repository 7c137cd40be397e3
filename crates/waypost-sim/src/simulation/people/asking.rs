//! Requests of people to executions: which, when, and through which process.

use std::collections::BTreeSet;

use waypost_core::command::Request;
use waypost_core::event::Wait;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::limits::SIGNAL_KEEP_MAX;
use waypost_core::published::{PublishedSignal, keyed_name, split_name};
use waypost_core::status::{NodeStatus, Status};
use waypost_engine::driver::{ControlRequest, Input};

use super::{Asked, Simulation, WorldEvent};
use crate::fault::Fault;
use crate::model::{Resumption, SentSignal};
use crate::process::Life;
use crate::program::Signal;

impl Simulation {
    /// A bad moment for an execution to get a request: people may choose it.
    pub(in crate::simulation) fn tempt(&mut self, execution: ExecutionNo) {
        if !self.faults_over && self.people.random.percent(50) {
            let soon = self.people.random.below(30);
            self.after(soon, WorldEvent::Request(Some(execution)));
        }
    }

    /// A process keeps something back until its lease is renewed: a bad moment to have it stopped.
    pub(in crate::simulation) fn interrupt_delayed(&mut self, life: Life) {
        let owner = self.instance_of(life);
        for execution in self.open_executions() {
            let state = self.auditor.state(execution);
            let owned = owner.is_some() && state.is_some_and(|state| state.owner == owner);
            if owned && !self.faults_over && self.store.strikes(Fault::Pauses) {
                self.people.done_to.entry(execution).or_default().pause = true;
                let pause =
                    ControlRequest::new(execution, Request::Pause { now: true, reason: None });
                self.ask_at(life, pause, None);
            }
        }
    }

    /// A user who sees a quarantined execution may release it at once.
    pub(in crate::simulation) fn release(&mut self, execution: ExecutionNo) {
        if !self.faults_over {
            self.ask(execution, Request::Resume { reason: None }, None);
        }
    }

    pub(in crate::simulation) fn request(&mut self, of: Option<ExecutionNo>) {
        if self.faults_over {
            return;
        }
        let executions = self.store.with(|tables, _| tables.executions());
        let execution = match of {
            Some(execution) => execution,
            None => {
                let next = self.people.random.between(200, 4_000);
                self.after(next, WorldEvent::Request(None));
                if executions.is_empty() {
                    return;
                }
                *self.people.random.pick(&executions)
            }
        };
        if self.store.strikes(Fault::Signals) {
            let signal = *self.people.random.pick(&Signal::PLAIN);
            let ping = self.people.pings.percent(30);
            let signal = if ping { Signal::Ping } else { signal };
            let ok = self.people.random.percent(70);
            self.signal(execution, signal, ok);
        }
        if self.store.strikes(Fault::Resumptions) {
            self.end_wait(execution);
        }
        if self.store.strikes(Fault::Pauses) {
            let body = match self.people.random.below(5) {
                0 | 1 => Request::Pause { now: false, reason: None },
                2 => Request::Pause { now: true, reason: None },
                _ => Request::Resume { reason: None },
            };
            self.ask(execution, body, None);
        }
        if self.store.strikes(Fault::Cancels) && self.people.random.percent(40) {
            self.ask(execution, Request::Cancel { reason: None }, None);
        }
        self.retry_ended(execution);
        self.may_pay(execution);
    }

    /// A user retries an execution that has ended: with a message id or without, twice, and at two
    /// instances at once.
    fn retry_ended(&mut self, execution: ExecutionNo) {
        let ended = self.auditor.state(execution).is_some_and(|state| state.status.is_end());
        let random = &mut self.people.retries;
        if !ended || !self.store.inner().weather.strikes_apart(Fault::Retries, random) {
            return;
        }
        let mut request =
            ControlRequest::new(execution, Request::Retry { reason: None, budget: None });
        if random.percent(50) {
            self.people.serials += 1;
            request.origin.message = Some(format!("ask_{:08}", self.people.serials).into());
        }
        let (at_once, later) = (random.percent(30), random.below(20_000));
        if at_once {
            self.ask_an_instance(request.clone(), None);
        }
        if request.origin.message.is_some() {
            self.after(later, WorldEvent::Repeat(request.clone(), None));
        }
        self.ask_an_instance(request, None);
    }

    /// A retry that was done is in the log: as another generation, with its message id.
    pub(super) fn check_retried(&mut self, request: &ControlRequest) {
        let ControlRequest { execution, request: Request::Retry { .. }, origin } = request else {
            return;
        };
        let state = self.auditor.state(*execution);
        let reopened = state.is_some_and(|state| state.generation > 1);
        let message = origin.message.as_deref();
        let named = message.is_none_or(|message| self.holds_message(*execution, message));
        if self.failovers == 0 && !(reopened && named) {
            let what =
                format!("a retry of x{} ({message:?}) was done and is not durable", execution.0);
            self.fail("ack", what);
        }
    }

    pub(super) fn signal(&mut self, execution: ExecutionNo, signal: Signal, ok: bool) {
        self.people.serials += 1;
        let serial = self.people.serials;
        let body = signal.body(serial, ok);
        let sent = SentSignal { name: signal.name().to_owned(), body: body.clone() };
        self.people.done_to.entry(execution).or_default().signals.push(sent);
        if signal == Signal::Ping {
            return self.publish(execution, serial, &Json::from_value(&body));
        }
        let body = Request::Signal { name: signal.name().into(), body: Json::from_value(&body) };
        self.ask(execution, body, Some(serial));
    }

    /// Publishes a signal for an execution, by a process that may die before it has looked who waits for it.
    fn publish(&mut self, execution: ExecutionNo, serial: u64, body: &Json) {
        let Some(key) = self.auditor.state(execution).map(|state| state.created.key.clone()) else {
            return;
        };
        if self.store.check(true).is_err() {
            return;
        }
        let Ok(name) = keyed_name(Signal::Ping.name(), key.as_str()) else { return };
        let message = format!("ping_{serial:08}").into();
        let (body, keep) = (body.clone(), SIGNAL_KEEP_MAX);
        let signal = PublishedSignal { name, message, body, keep };
        let looks = self.people.pings.percent(60);
        self.note("publish", &[serial], || format!("{} looks: {looks}", signal.name));
        self.store.with(|tables, now| {
            tables.keep_published(&signal, now);
            if looks {
                tables.route(&signal.name, now);
            }
        });
    }

    /// A user completes a wait by hand: one that is open, or was.
    fn end_wait(&mut self, execution: ExecutionNo) {
        let Some(state) = self.auditor.state(execution) else { return };
        let mut waits: Vec<u64> = state.nodes().map(|(_, node)| node.wait_seq).collect();
        waits.retain(|wait| *wait > 0);
        let other = self.people.random.between(1, state.seq + 1);
        if waits.is_empty() || self.people.random.percent(10) {
            waits = vec![other];
        }
        let wait = *self.people.random.pick(&waits);
        self.people.serials += 1;
        let body = Signal::Approval.body(self.people.serials, self.people.random.percent(50));
        let asked = Resumption { wait, body: body.clone() };
        self.people.done_to.entry(execution).or_default().resumptions.push(asked);
        self.ask(execution, Request::CompleteWait { wait, body: Json::from_value(&body) }, None);
    }

    pub(in crate::simulation) fn ask(
        &mut self,
        execution: ExecutionNo,
        request: Request,
        serial: Option<u64>,
    ) {
        let done = self.people.done_to.entry(execution).or_default();
        match &request {
            Request::Cancel { .. } => done.cancel = true,
            Request::Pause { .. } | Request::Resume { .. } => done.pause = true,
            _ => {}
        }
        let mut request = ControlRequest::new(execution, request);
        if self.store.strikes(Fault::DoubleRequest) {
            self.people.serials += 1;
            request.origin.message = Some(format!("ask_{:08}", self.people.serials).into());
            let later = self.people.random.below(3_000);
            self.after(later, WorldEvent::Repeat(request.clone(), serial));
        }
        self.ask_an_instance(request, serial);
    }

    pub(in crate::simulation) fn ask_an_instance(
        &mut self,
        request: ControlRequest,
        serial: Option<u64>,
    ) {
        if let Some(life) = self.any_process() {
            self.ask_at(life, request, serial);
        }
    }

    /// Asks this process; a payload that cannot be kept is refused.
    fn ask_at(&mut self, life: Life, mut request: ControlRequest, serial: Option<u64>) {
        if let Some(payload) = request.request.payload_mut() {
            let Some(kept) = self.keep(Some(life), payload) else { return };
            *payload = kept;
        }
        let ControlRequest { execution, request: asked, origin } = &request;
        self.note("ask", &[life.into(), u64::try_from(execution.0).unwrap_or(0)], || {
            let message = origin.message.as_ref().map(|message| format!(", {message}"));
            format!("p{life} x{}: {asked:?}{}", execution.0, message.unwrap_or_default())
        });
        let asked = Asked::Request { request: Box::new(request.clone()), serial };
        let ticket = self.people.ask(life, asked);
        self.inputs(life, vec![Input::Request { request, ticket }]);
    }

    /// A signal by key gets to the wait for it, also if a process died in between.
    fn check_routed(&mut self) {
        let now = self.store.with(|tables, now| tables.unrouted(now));
        if let Some(name) = now.intersection(&self.people.unrouted).next() {
            self.fail("signal.routed", format!("{name} waits, and a wait for it is open"));
        }
        self.people.unrouted = now;
    }

    /// After the faults: held executions are released, and those that wait for a signal get it.
    pub(in crate::simulation) fn care(&mut self) {
        self.after(7_000, WorldEvent::Care);
        self.check_open();
        self.check_routed();
        let open: BTreeSet<ExecutionNo> = self.open_executions().into_iter().collect();
        for execution in open {
            if self.is_killer_aside(execution) {
                continue; // a person who looks at it finds that it would kill again
            }
            self.raise_exhausted(execution);
            let Some(state) = self.auditor.state(execution) else { continue };
            let held = self.store.with(|tables, _| tables.load(execution));
            let held = held.and_then(|history| history.control).and_then(|row| row.held);
            // No help for a queued execution: its turn comes by itself.
            let in_queue = state.status == Status::Scheduling && held == state.held_for();
            let held = held.is_some() && !in_queue;
            if held || state.pausing || state.quarantine.is_some() {
                self.ask(execution, Request::Resume { reason: None }, None);
                continue;
            }
            self.release_maps(execution);
            self.care_for_approvals(execution);
            self.care_for_operations(execution);
            self.check_breaker_waits(execution);
            let Some(state) = self.auditor.state(execution) else { continue };
            let waits = |signal: &&Signal| {
                state.nodes().any(|(_, node)| {
                    let is_it = |name: &str| split_name(name).0 == signal.name();
                    node.status == NodeStatus::Waiting
                        && match &node.wait {
                            Some(Wait::Signal { name, .. }) => is_it(name),
                            Some(Wait::Signals { names, .. }) => {
                                let places = names.iter().zip(&node.arrived);
                                places.into_iter().any(|(name, came)| came.is_none() && is_it(name))
                            }
                            _ => false,
                        }
                })
            };
            let wanted: Vec<Signal> = Signal::ALL.iter().filter(waits).copied().collect();
            for signal in wanted {
                self.signal(execution, signal, true);
            }
        }
    }
}
