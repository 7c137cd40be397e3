//! One turn of a schedule: from its row to what is fired and what is settled. Without I/O: who drives it, in a
//! task or in the simulator, makes the calls and says what became of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;
use waypost_core::trigger::decide::{
    BackfillFire, NextCursor, NotFired, ScheduleNow, ScheduleStep, SettledTime,
};
use waypost_core::trigger::{
    Overlap, ScheduleCursor, ScheduleTrigger, Trigger, TriggerCursor, TriggerKind,
};
use waypost_ports::triggers::{Advance, FireOutcome, SettledFire, Settlement, TriggerRow};

use super::Occurrence;

/// Times of a backfill that are looked up together.
const KNOWN_MAX: usize = 200;

/// A schedule that is worked on.
#[derive(Debug)]
pub struct ScheduleTurn {
    row: TriggerRow,
    trigger: Arc<Trigger>,
    /// The identity from which its jitter is made.
    key: String,
    /// The store's time when the turn began.
    now: Timestamp,
    open: Vec<ExecutionNo>,
    known: BTreeSet<Timestamp>,
    allowed: u32,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    next: NextCursor,
    occurrence: Option<Occurrence>,
    /// Is it of the first backfill?
    backfill: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub enum TurnAction {
    /// To be answered with [`ScheduleTurn::fired`].
    Fire(Box<Occurrence>, Advance),
    /// To be stored, and answered with [`ScheduleTurn::settled`].
    Settle(Box<Settlement>),
    /// The turn is over. It is due again at this time.
    Done(Option<Timestamp>),
}

/// What became of a time that fired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TimeFired {
    Started(ExecutionNo),
    /// It fired before.
    Known,
    /// It started nothing, for this reason.
    Nothing(FireOutcome, Option<String>),
}

impl ScheduleTurn {
    /// Begins with a row; `None` if it is not one of a schedule. `open` are the unfinished executions that it
    /// has started, where [`needs_open`](Self::needs_open) says so.
    pub fn new(
        row: TriggerRow,
        trigger: Arc<Trigger>,
        now: Timestamp,
        open: Vec<ExecutionNo>,
    ) -> Option<Self> {
        let (TriggerCursor::Schedule(cursor), TriggerKind::Schedule(_)) =
            (&row.cursor, &trigger.kind)
        else {
            return None;
        };
        let allowed = cursor.backfills.first().map_or(0, |first| first.rate);
        let key = trigger.jitter_key(&row.workflow);
        let known = BTreeSet::new();
        Some(Self { row, trigger, key, now, open, known, allowed, pending: None })
    }

    /// Does it matter which of its executions have not ended?
    pub fn needs_open(trigger: &Trigger) -> bool {
        match &trigger.kind {
            TriggerKind::Schedule(schedule) => schedule.overlap != Overlap::Allow,
            _ => false,
        }
    }

    /// The row, as it is after what was done.
    pub fn row(&self) -> &TriggerRow {
        &self.row
    }

