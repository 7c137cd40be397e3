//! The fields of a cron line.

use super::{CronFault, Word};
use crate::schedule::days::{DaysOfMonth, DaysOfWeek};
use crate::spelling::quoted;

/// What a field may contain.
#[derive(Debug)]
pub(super) struct FieldKind {
    name: &'static str,
    min: i64,
    max: i64,
    /// Names for its numbers, the first for `names_from`.
    names: &'static [&'static str],
    names_from: i64,
    /// What is allowed, for hints.
    allowed: &'static str,
}

pub(super) const SECOND: FieldKind = FieldKind {
    name: "second",
    min: 0,
    max: 59,
    names: &[],
    names_from: 0,
    allowed: "seconds are 0 to 59: `0`, `0,30`, `0-10`, `*` or `*/5`",
};
pub(super) const MINUTE: FieldKind = FieldKind {
    name: "minute",
    allowed: "minutes are 0 to 59: `30`, `0,30`, `0-10`, `*` or `*/5`",
    ..SECOND
};
pub(super) const HOUR: FieldKind = FieldKind {
    name: "hour",
    max: 23,
    allowed: "hours are 0 to 23: `2`, `8,20`, `8-18`, `*` or `*/6`",
    ..SECOND
};
const DAY_OF_MONTH: FieldKind = FieldKind {
    name: "day of month",
    min: 1,
    max: 31,
    allowed: "days are 1 to 31: `1`, `1,15`, `1-7`, `*` or `*/2`; `L` (last), `L-3`, `15W` (working day \
              nearest to the 15th), `LW`",
    ..SECOND
};
pub(super) const MONTH: FieldKind = FieldKind {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    names_from: 1,
    allowed: "months are 1 to 12 or JAN to DEC: `1`, `JAN,JUL`, `1-6`, `*` or `*/3`",
};
const DAY_OF_WEEK: FieldKind = FieldKind {
    name: "weekday",
    min: 0,
    max: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    names_from: 0,
    allowed: "weekdays are 0 to 7 (0 and 7 are Sunday) or SUN to SAT: `1`, `MON-FRI`, `*`; `MON#2` (second \
              Monday), `FRIL` (last Friday)",
};

/// Reads a field of numbers; also says whether it has a `*`.
pub(super) fn numbers(kind: &FieldKind, word: Word<'_>) -> Result<(u64, bool), CronFault> {
    let (mut mask, mut star) = (0, false);
    for element in elements(word) {
        let (numbers, is_star) = kind.range(element)?;
        mask |= numbers;
        star |= is_star;
    }
    Ok((mask, star))
}

pub(super) fn days_of_month(word: Word<'_>) -> Result<DaysOfMonth, CronFault> {
    let kind = &DAY_OF_MONTH;
    let mut days = DaysOfMonth::default();
    for element @ (_, text) in elements(word) {
        let upper = text.to_ascii_uppercase();
        if upper == "L" {
            days.from_last |= 1;
        } else if upper == "LW" || upper == "WL" {
            days.last_working = true;
        } else if let Some(before) = upper.strip_prefix("L-") {
            let before = digits(before).filter(|before| (1..=30).contains(before));
            days.from_last |= 1 << before.ok_or_else(|| kind.refuse(element))?;
        } else if let Some(day) = upper.strip_suffix('W') {
            days.nearest |= 1 << kind.number(day).ok_or_else(|| kind.refuse(element))?;
        } else {
            let (numbers, star) = kind.range(question_mark(element))?;
            days.days |= numbers;
            days.star |= star;
        }
    }
    Ok(days)
}

pub(super) fn days_of_week(word: Word<'_>) -> Result<DaysOfWeek, CronFault> {
    let kind = &DAY_OF_WEEK;
    let mut days = DaysOfWeek::default();
    for element @ (_, text) in elements(word) {
        let upper = text.to_ascii_uppercase();
        if let Some((day, nth)) = upper.split_once('#') {
            let day = kind.number(day).ok_or_else(|| kind.refuse(element))?;
            let nth = match digits(nth) {
                Some(nth @ 1..=5) => usize::try_from(nth - 1).unwrap_or(0),
                _ => return Err(kind.refuse(element)),
            };
            days.nth[nth] |= 1 << (day % 7);
        } else if let Some(day) = upper.strip_suffix('L') {
            days.last |= 1 << (kind.number(day).ok_or_else(|| kind.refuse(element))? % 7);
        } else {
            let (numbers, star) = kind.range(question_mark(element))?;
            days.days |= (numbers | numbers >> 7) & 0b111_1111;
            days.star |= star;
        }
    }
    Ok(days)
}

/// The parts of a list. An empty one is refused like every other part that is not a number.
fn elements((begin, text): Word<'_>) -> impl Iterator<Item = Word<'_>> {
    let mut at = begin;
    text.split(',').map(move |element| {
        let begin = at;
        at += element.len() + 1;
        (begin, element)
    })
}

/// `?` stands for "no day in particular" in Quartz.
fn question_mark((begin, text): Word<'_>) -> Word<'_> {
    (begin, if text == "?" { "*" } else { text })
}

fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

impl FieldKind {
    /// `5`, `1-5`, `*`, each possibly with a step; also says whether there is a `*`.
    fn range(&self, element: Word<'_>) -> Result<(u64, bool), CronFault> {
        let (_, text) = element;
        let (base, step) = match text.split_once('/') {
            Some((base, step)) => (base, Some(self.step(element, step)?)),
            None => (text, None),
        };
        let is_star = base == "*";
        let (first, last) = if is_star {
            (self.min, self.last())
        } else if let Some((first, last)) = base.split_once('-') {
            let number = |text| self.number(text).ok_or_else(|| self.refuse(element));
            (number(first)?, number(last)?)
        } else {
            let first = self.number(base).ok_or_else(|| self.refuse(element))?;
            (first, if step.is_some() { self.last().max(first) } else { first })
        };
        if first > last {
            let hint =
                format!("write two ranges, such as `{first}-{},{}-{last}`", self.max, self.min);
            let message = format!("{} in the field {} runs backwards", quoted(text), self.name);
            return Err(fault(element, message, hint));
        }
        let mut mask = 0;
        let mut number = first;
        while number <= last {
            mask |= 1 << number;
            number += step.unwrap_or(1);
        }
        Ok((mask, is_star))
    }

    /// A step that is as long as the field or longer selects one number only: a mistake, mostly for the
    /// number itself.
    fn step(&self, element: Word<'_>, text: &str) -> Result<i64, CronFault> {
        let max = self.last() - self.min;
        match digits(text) {
            Some(step) if (1..=max).contains(&step) => Ok(step),
            _ => {
                let hint = format!("steps of this field are 1 to {max}");
                let message =
                    format!("{} in the field {} has a bad step", quoted(element.1), self.name);
                Err(fault(element, message, hint))
            }
        }
    }

    /// Both 0 and 7 are Sunday: where the field is counted through, it ends with Saturday.
    fn last(&self) -> i64 {
        if self.max == 7 { 6 } else { self.max }
    }

    fn number(&self, text: &str) -> Option<i64> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(position) => self.names_from + i64::try_from(position).ok()?,
            None => digits(text)?,
        };
        (self.min..=self.max).contains(&number).then_some(number)
    }

    fn refuse(&self, element: Word<'_>) -> CronFault {
        let message = format!("the field {} cannot be {}", self.name, quoted(element.1));
        fault(element, message, self.allowed.to_owned())
    }
}

fn fault((begin, text): Word<'_>, message: String, hint: String) -> CronFault {
    CronFault { range: begin..begin + text.len(), message, hint }
}
