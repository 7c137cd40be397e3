//! Which days a cron line matches: its fields for the day of the month, the month and the weekday.

use super::calendar::{self, CYCLE_MONTHS, MONTHS_END};

/// The three fields, compiled. Bit `n` of a mask stands for the number `n`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Days {
    pub(super) months: u64,
    pub(super) of_month: DaysOfMonth,
    pub(super) of_week: DaysOfWeek,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DaysOfMonth {
    /// The field has a `*`.
    pub(super) star: bool,
    pub(super) days: u64,
    /// Days before the last one: `L` is 0, `L-3` is 3.
    pub(super) from_last: u64,
    /// `15W`: the weekday nearest to the 15th.
    pub(super) nearest: u64,
    /// `LW`
    pub(super) last_working: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DaysOfWeek {
    /// The field has a `*`.
    pub(super) star: bool,
    pub(super) days: u64,
    /// `MON#2`: the weekdays that are wanted the first, second … fifth time in their month.
    pub(super) nth: [u64; 5],
    /// `5L`: the weekdays that are wanted the last time in their month.
    pub(super) last: u64,
}

impl Days {
    /// The first day from `day` on. `None` where no day of the calendar matches, or none before the
    /// year 10000: the search ends after one cycle of the calendar.
    pub(super) fn first_from(&self, day: i64) -> Option<i64> {
        let (begin, of_month) = calendar::date(day);
        let mut mask = self.in_month(begin) & (u64::MAX << of_month);
        for months in begin..=(begin + CYCLE_MONTHS).min(MONTHS_END) {
            if months == MONTHS_END {
                return None;
            }
            if months != begin {
                mask = self.in_month(months);
            }
            if mask != 0 {
                return Some(calendar::first_day(months) + i64::from(mask.trailing_zeros()) - 1);
            }
        }
        None
    }

    /// The days of one month that match, as a mask.
    fn in_month(&self, months: i64) -> u64 {
        if (self.months >> calendar::month_of_year(months)) & 1 == 0 {
            return 0;
        }
        let first = calendar::first_day(months);
        let month = Month {
            length: calendar::first_day(months + 1) - first,
            weekday: calendar::weekday(first),
        };
        // As cron has it: two fields that both restrict the days add up, one that has a `*` does not
        // count.
        if self.of_month.star || self.of_week.star {
            self.of_month.in_month(month) & self.of_week.in_month(month)
        } else {
            self.of_month.in_month(month) | self.of_week.in_month(month)
        }
    }
}

#[derive(Clone, Copy)]
struct Month {
    length: i64,
    /// The weekday of its first day.
    weekday: i64,
}

impl Month {
    fn days(self) -> u64 {
        (1 << (self.length + 1)) - 2
    }

    fn is_working(self, day: i64) -> bool {
        !matches!((self.weekday + day - 1) % 7, 0 | 6)
    }

    /// The working day nearest to `day` that is in the same month.
    fn nearest_working(self, day: i64) -> i64 {
        let in_month = |day: &i64| (1..=self.length).contains(day);
        let mut days = [day, day - 1, day + 1, day - 2, day + 2].into_iter().filter(in_month);
        days.find(|day| self.is_working(*day)).unwrap_or(day)
    }
}

impl DaysOfMonth {
    fn in_month(&self, month: Month) -> u64 {
        let mut mask = self.days & month.days();
        for days in bits(self.from_last).filter(|days| *days < month.length) {
            mask |= 1 << (month.length - days);
        }
        for day in bits(self.nearest).filter(|day| *day <= month.length) {
            mask |= 1 << month.nearest_working(day);
        }
        if self.last_working {
            mask |= 1 << month.nearest_working(month.length);
        }
        mask
    }
}

impl DaysOfWeek {
    fn in_month(&self, month: Month) -> u64 {
        if self.days == 0b111_1111 {
            return month.days();
        }
        let mut mask = 0;
        for (day, nth) in (1..=month.length).zip(self.nth.iter().flat_map(|nth| [*nth; 7])) {
            let last = if day + 7 > month.length { self.last } else { 0 };
            let wanted = self.days | nth | last;
            mask |= ((wanted >> ((month.weekday + day - 1) % 7)) & 1) << day;
        }
        mask
    }
}

/// The numbers of a mask.
pub(super) fn bits(mask: u64) -> impl Iterator<Item = i64> {
    (0..64).filter(move |bit| (mask >> bit) & 1 == 1)
}

/// The first number of a mask from `from` on.
pub(super) fn first_bit(mask: u64, from: i64) -> Option<i64> {
    let rest = if from < 64 { mask & (u64::MAX << from) } else { 0 };
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}
