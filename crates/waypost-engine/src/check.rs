//! The checker of a whole store: does every log satisfy the invariants, and do the rows beside it
//! agree with it?
//!
//! ```text
//!   check ── chunk of executions ─▶ shown (projections) ─▶ examine (log, rows) ─▶ one.rs
//!              two threads                                     rules of the core ── log
//!                                                              family.rs ────────── parent, children
//!                                                              rows.rs ──────────── control, mail
//!                                                              shown.rs ─────────── projections
//!                                                              triggers.rs ──────── items that started it
//!           then rows of triggers, groups of windows ──────────▶ triggers.rs ──────── definitions, endpoints
//!   repair ─ derives again what follows from the log; logs themselves are never touched
//! ```
//!
//! Works on a store that is in use: every chunk is read from its own snapshot, the projections
//! before the log, so that they are compared with that very point of the log; and findings in rows
//! are checked once more before they are reported.

mod blobs;
mod family;
mod one;
mod rows;
mod shown;
mod triggers;
mod walk;

pub use blobs::{BlobTally, check_blobs};
pub use one::check_examined;
pub use triggers::AboutTrigger;

use tracing::warn;
use waypost_core::check::{Invariant, Violation};
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{
    Examined, Inspect, InspectTriggers, PermitQueue, Remedy, Repair, StrayKind,
};
use waypost_ports::store::{LogReader, StoreError};

use self::family::{Family, Parents};
use self::triggers::TriggerChecker;
use crate::Plans;

/// Which executions to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    pub only: Option<ExecutionNo>,
    /// Those whose last frame was stored at this time or later.
    pub since: Option<Timestamp>,
}

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub executions: u64,
    pub frames: u64,
    pub events: u64,
    /// Nodes that settled.
    pub nodes: u64,
    pub triggers: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    pub tally: Tally,
    /// How many blobs were read, where they were.
    pub blobs: Option<BlobTally>,
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Is there anything that was found and not repaired?
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|finding| finding.repaired)
    }
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The execution's name outside the engine, if the log has it.
    pub key: Option<ExecutionId>,
    /// The trigger that it is about, where it is not about an execution.
    pub trigger: Option<AboutTrigger>,
    pub violation: Violation,
    /// How [`repair`] would fix it; `None` if the log itself is damaged.
    pub cure: Option<Cure>,
    /// It was found, and is no more.
    pub repaired: bool,
}

impl Finding {
    /// About an execution as a whole, not about a place in its log.
    fn new(execution: ExecutionNo, invariant: Invariant, what: String, cure: Option<Cure>) -> Self {
        let violation = Violation { execution, invariant, seq: 0, what };
        Self { key: None, trigger: None, violation, cure, repaired: false }
    }
}

/// The repair of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cure {
    /// Derive the control row from the log.
    Rows,
    /// Throw the snapshot away; it is a cache.
    Snapshot,
    /// Derive the projections from the log.
    Projections,
    /// Remove what belongs to nothing.
    Sweep,
    /// Give free permits to waiting executions.
    Promote,
    /// Derive the row of a trigger from its definition, and its groups from the row.
    Trigger,
}

/// Checks the executions of a store. Calls `progress` with how far it got, from any thread.
pub fn check(
    store: &dyn InspectTriggers,
    plans: &Plans,
    options: &CheckOptions,
    progress: &(dyn Fn(&Tally) + Sync),
) -> Result<CheckReport, StoreError> {
    // The projections are compared as far as they go; a log that they cannot follow is a finding,
    // not a reason to stop.
    if let Err(error) = store.catch_up() {
        warn!(%error, "could not update the projections");
    }
    let checker = Checker { store, plans, parents: &Parents::default() };
    if let Some(execution) = options.only {
        return checker.check_one(execution);
    }
    let (mut report, latest) = walk::check_all(checker, options.since, progress)?;
    if options.since.is_none() {
        let triggers = checker.triggers().check_rows(&latest)?;
        report.tally.triggers = triggers.tally.triggers;
        report.findings.extend(triggers.findings);
        report.findings.extend(strays(store)?);
        report.findings.extend(queue_faults(store)?);
    }
    report.findings.sort_by_key(|finding| {
        (finding.violation.execution, finding.violation.seq, finding.violation.invariant)
    });
    Ok(report)
}

/// Repairs what can be derived from the logs, in a store that this process has to itself, and marks
/// the findings that are gone.
pub fn repair(
    store: &dyn InspectTriggers,
    plans: &Plans,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let checker = Checker { store, plans, parents: &Parents::default() };
    checker.triggers().repair(report)?;
    let sick = |finding: &&Finding| finding.cure.is_some() && finding.trigger.is_none();
    let mut executions: Vec<ExecutionNo> =
        report.findings.iter().filter(sick).map(|finding| finding.violation.execution).collect();
    executions.dedup();
    for execution in executions {
        for cure in cures(&checker.look_again(execution)?) {
            checker.apply(execution, cure)?;
        }
        let left = checker.look_again(execution)?;
        for finding in &mut report.findings {
            let same = |left: &Finding| left.violation.invariant == finding.violation.invariant;
            if finding.violation.execution == execution && sick(&&*finding) {
                finding.repaired = !left.iter().any(same);
            }
        }
    }
    Ok(())
}

