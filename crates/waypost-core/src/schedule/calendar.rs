//! The calendar in whole numbers: days since 1970-01-01, months since the year 0.
//!
//! Wall time is counted in seconds since 1970-01-01T00:00 of the zone's own clock, so that most of a
//! search is integer arithmetic.

/// Seconds of a day on the wall.
pub(super) const DAY: i64 = 86_400;
/// The months after which the calendar repeats, weekdays included: 400 years.
pub(super) const CYCLE_MONTHS: i64 = 4_800;
/// The month after the last one that times can be written in, 9999-12.
pub(super) const MONTHS_END: i64 = 10_000 * 12;

/// A month as a number (`year * 12 + month`, from 0), and the day in it, from 1.
pub(super) fn date(days: i64) -> (i64, i64) {
    // Years begin in March here, so that a leap day is the last day of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    ((era * 400 + year) * 12 + month + 2, day)
}

/// The first day of a month.
pub(super) fn first_day(months: i64) -> i64 {
    let shifted = months - 2;
    let (year, month) = (shifted.div_euclid(12), shifted.rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The month of the year, from 1.
pub(super) fn month_of_year(months: i64) -> i64 {
    months.rem_euclid(12) + 1
}

/// Sunday is 0.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date as civil;

    use super::*;

    #[test]
    fn calendar_agrees_with_the_library_over_a_whole_cycle() {
        let mut day = civil(1599, 12, 1);
        let mut days = i64::from((day - civil(1970, 1, 1)).get_days());
        while day < civil(2401, 2, 1) {
            let months = i64::from(day.year()) * 12 + i64::from(day.month()) - 1;
            assert_eq!(date(days), (months, i64::from(day.day())), "{day}");
            assert_eq!(weekday(days), i64::from(day.weekday().to_sunday_zero_offset()), "{day}");
            assert_eq!(first_day(months), days - i64::from(day.day()) + 1, "{day}");
            assert_eq!(month_of_year(months), i64::from(day.month()));
            (day, days) = (day.tomorrow().unwrap(), days + 1);
        }
    }
}