    /// Is the time that fires one of a backfill?
    pub fn is_backfill(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.backfill)
    }

    /// The executions whose end times wait for.
    pub fn awaited(&self) -> &[ExecutionNo] {
        let waits =
            |cursor: &ScheduleCursor| !cursor.waiting.is_empty() || !cursor.backfills.is_empty();
        if self.cursor().is_some_and(waits) { &self.open } else { &[] }
    }

    /// The next times of the first backfill, to be looked up among those that fired before.
    pub fn times_of_backfill(&self) -> Vec<Timestamp> {
        let (Some(schedule), Some(cursor)) = (self.schedule(), self.cursor()) else {
            return Vec::new();
        };
        let Some(first) = cursor.backfills.first().filter(|first| !first.again) else {
            return Vec::new();
        };
        let ticks = schedule.schedule.backfill(first.from, first.to).unwrap_or_default();
        ticks.into_iter().take(KNOWN_MAX).map(|tick| tick.at).collect()
    }

    /// These times fired before.
    pub fn know(&mut self, times: impl IntoIterator<Item = Timestamp>) {
        self.known.extend(times);
    }

    /// When a time is due: its jitter included.
    pub fn due_at(&self, nominal: Timestamp) -> Timestamp {
        let due = |schedule: &ScheduleTrigger| schedule.schedule.jittered(&self.key, nominal);
        self.schedule().map_or(nominal, due)
    }

    /// What is to be done next.
    pub fn next_action(&mut self) -> TurnAction {
        let (Some(schedule), Some(cursor)) = (self.schedule(), self.cursor()) else {
            return TurnAction::Done(None);
        };
        let step = ScheduleNow {
            key: &self.key,
            schedule,
            cursor,
            now: self.now,
            open: self.open.len(),
            allowed: self.allowed,
            known: &self.known,
        }
        .step();
        match step {
            ScheduleStep::Wait(due) if due == self.row.next_due => TurnAction::Done(due),
            ScheduleStep::Wait(due) => {
                let next = NextCursor { cursor: cursor.clone(), due };
                self.settlement(next, Vec::new(), false)
            }
            ScheduleStep::Settle { times, cancel, next } => {
                let fires = times.iter().map(|time| self.not_fired(time)).collect();
                self.settlement(next, fires, cancel)
            }
            ScheduleStep::Fire { time, previous, backfill, next } => {
                self.allowed -= u32::from(backfill != BackfillFire::None && self.allowed > 0);
                let mut occurrence = Occurrence::of_time(time);
                occurrence.previous_at = previous;
                if let BackfillFire::Again { id } = backfill {
                    occurrence.key = format!("{time} in backfill {id}").into();
                }
                let advance = self.advance(&next);
                let backfill = backfill != BackfillFire::None;
                let fires = Some(occurrence.clone());
                self.pending = Some(Pending { next, occurrence: fires, backfill });
                TurnAction::Fire(Box::new(occurrence), advance)
            }
        }
    }

    /// What became of the time that fired. Where it started nothing, this is to be stored.
    pub fn fired(&mut self, fired: TimeFired) -> Option<Box<Settlement>> {
        let mut pending = self.pending.take()?;
        let fires = match fired {
            TimeFired::Started(execution) => {
                self.open.push(execution);
                self.apply(pending.next);
                return None;
            }
            TimeFired::Known => {
                let first = pending.next.cursor.backfills.first_mut();
                if let Some(first) = first.filter(|first| pending.backfill && first.fired > 0) {
                    first.fired -= 1;
                    first.known += 1;
                }
                Vec::new()
            }
            TimeFired::Nothing(outcome, reason) => {
                let settled = |occurrence: &Occurrence| {
                    occurrence.settled(&self.row, outcome, reason.as_deref())
                };
                pending.occurrence.iter().map(settled).collect()
            }
        };
        match self.settlement(pending.next, fires, false) {
            TurnAction::Settle(settlement) => Some(settlement),
            TurnAction::Fire(..) | TurnAction::Done(_) => None,
        }
    }

    /// The settlement is stored.
    pub fn settled(&mut self) {
        if let Some(Pending { next, .. }) = self.pending.take() {
            self.apply(next);
        }
    }

    fn apply(&mut self, NextCursor { cursor, due }: NextCursor) {
        self.row.seq += 1;
        self.row.cursor = TriggerCursor::Schedule(cursor);
        self.row.next_due = due;
    }

    fn advance(&self, next: &NextCursor) -> Advance {
        let cursor = TriggerCursor::Schedule(next.cursor.clone());
        Advance { seq: self.row.seq, cursor, next_due: next.due }
    }

    fn settlement(
        &mut self,
        next: NextCursor,
        fires: Vec<SettledFire>,
        cancel: bool,
    ) -> TurnAction {
        let reason: Arc<str> =
            format!("a later time of the trigger {} is due", self.row.name).into();
        let cancelled = if cancel { self.open.as_slice() } else { &[] };
        let settlement = Settlement {
            at: self.row.at(),
            advance: Some(self.advance(&next)),
            group: None,
            fires,
            failures: 0,
            failure: None,
            broken: None,
            cancel: cancelled.iter().map(|open| (*open, Arc::clone(&reason))).collect(),
        };
        self.pending = Some(Pending { next, occurrence: None, backfill: false });
        TurnAction::Settle(Box::new(settlement))
    }

    fn not_fired(&self, SettledTime { time, why }: &SettledTime) -> SettledFire {
        let occurrence = Occurrence::of_time(*time);
        let skipped =
            |reason: &str| occurrence.settled(&self.row, FireOutcome::Skipped, Some(reason));
        match why {
            NotFired::Missed { last, count, more } => {
                let more = if *more { " or more" } else { "" };
                let reason = match count {
                    1 => "it was due too long ago".to_owned(),
                    count => format!("{count}{more} times up to {last} were due too long ago"),
                };
                // It stands for many, and none of them has this key.
                let mut missed = Occurrence::of_time(*time);
                missed.key = format!("{time} to {last} missed").into();
                missed.settled(&self.row, FireOutcome::Missed, Some(&reason))
            }
            NotFired::Overlaps => skipped("an execution of an earlier time had not ended"),
            NotFired::QueueFull => skipped("as many times as may were waiting already"),
            NotFired::Replaced => skipped("a later time was due before it could start"),
        }
    }

    fn schedule(&self) -> Option<&ScheduleTrigger> {
        match &self.trigger.kind {
            TriggerKind::Schedule(schedule) => Some(schedule),
            _ => None,
        }
    }

    fn cursor(&self) -> Option<&ScheduleCursor> {
        match &self.row.cursor {
            TriggerCursor::Schedule(cursor) => Some(cursor),
            _ => None,
        }
    }
}
