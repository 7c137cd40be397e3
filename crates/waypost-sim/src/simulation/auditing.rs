//! Invariants: of every commit, at once; of everything, in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::check::{Invariant, LogCheck, Violation, cut_short};
use waypost_core::command::Request;
use waypost_core::event::{Event as LogEvent, NodeEvent, RunEvent};
use waypost_core::frame::{FrameHeader, decode};
use waypost_core::id::{ExecutionNo, InstanceId, Token};
use waypost_core::json::{Json, references};
use waypost_core::projection::ExecutionView;
use waypost_core::state::State;
use waypost_core::time::Timestamp;
use waypost_core::why::why;
use waypost_engine::check::check_examined;
use waypost_engine::driver::{Output, StoreWork, TaskOrder};
use waypost_ports::store::{Append, Control, Mail, MailBody, StoredFrame};

use super::approvals::OpenApprovals;
use super::lines::Lines;
use super::operations::is_poison;
use super::people::LABEL;
use super::services::OpenOperations;
use super::{Simulation, WorldEvent};
use crate::coverage::Tracker;
use crate::process::Life;

/// The auditor's copy of every log.
#[derive(Default)]
pub(super) struct Auditor {
    pub(super) logs: BTreeMap<ExecutionNo, Log>,
    /// Which process writes under each name: an epoch has one writer only if a name has.
    writers: BTreeMap<InstanceId, Life>,
    /// When the last frame was committed.
    pub(super) last_commit_ms: u64,
    /// Attempts whose start is durable.
    started: BTreeSet<Token>,
    /// Attempts that have been started and not ended, by execution and path.
    held: BTreeMap<(ExecutionNo, Arc<str>), Token>,
    /// Attempts whose end is durable.
    pub(super) ended: BTreeSet<Token>,
    /// Frames in the order of their commits, for the projector.
    pub(super) commits: Vec<(ExecutionNo, u64)>,
    /// The projector's position, and its rows.
    pub(super) projected: usize,
    pub(super) views: BTreeMap<ExecutionNo, ExecutionView>,
    /// The queue of each concurrency key, by the log alone.
    lines: Lines,
    approvals: OpenApprovals,
    pub(super) operations: OpenOperations,
    /// Has a replica that was behind become the store?
    pub(super) failed_over: bool,
}

pub(super) struct Log {
    pub(super) check: LogCheck,
    tracker: Tracker,
}

impl Auditor {
    pub(super) fn state(&self, execution: ExecutionNo) -> Option<&State> {
        self.logs.get(&execution)?.check.state()
    }
}

impl Simulation {
    pub(super) fn note_frame(&mut self, life: Life, append: &Append, inserted: bool) {
        let header = append.header;
        let numbers =
            [life.into(), header.execution.0.unsigned_abs(), header.first_seq, inserted.into()];
        self.note("append", &numbers, || {
            let events = decode(&append.body).unwrap_or_default();
            let names: Vec<String> = events.iter().map(describe).collect();
            let FrameHeader { execution, first_seq, epoch, .. } = header;
            let verb = if inserted { "commits" } else { "does not commit" };
            format!(
                "p{life} {verb} x{} {first_seq} epoch {epoch}: {}",
                execution.0,
                names.join(", ")
            )
        });
    }

    /// A span that is decided now lasts that long from now on by the true time, which is the
    /// store's, whatever the decider's clocks say. A log alone shows less, because it does not
    /// record the true time.
    pub(super) fn check_spans(&mut self, outputs: &[Output]) {
        let now = self.truth.now();
        for output in outputs {
            let Output::Store(StoreWork::Append(append)) = output else { continue };
            let execution = append.header.execution;
            let events = decode(&append.body).unwrap_or_default();
            let known = self.auditor.logs.get(&execution);
            let plan = match events.first() {
                // After a failover a number may come a second time.
                Some(LogEvent::Run(RunEvent::Created(created))) => {
                    let connection = crate::store::Connection(self.store.clone());
                    self.plans.get(created.definition, &connection).ok()
                }
                _ if self.auditor.failed_over => None,
                _ => known.and_then(|log| log.check.plan().cloned()),
            };
            let short = events.iter().find_map(|event| cut_short(plan.as_deref(), event, now));
            if let Some(what) = short {
                self.fail("short", format!("x{}: {what}", execution.0));
            }
        }
    }

