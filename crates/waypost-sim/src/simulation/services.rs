//! Outside services: they do the operations that nodes start, and call back: before the node waits, while it
//! does, at the moment of expiry, twice, with another body, with a forged token, late, or never.
//!
//! The first callback that is recorded counts, and no other one is; it ends the wait for it; and no operation
//! outlives its time.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use waypost_core::callback::{Callback, CallbackOutcome, OperationRef};
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{Event as LogEvent, MessageId, NodeEvent, RunEvent, Wait};
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::state::State;
use waypost_core::status::NodeStatus;
use waypost_engine::driver::{Answer, ControlRequest};
use waypost_engine::links::{CallbackLinks, Link, LinkPurpose};

use super::{Simulation, WorldEvent};
use crate::clock::START;
use crate::fault::Fault;
use crate::model::{Resumption, SentCallback};
use crate::process::CLUSTER_KEY;
use crate::random::Random;

/// How much later than due an operation expires, once the faults are over.
const LATE_MS: u64 = 60_000;
/// What the names of the signals begin with that record callbacks.
const CALLBACK: &str = "waypost/callback";

/// The services, with a stream of their own.
pub(super) struct Services {
    random: Random,
    links: CallbackLinks,
    /// The callbacks with genuine tokens.
    pub(super) sent: BTreeMap<ExecutionNo, Vec<SentCallback>>,
    serials: u64,
    /// When it was first looked after the faults.
    calm_since: Option<u64>,
}

/// A callback that a service is about to make.
#[derive(Clone, Debug)]
pub struct OutgoingCallback {
    execution: ExecutionNo,
    token: String,
    outcome: CallbackOutcome,
}

impl Services {
    pub(super) fn new(seed: &Random) -> Self {
        Self {
            random: seed.split("services"),
            links: CallbackLinks::new(&CLUSTER_KEY, None),
            sent: BTreeMap::new(),
            serials: 0,
            calm_since: None,
        }
    }

    /// The token of an operation, as workers put it into the config of its start.
    pub(super) fn token(&self, execution: &ExecutionId, of: &OperationRef) -> String {
        self.links.token(execution, of)
    }

    /// A token that no instance made: of another cluster, for another purpose, or damaged.
    fn forge(&mut self, token: &str) -> String {
        let links = &self.links.links;
        let Ok(link) = links.verify(LinkPurpose::Callback, token, START) else {
            return String::new();
        };
        match self.random.below(3) {
            0 => links.issue(LinkPurpose::Approval, &link),
            1 => {
                let of = OperationRef { node: link.node, operation: link.subject };
                CallbackLinks::new(&[7; 32], None).token(&link.execution, &of)
            }
            _ => {
                let mut bytes = token.to_owned().into_bytes();
                let at = self.random.index(bytes.len());
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                String::from_utf8(bytes).unwrap_or_default()
            }
        }
    }
}

/// The operations that wait, and the callbacks that came, by the logs alone.
#[derive(Default)]
pub(super) struct OpenOperations {
    /// By execution and node: the operation whose callback it waits for.
    waits: BTreeMap<(ExecutionNo, Arc<str>), Arc<str>>,
    /// By execution and operation: the message of its callback.
    received: BTreeMap<(ExecutionNo, Arc<str>), MessageId>,
}

impl OpenOperations {
    /// Reads a frame; returns the first violation.
    pub(super) fn read(
        &mut self,
        execution: ExecutionNo,
        events: &[LogEvent],
        genuine: impl Fn(&str, &Json) -> bool,
    ) -> Option<String> {
        events.iter().find_map(|event| match event {
            LogEvent::Run(RunEvent::SignalReceived { name, body, origin })
                if name.starts_with(CALLBACK) =>
            {
                if !genuine(name, body) {
                    return Some(format!("no service calls back like {name}: {body}"));
                }
                let operation = name.split_once(':').map_or("", |(_, operation)| operation);
                let message = origin.message.clone().unwrap_or_default();
                let before = self.received.insert((execution, operation.into()), message);
                before.map(|_| format!("{operation} takes a second callback"))
            }
            LogEvent::Node(event) => self.read_node(execution, event),
            LogEvent::Run(_) => None,
        })
    }

