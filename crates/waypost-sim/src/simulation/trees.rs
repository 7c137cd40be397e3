//! Trees of executions: the child workflows of a world, and what must be true of an execution and those
//! that it started.
//!
//! With every commit: a child is cancelled when its parent does not need it any more, and not before; an
//! execution that ends has awaited those that it cancelled. In the end: every start and every end that a
//! parent recorded is in the log of the child, and the other way round. That is the check of `waypost check`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use waypost_core::check::Invariant;
use waypost_core::command::Request;
use waypost_core::event::{EndCause, Event as LogEvent, NodeEvent, RunEvent, Wait};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_engine::check::check_examined;
use waypost_engine::driver::ControlRequest;
use waypost_ports::store::{Append, Mail, MailBody, StoredFrame};

use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::program::ChildProgram;

/// The children that an execution waits for, without those that go on after its end.
#[derive(Default)]
pub(super) struct Awaited {
    /// Those that it needs.
    needed: BTreeSet<ExecutionNo>,
    /// Those that it has sent a cancel.
    cancelled: BTreeSet<ExecutionNo>,
    /// Is its own end fixed?
    ending: bool,
}

impl Awaited {
    fn of(state: &State) -> Self {
        let mut awaited = Self { ending: state.status == Status::Ending, ..Self::default() };
        if state.children_open == 0 {
            return awaited;
        }
        for (at, node) in state.nodes() {
            let waits = matches!(node.wait, Some(Wait::Child { .. }));
            let Some(child) = node.child.as_ref().filter(|child| waits && !child.leave) else {
                continue;
            };
            match state.is_ending(at) {
                true => awaited.cancelled.insert(child.execution),
                false => awaited.needed.insert(child.execution),
            };
        }
        awaited
    }
}

impl Simulation {
    /// Defines the child workflows.
    pub(super) fn define_children(&mut self) {
        for child in ChildProgram::ALL {
            let source = child.program().definition_of(child.name());
            let (definition, plan) = super::people::compile(&source);
            self.store.with(|tables, now| tables.define(&definition, now));
            self.plans.keep(plan);
        }
    }

    pub(super) fn awaited(&self, execution: ExecutionNo) -> Awaited {
        self.auditor.state(execution).map(Awaited::of).unwrap_or_default()
    }

    /// A frame was committed: does it cancel the children that it must, and no others?
    pub(super) fn check_cancels(&mut self, append: &Append, before: &Awaited) {
        let execution = append.header.execution;
        let after = self.awaited(execution);
        let sent: BTreeSet<ExecutionNo> =
            append.side.mail.iter().filter(|mail| is_cancel(mail)).map(|m| m.execution).collect();
        let idle = before.needed.is_empty() && before.cancelled.is_empty() && sent.is_empty();
        if idle && after.cancelled.is_empty() {
            return;
        }
        let events = decode(&append.body).unwrap_or_default();
        let begun: BTreeSet<ExecutionNo> = events.iter().filter_map(begun_child).collect();
        let ended: BTreeSet<ExecutionNo> = events.iter().filter_map(ended_child).collect();
        let dropped = before.needed.iter().filter(|child| {
            !after.needed.contains(child)
                && !after.cancelled.contains(child)
                && !ended.contains(child)
        });
        let stopped: BTreeSet<ExecutionNo> =
            dropped.chain(after.cancelled.difference(&before.cancelled)).copied().collect();
        if let Some(child) = stopped.difference(&sent).next() {
            let what =
                format!("x{} needs x{} no more, and does not cancel it", execution.0, child.0);
            return self.fail("tree", what);
        }
        // One whose body is ending may be cancelled again when the execution ends. The end of another may be
        // in the mail that is read after what ends its parent.
        let crossed = events.iter().skip_while(|event| !is_ending(event));
        let crossed: BTreeSet<ExecutionNo> = crossed.filter_map(ended_child).collect();
        let expected = |child: &&ExecutionNo| {
            let known = before.cancelled.contains(child) || crossed.contains(child);
            stopped.contains(child) || begun.contains(child) || known
        };
        let wrong = sent.iter().find(|child| !expected(child));
        if let Some(child) = wrong {
            let what = format!("x{} cancels x{}, and needs it", execution.0, child.0);
            return self.fail("tree", what);
        }
        let forced = self.people.done_to.get(&execution).is_some_and(|done| done.forced);
        let over = before.ending && events.iter().any(LogEvent::is_end);
        let left = before.cancelled.iter().find(|child| over && !forced && !ended.contains(child));
        if let Some(child) = left {
            let what = format!("x{} ends before x{}, which it cancelled", execution.0, child.0);
            self.fail("tree", what);
        }
    }