    /// A frame was committed: every rule that a log can break is checked, at once.
    pub(super) fn inspect_commit(&mut self, life: Life, append: &Append, at: Timestamp) {
        let header = append.header;
        let frame = StoredFrame { header, at, body: Ok(append.body.clone()) };
        let writer = *self.auditor.writers.entry(header.instance).or_insert(life);
        if writer != life {
            let (execution, name) = (header.execution.0, header.instance.0);
            let what = format!("x{execution}: p{writer} and p{life} both write as {name}");
            return self.fail("log.fenced", what);
        }
        self.auditor.commits.push((header.execution, header.first_seq));
        self.auditor.last_commit_ms = self.ms();
        self.clear_deaths(append);
        self.check_blobs_of(append);
        let awaited = self.awaited(header.execution);
        self.inspect_frame(&frame, true);
        self.check_cancels(append, &awaited);
        self.check_outbox_of(append);
        self.tempt_to_meddle(append);
        if header.parent.is_none() {
            self.may_be_killer(header.execution);
        }
    }

    fn inspect_frame(&mut self, frame: &StoredFrame, counts: bool) {
        let execution = frame.header.execution;
        let body = frame.body.as_ref().map_or(&[][..], Vec::as_slice);
        let events = match decode(body) {
            Ok(events) => events,
            Err(error) => return self.fail("log.readable", format!("x{}: {error}", execution.0)),
        };
        if !self.auditor.logs.contains_key(&execution) {
            let Some(LogEvent::Run(RunEvent::Created(created))) = events.first() else {
                let what = format!("x{} begins without RunCreated", execution.0);
                return self.fail("log.created-first", what);
            };
            let connection = crate::store::Connection(self.store.clone());
            let check = match self.plans.get(created.definition, &connection) {
                Ok(plan) => LogCheck::new(execution, plan),
                Err(damage) => LogCheck::without_plan(execution, Some(damage.to_string())),
            };
            self.auditor.logs.insert(execution, Log { check, tracker: Tracker::default() });
        }
        if counts {
            self.tempt_to_steer(execution, &events);
            self.tempt_to_decide(execution, &events);
            self.tempt_to_pay(execution, &events);
            self.check_left_alone(execution, &events);
            self.check_not_forgotten(execution, &events);
        }
        let Some(log) = self.auditor.logs.get_mut(&execution) else { return };
        for event in &events {
            if counts {
                log.tracker.event(event, &mut self.coverage);
            }
            match event {
                LogEvent::Node(NodeEvent::Started { node, token: Some(token), .. }) => {
                    self.auditor.started.insert(*token);
                    self.auditor.held.insert((execution, Arc::clone(node)), *token);
                }
                LogEvent::Node(
                    NodeEvent::Completed { node, .. }
                    | NodeEvent::Failed { node, .. }
                    | NodeEvent::Cancelled { node, .. },
                ) => {
                    let ended = self.auditor.held.remove(&(execution, Arc::clone(node)));
                    self.auditor.ended.extend(ended);
                }
                _ => {}
            }
        }
        self.people.forget_mail(execution, &events);
        let overtaken = self.auditor.lines.read(execution, &events);
        if let Some(what) = self.auditor.approvals.read(execution, &events) {
            return self.fail("approval.reminders", what);
        }
        self.check_callbacks(execution, &events);
        let Some(log) = self.auditor.logs.get_mut(&execution) else { return };
        log.check.frame(&frame.header, frame.at, Ok(&events));
        let mut violations = log.check.take_violations();
        // After a failover a frame may be stored a second time, later than the next one was
        // decided. Its spans were checked when it was decided.
        if self.auditor.failed_over {
            violations.retain(|found| found.invariant != Invariant::WaitsEndInTime);
        }
        let tracked = log.tracker.status();
        let status = log.check.state().map(State::shown_status);
        self.fail_on(&violations);
        // Frames that are read anew do not come in the order of their commits.
        if let Some(what) = overtaken.filter(|_| !self.auditor.failed_over) {
            self.fail(Invariant::PermitsHold.name(), what);
        }
        if counts && status.is_some_and(|status| status != tracked) {
            self.fail("status", format!("x{} is {status:?}, by its events {tracked}", execution.0));
        }
    }

    fn fail_on(&mut self, violations: &[Violation]) {
        if let Some(first) = violations.first() {
            self.fail(first.invariant.name(), first.to_string());
        }
    }

    /// After a failover: reads the logs again.
    pub(super) fn reread_logs(&mut self) {
        let frames = self.store.with(|tables, _| {
            let frames = |execution| tables.frames_from(execution, 0).cloned().collect::<Vec<_>>();
            tables.executions().into_iter().flat_map(frames).collect::<Vec<_>>()
        });
        let writers = std::mem::take(&mut self.auditor.writers);
        self.auditor = Auditor { failed_over: true, writers, ..Auditor::default() };
        for frame in &frames {
            self.auditor.commits.push((frame.header.execution, frame.header.first_seq));
            self.inspect_frame(frame, false);
        }
        // Later arrows continue from where the logs now end.
        let mut ignored = crate::coverage::Coverage::default();
        for frame in &frames {
            let events = frame.body.as_ref().ok().and_then(|body| decode(body).ok());
            if let Some(log) = self.auditor.logs.get_mut(&frame.header.execution) {
                let events = events.unwrap_or_default();
                events.iter().for_each(|event| log.tracker.event(event, &mut ignored));
            }
        }
        for at in self.people.unacknowledged() {
            self.after(1_000, WorldEvent::Submit { at, again: true });
        }
    }