    fn read_node(&mut self, execution: ExecutionNo, event: &NodeEvent) -> Option<String> {
        let key = (execution, Arc::clone(event.node()));
        if let NodeEvent::Waiting { wait: Wait::Callback { operation, .. }, .. } = event {
            self.waits.insert(key, Arc::clone(operation));
            return None;
        }
        let operation = self.waits.remove(&key)?;
        let came = self.received.get(&(execution, Arc::clone(&operation)))?;
        let counts = match event {
            NodeEvent::Resumed { message, origin, .. } => {
                message.as_ref() == Some(came) || origin.message.is_some()
            }
            NodeEvent::Cancelled { .. } => true,
            _ => false,
        };
        (!counts).then(|| format!("{operation} was called back, and ends by {}", event.row().name))
    }
}

impl Simulation {
    /// A service gets a call that starts an operation, maybe not for the first time.
    pub(super) fn start_operation(&mut self, execution: ExecutionNo, token: &str) {
        let timeouts = self.operation_timeouts(execution);
        let (mut inner, random) = (self.store.inner(), &mut self.services.random);
        let strikes = (0..4).any(|_| inner.weather.strikes_apart(Fault::Callbacks, random));
        drop(inner);
        let count = match strikes {
            true => random.between(1, 3),
            // Or never.
            false => u64::from(random.percent(60)),
        };
        for _ in 0..count {
            let random = &mut self.services.random;
            let outcome = match random.percent(25) {
                true => CallbackOutcome::Failed,
                false => CallbackOutcome::Completed,
            };
            let after = match random.below(10) {
                // Before the start is answered.
                0..=1 => random.below(30),
                // At the moment of expiry, a little before it or after; or long after it.
                2..=5 if !timeouts.is_empty() => {
                    let late = if random.percent(50) { 10_000 } else { 200 };
                    random.pick(&timeouts) + random.below(late)
                }
                _ => random.below(5_000),
            };
            let forged = strikes && random.percent(15);
            let token = if forged { self.services.forge(token) } else { token.to_owned() };
            self.after(after, WorldEvent::CallBack(OutgoingCallback { execution, token, outcome }));
        }
    }

    /// A frame records no callback but the first that a service made, and lets that end the wait for it.
    pub(super) fn check_callbacks(&mut self, execution: ExecutionNo, events: &[LogEvent]) {
        let (sent, blobs) = (self.services.sent.get(&execution), &self.blobs);
        let genuine = |signal: &str, body: &Json| {
            let body = blobs.inline(body).to_value().ok();
            let mut sent = sent.into_iter().flatten();
            sent.any(|sent| sent.signal == signal && Some(&sent.body) == body.as_ref())
        };
        if let Some(what) = self.auditor.operations.read(execution, events, genuine) {
            self.fail("callback.once", format!("x{}: {what}", execution.0));
        }
    }

    /// How long the operations of an execution may take.
    fn operation_timeouts(&self, execution: ExecutionNo) -> Vec<u64> {
        let program = self.program_run_by(execution);
        let nodes = program.iter().flat_map(|program| program.all());
        let timeouts = nodes.filter_map(|node| match &node.kind {
            crate::program::Kind::Operation(operation) => operation.timeout_ms,
            _ => None,
        });
        timeouts.collect()
    }

