//! The verdict: checks at the end, when everything has come to rest. And the projector, which runs
//! all the time and is judged by its rows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use waypost_core::event::{Event as LogEvent, NodeEvent, RunCreated, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::projection::{Changes, Stamp};
use waypost_core::state::State;

use super::people::LABEL;
use super::trees::was_ended_by_parent;
use super::{IDLE_MS, Simulation, WorldEvent};
use crate::clock::START;
use crate::fault::Fault;
use crate::model::{Ran, SentSignal, World, judge};
use crate::program::{ChildProgram, Program};

impl Simulation {
    /// The projector: reads the log in the order of commits and writes rows, at its own pace.
    pub(super) fn project(&mut self) {
        if !self.faults_over {
            let next = self.random.between(50, 2_000);
            self.after(next, WorldEvent::Project);
        }
        let from = self.auditor.projected;
        let most = match self.faults_over {
            true => usize::MAX,
            false => 1 + self.random.index(8),
        };
        let mut batch: Vec<_> =
            self.auditor.commits.iter().skip(from).take(most).copied().collect();
        let advance = batch.len();
        if is_planted(Bug::ProjectionMissesLast) {
            batch.pop();
        }
        let mut changes: BTreeMap<ExecutionNo, Changes> = BTreeMap::new();
        for (execution, first_seq) in &batch {
            let frame = self
                .store
                .with(|tables, _| tables.frames_from(*execution, *first_seq).next().cloned());
            let Some(frame) = frame else { continue };
            let events = frame.body.as_ref().ok().and_then(|body| decode(body).ok());
            let changes = changes.entry(*execution).or_insert_with(|| {
                match self.auditor.views.get(execution) {
                    Some(view) => Changes::resume(view.clone()),
                    None => Changes::default(),
                }
            });
            for (seq, event) in (*first_seq..).zip(events.unwrap_or_default()) {
                changes.apply(Stamp { seq, at: frame.header.decided_at }, event);
            }
        }
        if self.store.strikes(Fault::ProjectorDies) {
            return; // cursor and rows are written together, or not at all
        }
        self.auditor.projected += advance;
        self.auditor.views.extend(changes.into_iter().map(|(id, changes)| (id, changes.view)));
    }

    /// Has nothing been committed for long, although something could have been? Checked now and
    /// then: it costs more than an event.
    pub(super) fn is_stuck(&self) -> bool {
        if !self.faults_over || !self.events.is_multiple_of(256) {
            return false;
        }
        let due = |execution: &ExecutionNo| self.auditor.state(*execution)?.next_due();
        let due = self.open_executions().iter().filter_map(due).max();
        let due_ms = due.map_or(0, |due| due.since(START).0).max(self.outbox_due_ms());
        let due_ms = due_ms.max(self.triggers_due_ms());
        self.ms() > self.auditor.last_commit_ms.max(due_ms) + IDLE_MS
    }

    /// The end: everything that can be checked is checked.
    pub(super) fn check_everything(&mut self) {
        self.drain_outbox();
        self.project();
        self.check_submissions();
        self.check_projections();
        let executions: Vec<_> = self.auditor.logs.keys().copied().collect();
        for execution in executions {
            self.check_acknowledged(execution);
            if !self.is_killer_aside(execution) && !self.is_fired(execution) {
                self.judge(execution);
            }
        }
        self.check_trees();
        self.check_triggers();
        self.check_blobs();
        let mail = self.store.with(|tables, _| tables.mail());
        // A quarantined execution keeps its mail.
        if let Some(mail) = mail.iter().find(|mail| !self.is_killer_aside(mail.execution)) {
            self.fail("L4", format!("{} to x{} is never consumed", mail.message, mail.execution.0));
        }
    }

    /// Acknowledged submissions exist, once.
    fn check_submissions(&mut self) {
        let mut born: BTreeMap<String, Vec<ExecutionNo>> = BTreeMap::new();
        for (execution, log) in &self.auditor.logs {
            // Children have the labels of their parents.
            let is_submitted =
                |state: &&State| state.created.parent.is_none() && state.created.trigger.is_none();
            let state = log.check.state().filter(is_submitted);
            if let Some(state) = state {
                let label = state.created.labels.get(LABEL).cloned().unwrap_or_default();
                born.entry(label).or_default().push(*execution);
            }
        }
        if let Some((label, twice)) = born.iter().find(|(_, born)| born.len() > 1) {
            return self.fail("G2", format!("submission {label} became {twice:?}"));
        }
        for (at, submission) in self.people.submissions.iter().enumerate() {
            if let Some((execution, _)) = submission.acknowledged
                && born.get(&at.to_string()) != Some(&vec![execution])
            {
                let what =
                    format!("submission {at} was acknowledged as x{} and is lost", execution.0);
                return self.fail("G1", what);
            }
        }
    }

    fn check_projections(&mut self) {
        for (execution, log) in &self.auditor.logs {
            let (Some(state), view) = (log.check.state(), self.auditor.views.get(execution)) else {
                continue;
            };
            let shown = view.map(|view| (view.seq, view.status));
            let logged = (state.seq, state.shown_status());
            if shown != Some(logged) {
                let what = format!("x{} is shown as {shown:?} and is {logged:?}", execution.0);
                return self.fail("projection.matches-log", what);
            }
        }
    }

    fn check_acknowledged(&mut self, execution: ExecutionNo) {
        let Some(done) = self.people.done_to.get(&execution).cloned() else { return };
        for (serial, _) in done.signalled {
            // A quarantined execution keeps its mail.
            let kept = self.is_killer_aside(execution) && self.inbox_holds(execution, serial);
            if !kept && !self.knows_signal(execution, serial) {
                return self.fail("ack", format!("signal {serial} to x{} is lost", execution.0));
            }
        }
        for (message, _) in done.accepted {
            if !self.knows_message(execution, &message) {
                return self.fail("ack", format!("{message} to x{} is lost", execution.0));
            }
        }
    }

