//! Schedules against a naive model: a walk over all minutes that looks at the clock of the zone.

use std::collections::BTreeSet;

use jiff::Timestamp as Instant;
use jiff::civil::date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use waypost_core::schedule::{Schedule, ScheduleSpec};
use waypost_core::time::{Millis, Timestamp};

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// Zones whose clocks have done something unusual, and a few ordinary ones.
const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Moscow",
    "Europe/Istanbul",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Santiago",
    "America/St_Johns",
    "America/Caracas",
    "America/Havana",
    "America/Scoresbysund",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Juba",
    "Asia/Tehran",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "Pacific/Apia",
    "Pacific/Fakaofo",
    "Pacific/Kwajalein",
    "Pacific/Chatham",
    "Pacific/Easter",
];

/// The fields of a cron line, as sets of what matches.
pub(crate) struct Naive {
    fields: [Vec<bool>; 5],
    stars: [bool; 5],
}

impl Naive {
    /// Reads numbers, lists, ranges and steps.
    pub(crate) fn new(line: &str) -> Self {
        let ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        let words: Vec<&str> = line.split(' ').collect();
        let fields = std::array::from_fn(|field| set(words[field], ranges[field]));
        Self { fields, stars: std::array::from_fn(|field| words[field].contains('*')) }
    }

    fn matches_day(&self, day: i64) -> bool {
        let date = date(1970, 1, 1).saturating_add(jiff::Span::new().days(day));
        let of_month = self.fields[2][index(date.day().into())];
        let of_week = self.fields[4][index(date.weekday().to_sunday_zero_offset().into())];
        let either = of_month || of_week;
        let day = if self.stars[2] || self.stars[4] { of_month && of_week } else { either };
        day && self.fields[3][index(date.month().into())]
    }

    fn matches(&self, minute: i64, day: &mut (i64, bool)) -> bool {
        let found = minute.div_euclid(24 * 60);
        if day.0 != found {
            *day = (found, self.matches_day(found));
        }
        let time = index(minute.rem_euclid(24 * 60));
        day.1 && self.fields[0][time % 60] && self.fields[1][time / 60]
    }

    /// The seconds in a span at which the line fires: by looking at each minute.
    /// The zone is asked every `step` minutes.
    pub(crate) fn walk(&self, zone: &TimeZone, from: i64, to: i64, step: i64) -> Vec<i64> {
        let every_tick = self.stars[0] || self.stars[1];
        let mut fires = Vec::new();
        let (mut latest, mut day) = (None, (i64::MIN, false));
        let mut second = from.div_euclid(DAY) * DAY - 2 * DAY;
        let mut offset = 0;
        while second < to {
            if second % (step * MINUTE) == 0 {
                offset = zone.to_offset(Instant::constant(second, 0)).seconds();
            }
            let wall = (second + i64::from(offset)).div_euclid(MINUTE);
            let last = *latest.get_or_insert(wall - 1);
            // What the clock leaves out matches now; what it repeats does not match again.
            let fires_now = if every_tick {
                self.matches(wall, &mut day)
            } else {
                (last + 1..=wall).any(|wall| self.matches(wall, &mut day))
            };
            if fires_now && second >= from {
                fires.push(second);
            }
            latest = Some(last.max(wall));
            second += MINUTE;
        }
        fires
    }
}

fn set(text: &str, (min, max): (usize, usize)) -> Vec<bool> {
    let number = |text: &str| -> usize { text.parse().expect("a number") };
    let mut found = vec![false; max + 1];
    for part in text.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first), number(last)),
            None if range == "*" => (min, max),
            None => (number(range), number(range)),
        };
        (first..=last).step_by(number(step)).for_each(|number| found[number] = true);
    }
    found
}

fn index(number: i64) -> usize {
    usize::try_from(number).expect("not negative")
}

pub(crate) fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).expect("a known zone")
}

pub(crate) fn cron(lines: &[&str], zone: &str) -> Schedule {
    let cron = lines.iter().map(|line| (*line).to_owned()).collect();
    let spec = ScheduleSpec { cron, zone: Some(zone.to_owned()), ..ScheduleSpec::default() };
    Schedule::compile(&spec).unwrap_or_else(|faults| panic!("{lines:?} {zone}: {faults:?}"))
}

/// The schedule's times in a span of seconds, by one walk. They are in order.
pub(crate) fn seconds(schedule: &Schedule, from: i64, to: i64) -> Vec<i64> {
    let times = schedule.ticks(Timestamp(from * 1000 - 1)).map(|tick| tick.at.0);
    let times: Vec<i64> = times.take_while(|at| *at < to * 1000).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "not strictly increasing");
    assert!(times.iter().all(|at| at % 1000 == 0));
    times.into_iter().map(|at| at / 1000).collect()
}

/// Names the first difference only: lists of times are long.
pub(crate) fn assert_same(found: &[i64], expected: &[i64], what: &str) {
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    if found.len() != same || expected.len() != same {
        let shown = |list: &[i64]| list.get(same).map(|at| Timestamp(at * 1000).to_string());
        panic!("{what}: {:?} instead of {:?}", shown(found), shown(expected));
    }
}