    /// Moments at which a request to a parent or a child is dangerous: people may choose them.
    pub(super) fn tempt_to_meddle(&mut self, append: &Append) {
        let execution = append.header.execution;
        let events = decode(&append.body).unwrap_or_default();
        if self.faults_over || events.iter().all(|event| !is_about_children(event)) {
            return;
        }
        for pair in events.windows(2) {
            // The node is about to open its child again, and so is a user.
            if let [
                LogEvent::Node(NodeEvent::ChildEnded { execution: child, .. }),
                LogEvent::Node(NodeEvent::Failed { wait: Some(wait), .. }),
            ] = pair
                && self.tempts(Fault::Retries)
            {
                // Or it has ended once more by then, and the node does not know it yet.
                let before = if self.people.trees.percent(50) { 10 } else { 700 };
                let later = wait.0.saturating_sub(before) + self.people.trees.below(60);
                let request =
                    ControlRequest::new(*child, Request::Retry { reason: None, budget: None });
                self.after(later, WorldEvent::Repeat(request, None));
            }
        }
        // A user does not want to wait for the children of an execution that is ending.
        let ends = |event: &LogEvent| matches!(event, LogEvent::Run(RunEvent::Ending { .. }));
        let waits = !self.awaited(execution).cancelled.is_empty();
        if waits && events.iter().any(ends) && self.tempts(Fault::Cancels) {
            let done = self.people.done_to.entry(execution).or_default();
            (done.forced, done.cancel) = (true, true);
            let later = self.people.trees.below(3_000);
            let request = ControlRequest::new(execution, Request::ForceCancel { reason: None });
            self.after(later, WorldEvent::Repeat(request, None));
        }
    }

    fn tempts(&mut self, fault: Fault) -> bool {
        self.store.inner().weather.strikes_apart(fault, &mut self.people.trees)
    }

    /// In the end: parents and children agree.
    pub(super) fn check_trees(&mut self) {
        let executions: Vec<_> = self.auditor.logs.keys().copied().collect();
        let connection = crate::store::Connection(self.store.clone());
        for execution in executions {
            let examined = self.store.with(|tables, now| tables.examine(execution, now));
            let Some(examined) = examined else { continue };
            let Ok(report) = check_examined(examined, None, &self.plans, &connection) else {
                continue;
            };
            let mut found = report.findings.iter().map(|finding| &finding.violation);
            let found = found.find(|found| found.invariant == Invariant::ChildMatchesParent);
            if let Some(violation) = found {
                return self.fail(violation.invariant.name(), violation.to_string());
            }
        }
    }

    /// The outputs of the children of an execution, by number and generation.
    pub(super) fn outputs_of_children(
        &self,
        events: &[LogEvent],
    ) -> BTreeMap<(ExecutionNo, u32), Value> {
        let started = events.iter().filter_map(|event| match event {
            LogEvent::Node(NodeEvent::ChildStarted { execution, detached: false, .. }) => {
                Some(*execution)
            }
            _ => None,
        });
        let mut outputs = BTreeMap::new();
        for child in started {
            let mut generation = 1;
            for event in &self.events_of(child) {
                match event {
                    LogEvent::Run(RunEvent::Reopened { generation: next, .. }) => {
                        generation = *next;
                    }
                    LogEvent::Run(RunEvent::Completed { output }) => {
                        let output = output.to_value().unwrap_or_default();
                        outputs.insert((child, generation), output);
                    }
                    _ => {}
                }
            }
        }
        outputs
    }

    /// The log of an execution, with its payloads.
    pub(super) fn events_of(&self, execution: ExecutionNo) -> Vec<LogEvent> {
        let frames: Vec<StoredFrame> =
            self.store.with(|tables, _| tables.frames_from(execution, 0).cloned().collect());
        let bodies = frames.iter().filter_map(|frame| frame.body.as_ref().ok());
        bodies.flat_map(|body| self.blobs.events(body)).collect()
    }
}

/// Did its parent end an execution?
pub(super) fn was_ended_by_parent(events: &[LogEvent], parent: ExecutionNo) -> bool {
    let prefix = format!("parent-{}-", parent.0);
    events.iter().any(|event| {
        let LogEvent::Run(RunEvent::Ending { cause: EndCause::Cancel { origin, .. }, .. }) = event
        else {
            return false;
        };
        origin.message.as_ref().is_some_and(|message| message.starts_with(&*prefix))
    })
}

fn begun_child(event: &LogEvent) -> Option<ExecutionNo> {
    match event {
        LogEvent::Node(
            NodeEvent::ChildStarted { execution, .. } | NodeEvent::ChildReopened { execution, .. },
        ) => Some(*execution),
        _ => None,
    }
}

fn ended_child(event: &LogEvent) -> Option<ExecutionNo> {
    match event {
        LogEvent::Node(NodeEvent::ChildEnded { execution, .. }) => Some(*execution),
        _ => None,
    }
}

/// Does it end an execution, or a body of it?
fn is_ending(event: &LogEvent) -> bool {
    matches!(
        event,
        LogEvent::Run(RunEvent::Ending { .. }) | LogEvent::Node(NodeEvent::BodyEnding { .. })
    )
}

fn is_about_children(event: &LogEvent) -> bool {
    let ends = matches!(event, LogEvent::Run(RunEvent::Ending { .. }));
    ends || ended_child(event).is_some()
}

fn is_cancel(mail: &Mail) -> bool {
    matches!(mail.body, MailBody::Request(Request::Cancel { .. }))
}