    /// Nothing leaves before the commit that records it, and an owner runs what has to run.
    pub(super) fn check_task(&mut self, life: Life, order: &TaskOrder) {
        let (execution, token) = (order.execution, order.task.token);
        let path = Arc::clone(&order.task.path);
        if self.auditor.failed_over {
            return; // the start may be among what was lost
        }
        if !self.auditor.started.contains(&token) {
            let what =
                format!("p{life} runs {path} of x{} before its start is durable", execution.0);
            return self.fail("act", what);
        }
        // By the log: an instance that lost the execution and has not noticed may call again, under
        // the same key.
        let Some(state) = self.auditor.state(execution) else { return };
        let current = state.nodes().any(|(_, node)| node.token == Some(token));
        if state.owner.is_some() && state.owner == self.instance_of(life) && !current {
            let what =
                format!("p{life} owns x{} and runs {path}, which is not to be run", execution.0);
            self.fail("act", what);
        }
    }

    /// In a world whose logs are whole nothing is quarantined, unless the store rejected the data.
    pub(super) fn check_holds(&mut self) {
        // Only a failover lets an old version own what a newer one has written.
        let failed_over = self.auditor.failed_over;
        let wrong = |reason: &&String| {
            is_damage(reason) || (reason.contains("newer version") && !failed_over)
        };
        let held = self.store.with(|tables, _| {
            tables.controls().find_map(|(execution, control)| {
                let reason = control.held.as_ref().filter(wrong)?;
                Some((execution, reason.clone()))
            })
        });
        let reasons: Vec<_> = self.store.with(|tables, _| {
            let held = |(execution, control): (ExecutionNo, &Control)| {
                Some((execution, control.held.clone()?))
            };
            tables.controls().filter_map(held).collect()
        });
        for (execution, reason) in reasons {
            self.check_killed(execution, &reason);
        }
        if let Some((execution, reason)) = held {
            self.fail("hold", format!("x{} is set aside: {reason}", execution.0));
        }
    }

    /// Is there an execution of this number, and did it come from this submission?
    pub(super) fn is_of(&self, execution: ExecutionNo, submission: usize) -> bool {
        let stored = self.store.with(|tables, _| tables.frames_from(execution, 0).next().is_some());
        let label = self.auditor.state(execution).and_then(|state| state.created.labels.get(LABEL));
        stored && label.is_some_and(|label| *label == submission.to_string())
    }

    /// The owners of executions.
    pub(super) fn owners(&self) -> BTreeMap<ExecutionNo, InstanceId> {
        self.store.with(|tables, _| {
            let owned = |(execution, control): (_, &Control)| Some((execution, control.owner?));
            tables.controls().filter_map(owned).collect()
        })
    }

    /// No instance takes an execution from an owner that is alive.
    pub(super) fn check_owners(
        &mut self,
        by: InstanceId,
        before: &BTreeMap<ExecutionNo, InstanceId>,
    ) {
        let after = self.owners();
        for (execution, owner) in before {
            let taken = *owner != by && after.get(execution) != Some(owner);
            if taken && self.store.with(|tables, now| tables.is_alive(*owner, now)) {
                let what = format!("x{} is taken from {}, which lives", execution.0, owner.0);
                return self.fail("G9", what);
            }
        }
    }

    /// While people unblock executions after the faults: accepted messages are there, and mail
    /// wakes.
    pub(super) fn check_open(&mut self) {
        // As the next claim of an instance with free capacity does.
        self.store.with(|tables, now| tables.sweep(now));
        for execution in self.open_executions() {
            let examined = self.store.with(|tables, now| tables.examine(execution, now));
            let Some(examined) = examined else { continue };
            let connection = crate::store::Connection(self.store.clone());
            if let Ok(report) = check_examined(examined, None, &self.plans, &connection) {
                // The log is checked with every commit, and snapshots may have been spoiled. A
                // claim that was lost in a failover is made again; until then its row is behind.
                let failed_over = self.auditor.failed_over;
                let counts = |finding: &&waypost_engine::check::Finding| {
                    let about = finding.violation.invariant.name().split('.').next();
                    let rows = ["wake", "concurrency", "mail", "control", "rows"];
                    !failed_over && about.is_some_and(|about| rows.contains(&about))
                };
                if let Some(finding) = report.findings.iter().find(counts) {
                    let violation = &finding.violation;
                    self.fail(violation.invariant.name(), violation.to_string());
                }
            }
            let accepted = self.people.done_to.get(&execution).map(|done| done.accepted.clone());
            for (message, _) in accepted.unwrap_or_default() {
                if !self.knows_message(execution, &message) {
                    self.fail("ack", format!("{message} to x{} is lost", execution.0));
                }
            }
        }
    }