fn field(min: i64, max: i64) -> impl Strategy<Value = String> {
    let part =
        (min..=max, min..=max, 1..=max - min, 0..4_u8).prop_map(move |(a, b, step, form)| {
            let (first, last) = (a.min(b), a.max(b));
            match form {
                0 => format!("{first}-{last}"),
                1 => format!("{first}-{last}/{step}"),
                _ => first.to_string(),
            }
        });
    prop_oneof![
        3 => Just("*".to_owned()),
        1 => (1..=max - min).prop_map(|step| format!("*/{step}")),
        4 => proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join(",")),
    ]
}

/// Lines whose hours are mostly at night, when clocks change, and that match on most days.
fn line() -> impl Strategy<Value = String> {
    let hour = prop_oneof![2 => field(0, 5), 2 => field(0, 23), 1 => Just("0".to_owned())];
    let day = prop_oneof![4 => Just("*".to_owned()), 1 => field(1, 31)];
    let month = prop_oneof![4 => Just("*".to_owned()), 1 => field(1, 12)];
    let weekday = prop_oneof![4 => Just("*".to_owned()), 1 => field(0, 6)];
    (field(0, 59), hour, day, month, weekday).prop_map(|(minute, hour, day, month, weekday)| {
        format!("{minute} {hour} {day} {month} {weekday}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schedules_around_changes_of_the_clock_equal_a_walk_over_minutes(
        lines in proptest::collection::vec(line(), 1..4),
        zone_at in 0..ZONES.len(),
        year in 1975..2036_i16,
        shift in -2 * DAY..2 * DAY,
    ) {
        let name = ZONES[zone_at];
        let zone = zone(name);
        let begin = date(year, 1, 1).to_zoned(TimeZone::UTC).unwrap().timestamp();
        let change = zone.following(begin).next().map_or(begin, |change| change.timestamp());
        let (from, to) = (change.as_second() + shift - 2 * DAY, change.as_second() + shift + 2 * DAY);
        let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
        let spec = ScheduleSpec { cron: lines.clone(), zone: Some(name.to_owned()), ..Default::default() };
        // Only lines that match no day at all are refused.
        let Ok(schedule) = Schedule::compile(&spec) else {
            let never = |line: &&str| (0..146_097).all(|day| !Naive::new(line).matches_day(day));
            prop_assert!(texts.iter().any(never), "{texts:?}");
            return Ok(());
        };
        let expected: BTreeSet<i64> =
            texts.iter().flat_map(|line| Naive::new(line).walk(&zone, from, to, 1)).collect();
        let expected: Vec<i64> = expected.into_iter().collect();
        let found = seconds(&schedule, from, to);
        assert_same(&found, &expected, &format!("{name} {texts:?} around {change}"));
        // One at a time gives the same, also from between two of them.
        let begin = found.partition_point(|at| *at < change.as_second() - DAY / 8);
        let mut after = begin.checked_sub(1).map_or(Timestamp(from * 1000 - 1), |at| Timestamp(found[at] * 1000));
        for second in found[begin..].iter().take(40) {
            let next = schedule.next_after(after).unwrap();
            prop_assert_eq!(next.at.0, second * 1000, "{} {:?}", name, texts);
            let between = schedule.next_after(Timestamp((after.0 + next.at.0).div_euclid(2)));
            prop_assert_eq!(between.unwrap(), next, "{} {:?}", name, texts);
            after = next.at;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_schedule_with_increasing_times_or_a_fault_with_a_hint(
        cron in prop_oneof![
            "[0-9*,/LW#?@A-Za-z -]{0,40}",
            "\\PC{0,40}",
            "([0-9]{1,2}|\\*|L|LW|[0-9]W|\\*/[0-9]{1,2})( ([0-9]{1,2}|\\*|L|15W|[0-9]#[0-9])){4,5}",
        ],
        zone in prop_oneof![5 => Just("Europe/Berlin".to_owned()), 1 => "\\PC{0,20}"],
        time in prop_oneof!["[0-9T:. Z+-]{0,30}", "\\PC{0,20}"],
        after in any::<i64>(),
    ) {
        for spec in [
            ScheduleSpec { cron: vec![cron.clone()], zone: Some(zone.clone()), ..Default::default() },
            ScheduleSpec { at: vec![time.clone()], zone: Some(zone.clone()), ..Default::default() },
        ] {
            match Schedule::compile(&spec) {
                Ok(schedule) => {
                    let times: Vec<_> = schedule.ticks(Timestamp(after)).take(5).collect();
                    prop_assert!(times.is_sorted_by(|a, b| a.at < b.at));
                    prop_assert!(schedule.next_after(Timestamp(i64::MIN)).is_some());
                    prop_assert_eq!(schedule.next_after(Timestamp(i64::MAX)), None);
                    schedule.due("t", Timestamp(after), Timestamp(after).plus(Millis(100_000_000)));
                }
                Err(faults) => {
                    prop_assert!(!faults.is_empty());
                    for fault in faults {
                        prop_assert!(fault.hint.is_some() && !fault.message.contains('\n'));
                        let field = match fault.field.name {
                            "cron" => &cron,
                            "zone" => &zone,
                            _ => &time,
                        };
                        prop_assert!(field.get(fault.range.unwrap()).is_some());
                    }
                }
            }
        }
    }
}
