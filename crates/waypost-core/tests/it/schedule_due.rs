//! Schedules after downtime: what fires, what is passed over; jitter; backfills.

use proptest::prelude::*;
use waypost_core::limits::{BACKFILL_TIMES_MAX, TICKS_COUNTED_MAX};
use waypost_core::schedule::{DueTimes, Missed, PassedOver, Schedule, TimeCount};
use waypost_core::time::{Millis, Timestamp};

use crate::schedules::{schedule, time};

const MINUTE: Millis = Millis(60_000);

fn all(count: usize) -> TimeCount {
    TimeCount { count, more: false }
}

/// Times of the day.
fn shown(due: &DueTimes) -> String {
    let fires: Vec<String> =
        due.fire.iter().map(|tick| tick.at.to_string()[11..16].to_owned()).collect();
    let passed = due.passed_over.map_or(0, |passed| passed.count.count);
    format!("{} +{} -{passed}", fires.join(" "), due.caught_up)
}

#[test]
fn downtime_is_caught_up_as_the_policy_says() {
    // The fires, how many of them are caught up, how many times are passed over.
    for (rest, after, now, expected) in [
        // In time, or up to an interval late: fires under every policy.
        (r#""every": "1h", "catchUp": {"missed": "none"}"#, "01T10:00", "01T11:00", "11:00 +0 -0"),
        (r#""every": "1h", "catchUp": {"missed": "none"}"#, "01T10:00", "01T11:59", "11:00 +0 -0"),
        (r#""every": "1h""#, "01T10:00", "01T10:59", " +0 -0"),
        // An outage of several intervals: the newest time is not missed.
        (r#""every": "1h", "catchUp": {"missed": "none"}"#, "01T10:00", "01T15:30", "15:00 +0 -4"),
        (r#""every": "1h", "catchUp": {"missed": "last"}"#, "01T10:00", "01T15:30", "15:00 +0 -4"),
        (
            r#""every": "1h", "catchUp": {"missed": "all"}"#,
            "01T10:00",
            "01T15:30",
            "11:00 12:00 13:00 14:00 15:00 +4 -0",
        ),
        (
            r#""every": "1h", "catchUp": {"missed": "all", "max": 3}"#,
            "01T10:00",
            "01T15:30",
            "13:00 14:00 15:00 +2 -2",
        ),
        (
            r#""every": "1h", "catchUp": {"missed": "all", "max": 1}"#,
            "01T10:00",
            "01T15:30",
            "15:00 +0 -4",
        ),
        (
            r#""every": "1h", "catchUp": {"missed": "all", "window": "2h30m"}"#,
            "01T10:00",
            "01T15:30",
            "13:00 14:00 15:00 +2 -2",
        ),
        // Nothing later than the window fires, however long the interval.
        (r#""cron": "0 2 * * 1""#, "01T10:00", "06T01:00", "02:00 +0 -0"),
        (r#""cron": "0 2 * * 1""#, "01T10:00", "06T02:01", " +0 -1"),
        (
            r#""cron": "0 2 * * 1", "catchUp": {"missed": "none", "window": "5m"}"#,
            "01T10:00",
            "05T02:05",
            "02:00 +0 -0",
        ),
        (
            r#""cron": "0 2 * * 1", "catchUp": {"missed": "none", "window": "5m"}"#,
            "01T10:00",
            "05T02:06",
            " +0 -1",
        ),
        (
            r#""cron": "0 2 * * 1", "catchUp": {"missed": "all", "window": "30d"}"#,
            "01T10:00",
            "25T00:00",
            "02:00 02:00 02:00 +2 -0",
        ),
        // The last time of a schedule has no successor: a minute, then it is missed.
        (
            r#""at": "2026-01-02T12:00:00Z", "catchUp": {"missed": "none"}"#,
            "01T10:00",
            "02T12:01",
            "12:00 +0 -0",
        ),
        (
            r#""at": "2026-01-02T12:00:00Z", "catchUp": {"missed": "none"}"#,
            "01T10:00",
            "02T12:02",
            " +0 -1",
        ),
        (r#""at": "2026-01-02T12:00:00Z""#, "01T10:00", "02T12:02", "12:00 +1 -0"),
        (r#""at": "2026-01-02T12:00:00Z""#, "01T10:00", "03T12:01", " +0 -1"),
        // Bounds of the schedule.
        (
            r#""every": "1h", "until": "2026-01-01T12:00:00Z""#,
            "01T10:00",
            "01T13:30",
            "11:00 +0 -0",
        ),
        (r#""every": "1h", "from": "2026-01-01T15:00:00Z""#, "01T10:00", "01T15:30", "15:00 +0 -0"),
        // A clock that went back.
        (r#""every": "1h""#, "01T10:00", "01T09:00", " +0 -0"),
    ] {
        let schedule = schedule(&format!("{{{rest}}}"));
        let at = |text: &str| time(&format!("2026-01-{text}:00Z"));
        let due = schedule.due("nightly", at(after), at(now));
        assert_eq!(shown(&due), expected, "{rest} {after} {now}");
        assert_eq!(due.next, schedule.next_after(due.after).map(|next| next.at), "{rest}");
    }
}

#[test]
fn outages_of_five_hundred_ticks_fire_none_one_or_the_newest() {
    let (after, now) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T08:20:30Z"));
    for (catch_up, fires, passed) in [
        (r#"{"missed": "none"}"#, 1, 499),
        (r#"{"missed": "none", "window": "10s"}"#, 1, 499),
        (r#"{"missed": "last"}"#, 1, 499),
        (r#"{"missed": "all", "max": 100}"#, 100, 400),
        (r#"{"missed": "all", "max": 1000}"#, 500, 0),
    ] {
        for times in [r#""cron": "* * * * *""#, r#""every": "1m""#] {
            let schedule = schedule(&format!(r#"{{{times}, "catchUp": {catch_up}}}"#));
            let due = schedule.due("t", after, now);
            let found = due.passed_over.map_or(0, |passed| passed.count.count);
            assert_eq!((due.fire.len(), found), (fires, passed), "{times} {catch_up}");
            assert_eq!(due.after, time("2026-01-01T08:20:00Z"));
            assert_eq!(due.next, Some(time("2026-01-01T08:21:00Z")));
            assert_eq!(schedule.due("t", due.after, now).fire, []);
        }
    }
    // Over for more than a minute: `none` fires nothing.
    let ended = r#"{"every": "1m", "until": "2026-01-01T08:20:01Z", "catchUp": {"missed": "none", "window": "1m"}}"#;
    let due = schedule(ended).due("t", after, time("2026-01-01T08:21:30Z"));
    assert_eq!((due.fire.len(), due.next), (0, None));
}

#[test]
fn schedules_of_every_second_pause_briefly_without_losing_ticks_and_sleep_for_days_cheaply() {
    let schedule = schedule(r#"{"cron": "* * * * * *"}"#);
    let after = time("2026-01-01T00:00:00Z");
    let due = schedule.due("t", after, after.plus(Millis(2_500)));
    assert_eq!((due.fire.len(), due.passed_over), (2, None));
    let due = schedule.due("t", after, after.plus(MINUTE));
    assert_eq!((due.fire.len(), due.passed_over), (60, None));
    // Three days: 259,200 ticks, of which those of the last minute are not missed.
    let now = after.plus(Millis::from_secs(3 * 86_400));
    let due = schedule.due("t", after, now);
    assert_eq!((due.fire.len(), due.caught_up), (61, 0));
    let passed = PassedOver {
        count: all(259_200 - 61),
        first: after.plus(Millis(1000)),
        last: now.minus(Millis(61_000)),
    };
    assert_eq!((due.passed_over, due.after), (Some(passed), now));
    // A hundred years: not all of them are counted.
    let due = schedule.due("t", after, after.plus(Millis::from_secs(100 * 365 * 86_400)));
    let count = due.passed_over.unwrap().count;
    assert_eq!((due.fire.len(), count), (61, TimeCount { count: TICKS_COUNTED_MAX, more: true }));
}

#[test]
fn jitter_spreads_triggers_keeps_their_order_and_is_the_same_everywhere() {
    let schedule = schedule(r#"{"cron": "0 * * * *", "jitter": "59m"}"#);
    let begin = time("2026-01-01T00:00:00Z");
    let mut delays: Vec<u64> = (0..1_000)
        .map(|trigger| schedule.jittered(&format!("trigger-{trigger}"), begin).since(begin).0)
        .collect();
    let early = delays.iter().filter(|delay| **delay < 59 * 30_000).count();
    assert!((400..600).contains(&early), "{early} of 1000 in the first half");
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > 990 && delays.iter().all(|delay| *delay < 59 * 60_000));
    // Instances of all versions have to agree on these.
    assert_eq!(schedule.jittered("orders/nightly", begin).since(begin), Millis(2_651_905));
    // On 29 March, 03:00 stands for three times that the clock leaves out: ten minutes before 03:10.
    let narrow = self::schedule(
        r#"{"cron": "10-59/20 0-23 * * *", "zone": "Europe/Berlin", "jitter": "19m"}"#,
    );
    let moved = time("2026-03-29T01:00:00Z");
    let next = narrow.next_after(moved).unwrap().at;
    assert_eq!(next.since(moved), Millis(600_000));
    for schedule in [&schedule, &narrow] {
        let times: Vec<_> = schedule.ticks(begin).take(7_000).map(|tick| tick.at).collect();
        for pair in times.windows(2) {
            let fires = schedule.jittered("t", pair[0]);
            assert!((pair[0]..pair[1]).contains(&fires), "{pair:?} {fires}");
        }
    }
}

#[test]
fn jitter_delays_fires_and_makes_no_time_missed() {
    let schedule =
        schedule(r#"{"cron": "0 * * * *", "jitter": "59m", "catchUp": {"missed": "none"}}"#);
    let after = time("2026-01-01T00:00:00Z");
    let tick = time("2026-01-01T01:00:00Z");
    let fires = schedule.jittered("t", tick);
    assert!(fires > tick, "a trigger with a delay");
    let early = schedule.due("t", after, fires.minus(Millis(1)));
    assert_eq!((early.fire, early.after, early.next), (vec![], after, Some(fires)));
    let due = schedule.due("t", after, fires);
    assert_eq!((due.fire[0].at, due.fire.len(), due.passed_over), (tick, 1, None));
}

#[test]
fn backfills_have_the_times_of_a_span_up_to_a_limit() {
    let hourly = schedule(r#"{"every": "1h", "from": "2026-01-01T00:00:00Z"}"#);
    let (from, to) = (time("2026-01-01T00:00:00Z"), time("2026-01-02T00:00:00Z"));
    let times = hourly.backfill(from, to).unwrap();
    assert_eq!((times.len(), times[0].at), (24, from));
    assert_eq!(hourly.count(from, to), all(24));
    assert_eq!(hourly.backfill(to, from), Ok(vec![]));
    assert_eq!(hourly.backfill(time("2025-12-31T00:00:00Z"), from), Ok(vec![]), "before `from`");
    let last = |count: u64| from.plus(Millis(count * 3_600_000));
    assert_eq!(hourly.backfill(from, last(10_000)).unwrap().len(), BACKFILL_TIMES_MAX);
    let refused = hourly.backfill(from, last(10_001)).unwrap_err();
    assert_eq!(refused.to_string(), "a backfill may have at most 10000 times, not 10001");
    let endless = schedule(r#"{"cron": "* * * * * *"}"#);
    let refused = endless.backfill(Timestamp::FIRST, Timestamp::LAST).unwrap_err();
    assert_eq!(refused.to_string(), "a backfill may have at most 10000 times, not 1000000 or more");
}

/// The rules of `due`, on a list of all ticks.
fn naive(schedule: &Schedule, after: Timestamp, now: Timestamp) -> DueTimes {
    let catch_up = schedule.catch_up();
    let due_at = |time| schedule.jittered("t", time);
    let mut ticks: Vec<_> = schedule.ticks(after).take_while(|tick| tick.at <= now).collect();
    ticks.retain(|tick| due_at(tick.at) <= now);
    let late = |at: usize| now.since(due_at(ticks[at].at));
    let is_last = |at: usize| at + 1 == ticks.len() && schedule.next_after(ticks[at].at).is_some();
    let in_time = |at: &usize| late(*at) <= MINUTE || is_last(*at) && late(*at) <= catch_up.window;
    let (in_time, missed): (Vec<usize>, Vec<usize>) = (0..ticks.len()).partition(in_time);
    let in_window = |at: &&usize| late(**at) <= catch_up.window;
    let count = match catch_up.missed {
        Missed::None => 0,
        Missed::Last => usize::from(in_time.is_empty()),
        Missed::All => (catch_up.max as usize).saturating_sub(in_time.len()),
    };
    let mut caught_up: Vec<usize> =
        missed.iter().rev().take(count).filter(in_window).copied().collect();
    caught_up.reverse();
    let passed: Vec<usize> = missed.into_iter().filter(|at| !caught_up.contains(at)).collect();
    let last = ticks.last().map_or(after, |tick| tick.at);
    DueTimes {
        caught_up: caught_up.len(),
        fire: caught_up.iter().chain(&in_time).map(|at| ticks[*at]).collect(),
        passed_over: passed.first().map(|first| PassedOver {
            count: all(passed.len()),
            first: ticks[*first].at,
            last: passed.last().map_or(after, |last| ticks[*last].at),
        }),
        after: last,
        next: schedule.next_after(last).map(|next| due_at(next.at)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn due_times_equal_the_rules_applied_to_every_tick(
        times in prop_oneof![
            Just((r#""cron": "*/7 * * * * *""#, 3_u64)),
            Just((r#""cron": "*/15 1-4 * * *", "zone": "Europe/Berlin""#, 800)),
            Just((r#""cron": ["0 2 * * *", "1 2 * * *", "30 14 * * 6"]"#, 59)),
            Just((r#""cron": "0-20 0 2 * * *""#, 1)),
            Just((r#""every": "90s""#, 89)),
            Just((r#""every": "5h", "offset": "1h""#, 17_000)),
            Just((r#""at": ["2026-03-28T22:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:00:30Z"]"#, 29)),
        ],
        jitter in 0..1_000_u64,
        missed in prop_oneof![Just("none"), Just("last"), Just("all")],
        window in prop_oneof![Just(1_u64), 1..600_000_u64, 1..200_000_000_u64],
        max in 1..200_u32,
        after in 0..172_800_000_u64,
        sleep in prop_oneof![0..100_000_u64, 0..40_000_000_u64],
    ) {
        let (times, jitter_max) = times;
        let jitter = jitter_max * jitter;
        let schedule = schedule(&format!(
            r#"{{{times}, "jitter": {jitter}, "catchUp": {{"missed": "{missed}", "window": {window}, "max": {max}}}}}"#
        ));
        let after = time("2026-03-28T00:00:00Z").plus(Millis(after));
        let now = after.plus(Millis(sleep));
        prop_assert_eq!(schedule.due("t", after, now), naive(&schedule, after, now));
    }
}