fn cures(findings: &[Finding]) -> Vec<Cure> {
    let mut cures: Vec<Cure> = findings.iter().filter_map(|finding| finding.cure).collect();
    cures.sort_unstable();
    cures.dedup();
    cures
}

/// A store that is checked, and the plans of its definitions.
#[derive(Clone, Copy)]
struct Checker<'a> {
    store: &'a dyn InspectTriggers,
    plans: &'a Plans,
    parents: &'a Parents,
}

impl<'a> Checker<'a> {
    fn family(&self) -> Family<'a> {
        Family { store: self.store, parents: self.parents }
    }

    fn triggers(&self) -> TriggerChecker<'a> {
        TriggerChecker { store: self.store, plans: self.plans }
    }
}

impl Checker<'_> {
    /// The current findings of an execution.
    fn look_again(&self, execution: ExecutionNo) -> Result<Vec<Finding>, StoreError> {
        let mut report = self.check_one(execution)?;
        if report.tally.executions == 0 {
            // It has no log: all its rows are stray.
            report.findings = strays(self.store)?;
            report.findings.retain(|finding| finding.violation.execution == execution);
        }
        let queues = queue_faults(self.store)?.into_iter();
        report.findings.extend(queues.filter(|finding| finding.violation.execution == execution));
        Ok(report.findings)
    }

    fn apply(&self, execution: ExecutionNo, cure: Cure) -> Result<(), StoreError> {
        let Self { store, plans, .. } = *self;
        match cure {
            Cure::Projections => return store.reproject(&[execution]),
            Cure::Promote => return store.promote(),
            Cure::Sweep => {
                let remedy = Remedy::Nothing;
                store.repair(&Repair { execution, last: None, seen: None, remedy })?;
                return store.reproject(&[execution]);
            }
            Cure::Rows | Cure::Snapshot | Cure::Trigger => {}
        }
        let Some(Examined { mut history, .. }) = store.examine(&[execution])?.pop() else {
            return Ok(());
        };
        let Some(last) = history.last_header().copied() else { return Ok(()) };
        let remedy = match cure {
            Cure::Snapshot => Some(Remedy::NoSnapshot),
            _ => {
                let read = one::read(&mut history, plans, self.family(), None)?;
                let plan = read.log.plan().map(|plan| &**plan);
                read.log.state().map(|state| rows::remedy(state, plan, last.requires))
            }
        };
        if let Some(remedy) = remedy {
            let (last, seen) = (Some(last.as_parent()), history.control);
            // If it has changed meanwhile there is nothing to do: its owner wrote its rows.
            store.repair(&Repair { execution, last, seen, remedy })?;
        }
        Ok(())
    }
}

fn strays(store: &dyn Inspect) -> Result<Vec<Finding>, StoreError> {
    let finding = |execution, kind| {
        let what = match kind {
            StrayKind::Control => "a control row",
            StrayKind::Mail => "mail",
            StrayKind::Snapshot => "a snapshot",
            StrayKind::Permit => "a place in a queue",
            StrayKind::Projection => "projections",
        };
        let what = format!("there is no log, and {what}");
        Finding::new(execution, Invariant::NothingStray, what, Some(Cure::Sweep))
    };
    let strays = store.strays()?;
    Ok(strays.into_iter().map(|stray| finding(stray.execution, stray.kind)).collect())
}

/// Faults in the queues of concurrency keys. A permit may be on its way to a waiting execution, so
/// a fault counts only if it is seen twice.
fn queue_faults(store: &dyn Inspect) -> Result<Vec<Finding>, StoreError> {
    let found: Vec<_> = store.permit_queues()?.iter().filter_map(queue_fault).collect();
    if found.is_empty() {
        return Ok(found);
    }
    let mut again: Vec<_> = store.permit_queues()?.iter().filter_map(queue_fault).collect();
    again.retain(|finding| found.contains(finding));
    for finding in &mut again {
        finding.key = key_of(store, finding.violation.execution)?;
    }
    Ok(again)
}

fn key_of(store: &dyn Inspect, execution: ExecutionNo) -> Result<Option<ExecutionId>, StoreError> {
    let first = LogReader::whole(store, execution).next().transpose()?;
    let events = first.and_then(|frame| decode(&frame.body.ok()?).ok());
    Ok(match events.as_deref() {
        Some([Event::Run(RunEvent::Created(created)), ..]) => Some(created.key.clone()),
        _ => None,
    })
}

fn queue_fault(queue: &PermitQueue) -> Option<Finding> {
    let PermitQueue { key, holding, limit_max, last_holding, first_waiting } = queue;
    let crowded = last_holding.filter(|_| *holding > u64::from(*limit_max));
    let stalled = first_waiting.filter(|(_, limit)| *holding < u64::from(*limit));
    let (execution, what, cure) = match (crowded, stalled) {
        // An execution that has begun can not be sent back: this one needs a person.
        (Some(execution), _) => (
            execution,
            format!("{holding} hold slots of {key:?}, of which there are {limit_max}"),
            None,
        ),
        (None, Some((execution, limit))) => {
            let what = format!("it waits for {key:?}, of whose {limit} slots {holding} are held");
            (execution, what, Some(Cure::Promote))
        }
        (None, None) => return None,
    };
    Some(Finding::new(execution, Invariant::PermitsHold, what, cure))
}
