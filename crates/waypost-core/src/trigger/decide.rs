//! What a schedule does now: one step at a time, from its cursor, the store's time and the executions that
//! it has started. Pure.
//!
//! ```text
//!   due times ─▶ missed ones are passed over ─▶ overlap: fire, skip, wait, cancel and wait
//!                                                 └─▶ nothing due: the oldest backfill
//! ```
//!
//! Each step says what the cursor is after it. The caller stores both together, so that a crash between two
//! steps leaves out nothing, and the item of a time that fired before makes it fire no second time.

use std::collections::BTreeSet;

use super::{Backfill, Overlap, ScheduleCursor, ScheduleTrigger};
use crate::planted::{Bug, is_planted};
use crate::time::{Millis, Timestamp};

/// How often to look whether an execution has ended that times wait for, and whether a backfill may go on.
pub const LOOK_EVERY: Millis = Millis::from_secs(1);
/// How long others leave a schedule alone that has more to do at once. It is due again then if the instance
/// that works on it dies.
pub const GOES_ON: Millis = Millis::from_secs(2);

/// A schedule as it is now.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleNow<'a> {
    /// See [`Trigger::jitter_key`](super::Trigger::jitter_key).
    pub key: &'a str,
    pub schedule: &'a ScheduleTrigger,
    pub cursor: &'a ScheduleCursor,
    /// The store's time.
    pub now: Timestamp,
    /// Unfinished executions that it has started.
    pub open: usize,
    /// How many times of backfills may still fire in this turn.
    pub allowed: u32,
    /// Times of the first backfill that fired before.
    pub known: &'a BTreeSet<Timestamp>,
}

/// What is to be done next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScheduleStep {
    /// A time fires, and the cursor moves with it.
    Fire { time: Timestamp, previous: Option<Timestamp>, backfill: BackfillFire, next: NextCursor },
    /// The cursor moves, and nothing fires.
    Settle {
        times: Vec<SettledTime>,
        /// The executions that it has started are cancelled.
        cancel: bool,
        next: NextCursor,
    },
    /// Nothing is to be done before this time, or never again.
    Wait(Option<Timestamp>),
}

/// The backfill that a time is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackfillFire {
    /// It is of the schedule itself.
    None,
    /// It does not fire if it fired before.
    Once,
    /// It fires though it fired before, once for this backfill.
    Again { id: u64 },
}

/// A cursor, and when its trigger is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NextCursor {
    pub cursor: ScheduleCursor,
    pub due: Option<Timestamp>,
}

/// A time, or a number of times in a row, that starts nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettledTime {
    pub time: Timestamp,
    pub why: NotFired,
}

/// Why a time starts nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotFired {
    /// It and all up to `last` were due too long ago.
    Missed { last: Timestamp, count: usize, more: bool },
    /// An execution of an earlier time has not ended.
    Overlaps,
    /// As many times wait already as may.
    QueueFull,
    /// It waited for an execution to end, and a later time takes its place.
    Replaced,
}

/// When a schedule with this cursor is due.
pub fn schedule_due(
    key: &str,
    schedule: &ScheduleTrigger,
    cursor: &ScheduleCursor,
    now: Timestamp,
) -> Option<Timestamp> {
    let next = schedule.schedule.next_after(cursor.after);
    let next = next.map(|next| schedule.schedule.jittered(key, next.at));
    let look = (!cursor.waiting.is_empty()).then(|| now.plus(LOOK_EVERY));
    let backfill = cursor.backfills.first().map(|first| match schedule.overlap {
        Overlap::Allow => first.not_before,
        Overlap::Skip | Overlap::Queue | Overlap::CancelRunning => {
            first.not_before.max(now.plus(LOOK_EVERY))
        }
    });
    [next, look, backfill].into_iter().flatten().min()
}

