//! Which times fire now: as a rule the next one; after downtime, what [`CatchUp`] allows.
//!
//! **Missed** is a time that is more than a minute late and whose successor is due, too: later than one
//! interval, and never because of a short pause. A time later than `window` never fires, whatever its
//! interval. All others fire as if nothing had happened: a schedule of every second that pauses for 30 s
//! fires 30 times.
//!
//! The number of ticks between two times may be in the millions. They are counted, up to a limit, and never
//! collected; the newest ones are found by bisection.

use super::{CatchUp, Missed, Nominal, Schedule};
use crate::limits::{BACKFILL_TIMES_MAX, TICKS_COUNTED_MAX};
use crate::planted::{Bug, is_planted};
use crate::time::{Millis, Timestamp};

/// A time that is less late than this is not missed.
const GRACE: Millis = Millis::from_secs(60);

/// What a schedule has to do now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DueTimes {
    /// These fire, the oldest first.
    pub fire: Vec<Nominal>,
    /// How many of them, from the first one on, were missed and are caught up.
    pub caught_up: usize,
    /// These do not fire.
    pub passed_over: Option<PassedOver>,
    /// The last nominal time that is dealt with: where the next call begins.
    pub after: Timestamp,
    /// When to look again; `None` if the schedule has ended.
    pub next: Option<Timestamp>,
}

/// Nominal times that do not fire any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedOver {
    pub count: TimeCount,
    pub first: Timestamp,
    pub last: Timestamp,
}

/// A number of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeCount {
    pub count: usize,
    /// There are more: counting stopped at [`TICKS_COUNTED_MAX`].
    pub more: bool,
}

/// A backfill of more than [`BACKFILL_TIMES_MAX`] times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a backfill may have at most {BACKFILL_TIMES_MAX} times, not {}{}", .0.count, if .0.more { " or more" } else { "" })]
pub struct TooManyTimes(pub TimeCount);

impl Schedule {
    /// What fires at `now`. `after` is the last nominal time that was dealt with, or the time from which on
    /// the schedule counts: its registration, or the end of a pause. Nothing up to there is caught up.
    pub fn due(&self, trigger: &str, after: Timestamp, now: Timestamp) -> DueTimes {
        let due_at = |time: Timestamp| self.jittered(trigger, time);
        let next = |after| self.next_after(after).map(|next| due_at(next.at));
        let nothing = DueTimes { after, next: next(after), ..DueTimes::default() };
        if nothing.next.is_none_or(|next| next > now) {
            return nothing;
        }
        // Jitter ends before the next nominal time: only the newest may be put off beyond `now`.
        let Some(mut newest) = self.newest(1, after, now).first().copied() else { return nothing };
        if due_at(newest.at) > now {
            let Some(before) = self.newest(1, after, newest.at.minus(Millis(1))).first().copied()
            else {
                return nothing;
            };
            newest = before;
        }
        let in_time = self.in_time(trigger, after, newest, now);
        let missed_until = match in_time.first() {
            Some(first) => first.at.minus(Millis(1)),
            None => newest.at,
        };
        let caught_up = self.caught_up(trigger, (after, missed_until), now, in_time.len());
        let first_fired = caught_up.first().or(in_time.first()).map(|first| first.at);
        let passed_until = first_fired.map_or(newest.at, |first| first.minus(Millis(1)));
        DueTimes {
            passed_over: self.passed_over(after, passed_until),
            caught_up: caught_up.len(),
            fire: caught_up.into_iter().chain(in_time).collect(),
            after: newest.at,
            next: next(newest.at),
        }
    }

