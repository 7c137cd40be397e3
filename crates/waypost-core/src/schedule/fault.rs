//! What is wrong with the description of a schedule, where, and what to do about it.

use std::fmt;
use std::ops::Range;

/// The stable names of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleCode {
    /// A cron line that cannot be read.
    BadCron,
    /// A zone that the time zone database does not have.
    UnknownZone,
    /// No time matches, such as 30 February.
    NeverFires,
    /// A jitter as long as the interval, or longer.
    BadJitter,
    /// An interval below a second, or an offset beyond it.
    BadInterval,
    /// Not a time, or two times in the wrong order.
    BadTime,
    /// A value that `catchUp` does not allow.
    BadCatchUp,
    /// Not exactly one of `cron`, `every` and `at`, or more entries than allowed.
    BadSchedule,
}

impl ScheduleCode {
    /// As it is printed: `bad_cron`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadCron => "bad_cron",
            Self::UnknownZone => "unknown_zone",
            Self::NeverFires => "never_fires",
            Self::BadJitter => "bad_jitter",
            Self::BadInterval => "bad_interval",
            Self::BadTime => "bad_time",
            Self::BadCatchUp => "bad_catch_up",
            Self::BadSchedule => "bad_schedule",
        }
    }
}

/// The field of a [`ScheduleSpec`](super::ScheduleSpec) that a fault is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduleField {
    /// As definitions spell it; empty for the schedule as a whole.
    pub name: &'static str,
    /// Which entry of a list, from 0.
    pub index: Option<usize>,
}

impl fmt::Display for ScheduleField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}[{index}]", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// One thing that is wrong with a schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ScheduleFault {
    pub code: ScheduleCode,
    pub field: ScheduleField,
    /// The bytes of the field's text that are meant, where it is a text.
    pub range: Option<Range<usize>>,
    pub message: String,
    pub hint: Option<String>,
}

impl ScheduleFault {
    pub(super) fn new(
        code: ScheduleCode,
        name: &'static str,
        index: Option<usize>,
        message: impl Into<String>,
    ) -> Self {
        let field = ScheduleField { name, index };
        Self { code, field, range: None, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn range(mut self, range: Range<usize>) -> Self {
        self.range = Some(range);
        self
    }
}
