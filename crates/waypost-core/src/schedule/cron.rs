//! One cron line: how it is written, and which wall times match it.
//!
//! ```text
//!   [second] minute hour day-of-month month weekday
//!    0-59    0-59   0-23  1-31 L W    1-12  0-7 # L       lists, ranges, steps; JAN-DEC, SUN-SAT
//! ```
//!
//! Where both day fields restrict the days, a day that matches one of them is enough, as in every cron;
//! a field with a `*` restricts nothing beyond its step. Nothing here knows of time zones.

mod field;

use std::ops::Range;

use super::calendar::DAY;
use super::days::{Days, first_bit};
use crate::limits::CRON_BYTES_MAX;

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CronFault {
    /// The bytes of the line that are meant.
    pub(super) range: Range<usize>,
    pub(super) message: String,
    pub(super) hint: String,
}

/// A line, compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CronLine {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: Days,
    /// Minutes or hours have a `*`: the line follows real time, and does not name times of the day.
    pub(super) every_tick: bool,
}

const NICKNAMES: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl CronLine {
    pub(super) fn parse(line: &str) -> Result<Self, CronFault> {
        let whole = |message: String, hint: &str| {
            Err(CronFault { range: 0..line.len(), message, hint: hint.to_owned() })
        };
        if line.len() > CRON_BYTES_MAX {
            let message = format!("a cron line may have at most {CRON_BYTES_MAX} bytes");
            return whole(message, "write several lines as a list");
        }
        let nickname = line.trim();
        let meant = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(nickname));
        let text = meant.map_or(line, |(_, meant)| meant);
        if text.trim_start().starts_with('@') {
            let hint = match nickname.split_ascii_whitespace().next() {
                Some("@every") => {
                    "give the interval as `every`, such as `every: 15m`, not as `cron`"
                }
                _ => "write `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` or the fields",
            };
            return whole("no schedule has this name".to_owned(), hint);
        }
        let words = words(text);
        if words.first().is_some_and(|(_, word)| word.contains("TZ=")) {
            return whole("a cron line does not name its zone".to_owned(), "give it as `zone`");
        }
        let hint = match words[..] {
            [minute, hour, day, month, weekday] => {
                return Self::compile((0, "0"), [minute, hour, day, month, weekday]);
            }
            [second, minute, hour, day, month, weekday] => {
                return Self::compile(second, [minute, hour, day, month, weekday]);
            }
            [_, _, _, _, _, _, _] => {
                "a field for years does not exist: bound the schedule with `from` and `until`"
            }
            _ => "write `minute hour day-of-month month weekday`, such as `0 2 * * 1-5`",
        };
        let found = words.len();
        whole(format!("a cron line has 5 fields, or 6 that begin with seconds; not {found}"), hint)
    }

    fn compile(second: Word<'_>, words: [Word<'_>; 5]) -> Result<Self, CronFault> {
        let [minute, hour, day, month, weekday] = words;
        let (seconds, _) = field::numbers(&field::SECOND, second)?;
        let (minutes, every_minute) = field::numbers(&field::MINUTE, minute)?;
        let (hours, every_hour) = field::numbers(&field::HOUR, hour)?;
        let of_month = field::days_of_month(day)?;
        let (months, _) = field::numbers(&field::MONTH, month)?;
        let of_week = field::days_of_week(weekday)?;
        let days = Days { months, of_month, of_week };
        Ok(Self { seconds, minutes, hours, days, every_tick: every_minute || every_hour })
    }

    /// The first wall time from `wall` on that matches. `day` is one that is known to match, which saves
    /// looking at the calendar for each of its ticks.
    pub(super) fn first_from(&self, wall: i64, day: Option<i64>) -> Option<i64> {
        let (from, time) = (wall.div_euclid(DAY), wall.rem_euclid(DAY));
        let found = if day == Some(from) { from } else { self.days.first_from(from)? };
        if found == from {
            if let Some(time) = self.first_time(time) {
                return Some(found * DAY + time);
            }
            return Some(self.days.first_from(from + 1)? * DAY + self.first_time(0)?);
        }
        Some(found * DAY + self.first_time(0)?)
    }

    /// The first time of the day from `time` on.
    fn first_time(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        let at = |hour: i64, minute: i64, second: i64| hour * 3_600 + minute * 60 + second;
        let (first_minute, first_second) =
            (first_bit(self.minutes, 0)?, first_bit(self.seconds, 0)?);
        if (self.hours >> hour) & 1 == 1 {
            if (self.minutes >> minute) & 1 == 1
                && let Some(second) = first_bit(self.seconds, second)
            {
                return Some(at(hour, minute, second));
            }
            if let Some(minute) = first_bit(self.minutes, minute + 1) {
                return Some(at(hour, minute, first_second));
            }
        }
        Some(at(first_bit(self.hours, hour + 1)?, first_minute, first_second))
    }
}

/// A word of a line, and the byte where it begins.
type Word<'a> = (usize, &'a str);

fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let begin = line.len() - rest.len();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if word.is_empty() {
            return words;
        }
        words.push((begin, word));
        rest = behind;
    }
}