    /// The times up to `newest` that are due and not missed.
    fn in_time(
        &self,
        trigger: &str,
        after: Timestamp,
        newest: Nominal,
        now: Timestamp,
    ) -> Vec<Nominal> {
        let late = |time: &Nominal| now.since(self.jittered(trigger, time.at));
        // The time before the first of these is due before that one: it is looked at, too.
        let recent = self.newest(1, after, now.minus(GRACE)).first().map(|time| time.at);
        let from = recent.map_or(after, |recent| recent.minus(Millis(1))).max(after);
        let until = |time: &Nominal| time.at <= newest.at;
        let recent = self.ticks(from).take_while(until).filter(|time| late(time) <= GRACE);
        let recent: Vec<Nominal> = recent.collect();
        let newest_counts =
            late(&newest) <= self.catch_up.window && self.successor(newest.at).is_some();
        if recent.is_empty() && newest_counts { vec![newest] } else { recent }
    }

    /// The missed times of a span (exclusive, inclusive) that fire after all.
    fn caught_up(
        &self,
        trigger: &str,
        (after, until): (Timestamp, Timestamp),
        now: Timestamp,
        in_time: usize,
    ) -> Vec<Nominal> {
        let CatchUp { missed, window, max } = self.catch_up;
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let count = match missed {
            Missed::None => 0,
            Missed::Last => usize::from(in_time == 0),
            Missed::All if is_planted(Bug::CatchUpUnbounded) => usize::MAX,
            Missed::All => max.saturating_sub(in_time),
        };
        if count == 0 {
            return Vec::new();
        }
        // Jitter is shorter than an interval, so this leaves out no time whose fire is in the window.
        let earliest = now.minus(window).minus(self.jitter).minus(Millis(1));
        let mut found = self.newest(count, after.max(earliest), until);
        found.retain(|time| now.since(self.jittered(trigger, time.at)) <= window);
        found
    }

    fn passed_over(&self, after: Timestamp, until: Timestamp) -> Option<PassedOver> {
        let first = self.next_after(after).filter(|first| first.at <= until)?.at;
        let last = self.newest(1, after, until).first()?.at;
        Some(PassedOver { count: self.count(first, until.plus(Millis(1))), first, last })
    }

    /// The last `count` times of a span (exclusive, inclusive), the oldest first. Looks at a number of
    /// ticks that depends on `count` and the logarithm of the span alone.
    fn newest(&self, count: usize, after: Timestamp, until: Timestamp) -> Vec<Nominal> {
        let ticks = |after: i64| {
            self.ticks(Timestamp(after)).take_while(|tick| tick.at <= until).take(count)
        };
        // After `many` there are at least `count` ticks, after `few` there are fewer.
        let (mut many, mut few) = (after.max(Timestamp::FIRST).0, until.0);
        if few <= many || ticks(many).count() < count {
            return ticks(many).collect();
        }
        while few - many > 1 {
            let middle = many + (few - many) / 2;
            if ticks(middle).count() < count {
                few = middle;
            } else {
                many = middle;
            }
        }
        ticks(many).collect()
    }

    /// The last time before this one, at most eight years back.
    pub fn last_before(&self, time: Timestamp) -> Option<Nominal> {
        let years = Millis::from_secs(8 * 366 * 24 * 3_600);
        self.newest(1, time.minus(years), time.minus(Millis(1))).first().copied()
    }

    /// How many times there are from `from` on and before `to`.
    pub fn count(&self, from: Timestamp, to: Timestamp) -> TimeCount {
        let times = self.ticks(from.minus(Millis(1))).take_while(|tick| tick.at < to);
        let found = times.take(TICKS_COUNTED_MAX + 1).count();
        TimeCount { count: found.min(TICKS_COUNTED_MAX), more: found > TICKS_COUNTED_MAX }
    }

    /// The times from `from` on and before `to`, for firing them again or for the first time. They are
    /// within the schedule's own `from` and `until`.
    pub fn backfill(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Nominal>, TooManyTimes> {
        let times = self.ticks(from.minus(Millis(1))).take_while(|tick| tick.at < to);
        let times: Vec<Nominal> = times.take(BACKFILL_TIMES_MAX + 1).collect();
        if times.len() > BACKFILL_TIMES_MAX {
            return Err(TooManyTimes(self.count(from, to)));
        }
        Ok(times)
    }
}
