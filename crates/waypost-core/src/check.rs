//! The checker: reads a log frame by frame and reports which invariants it breaks.
//!
//! ```text
//!   frame ─▶ LogCheck ── chain.rs   headers: gapless, linked, fenced, in time
//!                     ├─ run.rs     the execution: created once, ends once, pauses, messages
//!                     ├─ nodes.rs   the nodes; attempts.rs: the attempts and waits of one
//!                     ├─ spans.rs   durations are not cut short
//!                     ├─ scopes.rs  the bodies of containers: opened in order, closed when all is settled
//!                     ├─ maps.rs    the items of maps: opened in order, no more than the window
//!                     ├─ budget.rs  what attempts reserve and use
//!                     ├─ triggers.rs  the trigger that it began with, and at which node
//!                     ├─ graph.rs   every start and every skip is justified by the edges
//!                     └─ apply      and the log folds: the only rule that uses the engine's own code
//! ```
//!
//! All rules but the last are a second reading of the design, on purpose: a checker that called
//! `decide` would repeat its mistakes. It never panics, whatever a log contains, and a frame costs
//! no more than its events and their edges, so that a simulator can run it after every commit.
//! `waypost check` and its comparison of the log with the rows beside it are built on top of this
//! in `waypost-engine`.

mod attempts;
mod breaker;
mod budget;
mod chain;
mod children;
mod graph;
mod invariant;
mod maps;
mod messages;
mod nodes;
mod run;
mod scopes;
mod signals;
mod spans;
mod triggers;

use std::sync::Arc;

use crate::apply::{apply, begin};
use crate::event::{Event, LOG_FORMAT, NodeEvent, RunEvent};
use crate::frame::FrameHeader;
use crate::id::{ExecutionNo, NodeIx};
use crate::plan::Plan;
use crate::state::State;
use crate::time::Timestamp;

use budget::BudgetCheck;
use chain::Chain;
use invariant::Invariant::{
    AppendsOnce, DefinitionPinned, Folds, Limits, Linked, SnapshotFolds, VersionsGrow,
};
pub use invariant::{Invariant, Violation};
use nodes::Nodes;
use run::RunCheck;
pub use spans::cut_short;

/// A rule that is broken, and how.
type BrokenRule = (Invariant, String);

type Verdict = Result<(), BrokenRule>;

fn broken<T>(invariant: Invariant, what: impl Into<String>) -> Result<T, BrokenRule> {
    Err((invariant, what.into()))
}

/// The verdict of a rule that holds in this case, or else is broken in this way.
fn require(holds: bool, rule: Invariant, what: &str) -> Verdict {
    if holds { Ok(()) } else { broken(rule, what) }
}

/// As [`require`], where words have to be found.
fn require_with(holds: bool, rule: Invariant, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { broken(rule, what()) }
}

/// The position of an event.
#[derive(Clone, Copy, Debug)]
struct EventAt {
    seq: u64,
    /// The store's time of its frame.
    at: Timestamp,
    /// The time of the commands that its frame answers.
    decided_at: Timestamp,
    /// It was decided at this time of the store's, or later: its owner had seen the frame before.
    earliest: Timestamp,
}

/// Checks the log of one execution, one frame at a time.
///
/// One damage gives one finding, as far as possible: every rule about the execution is reported
/// once, every node once; after a gap, a repeated or an unreadable frame only headers are checked;
/// and the fold ends with the first event that it rejects.
#[derive(Debug)]
pub struct LogCheck {
    execution: ExecutionNo,
    plan: Option<Arc<Plan>>,
    chain: Chain,
    run: RunCheck,
    nodes: Nodes,
    budget: BudgetCheck,
    state: Option<State>,
    /// Something is missing or repeated: the meaning of later events is unknown.
    blind: bool,
    violations: Vec<Violation>,
    counts: Counts,
}

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub frames: u64,
    pub events: u64,
    /// Nodes that have settled.
    pub nodes: u64,
}