    /// A service calls back, as the server hands it on: a token that is not genuine gets no further.
    pub(super) fn call_back(&mut self, outgoing: OutgoingCallback) {
        let OutgoingCallback { execution, token, outcome } = outgoing;
        let links = &self.services.links.links;
        let Ok(link) = links.verify(LinkPurpose::Callback, &token, self.truth.now()) else {
            return self.note("forged", &[], || format!("a forged callback to x{}", execution.0));
        };
        let Link { execution: key, node, subject: operation, .. } = link;
        // A failover may have given the number to another execution.
        let is_it = |state: &State| state.created.key == key;
        if !self.auditor.state(execution).is_some_and(is_it) {
            return;
        }
        self.services.serials += 1;
        let serial = 1_000_000 + self.services.serials;
        let body = json!({ "operation": &*operation, "serial": serial });
        let sent = SentCallback {
            signal: outcome.signal(&operation).to_string(),
            failed: outcome == CallbackOutcome::Failed,
            body: body.clone(),
        };
        self.services.sent.entry(execution).or_default().push(sent);
        let of = OperationRef { node, operation };
        let callback = Callback { of, outcome, body: Json::from_value(&body) };
        let message = Some(callback.message());
        let mut request = ControlRequest::new(execution, Request::Callback(Box::new(callback)));
        request.origin.message = message;
        // A service without an answer repeats it.
        let (mut inner, random) = (self.store.inner(), &mut self.services.random);
        let again = inner.weather.strikes_apart(Fault::Callbacks, random);
        drop(inner);
        if again {
            let later = random.below(3_000);
            self.after(later, WorldEvent::Repeat(request.clone(), Some(serial)));
        }
        self.ask_an_instance(request, Some(serial));
    }

    /// The answer to a callback. One that is done is in the log, and so is the first that was received.
    pub(super) fn called_back(
        &mut self,
        request: &ControlRequest,
        serial: Option<u64>,
        answer: &Answer,
    ) {
        let (execution, message) = (request.execution, request.origin.message.clone());
        let (Request::Callback(callback), Some(message)) = (&request.request, message) else {
            return;
        };
        let what = match answer {
            Answer::Done { .. } => {
                let serial = serial.unwrap_or_default();
                (!self.knows_signal(execution, serial)).then_some("done")
            }
            Answer::Refused(Refusal::CallbackReceived(_)) => {
                (!self.log_holds(execution, &callback.of.operation)).then_some("received before")
            }
            Answer::Accepted(message) => {
                self.acknowledged(execution, message.clone(), None);
                None
            }
            Answer::Refused(Refusal::Duplicate) => {
                self.acknowledged(execution, message, None);
                None
            }
            _ => None,
        };
        if let Some(what) = what.filter(|_| self.failovers == 0) {
            let operation = &callback.of.operation;
            let what = format!(
                "a callback for {operation} of x{} was {what}, and the log does not have it",
                execution.0
            );
            self.fail("callback.durable", what);
        }
    }

    /// After the faults: what has a time expires by itself, and services call back for the rest.
    pub(super) fn care_for_operations(&mut self, execution: ExecutionNo) {
        let now = self.ms();
        let calm_since = *self.services.calm_since.get_or_insert(now);
        let Some(log) = self.auditor.logs.get(&execution) else { return };
        let (Some(plan), Some(state)) = (log.check.plan(), log.check.state()) else { return };
        let (mut late, mut calls, mut by_hand) = (None, Vec::new(), Vec::new());
        for (at, node) in state.nodes().filter(|(_, node)| node.status == NodeStatus::Waiting) {
            let Some(Wait::Callback { operation, due }) = &node.wait else { continue };
            let Some(due) = due else {
                let of =
                    OperationRef { node: state.path(plan, at), operation: Arc::clone(operation) };
                // A replica that was behind has lost the start of an operation. Its callback was refused,
                // as of one that is over, and cannot be repeated: a person completes the wait.
                let refused = self.auditor.failed_over && state.messages.contains(&of.message());
                match refused {
                    true => by_hand.push(node.wait_seq),
                    false => calls.push(self.services.token(&state.created.key, &of)),
                }
                continue;
            };
            if state.moves() && now > due.since(START).0.max(calm_since) + LATE_MS {
                late = Some(format!("x{} still waits for {operation}", execution.0));
            }
        }
        if let Some(what) = late {
            return self.fail("callback.in-time", what);
        }
        for token in calls {
            let outcome = CallbackOutcome::Completed;
            self.call_back(OutgoingCallback { execution, token, outcome });
        }
        for wait in by_hand {
            let body = json!({ "wait": wait });
            let asked = Resumption { wait, body: body.clone() };
            self.people.done_to.entry(execution).or_default().resumptions.push(asked);
            let body = Json::from_value(&body);
            self.ask(execution, Request::CompleteWait { wait, body }, None);
        }
    }
}