impl ScheduleNow<'_> {
    /// The next step.
    pub fn step(&self) -> ScheduleStep {
        let Self { schedule, cursor, .. } = self;
        let due = schedule.schedule.due(self.key, cursor.after, self.now);
        if let Some(passed) = due.passed_over {
            let why = NotFired::Missed {
                last: passed.last,
                count: passed.count.count,
                more: passed.count.more,
            };
            let after = if due.fire.is_empty() { due.after } else { passed.last };
            let times = vec![SettledTime { time: passed.first, why }];
            return self.settle(times, false, ScheduleCursor { after, ..self.copy() });
        }
        let times: Vec<Timestamp> = due.fire.iter().map(|nominal| nominal.at).collect();
        let Some(first) = times.first().copied() else { return self.waiting() };
        let busy = self.open > 0 || !cursor.waiting.is_empty();
        let passed = ScheduleCursor { after: due.after, ..self.copy() };
        match schedule.overlap {
            Overlap::CancelRunning if busy || times.len() > 1 => self.replace(&times, passed),
            Overlap::Skip if busy => {
                let skipped = |time| SettledTime { time, why: NotFired::Overlaps };
                self.settle(times.into_iter().map(skipped).collect(), false, passed)
            }
            Overlap::Queue if busy => self.enqueue(&times, passed),
            Overlap::Allow | Overlap::Skip | Overlap::Queue | Overlap::CancelRunning => {
                self.fire(first, ScheduleCursor { after: first, ..self.copy() })
            }
        }
    }

    /// Nothing is due: times that wait, and backfills.
    fn waiting(&self) -> ScheduleStep {
        let cursor = self.cursor;
        match cursor.waiting.first() {
            Some(first) if self.open == 0 => {
                let waiting = cursor.waiting.iter().skip(1).copied().collect();
                self.fire(*first, ScheduleCursor { waiting, ..self.copy() })
            }
            Some(_) => self.wait(),
            None => match cursor.backfills.first() {
                Some(backfill) => self.backfill(backfill),
                None => self.wait(),
            },
        }
    }

    /// Times take their places behind those that wait.
    fn enqueue(&self, times: &[Timestamp], mut passed: ScheduleCursor) -> ScheduleStep {
        let room = (Overlap::QUEUE_MAX as usize).saturating_sub(passed.waiting.len());
        let (enter, full) = times.split_at(room.min(times.len()));
        passed.waiting.extend(enter);
        let full = full.iter().map(|time| SettledTime { time: *time, why: NotFired::QueueFull });
        self.settle(full.collect(), false, passed)
    }

    /// The newest time waits for the executions that are cancelled, in place of all others.
    fn replace(&self, times: &[Timestamp], mut passed: ScheduleCursor) -> ScheduleStep {
        let mut replaced = std::mem::take(&mut passed.waiting);
        replaced.extend(times);
        passed.waiting.extend(replaced.pop());
        let replaced =
            replaced.into_iter().map(|time| SettledTime { time, why: NotFired::Replaced });
        self.settle(replaced.collect(), self.open > 0, passed)
    }

    fn backfill(&self, backfill: &Backfill) -> ScheduleStep {
        let waits = self.schedule.overlap != Overlap::Allow && self.open > 0;
        if waits || self.allowed == 0 || backfill.not_before > self.now {
            return self.wait();
        }
        let ticks = self.schedule.schedule.ticks(backfill.from.minus(Millis(1)));
        let mut times = ticks.map(|tick| tick.at).take_while(|time| *time < backfill.to).peekable();
        let mut known = 0;
        while !backfill.again && times.next_if(|time| self.known.contains(time)).is_some() {
            known += 1;
        }
        let mut next = Backfill { known: backfill.known + known, ..backfill.clone() };
        let (fires, rest) = match known {
            0 => (times.next(), times.next()),
            _ => (None, times.next()),
        };
        next.fired += u64::from(fires.is_some());
        if fires.is_some() && self.allowed == 1 {
            next.not_before = self.now.plus(LOOK_EVERY);
        }
        next.from = rest.unwrap_or(backfill.to);
        let others = self.cursor.backfills.iter().skip(1).cloned();
        let backfills = rest.map(|_| next).into_iter().chain(others).collect();
        let cursor = ScheduleCursor { backfills, ..self.copy() };
        let Some(time) = fires else { return self.settle(Vec::new(), false, cursor) };
        let cursor = match is_planted(Bug::BackfillMovesCursor) {
            true => ScheduleCursor { after: time, ..cursor },
            false => cursor,
        };
        let previous = self.schedule.schedule.last_before(time).map(|last| last.at);
        let of = if backfill.again {
            BackfillFire::Again { id: backfill.id }
        } else {
            BackfillFire::Once
        };
        ScheduleStep::Fire { time, previous, backfill: of, next: self.next(cursor) }
    }

    fn copy(&self) -> ScheduleCursor {
        self.cursor.clone()
    }

    fn fire(&self, time: Timestamp, cursor: ScheduleCursor) -> ScheduleStep {
        let previous = self.cursor.previous;
        let next = self.next(ScheduleCursor { previous: Some(time), ..cursor });
        ScheduleStep::Fire { time, previous, backfill: BackfillFire::None, next }
    }

    fn settle(
        &self,
        times: Vec<SettledTime>,
        cancel: bool,
        cursor: ScheduleCursor,
    ) -> ScheduleStep {
        ScheduleStep::Settle { times, cancel, next: self.next(cursor) }
    }

    fn next(&self, mut cursor: ScheduleCursor) -> NextCursor {
        cursor.reached = cursor.reached.filter(|reached| *reached > cursor.after);
        let due = schedule_due(self.key, self.schedule, &cursor, self.now);
        let due = due.map(|due| if due <= self.now { self.now.plus(GOES_ON) } else { due });
        NextCursor { cursor, due }
    }

    fn wait(&self) -> ScheduleStep {
        let due = schedule_due(self.key, self.schedule, self.cursor, self.now);
        ScheduleStep::Wait(due.map(|due| due.max(self.now.plus(Millis(1)))))
    }
}

#[cfg(test)]
mod tests;
