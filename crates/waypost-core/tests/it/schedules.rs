//! Schedules: what people write, and when it fires.

use waypost_core::schedule::{Nominal, Remark, Schedule, ScheduleSpec};
use waypost_core::time::{Millis, Timestamp};

use crate::schedule_laws::{Naive, assert_same, cron, seconds, zone};

pub(crate) fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"))
}

fn spec(json: &str) -> ScheduleSpec {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

pub(crate) fn schedule(json: &str) -> Schedule {
    Schedule::compile(&spec(json)).unwrap_or_else(|faults| panic!("{json}: {faults:?}"))
}

/// `03-29T03:00+02:00`, and what daylight saving time has to do with it.
fn shown(schedule: &Schedule, tick: &Nominal) -> String {
    let local = schedule.local_text(tick.at);
    let (local, _) = local.split_once('[').unwrap_or((&local, ""));
    let (date, offset) = local[5..].split_at(14);
    let remark = match tick.remark {
        None => "",
        Some(Remark::MovedOutOfGap { .. }) => "!gap",
        Some(Remark::SecondLeftOut { .. }) => "!once",
        Some(Remark::EveryTickKept { .. }) => "!again",
    };
    let seconds = date.strip_suffix(":00").unwrap_or(date);
    format!("{seconds}{offset}{remark}")
}

/// A zone, a line, a span of UTC days, the times in it.
const CLOCK_CHANGES: &[(&str, &str, &str, &str, &str)] = &[
    // Berlin, 29 March 2026: 02:00 to 03:00 is left out.
    (
        "Europe/Berlin",
        "30 2 * * *",
        "2026-03-28",
        "2026-03-31",
        "03-28T02:30+01:00 03-29T03:00+02:00!gap 03-30T02:30+02:00",
    ),
    ("Europe/Berlin", "0 2 * * *", "2026-03-29", "2026-03-30", "03-29T03:00+02:00!gap"),
    ("Europe/Berlin", "0 3 * * *", "2026-03-29", "2026-03-30", "03-29T03:00+02:00"),
    ("Europe/Berlin", "0,15,30 2 * * *", "2026-03-29", "2026-03-30", "03-29T03:00+02:00!gap"),
    (
        "Europe/Berlin",
        "15 1,2,3 * * *",
        "2026-03-29",
        "2026-03-29T22:00",
        "03-29T01:15+01:00 03-29T03:00+02:00!gap 03-29T03:15+02:00",
    ),
    (
        "Europe/Berlin",
        "30 * * * *",
        "2026-03-29",
        "2026-03-29T03:00",
        "03-29T01:30+01:00 03-29T03:30+02:00 03-29T04:30+02:00",
    ),
    (
        "Europe/Berlin",
        "*/30 2 * * *",
        "2026-03-28",
        "2026-03-31",
        "03-28T02:00+01:00 03-28T02:30+01:00 03-30T02:00+02:00 03-30T02:30+02:00",
    ),
    ("Europe/Berlin", "30 2 29 3 *", "2026-01-01", "2027-01-01", "03-29T03:00+02:00!gap"),
    // Berlin, 25 October 2026: 02:00 to 03:00 comes twice.
    (
        "Europe/Berlin",
        "30 2 * * *",
        "2026-10-24",
        "2026-10-27",
        "10-24T02:30+02:00 10-25T02:30+02:00!once 10-26T02:30+01:00",
    ),
    ("Europe/Berlin", "0 3 * * *", "2026-10-25", "2026-10-26", "10-25T03:00+01:00"),
    (
        "Europe/Berlin",
        "30 1-3 * * *",
        "2026-10-24T23:00",
        "2026-10-25T23:00",
        "10-25T01:30+02:00 10-25T02:30+02:00!once 10-25T03:30+01:00",
    ),
    (
        "Europe/Berlin",
        "30 * * * *",
        "2026-10-25",
        "2026-10-25T03:00",
        "10-25T02:30+02:00 10-25T02:30+01:00!again 10-25T03:30+01:00",
    ),
    (
        "Europe/Berlin",
        "*/30 2 * * *",
        "2026-10-25",
        "2026-10-26",
        "10-25T02:00+02:00 10-25T02:30+02:00 10-25T02:00+01:00!again 10-25T02:30+01:00!again",
    ),
    // New York, 8 March and 1 November 2026, at 02:00.
    (
        "America/New_York",
        "30 2 * * *",
        "2026-03-08",
        "2026-03-10",
        "03-08T03:00-04:00!gap 03-09T02:30-04:00",
    ),
    (
        "America/New_York",
        "30 1 * * 0",
        "2026-10-26",
        "2026-11-09",
        "11-01T01:30-04:00!once 11-08T01:30-05:00",
    ),
    (
        "America/New_York",
        "0 */6 * * *",
        "2026-11-01T04:00",
        "2026-11-02T05:00",
        "11-01T00:00-04:00 11-01T06:00-05:00 11-01T12:00-05:00 11-01T18:00-05:00",
    ),
    // Lord Howe: half an hour. 02:00 to 02:30 on 4 October 2026, 01:30 to 02:00 again on 5 April.
    (
        "Australia/Lord_Howe",
        "15 2 * * *",
        "2026-10-03T13:00",
        "2026-10-04T13:00",
        "10-04T02:30+11:00!gap",
    ),
    (
        "Australia/Lord_Howe",
        "45 2 * * *",
        "2026-10-03T13:00",
        "2026-10-04T13:00",
        "10-04T02:45+11:00",
    ),
    (
        "Australia/Lord_Howe",
        "45 1 * * *",
        "2026-04-04T13:00",
        "2026-04-05T13:00",
        "04-05T01:45+11:00!once",
    ),
    (
        "Australia/Lord_Howe",
        "*/15 * * * *",
        "2026-04-04T14:30",
        "2026-04-04T15:45",
        "04-05T01:30+11:00 04-05T01:45+11:00 04-05T01:30+10:30!again 04-05T01:45+10:30!again 04-05T02:00+10:30",
    ),
    // Cairo: 24 April 2026 begins at 01:00, 29 October ends twice.
    (
        "Africa/Cairo",
        "0 0 * * *",
        "2026-04-22T23:00",
        "2026-04-25",
        "04-24T01:00+03:00!gap 04-25T00:00+03:00",
    ),
    ("Africa/Cairo", "0 0 24 4 *", "2026-01-01", "2027-01-01", "04-24T01:00+03:00!gap"),
    (
        "Africa/Cairo",
        "30 23 * * *",
        "2026-10-29",
        "2026-10-31",
        "10-29T23:30+03:00!once 10-30T23:30+02:00",
    ),
    // Apia: there was no 30 December 2011.
    (
        "Pacific/Apia",
        "0 9 * * *",
        "2011-12-29T12:00",
        "2012-01-01",
        "12-29T09:00-10:00 12-31T00:00+14:00!gap 12-31T09:00+14:00 01-01T09:00+14:00",
    ),
    ("Pacific/Apia", "0 8-17 30 12 *", "2011-12-01", "2012-12-01", "12-31T00:00+14:00!gap"),
    (
        "Pacific/Apia",
        "0 */12 * * *",
        "2011-12-30T08:00",
        "2011-12-31",
        "12-31T00:00+14:00 12-31T12:00+14:00",
    ),
    // Casablanca: an hour less during Ramadan, from 15 February to 22 March 2026.
    (
        "Africa/Casablanca",
        "30 2 * * *",
        "2026-02-14",
        "2026-02-17",
        "02-14T02:30+01:00 02-15T02:30+01:00!once 02-16T02:30+00:00",
    ),
    (
        "Africa/Casablanca",
        "30 2 * * *",
        "2026-03-21",
        "2026-03-24",
        "03-21T02:30+00:00 03-22T03:00+01:00!gap 03-23T02:30+01:00",
    ),
    // Caracas left its half hour at 02:30 on 1 May 2016; Troll changes by two hours.
    ("America/Caracas", "45 2 1 5 *", "2016-01-01", "2017-01-01", "05-01T03:00-04:00!gap"),
    ("Antarctica/Troll", "30 1,2 * * *", "2026-03-29", "2026-03-29T22:00", "03-29T03:00+02:00!gap"),
    ("UTC", "30 2 * * *", "2026-03-28", "2026-03-30", "03-28T02:30+00:00 03-29T02:30+00:00"),
];

#[test]
fn changes_of_the_clock_move_merge_or_keep_times_by_the_rules() {
    let mut wrong = Vec::new();
    for (name, line, from, to, expected) in CLOCK_CHANGES {
        let schedule = cron(&[line], name);
        let day = |text: &str| {
            let time = if text.contains('T') {
                format!("{text}:00Z")
            } else {
                format!("{text}T00:00:00Z")
            };
            self::time(&time)
        };
        let (from, to) = (day(from), day(to));
        let times = schedule.backfill(from, to).unwrap();
        let found: Vec<String> = times.iter().map(|tick| shown(&schedule, tick)).collect();
        if found.join(" ") != *expected {
            wrong.push(format!("{name} {line}: {}", found.join(" ")));
        }
        // And for the two years around that.
        let year = 366 * 86_400;
        let (from, to) = (from.0 / 1000 - year, from.0 / 1000 + year);
        let walked = Naive::new(line).walk(&zone(name), from, to, 15);
        assert!(!walked.is_empty());
        assert_same(&seconds(&schedule, from, to), &walked, &format!("{name} {line}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cron_lines_match_the_days_that_they_name() {
    for (line, from, expected) in [
        ("0 0 L * *", "2026-01-30", "01-31 02-28 03-31 04-30"),
        ("0 0 L-1 2 *", "2026-01-01", "02-27 02-27 02-28 02-27"),
        ("0 0 LW * *", "2026-01-01", "01-30 02-27 03-31 04-30"),
        ("0 0 15W * *", "2026-01-01", "01-15 02-16 03-16 04-15"),
        // Not into the month before: 1 August 2026 is a Saturday, 31 May a Sunday.
        ("0 0 1W 8 *", "2026-01-01", "08-03 08-02 08-01 08-01"),
        ("0 0 31W 5 *", "2026-01-01", "05-29 05-31 05-31 05-31"),
        ("0 0 30W * *", "2026-01-31", "03-30 04-30 05-29 06-30"),
        ("0 0 * * MON#1", "2026-01-01", "01-05 02-02 03-02 04-06"),
        ("0 0 * * fri#5", "2026-01-01", "01-30 05-29 07-31 10-30"),
        ("0 0 * * 5L", "2026-01-01", "01-30 02-27 03-27 04-24"),
        ("0 0 * * SUNL", "2026-01-01", "01-25 02-22 03-29 04-26"),
        ("0 0 * * 7", "2026-01-01", "01-04 01-11 01-18 01-25"),
        ("0 0 * * 5-7", "2026-01-05", "01-09 01-10 01-11 01-16"),
        ("0 0 ? * MON-FRI", "2026-01-02", "01-02 01-05 01-06 01-07"),
        ("0 0 29 FEB *", "2026-01-01", "02-29 02-29 02-29 02-29"),
        ("0 0 29 2 1", "2095-01-01", "02-07 02-14 02-21 02-28"),
        ("0 0 29 2 MON#5", "2026-01-01", "02-29 02-29 02-29 02-29"),
        // Two restricted fields add up; a field with a `*` does not.
        ("0 0 13 * FRI", "2026-02-01", "02-06 02-13 02-20 02-27"),
        ("0 0 */10 * MON", "2026-01-01", "05-11 06-01 08-31 09-21"),
        ("0 0 1-7 * */3", "2026-01-01", "01-03 01-04 01-07 02-01"),
        ("@monthly", "2026-01-15", "02-01 03-01 04-01 05-01"),
        (" @Weekly ", "2026-01-01", "01-04 01-11 01-18 01-25"),
        ("@yearly", "2026-01-01", "01-01 01-01 01-01 01-01"),
        ("0\t0  1/10 jan,Jul *", "2026-01-01", "01-01 01-11 01-21 01-31"),
    ] {
        let schedule = cron(&[line], "UTC");
        let from = time(&format!("{from}T00:00:00Z")).minus(Millis(1));
        let days: Vec<String> = schedule
            .ticks(from)
            .take(4)
            .map(|tick| tick.at.to_string()[5..10].to_owned())
            .collect();
        assert_eq!(days.join(" "), expected, "{line}");
    }
}

#[test]
fn cron_lines_with_seconds_and_lists_fire_in_order() {
    for (lines, expected) in [
        (&["*/20 59 23 * * *"][..], "23:59:00 23:59:20 23:59:40 23:59:00"),
        (&["5,10-12 0 0 1 1 *"], "00:00:05 00:00:10 00:00:11 00:00:12"),
        (&["0 9 * * *", "30 8 * * *", "0 9 * * *"], "08:30:00 09:00:00 08:30:00 09:00:00"),
        (&["@hourly", "30 1 * * *"], "00:00:00 01:00:00 01:30:00 02:00:00"),
    ] {
        let times: Vec<String> = cron(lines, "UTC")
            .ticks(time("2026-01-01T00:00:00Z").minus(Millis(1)))
            .take(4)
            .map(|tick| tick.at.to_string()[11..19].to_owned())
            .collect();
        assert_eq!(times.join(" "), expected, "{lines:?}");
    }
}

#[test]
fn intervals_are_aligned_to_the_epoch_and_lists_are_sorted() {
    for (json, expected) in [
        (
            r#"{"every": "15m", "offset": "2m", "from": "2026-01-01T00:00:00Z"}"#,
            "00:02:00 00:17:00 00:32:00",
        ),
        (r#"{"every": 90000, "from": "2026-01-01T00:00:00Z"}"#, "00:00:00 00:01:30 00:03:00"),
        (r#"{"every": "7h", "from": "2026-01-01T01:00:00Z"}"#, "07:00:00 14:00:00 21:00:00"),
        (
            r#"{"every": "1h", "from": "2026-01-01T00:30:00Z", "until": "2026-01-01T03:00:00Z"}"#,
            "01:00:00 02:00:00",
        ),
        (r#"{"at": ["2026-01-02T05:00:00Z", "2026-01-01T07:00:00+02:00"]}"#, "05:00:00 05:00:00"),
        (r#"{"at": "2026-01-02T05:00:00", "zone": "Europe/Berlin"}"#, "04:00:00"),
        (
            r#"{"at": ["2026-01-01", "2026-01-02T00:30"], "zone": "america/new_york"}"#,
            "05:00:00 05:30:00",
        ),
        (
            r#"{"cron": "0 0 * * *", "zone": "Asia/Kolkata", "from": "2026-01-01", "until": "2026-01-02"}"#,
            "18:30:00",
        ),
    ] {
        let schedule = schedule(json);
        let times: Vec<String> = schedule
            .ticks(Timestamp::FIRST)
            .take(3)
            .map(|tick| tick.at.to_string()[11..19].to_owned())
            .collect();
        assert_eq!(times.join(" "), expected, "{json}");
    }
}

#[test]
fn wall_times_of_a_list_follow_the_rules_for_changes_of_the_clock() {
    let schedule = schedule(
        r#"{"at": ["2026-03-29T02:30", "2026-10-25T02:30:00.5", "2026-07-01T12:00"], "zone": "Europe/Berlin"}"#,
    );
    let times: Vec<Nominal> = schedule.ticks(Timestamp(0)).collect();
    assert_eq!(times[0].at, time("2026-03-29T01:00:00Z"));
    assert_eq!(
        times[0].remark.unwrap().to_string(),
        "the clock leaves out 2026-03-29T02:30:00: fires at the first instant after the gap"
    );
    assert_eq!((times[1].at, times[1].remark), (time("2026-07-01T10:00:00Z"), None));
    let second = time("2026-10-25T01:30:00.500Z");
    assert_eq!(times[2].at, time("2026-10-25T00:30:00.500Z"));
    assert_eq!(times[2].remark, Some(Remark::SecondLeftOut { second }));
}

#[test]
fn bad_schedules_are_refused_with_their_place_and_a_hint() {
    let twenty_one = format!(r#"{{"cron": [{}"* * * * *"]}}"#, r#""* * * * *", "#.repeat(20));
    for (json, expected) in [
        // The field, the bytes of it, a part of the message, a part of the hint.
        (r#"{"cron": "61 * * * *"}"#, "bad_cron cron 0..2 | minute cannot be `61` | 0 to 59"),
        (r#"{"cron": "0 24 * * *"}"#, "bad_cron cron 2..4 | hour cannot be `24` | 0 to 23"),
        (r#"{"cron": "0 0 0 * *"}"#, "bad_cron cron 4..5 | day of month cannot be `0` | 1 to 31"),
        (r#"{"cron": "0 0 1 13 *"}"#, "bad_cron cron 6..8 | month cannot be `13` | JAN to DEC"),
        (r#"{"cron": "0 0 1 JANU *"}"#, "bad_cron cron 6..10 | `JANU` | JAN to DEC"),
        (r#"{"cron": "0 0 * * 8"}"#, "bad_cron cron 8..9 | weekday cannot be `8` | Sunday"),
        (r#"{"cron": "0 0 * * MON#6"}"#, "bad_cron cron 8..13 | `MON#6` | second"),
        (r#"{"cron": "0 0 * * L"}"#, "bad_cron cron 8..9 | `L` | FRIL"),
        (r#"{"cron": "0 0 L-31 * *"}"#, "bad_cron cron 4..8 | `L-31` | L-3"),
        (r#"{"cron": "0 0 32W * *"}"#, "bad_cron cron 4..7 | `32W` | 15W"),
        (r#"{"cron": "0 22-2 * * *"}"#, "bad_cron cron 2..6 | backwards | `22-23,0-2`"),
        (r#"{"cron": "*/0 * * * *"}"#, "bad_cron cron 0..3 | bad step | 1 to 59"),
        (r#"{"cron": "0 */24 * * *"}"#, "bad_cron cron 2..6 | bad step | 1 to 23"),
        (r#"{"cron": "1,,2 * * * *"}"#, "bad_cron cron 2..2 | minute cannot be `` | 0,30"),
        (r#"{"cron": "1--2 * * * *"}"#, "bad_cron cron 0..4 | `1--2` | 0-10"),
        (r#"{"cron": "+1 * * * *"}"#, "bad_cron cron 0..2 | `+1` | minutes"),
        (r#"{"cron": "0 0 * * *, 5"}"#, "bad_cron cron 10..10 | month cannot be ``"),
        (r#"{"cron": "0 60 0 * * *"}"#, "bad_cron cron 2..4 | minute"),
        (r#"{"cron": "٣ * * * *"}"#, "bad_cron cron 0..2 | `٣`"),
        (r#"{"cron": ""}"#, "bad_cron cron 0..0 | not 0 | minute hour"),
        (r#"{"cron": "* * * *"}"#, "bad_cron cron 0..7 | not 4 | minute hour"),
        (r#"{"cron": "0 0 0 1 1 * 2027"}"#, "bad_cron cron 0..16 | not 7 | `until`"),
        (r#"{"cron": "@reboot"}"#, "bad_cron cron 0..7 | no schedule | @hourly"),
        (r#"{"cron": "@every 5m"}"#, "bad_cron cron 0..9 | no schedule | `every: 15m`"),
        (r#"{"cron": "CRON_TZ=Asia/Tokyo 0 2 * * *"}"#, "bad_cron cron 0..28 | zone | `zone`"),
        (r#"{"cron": ["0 2 * * *", "0 x * * *"]}"#, "bad_cron cron[1] 2..3 | `x`"),
        (r#"{"cron": "0 0 30 2 *"}"#, "never_fires cron 0..10 | never fires | L"),
        (r#"{"cron": "0 0 31 4,6,9,11 *"}"#, "never_fires cron 0..17 | no month"),
        (r#"{"cron": ["0 0 * * *", "0 0 30W 2 *"]}"#, "never_fires cron[1] 0..11 | never"),
        (
            r#"{"cron": "0 0 29 2 *", "from": "2026-01-01", "until": "2027-01-01"}"#,
            "never_fires cron - | `until` | first",
        ),
        (
            r#"{"every": "1h", "from": "2026-01-01T00:10:00Z", "until": "2026-01-01T00:50:00Z"}"#,
            "never_fires every - | no time",
        ),
        (r#"{"at": "2026-01-01", "from": "2026-01-02"}"#, "never_fires at - | no time"),
        (
            r#"{"every": "1h", "from": "2026-01-01", "until": "2026-01-01"}"#,
            "never_fires until - | not after",
        ),
        (
            r#"{"cron": "0 2 * * *", "zone": "Europe/Berln"}"#,
            "unknown_zone zone 0..12 | `Europe/Berln` | did you mean `Europe/Berlin`",
        ),
        (
            r#"{"cron": "0 2 * * *", "zone": "new york"}"#,
            "unknown_zone zone 0..8 | `new york` | `America/New_York`",
        ),
        (
            r#"{"cron": "0 2 * * *", "zone": "+02:00"}"#,
            "unknown_zone zone 0..6 | `+02:00` | such as `Europe/Berlin`",
        ),
        (r#"{"cron": "0 2 * * *", "zone": ""}"#, "unknown_zone zone 0..0 | `` | such as"),
        (r#"{"cron": "0 2 * * *", "zone": "Etc/Unknown"}"#, "unknown_zone zone 0..11 | Unknown"),
        (r#"{"every": "15m", "jitter": "15m"}"#, "bad_jitter jitter - | 15m | apart"),
        (
            r#"{"cron": "0 2 * * 1", "jitter": "7d"}"#,
            "bad_jitter jitter - | interval of 7d | apart",
        ),
        (
            r#"{"cron": ["0 2 * * *", "10 2 * * 6"], "jitter": "10m"}"#,
            "bad_jitter jitter - | interval of 10m | 02:10",
        ),
        (
            r#"{"cron": "30 1,2 * * *", "zone": "Europe/Berlin", "jitter": "45m"}"#,
            "bad_jitter jitter - | interval of 30m | 03:00:00+02:00",
        ),
        (
            r#"{"at": ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"], "jitter": "2m"}"#,
            "bad_jitter jitter - | interval of 1m",
        ),
        (r#"{"every": "999ms"}"#, "bad_interval every - | at least 1s"),
        (r#"{"every": "1h", "offset": "1h"}"#, "bad_interval offset - | not below | multiples"),
        (r#"{"cron": "0 2 * * *", "offset": "1h"}"#, "bad_interval offset - | belongs to `every`"),
        (
            r#"{"at": ["2026-01-01T00:00:00.2Z", "2026-01-01T00:00:00Z"]}"#,
            "bad_interval at[0] - | less than 1s apart",
        ),
        (
            r#"{"at": ["2026-03-29T02:30", "2026-03-29T03:00"], "zone": "Europe/Berlin"}"#,
            "bad_interval at[1] - | less than 1s apart",
        ),
        (
            r#"{"at": ["2026-01-01T00:00:00Z", "soon"]}"#,
            "bad_time at[1] 0..4 | `soon` is not a time | zone",
        ),
        (r#"{"at": "2026-02-30T00:00"}"#, "bad_time at 0..16 | not a time"),
        (r#"{"at": "2026-01-01T00:00[Europe/Berlin]"}"#, "bad_time at 0..31 | not a time"),
        (r#"{"every": "1h", "from": "1 May"}"#, "bad_time from 0..5 | not a time"),
        (r#"{"every": "1h", "catchUp": {"max": 0}}"#, "bad_catch_up catchUp.max - | 1 to 1000"),
        (r#"{"every": "1h", "catchUp": {"max": 1001}}"#, "bad_catch_up catchUp.max - | 1 to 1000"),
        ("{}", "bad_schedule  - | needs | every: 15m"),
        (r#"{"every": "1h", "cron": "0 * * * *"}"#, "bad_schedule  - | exclude"),
        (&twenty_one, "bad_schedule cron - | at most 20"),
    ] {
        let faults = Schedule::compile(&spec(json)).expect_err(json);
        assert_eq!(faults.len(), 1, "{json}: {faults:?}");
        let fault = &faults[0];
        let range = fault.range.as_ref().map_or("-".to_owned(), |range| format!("{range:?}"));
        let mut parts = expected.split(" | ");
        let place = format!("{} {} {range}", fault.code.name(), fault.field);
        assert_eq!(place, parts.next().unwrap(), "{json}: {fault:?}");
        assert!(fault.message.contains(parts.next().unwrap()), "{json}: {fault:?}");
        let hint = fault.hint.as_deref().unwrap_or_default();
        assert!(hint.contains(parts.next().unwrap_or_default()), "{json}: {fault:?}");
    }
    let all = Schedule::compile(&spec(
        r#"{"cron": ["x", "0 0 30 2 *"], "zone": "x", "catchUp": {"max": 0}}"#,
    ));
    let codes: Vec<&str> = all.unwrap_err().iter().map(|fault| fault.code.name()).collect();
    assert_eq!(codes, ["unknown_zone", "bad_cron", "never_fires", "bad_catch_up"]);
}

#[test]
fn descriptions_are_read_and_written_as_definitions_have_them() {
    for (json, written) in [
        (r#"{"cron":"0 2 * * 1-5","zone":"Europe/Berlin"}"#, None),
        (
            r#"{"cron":["0 2 * * 1-5","@daily"],"jitter":"5m"}"#,
            Some(r#"{"cron":["0 2 * * 1-5","@daily"],"jitter":300000}"#),
        ),
        (
            r#"{"every":"15m","offset":120000,"from":"2026-01-01T00:00:00Z","until":"2027-01-01"}"#,
            Some(
                r#"{"every":900000,"offset":120000,"from":"2026-01-01T00:00:00Z","until":"2027-01-01"}"#,
            ),
        ),
        (r#"{"at":["2026-12-24T18:00"]}"#, Some(r#"{"at":"2026-12-24T18:00"}"#)),
        (
            r#"{"every":"1h","catchUp":{"missed":"all"}}"#,
            Some(r#"{"every":3600000,"catchUp":{"missed":"all","window":86400000,"max":100}}"#),
        ),
        (
            r#"{"every":1000,"catchUp":{"missed":"last","window":"24h","max":100}}"#,
            Some(r#"{"every":1000}"#),
        ),
    ] {
        let read = spec(json);
        assert_eq!(serde_json::to_string(&read).unwrap(), written.unwrap_or(json));
        assert_eq!(spec(written.unwrap_or(json)), read);
    }
    for (json, expected) in [
        (r#"{"every":"soon"}"#, "not a duration"),
        (r#"{"every":-1}"#, "negative"),
        (r#"{"every":[]}"#, "a duration such as 15m"),
        (r#"{"cron":5}"#, "a text or a list of texts"),
        (r#"{"crons":"* * * * *"}"#, "unknown field `crons`"),
        (r#"{"every":"1h","catchUp":{"missed":"some"}}"#, "unknown variant `some`"),
        (r#"{"every":"1h","catchUp":{"lookback":1}}"#, "unknown field `lookback`"),
    ] {
        let error = serde_json::from_str::<ScheduleSpec>(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}
