//! The times of a schedule, one after another.
//!
//! The rules for daylight saving time are here, and only here. A [`Stretch`] is a span of constant offset:
//!
//! ```text
//!   Berlin     stretch A (+1)            │ stretch B (+2)              │ stretch C (+1)
//!   wall       …  01:59:59               │ 03:00:00  …  02:59:59       │ 02:00:00  …  02:59:59  03:00:00
//!              a gap: 02:00 to 02:59:59 ─┘            a repeated hour ─┘
//! ```
//!
//! - A line that names times of the day fires once for each of them: at the first instant after the gap if
//!   the clock leaves it out (several times in one gap are one tick), at the first of the two instants if
//!   the clock repeats it.
//! - A line with a `*` in its minutes or hours follows real time: it fires whenever the clock shows a
//!   matching time, in both passes of a repeated hour, and not for times that the clock leaves out.

use super::calendar::DAY;
use super::cron::CronLine;
use super::zone::{Stretch, Zone, wall_time};
use super::{Nominal, Remark, Schedule, Times};
use crate::time::Timestamp;

/// The times of a schedule after a given one, in order, without end unless the schedule has one.
#[derive(Debug)]
pub struct Ticks<'a> {
    source: TickSource<'a>,
    /// The first time that is too late.
    until: Timestamp,
}

#[derive(Debug)]
enum TickSource<'a> {
    Lines(Vec<LineTicks<'a>>),
    /// The next time, the interval.
    Every(i64, i64),
    At(&'a [Nominal]),
}

impl<'a> Ticks<'a> {
    /// The times strictly after `after`, and before `until`.
    pub(super) fn new(schedule: &'a Schedule, after: Timestamp, until: Timestamp) -> Self {
        let after = after.0.clamp(Timestamp::FIRST.0, Timestamp::LAST.0);
        let source = match &schedule.times {
            Times::Cron(lines) => {
                let second = after.div_euclid(1000);
                let ticks = |line| LineTicks::new(line, &schedule.zone, second);
                TickSource::Lines(lines.iter().map(ticks).collect())
            }
            Times::Every { every, offset } => {
                let passed = (after - offset).div_euclid(*every);
                TickSource::Every((passed + 1) * every + offset, *every)
            }
            Times::At(times) => {
                let passed = times.partition_point(|time| time.at.0 <= after);
                TickSource::At(&times[passed..])
            }
        };
        Self { source, until: until.min(Timestamp::LAST) }
    }
}

impl Iterator for Ticks<'_> {
    type Item = Nominal;

    fn next(&mut self) -> Option<Nominal> {
        let next = match &mut self.source {
            TickSource::Lines(lines) => first_of(lines)?,
            TickSource::Every(next, every) => {
                let at = Timestamp(*next);
                *next += *every;
                Nominal { at, remark: None }
            }
            TickSource::At(times) => {
                let (first, rest) = times.split_first()?;
                *times = rest;
                *first
            }
        };
        (next.at < self.until).then_some(next)
    }
}

/// Takes the earliest tick of several lines; lines that fire at the same time fire once. A remark is kept,
/// whichever of them has it.
fn first_of(lines: &mut [LineTicks<'_>]) -> Option<Nominal> {
    let first = lines.iter().filter_map(|line| line.head).map(|head| head.at).min()?;
    let mut remark = None;
    for line in lines {
        if let Some(head) = line.head.filter(|head| head.at == first) {
            remark = remark.or(head.remark);
            line.head = line.advance();
        }
    }
    Some(Nominal { at: first, remark })
}

/// The ticks of one line, with the stretch that the last one was in.
#[derive(Debug)]
struct LineTicks<'a> {
    line: &'a CronLine,
    zone: &'a Zone,
    stretch: Stretch,
    /// The second of the last tick; the next one is later.
    last: i64,
    /// The day of the last tick, on the wall.
    day: Option<i64>,
    /// The next tick.
    head: Option<Nominal>,
}

impl<'a> LineTicks<'a> {
    fn new(line: &'a CronLine, zone: &'a Zone, last: i64) -> Self {
        let stretch = zone.stretch(last + 1);
        let mut ticks = Self { line, zone, stretch, last, day: None, head: None };
        ticks.head = ticks.advance();
        ticks
    }

    fn advance(&mut self) -> Option<Nominal> {
        loop {
            if self.last + 1 >= self.stretch.until {
                self.stretch = self.zone.stretch(self.last + 1);
            }
            if let Some(tick) = self.after_gap() {
                return Some(tick);
            }
            let stretch = self.stretch;
            let mut wall = self.last + 1 + stretch.offset;
            if !self.line.every_tick && stretch.was_before(wall) {
                wall = stretch.from + stretch.before;
            }
            let wall = self.line.first_from(wall, self.day)?;
            let second = wall - stretch.offset;
            if second < stretch.until {
                (self.last, self.day) = (second, Some(wall.div_euclid(DAY)));
                return Some(Nominal { at: at(second), remark: self.remark(wall) });
            }
            self.last = stretch.until - 1;
            if !self.line.every_tick {
                // No wall time before this one matches, and no zone changes its offset by two days: the
                // stretches in between have no tick. A line that follows real time may have one: times
                // that have passed come again.
                self.last = self.last.max(second - 2 * DAY);
            }
        }
    }

    /// The tick at the first instant of the stretch, if the clock has left out a matching time before it.
    fn after_gap(&mut self) -> Option<Nominal> {
        let Stretch { from, offset, before, .. } = self.stretch;
        if self.line.every_tick || before >= offset || self.last + 1 != from {
            return None;
        }
        let wall = self.line.first_from(from + before, None)?;
        if wall >= from + offset {
            return None;
        }
        self.last = from;
        let remark = Remark::MovedOutOfGap { wall: wall_time(wall) };
        Some(Nominal { at: at(from), remark: Some(remark) })
    }

    fn remark(&self, wall: i64) -> Option<Remark> {
        let stretch = &self.stretch;
        if self.line.every_tick {
            let first = || Remark::EveryTickKept { first: at(wall - stretch.before) };
            stretch.was_before(wall).then(first)
        } else {
            let second = || Remark::SecondLeftOut { second: at(wall - stretch.after) };
            stretch.comes_again(wall).then(second)
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1000)
}