    pub(super) fn knows_signal(&self, execution: ExecutionNo, serial: u64) -> bool {
        let mark = format!("\"serial\":{serial}}}");
        self.log_holds(execution, &mark)
    }

    /// Is a signal in the inbox?
    pub(super) fn inbox_holds(&self, execution: ExecutionNo, serial: u64) -> bool {
        let mark = format!("\"serial\":{serial}}}");
        let holds = |mail: &Mail| match &mail.body {
            MailBody::Request(Request::Signal { body, .. }) => {
                mail.execution == execution && self.blobs.inline(body).text().ends_with(&mark)
            }
            _ => false,
        };
        self.store.with(|tables, _| tables.mail().iter().any(holds))
    }

    /// Is a message in the inbox or in the log?
    pub(super) fn holds_message(&self, execution: ExecutionNo, message: &str) -> bool {
        self.is_in_inbox(execution, message) || self.log_holds(execution, message)
    }

    pub(super) fn is_in_inbox(&self, execution: ExecutionNo, message: &str) -> bool {
        let there = |mail: &Mail| mail.execution == execution && *mail.message == *message;
        self.store.with(|tables, _| tables.mail().iter().any(there))
    }

    /// As `holds_message`; or has the execution ended, and its mail gone with it?
    pub(super) fn knows_message(&self, execution: ExecutionNo, message: &str) -> bool {
        let ended = self.store.with(|tables, _| tables.control(execution).is_none());
        ended || self.holds_message(execution, message)
    }

    pub(super) fn log_holds(&self, execution: ExecutionNo, text: &str) -> bool {
        self.store.with(|tables, _| {
            let holds = |frame: &StoredFrame| {
                let body = frame.body.as_ref().ok().and_then(|body| str::from_utf8(body).ok());
                let kept = |body: &str| {
                    let mut blobs = references(body).map(Json::reference);
                    blobs.any(|blob| self.blobs.inline(&blob).text().contains(text))
                };
                body.is_some_and(|body| body.contains(text) || kept(body))
            };
            tables.frames_from(execution, 0).any(holds)
        })
    }

    pub(super) fn open_executions(&self) -> Vec<ExecutionNo> {
        let open = |log: &(&ExecutionNo, &Log)| {
            log.1.check.state().is_none_or(|state| !state.status.is_end())
        };
        self.auditor.logs.iter().filter(open).map(|(execution, _)| *execution).collect()
    }

    pub(super) fn is_at_rest(&self) -> bool {
        let rests = |execution: &ExecutionNo| self.is_killer_aside(*execution);
        self.people.unacknowledged().is_empty()
            && self.open_executions().iter().all(rests)
            && self.trigger_unrest().is_none()
    }

    pub(super) fn fail_stuck(&mut self) {
        let open = self.open_executions();
        let waits = |execution: &&ExecutionNo| !self.is_killer_aside(**execution);
        // One that waits for a child is stuck because the child is.
        let is_parent = |execution: &&ExecutionNo| {
            self.auditor.state(**execution).is_some_and(|state| state.children_open > 0)
        };
        let stuck: Vec<ExecutionNo> = open.iter().filter(waits).copied().collect();
        let first = stuck.iter().find(|execution| !is_parent(execution)).or(stuck.first());
        let Some(&execution) = first else {
            if let Some(unrest) = self.trigger_unrest() {
                return self.fail("trigger.stuck", unrest);
            }
            return self.fail("stuck", "a submission is never acknowledged");
        };
        let control = self.store.with(|tables, _| tables.control(execution).cloned());
        let Some(log) = self.auditor.logs.get(&execution) else { return };
        let reasons = match (log.check.plan(), log.check.state()) {
            (Some(plan), Some(state)) => format!("{} {:?}", state.status, why(plan, state, None)),
            _ => "unreadable".to_owned(),
        };
        self.fail("stuck", format!("x{} does not end: {reasons}; {control:?}", execution.0));
    }
}

fn is_damage(reason: &str) -> bool {
    !is_poison(reason)
        && (reason.contains("damaged")
            || reason.contains("panicked")
            || reason.contains("definition"))
}

fn describe(event: &LogEvent) -> String {
    match event.node() {
        Some(node) => format!("{}({node})", event.name()),
        None => event.name().to_owned(),
    }
}
