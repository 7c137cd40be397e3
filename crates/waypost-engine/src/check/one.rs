//! One execution: its log by the rules of the core, then the rows beside it.

use std::sync::Arc;

use waypost_core::check::{Invariant, LogCheck, Violation};
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionId;
use waypost_core::projection::{Changes, Stamp};
use waypost_ports::inspect::{Examined, Shown};
use waypost_ports::store::{History, Store, StoreError, StoredFrame};

use super::family::{Family, Parents};
use super::triggers::BegunAs;
use super::triggers::starts::{Begun, BegunByTrigger};
use super::{CheckReport, Cure, Finding, Tally, rows, shown as projections};
use crate::{Damage, Plans};

pub(super) struct Read {
    pub(super) log: LogCheck,
    key: Option<ExecutionId>,
    /// How it began, if its log says so.
    begun: Option<Begun>,
    /// The projections as they must be, up to the requested seq.
    changes: Changes,
    /// What the logs of its parent and children contradict.
    contradicted: Vec<(u64, String)>,
}

/// Reads a log page by page, and folds it for readers up to a seq.
pub(super) fn read(
    history: &mut History,
    plans: &Plans,
    family: Family<'_>,
    upto: Option<u64>,
) -> Result<Read, StoreError> {
    let store = family.store;
    let decoded = |frame: StoredFrame| {
        let events = events_of(&frame);
        (frame, events)
    };
    let mut frames = history.take_log(store).map(|frame| frame.map(decoded)).peekable();
    let first = frames.peek().and_then(|read| {
        let (frame, events) = read.as_ref().ok()?;
        Some((frame.at, events.as_ref().ok()?.first()?))
    });
    let (log, key, begun) = match first {
        Some((at, Event::Run(RunEvent::Created(created)))) => {
            let log = match plans.get(created.definition, store) {
                Ok(plan) => LogCheck::new(history.execution, plan),
                Err(Damage::Store(error)) => return Err(error),
                Err(damage) => LogCheck::without_plan(history.execution, Some(damage.to_string())),
            };
            let fired = created.trigger.as_ref().map(|fired| BegunByTrigger {
                name: Arc::clone(&fired.name),
                label: Arc::clone(&fired.key),
                at: fired.at,
            });
            let begun = Begun { workflow: Arc::clone(&created.workflow), at, fired };
            (log, Some(created.key.clone()), Some(begun))
        }
        // The fault of such a log is found by reading it.
        _ => (LogCheck::without_plan(history.execution, None), None, None),
    };
    let (changes, contradicted) = (Changes::default(), Vec::new());
    let mut read = Read { log, key, begun, changes, contradicted };
    let mut snapshot = history.snapshot.as_ref();
    for read_frame in frames {
        let (frame, events) = read_frame?;
        let header = &frame.header;
        let given = events.as_deref().map_err(String::as_str);
        read.log.frame(header, frame.at, given);
        if let Some(reached) = snapshot.take_if(|snapshot| snapshot.seq == header.last_seq) {
            read.log.snapshot(reached.seq, &reached.body);
        }
        for (seq, event) in (header.first_seq..).zip(events.iter().flatten()) {
            let wrong = family.check(header.execution, event)?;
            read.contradicted.extend(wrong.map(|what| (seq, what)));
        }
        if upto.is_some_and(|upto| header.last_seq <= upto) {
            for (seq, event) in (header.first_seq..).zip(events.into_iter().flatten()) {
                read.changes.apply(Stamp { seq, at: frame.header.decided_at }, event);
            }
        }
    }
    if let Some(left) = snapshot {
        read.log.snapshot(left.seq, &left.body);
    }
    Ok(read)
}

/// Checks one execution with everything around it. The projections, if they are checked, must have
/// been read before the rest.
pub fn check_examined(
    examined: Examined,
    shown: Option<&Shown>,
    plans: &Plans,
    store: &dyn Store,
) -> Result<CheckReport, StoreError> {
    let family = Family { store, parents: &Parents::default() };
    check_in_family(examined, shown, plans, family).map(|(report, _)| report)
}

/// As [`check_examined`], with the parents that are known. Returns how the execution began, too.
pub(super) fn check_in_family(
    mut examined: Examined,
    shown: Option<&Shown>,
    plans: &Plans,
    family: Family<'_>,
) -> Result<(CheckReport, Option<BegunAs>), StoreError> {
    let upto = shown.and_then(|shown| shown.rows.as_ref()).map(|rows| rows.view.seq);
    let history = &mut examined.history;
    let last = history.last_header().copied();
    let execution = history.execution;
    let mut read = read(history, plans, family, upto)?;
    let counts = read.log.counts();
    let tally = Tally {
        executions: 1,
        frames: counts.frames,
        events: counts.events,
        nodes: counts.nodes,
        triggers: 0,
    };
    let shown_key = || shown?.rows.as_ref().map(|rows| ExecutionId(Arc::clone(&rows.key)));
    let key = read.key.take().or_else(shown_key);
    let mut findings = Vec::new();
    let mut note = |violation, cure| {
        findings.push(Finding {
            key: key.clone(),
            trigger: None,
            violation,
            cure,
            repaired: false,
        });
    };
    let mut sound = true;
    for violation in read.log.take_violations() {
        let cure = (violation.invariant == Invariant::SnapshotFolds).then_some(Cure::Snapshot);
        sound &= cure.is_some();
        note(violation, cure);
    }
    for (seq, what) in std::mem::take(&mut read.contradicted) {
        let invariant = Invariant::ChildMatchesParent;
        note(Violation { execution, invariant, seq, what }, None);
    }
    let plan = read.log.plan().map(|plan| &**plan);
    // Rows are not compared with a damaged log.
    if let Some((state, last)) = read.log.state().filter(|_| sound).zip(last) {
        for (invariant, what) in rows::check(&examined, (state, plan), &last) {
            let seq = state.seq;
            note(Violation { execution, invariant, seq, what }, Some(Cure::Rows));
        }
        if let Some(what) = shown.and_then(|shown| projections::compare(shown, &read.changes)) {
            let (invariant, seq) = (Invariant::ProjectionsFold, state.seq);
            note(Violation { execution, invariant, seq, what }, Some(Cure::Projections));
        }
    }
    let begun = read.begun.map(|begun| (execution, key, begun));
    Ok((CheckReport { tally, findings, ..CheckReport::default() }, begun))
}

fn events_of(frame: &StoredFrame) -> Result<Vec<Event>, String> {
    let body = frame.body.as_ref().map_err(|reason| format!("the frame is damaged: {reason}"))?;
    decode(body).map_err(|error| error.to_string())
}
