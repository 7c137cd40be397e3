//! Schedules: at which times something fires, as a function of a description and nothing else.
//!
//! ```text
//!   ScheduleSpec ─▶ Schedule::compile ─▶ next_after(time)       nominal times, strictly increasing
//!                        │               due(after, now)        what fires now, what is passed over
//!                        ▼               backfill(from, to)     the times of a span of the past
//!                  ScheduleFaults
//! ```
//!
//! A **nominal time** is an instant at which a schedule is to fire, as UTC. It identifies the fire, so it
//! is the same on every instance: the time zone database is a part of the program, and no clock is read
//! here. Jitter puts off the fire and leaves the nominal time as it is.
//!
//! | file | owns |
//! | --- | --- |
//! | `spec` | the description, as definitions write it |
//! | `compile` | the checks of a description |
//! | `fault` | what is wrong with a description |
//! | `cron` | cron lines: parsing, matching wall times |
//! | `days`, `calendar` | days of months and weeks |
//! | `zone` | the time zone database |
//! | `ticks` | nominal times in order, and the rules for daylight saving time |
//! | `due` | catching up after downtime |

mod calendar;
mod compile;
mod cron;
mod days;
mod due;
mod fault;
mod spec;
mod ticks;
mod zone;

use std::fmt;

use jiff::civil::DateTime;

pub use self::due::{DueTimes, PassedOver, TimeCount, TooManyTimes};
pub use self::fault::{ScheduleCode, ScheduleFault, ScheduleField};
pub use self::spec::{CatchUp, Missed, ScheduleSpec};
pub use self::ticks::Ticks;
use crate::time::{Millis, Timestamp};

/// A schedule that has at least one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    times: Times,
    zone: zone::Zone,
    /// The first time that may fire.
    from: Timestamp,
    /// The first time that may not.
    until: Timestamp,
    jitter: Millis,
    catch_up: CatchUp,
}

#[derive(Clone, PartialEq, Debug)]
enum Times {
    Cron(Vec<cron::CronLine>),
    /// In milliseconds since 1970; the offset is below the interval.
    Every {
        every: i64,
        offset: i64,
    },
    /// In order.
    At(Vec<Nominal>),
}

/// A time at which a schedule fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nominal {
    pub at: Timestamp,
    /// What daylight saving time has to do with it.
    pub remark: Option<Remark>,
}

/// A change of the zone's offset from UTC decided about a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remark {
    /// The clock leaves out this wall time: the schedule fires at the first instant after the gap.
    MovedOutOfGap { wall: DateTime },
    /// The clock shows this wall time twice: the schedule fires the first time, and not at `second`.
    SecondLeftOut { second: Timestamp },
    /// The clock shows this wall time for the second time; it fired at `first`, too, since the schedule
    /// follows real time.
    EveryTickKept { first: Timestamp },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MovedOutOfGap { wall } => {
                write!(f, "the clock leaves out {wall}: fires at the first instant after the gap")
            }
            Self::SecondLeftOut { second } => {
                write!(f, "the clock shows this time again at {second}: fires only the first time")
            }
            Self::EveryTickKept { first } => {
                write!(f, "the clock showed this time at {first}, too: fires every time")
            }
        }
    }
}

impl Schedule {
    /// The first nominal time strictly after `after`.
    ///
    /// After a fire, `after` is the nominal time of that fire and never the present time: in the autumn,
    /// the second of two equal wall times would count as a new one.
    pub fn next_after(&self, after: Timestamp) -> Option<Nominal> {
        self.ticks(after).next()
    }

    /// All nominal times strictly after `after`. Faster than repeated calls of
    /// [`next_after`](Self::next_after).
    pub fn ticks(&self, after: Timestamp) -> Ticks<'_> {
        Ticks::new(self, after.max(self.from.minus(Millis(1))), self.until)
    }

    /// When a nominal time fires: later than it by a part of the jitter that depends on the trigger and
    /// the time alone, so that all instances agree. It is always earlier than the next nominal time.
    pub fn jittered(&self, trigger: &str, nominal: Timestamp) -> Timestamp {
        if self.jitter == Millis(0) {
            return nominal;
        }
        // A change of the clock may bring two times closer together than they ever are otherwise.
        let room = self.successor(nominal).map_or(self.jitter, |next| next.since(nominal));
        let mut hash = blake3::Hasher::new();
        hash.update(&nominal.0.to_le_bytes());
        hash.update(trigger.as_bytes());
        let mut seed = [0; 8];
        hash.finalize_xof().fill(&mut seed);
        nominal.plus(Millis(u64::from_le_bytes(seed) % self.jitter.min(room).0.max(1)))
    }

    /// The zone's name, as the database spells it.
    pub fn zone(&self) -> &str {
        self.zone.name()
    }

    /// A time on the zone's clock: `2026-03-29T03:00:00+02:00[Europe/Berlin]`.
    pub fn local_text(&self, time: Timestamp) -> String {
        self.zone.text(time.0).unwrap_or_else(|| time.to_string())
    }

    /// The greatest part of a fire's delay that is on purpose.
    pub fn jitter(&self) -> Millis {
        self.jitter
    }

    /// What happens to times that passed while no instance fired them.
    pub fn catch_up(&self) -> CatchUp {
        self.catch_up
    }

    /// The next time by the pattern alone, even if the schedule ends before it.
    fn successor(&self, nominal: Timestamp) -> Option<Timestamp> {
        Some(Ticks::new(self, nominal, Timestamp::LAST).next()?.at)
    }
}