impl LogCheck {
    /// A checker of an empty log.
    pub fn new(execution: ExecutionNo, plan: Arc<Plan>) -> Self {
        Self::with(execution, Some(plan))
    }

    /// A checker that leaves out the graph's rules and the fold, because there is no plan. Why that
    /// is so is a finding of its own; none is given where the log does not even name a definition.
    pub fn without_plan(execution: ExecutionNo, why: Option<String>) -> Self {
        let mut check = Self::with(execution, None);
        if let Some(why) = why {
            check.report(1, broken(DefinitionPinned, why));
        }
        check
    }

    fn with(execution: ExecutionNo, plan: Option<Arc<Plan>>) -> Self {
        Self {
            execution,
            chain: Chain::default(),
            run: RunCheck::default(),
            nodes: Nodes::new(plan.clone()),
            budget: BudgetCheck::default(),
            plan,
            state: None,
            blind: false,
            violations: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Takes in the next frame: its header, the store's time, and its events or why they cannot be
    /// read.
    pub fn frame(&mut self, header: &FrameHeader, at: Timestamp, events: Result<&[Event], &str>) {
        self.counts.frames += 1;
        let seq = header.first_seq;
        let earliest =
            self.chain.last_at().map_or(header.decided_at, |at| at.max(header.decided_at));
        let faults = self.chain.frame(self.execution, header, at);
        let tears = |invariant| matches!(invariant, Linked | AppendsOnce);
        self.blind |= faults.iter().any(|(invariant, _)| tears(*invariant));
        for fault in faults {
            self.report(seq, Err(fault));
        }
        let readable = readable(header, events).map_err(|fault| self.report(seq, Err(fault)));
        self.counts.events += readable.map_or(0, |events| events.len() as u64);
        self.blind |= readable.is_err();
        let (Ok(events), false) = (readable, self.blind) else {
            self.state = None;
            return;
        };
        for (seq, event) in (seq..).zip(events) {
            let place = EventAt { seq, at, decided_at: header.decided_at, earliest };
            self.event(header, place, event);
        }
        let verdicts = [self.chain.close(header), self.run.close()];
        verdicts.into_iter().for_each(|verdict| self.report(header.last_seq, verdict));
    }

    /// Compares a stored snapshot with the fold. To be called when the frame that ends at its seq
    /// has been taken in.
    pub fn snapshot(&mut self, seq: u64, body: &[u8]) {
        let (Some(state), Some(plan)) = (&self.state, &self.plan) else { return };
        let is_other = match State::decode(body, plan) {
            Some(snapshot) => snapshot != *state,
            // A snapshot of an older build is ignored by all readers; but it is one.
            None => State::definition_of(body).is_none(),
        };
        let ends = require_with(seq == state.seq, SnapshotFolds, || {
            format!("the snapshot ends at seq {seq}, where no frame ends")
        });
        let folds =
            require(!is_other, SnapshotFolds, "the snapshot is not the state that the log gives");
        self.report(seq, ends.and(folds));
    }

    /// The state after the frames so far; none once the log made no sense.
    pub fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// A node that may run, or must be skipped or fail, and has no event yet; none without a plan.
    /// A log that ends while its execution acts has no such node. Visits all edges, so that it is
    /// not part of the check of each frame.
    pub fn forgotten(&self) -> Option<String> {
        self.nodes.forgotten()
    }

    /// The plan that the log was checked with.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// The violations so far, in order.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Takes the violations so far. They are not reported again.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// How much was checked.
    pub fn counts(&self) -> Counts {
        Counts { nodes: self.nodes.settled, ..self.counts }
    }

    fn event(&mut self, header: &FrameHeader, place: EventAt, event: &Event) {
        let before = self.violations.len();
        let of_chain = self.chain.event(header, event);
        self.report(place.seq, of_chain);
        let (of_run, of_node) =
            (self.run.judge(place, event, &self.nodes), self.nodes.judge(place, event, &self.run));
        self.nodes.advance(place, event, &self.run);
        self.run.advance(place, event);
        match (of_run, of_node) {
            // If the execution's own rules are broken, the node's verdict adds nothing.
            (Err(fault), _) => self.report(place.seq, Err(fault)),
            (Ok(()), Err(fault)) => self.report_node(place, event, fault),
            (Ok(()), Ok(())) => {}
        }
        if let Some(plan) = self.plan.clone() {
            let verdict = self.budget.judge(&plan, event);
            self.budget.advance(&plan, event);
            match verdict {
                Err(fault) if event.node().is_some() => self.report_node(place, event, fault),
                verdict => self.report(place.seq, verdict),
            }
        }
        if let (Event::Run(RunEvent::Created(created)), Some(plan)) = (event, &self.plan) {
            let what = "the definition is not the one that the execution was created with";
            self.report(
                place.seq,
                require(plan.hash == created.definition, DefinitionPinned, what),
            );
        }
        self.fold(place, event, self.violations.len() > before);
    }

    /// Folds an event. If another rule has already reported the event, a refusal adds nothing.
    fn fold(&mut self, place: EventAt, event: &Event, known: bool) {
        let Some(plan) = &self.plan else { return };
        let folded = match (&mut self.state, place.seq) {
            (Some(state), _) => apply(plan, state, event, place.decided_at),
            (None, 1) => begin(plan, self.execution, event, place.decided_at)
                .map(|state| self.state = Some(state)),
            (None, _) => return,
        };
        if let Err(illegal) = folded {
            self.state = None;
            if !known {
                self.report(place.seq, broken(Folds, illegal.to_string()));
            }
        }
        self.compare_losses(place, event);
        let same = self.state.as_ref().map(|state| self.budget.compare(&state.spending));
        self.report(place.seq, same.unwrap_or(Ok(())));
    }

    /// An execution is quarantined after so many losses: the state and the rules must count the
    /// same.
    fn compare_losses(&mut self, place: EventAt, event: &Event) {
        let (Event::Node(failed @ NodeEvent::Failed { .. }), Some(state)) = (event, &self.state)
        else {
            return;
        };
        let Some(lost) = self.nodes.losses(failed) else { return };
        let at = self.plan.as_ref().and_then(|plan| state.find(plan, failed.node()));
        let counted = at.and_then(|at| state.get(at)).map_or(lost, |node| node.abandoned);
        if counted != lost {
            let what = format!("{lost} attempts were lost, and {counted} are counted");
            self.report_node(place, event, (Limits, what));
        }
    }

    fn report(&mut self, seq: u64, verdict: Verdict) {
        if let Err((invariant, what)) = verdict
            && self.run.is_news(invariant)
        {
            let execution = self.execution;
            self.violations.push(Violation { execution, invariant, seq, what });
        }
    }

    fn report_node(&mut self, place: EventAt, event: &Event, (invariant, what): BrokenRule) {
        if self.nodes.is_news(event) {
            let node = event.node().map(|node| format!(" of node {node:?}")).unwrap_or_default();
            let what = format!("{}{node}: {what}", event.name());
            let execution = self.execution;
            self.violations.push(Violation { execution, invariant, seq: place.seq, what });
        }
    }
}

/// The events of a frame, unless they cannot be read or are not those that its header names.
fn readable<'a>(
    header: &FrameHeader,
    events: Result<&'a [Event], &str>,
) -> Result<&'a [Event], BrokenRule> {
    let FrameHeader { first_seq, last_seq, requires, .. } = header;
    require_with(*requires <= LOG_FORMAT, VersionsGrow, || {
        format!("the frame needs log format {requires}, this program knows {LOG_FORMAT}")
    })?;
    let events = events.or_else(|reason| broken(Folds, reason))?;
    let count = events.len();
    let named = last_seq.checked_sub(*first_seq).and_then(|span| span.checked_add(1));
    require_with(named == Some(count as u64), Linked, || {
        format!("the frame holds {count} events, its header says {first_seq} to {last_seq}")
    })?;
    Ok(events)
}

/// A node's place in the tables of this module.
fn position(at: usize) -> NodeIx {
    NodeIx(u32::try_from(at).unwrap_or(u32::MAX))
}