    /// The result of an execution is one that the model allows.
    fn judge(&mut self, execution: ExecutionNo) {
        let events = self.events_of(execution);
        let Some(LogEvent::Run(RunEvent::Created(created))) = events.first() else { return };
        let Some((program, input)) = self.program_of(created) else {
            return self.fail("model", format!("x{} is of no known program", execution.0));
        };
        if created.input.to_value().ok().as_ref() != Some(&input) {
            let what = format!("x{} has the input {}, not {input}", execution.0, created.input);
            return self.fail("model", what);
        }
        let parent = created.parent.as_ref().map(|parent| parent.execution);
        let told = parent.is_some_and(|parent| was_ended_by_parent(&events, parent));
        let mut ran = Ran::read(&events);
        ran.children = self.outputs_of_children(&events);
        let done = self.people.done_to.get(&execution).cloned().unwrap_or_default();
        let inner = self.store.inner();
        ran.world = World {
            cancel_requested: done.cancel || told || may_be_superseded(&program),
            paused: done.pause
                || events.iter().any(|e| matches!(e, LogEvent::Run(RunEvent::Quarantined { .. }))),
            signals: done.signals.into_iter().chain(emitted(&events, &created.key)).collect(),
            resumptions: done.resumptions,
            steered: done.steered,
            decisions: done.decisions,
            callbacks: self.services.sent.get(&execution).cloned().unwrap_or_default(),
            attempts_lost: self.kills > 0
                || LOSES_ATTEMPTS.iter().any(|fault| inner.weather.has_struck(*fault)),
            // An attempt that its worker has forgotten may time out before that is noticed. So may
            // one whose end a failover lost, if its worker is silent when it should report it
            // again, and one whose worker cannot report because each process that it asks is
            // killed.
            replies_lost: DELAYS_REPORTS.iter().any(|fault| inner.weather.has_struck(*fault))
                || self.far.is_there()
                    && (self.auditor.failed_over || inner.weather.has_struck(Fault::Killer)),
            shared: self.far.is_there(),
            mixed: inner.weather.has_struck(Fault::OldVersion),
            away: inner.weather.has_struck(Fault::Outage),
            late: true,
            starts_lost: self.auditor.failed_over,
            // The first report of an attempt may wait until its usage can be read.
            contradicted: (self.auditor.failed_over || program.budget.is_some())
                && inner.weather.has_struck(Fault::Contradiction),
        };
        drop(inner);
        ran.sink = self.sink.seen(&created.key.to_string());
        let complaints = judge(&program, &input, &ran);
        if let Some(first) = complaints.first() {
            let what = format!(
                "x{} {first} ({} in all); program: {program}",
                execution.0,
                complaints.len()
            );
            self.fail("model", what);
        }
    }
}

impl Simulation {
    /// The program that an execution runs, and its input. A child has the labels of its parent, and its
    /// input is a part of its parent's.
    pub(super) fn program_of(&self, created: &RunCreated) -> Option<(Program, Value)> {
        let at = created.labels.get(LABEL)?.parse::<usize>().ok()?;
        let submission = self.people.submissions.get(at)?;
        if created.parent.is_none() {
            return Some((submission.program.clone(), submission.input.clone()));
        }
        let input = json!({ "n": submission.input.get("n"), "sink": submission.input.get("sink") });
        Some((ChildProgram::named(&created.workflow)?.program(), input))
    }

    /// Was an execution started by a trigger?
    fn is_fired(&self, execution: ExecutionNo) -> bool {
        let state = self.auditor.state(execution);
        state.is_some_and(|state| state.created.trigger.is_some())
    }

    /// The program that an execution runs.
    pub(super) fn program_run_by(&self, execution: ExecutionNo) -> Option<Program> {
        let created = &self.auditor.state(execution)?.created;
        self.program_of(created).map(|(program, _)| program)
    }
}

/// The signals that an execution sent to itself.
fn emitted<'e>(
    events: &'e [LogEvent],
    key: &'e ExecutionId,
) -> impl Iterator<Item = SentSignal> + 'e {
    events.iter().filter_map(move |event| match event {
        LogEvent::Node(NodeEvent::SignalSent { node, signal, .. }) => Some(SentSignal {
            name: signal.to_string(),
            body: json!({ "ok": true, "serial": format!("{key}/{node}") }),
        }),
        _ => None,
    })
}

/// May a newcomer have it cancelled?
fn may_be_superseded(program: &Program) -> bool {
    program.keyed.is_some_and(|keyed| keyed.policy == ConcurrencyPolicy::CancelOldest)
}

/// Faults for which an attempt may time out although its call was answered, or before it was made.
const DELAYS_REPORTS: &[Fault] = &[Fault::FarForgets, Fault::BlobFails, Fault::BlobSlow];

/// Faults that may cost attempts.
const LOSES_ATTEMPTS: &[Fault] = &[
    Fault::Kill,
    Fault::Killer,
    Fault::Suspend,
    Fault::Drains,
    Fault::Outage,
    Fault::Fails,
    Fault::LostReply,
    Fault::Slow,
    Fault::Full,
    Fault::Poison,
    Fault::StaleRead,
    Fault::LostSuffix,
    Fault::WorkerDeath,
    Fault::EffectWithoutReply,
    Fault::FarDeath,
    Fault::FarSilence,
    Fault::FarForgets,
    Fault::TasksFail,
    Fault::TasksLost,
    Fault::NoEffectNoReply,
    Fault::Pauses,
    Fault::BlobLostBeforeCommit,
];
