//! Through a store, chunk by chunk, with two threads: one decodes while the other reads.

use parking_lot::Mutex;
use waypost_core::check::Invariant;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_ports::inspect::{ChunkRequest, Examined, Shown};
use waypost_ports::store::StoreError;

use super::triggers::{BegunAs, Latest};
use super::{CheckReport, Checker, Cure, Finding, Tally, one};

/// Executions that are read from one moment of the store.
const CHUNK: usize = 100;
const THREADS: usize = 2;

struct StoreWalk<'a> {
    checker: Checker<'a>,
    since: Option<Timestamp>,
    /// Are there triggers?
    triggers: bool,
    latest: Mutex<Latest>,
    place: Mutex<WalkPosition>,
    report: Mutex<CheckReport>,
    progress: &'a (dyn Fn(&Tally) + Sync),
}

#[derive(Clone, Copy)]
enum WalkPosition {
    After(Option<ExecutionNo>),
    End,
}

/// Checks every execution of a store, or those that moved since a time. Returns the newest times of schedules that
/// have started one of them, too.
pub(super) fn check_all(
    checker: Checker<'_>,
    since: Option<Timestamp>,
    progress: &(dyn Fn(&Tally) + Sync),
) -> Result<(CheckReport, Latest), StoreError> {
    let walk = StoreWalk {
        checker,
        since,
        triggers: checker.triggers().has_triggers()?,
        latest: Mutex::default(),
        place: Mutex::new(WalkPosition::After(None)),
        report: Mutex::default(),
        progress,
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| walk.work())).collect();
        let panicked = || StoreError::Corrupt("the checker panicked".to_owned());
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| panicked())?)
    })?;
    Ok((walk.report.into_inner(), walk.latest.into_inner()))
}

impl StoreWalk<'_> {
    fn work(&self) -> Result<(), StoreError> {
        while let Some(executions) = self.next_chunk()? {
            let found =
                self.check(&executions).inspect_err(|_| *self.place.lock() = WalkPosition::End)?;
            let mut report = self.report.lock();
            report.add(found);
            let tally = report.tally;
            drop(report);
            (self.progress)(&tally);
        }
        Ok(())
    }

    /// The next executions; taken by one thread at a time, so that each is checked once.
    fn next_chunk(&self) -> Result<Option<Vec<ExecutionNo>>, StoreError> {
        let mut place = self.place.lock();
        let WalkPosition::After(after) = *place else { return Ok(None) };
        let request = ChunkRequest { after, limit: CHUNK, since: self.since };
        let chunk = self.checker.store.executions(&request)?;
        *place = chunk.next.map_or(WalkPosition::End, |next| WalkPosition::After(Some(next)));
        Ok(Some(chunk.executions))
    }

    fn check(&self, executions: &[ExecutionNo]) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        let mut rest = executions;
        while !rest.is_empty() {
            rest = match self.check_some(rest, &mut report) {
                // One row that cannot be read must not hide the others.
                Err(StoreError::Corrupt(_)) => {
                    for execution in rest {
                        report.add(self.checker.check_one(*execution)?);
                    }
                    &[]
                }
                other => other?,
            };
        }
        Ok(report)
    }

    /// Checks as many as the store returns at once; returns the rest.
    fn check_some<'a>(
        &self,
        executions: &'a [ExecutionNo],
        report: &mut CheckReport,
    ) -> Result<&'a [ExecutionNo], StoreError> {
        // First the projections, then the log: so the log is never behind.
        let Checker { store, plans, .. } = self.checker;
        let family = self.checker.family();
        let shown = store.shown(executions)?;
        let examined = store.examine(executions)?;
        let last = examined.last().map(|examined| examined.history.execution);
        let mut all_begun: Vec<BegunAs> = Vec::new();
        for examined in examined {
            let execution = examined.history.execution;
            let shown = shown.iter().find(|shown| shown.execution == execution);
            let (found, begun) = one::check_in_family(examined, shown, plans, family)?;
            let matters = |begun: &BegunAs| self.triggers || begun.2.fired.is_some();
            all_begun.extend(begun.filter(matters));
            let doubtful = found.findings.iter().any(is_about_rows);
            report.add(if doubtful { self.confirm(execution, &found)? } else { found });
        }
        if !all_begun.is_empty() {
            let mut latest = self.latest.lock();
            let found = self.checker.triggers().check_starts(&all_begun, &mut latest)?;
            report.findings.extend(found);
        }
        let done = executions.iter().position(|execution| Some(*execution) == last);
        Ok(done.and_then(|at| executions.get(at + 1..)).unwrap_or_default())
    }

    /// Looks again at an execution whose rows are wrong: only what stays is wrong.
    fn confirm(
        &self,
        execution: ExecutionNo,
        first: &CheckReport,
    ) -> Result<CheckReport, StoreError> {
        let (mut again, _) = self.checker.read_one(execution)?;
        let stays = |finding: &Finding| {
            let same = |other: &Finding| other.violation.invariant == finding.violation.invariant;
            !is_about_rows(finding) || first.findings.iter().any(same)
        };
        again.findings.retain(stays);
        Ok(again)
    }
}

fn is_about_rows(finding: &Finding) -> bool {
    finding.cure.is_some()
}

impl Checker<'_> {
    /// Checks one execution, and the item that started it.
    pub(super) fn check_one(&self, execution: ExecutionNo) -> Result<CheckReport, StoreError> {
        let (mut report, begun) = self.read_one(execution)?;
        if let Some(begun) = begun {
            let found = self.triggers().check_starts(&[begun], &mut Latest::new())?;
            report.findings.extend(found);
        }
        Ok(report)
    }

    /// Checks one execution; what cannot be read of it is a finding. Returns how it began, too.
    fn read_one(
        &self,
        execution: ExecutionNo,
    ) -> Result<(CheckReport, Option<BegunAs>), StoreError> {
        let Self { store, plans, .. } = *self;
        let unreadable = |invariant, reason: String, cure| {
            Finding::new(execution, invariant, format!("it cannot be read: {reason}"), cure)
        };
        let mut findings = Vec::new();
        let shown: Option<Shown> = match store.shown(&[execution]) {
            Err(StoreError::Corrupt(reason)) => {
                let cure = Some(Cure::Projections);
                findings.push(unreadable(Invariant::ProjectionsFold, reason, cure));
                None
            }
            other => other?.pop(),
        };
        let check = |mut found: Vec<Examined>| match found.pop() {
            Some(examined) => one::check_in_family(examined, shown.as_ref(), plans, self.family()),
            None => Ok((CheckReport::default(), None)),
        };
        let (mut report, begun) = match store.examine(&[execution]).and_then(check) {
            Err(StoreError::Corrupt(reason)) => {
                findings.push(unreadable(Invariant::Folds, reason, None));
                let tally = Tally { executions: 1, ..Tally::default() };
                (CheckReport { tally, ..CheckReport::default() }, None)
            }
            other => other?,
        };
        report.findings.extend(findings);
        Ok((report, begun))
    }
}

impl CheckReport {
    fn add(&mut self, more: Self) {
        let Tally { executions, frames, events, nodes, triggers } = more.tally;
        self.tally.executions += executions;
        self.tally.frames += frames;
        self.tally.events += events;
        self.tally.nodes += nodes;
        self.tally.triggers += triggers;
        self.findings.extend(more.findings);
    }
}
