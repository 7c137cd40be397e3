//! Schedules whose instances were all away: what `catchUp` says, and nothing for a pause.

use serde_json::Value;
use waypost_core::time::Timestamp;
use waypost_testbed::wait_until;

use super::rig::{Cluster, LONG, With};

/// Times of each schedule that pass while all instances are down.
const TICKS: i64 = 500;

/// Schedules with a time in each of the seconds before `end`. Those of `last` and `all` are over then. The others
/// have one more time 20 s later: a time is missed if the next one is due, too, so that all before `end` are missed.
fn definition(end: i64) -> String {
    let text = |at: i64| Timestamp(at * 1_000).to_string();
    let minute = |at: i64| at.div_euclid(60).rem_euclid(60).to_string();
    let (from, until) = (text(end - TICKS), text(end));
    let minutes: Vec<String> = (1..=TICKS / 60 + 1).map(|n| minute(end - n * 60)).collect();
    let lines = format!("[\"* {} * * * *\", \"20 {} * * * *\"]", minutes.join(","), minute(end));
    let over = format!("every: 1s, from: \"{from}\", until: \"{until}\"");
    let going_on = format!("cron: {lines}, from: \"{from}\"");
    let entry = |name: &str, times: &str, catch_up: &str| {
        format!("  - {{ schedule: {name}, {times}, catchUp: {{ {catch_up} }} }}\n")
    };
    let entries = [
        entry("none", &going_on, "missed: none"),
        entry("last", &over, "missed: last"),
        entry("all", &over, "missed: all, max: 100"),
        entry("paused-none", &going_on, "missed: none"),
        entry("paused-last", &over, "missed: last"),
        entry("paused-all", &over, "missed: all, max: 100"),
    ];
    format!("name: away\non:\n{}nodes:\n  - {{ id: done, type: noop }}\n", entries.concat())
}

/// No test waits for 500 s: while the instances are down, the database is made one that was left before the
/// times came.
#[test]
fn times_of_a_full_stop_fire_as_catch_up_says_and_those_of_a_pause_do_not() {
    let mut cluster = Cluster::start(3, With::Postgres);
    // The last time is more than a minute old.
    let end = (cluster.now() / 1_000 - 100).div_euclid(60) * 60;
    cluster.deploy(&definition(end));
    for name in ["paused-none", "paused-last", "paused-all"] {
        cluster.pause_trigger("away", name);
    }
    (0..3).for_each(|at| cluster.kill(at));
    let (before, first) = ((end - TICKS - 1) * 1_000, (end - TICKS) * 1_000);
    let left = cluster.sql(&format!(
        "UPDATE triggers SET registered_at = {before}, \
         cursor = convert_to(jsonb_set(convert_from(cursor, 'utf8')::jsonb, '{{schedule,after}}', '{before}')::text, 'utf8'), \
         next_due = CASE state WHEN 0 THEN {first} END, claimable_at = CASE state WHEN 0 THEN {first} END \
         RETURNING number"
    ));
    assert_eq!(left.lines().count(), 6);
    (0..3).for_each(|at| cluster.start_again(at));
    (0..3).for_each(|at| cluster.ready(at));
    let open = format!(
        "SELECT count(*) FROM triggers WHERE next_due <= {}",
        cluster.now() + 10 * 60 * 1_000
    );
    wait_until("all that is due was dealt with", LONG, || cluster.sql(&open) == "0");
    for name in ["paused-none", "paused-last", "paused-all"] {
        let path = format!("/v1/triggers/away/{name}/resume");
        let resumed = cluster.block_on(cluster.api.post(1, &path, &Value::Null));
        assert!(resumed.is_ok(), "{resumed:?}");
    }
    wait_until("all that is due was dealt with", LONG, || cluster.sql(&open) == "0");
    let fired = |name: &str| {
        cluster.sql(&format!(
            "SELECT concat_ws(' ', count(*), count(DISTINCT f.nominal), min(f.nominal), max(f.nominal)) \
             FROM trigger_fires AS f JOIN triggers AS t ON t.number = f.trigger \
             WHERE t.name = '{name}' AND f.outcome = 0"
        ))
    };
    let (last, next) = ((end - 1) * 1_000, (end + 20) * 1_000);
    assert_eq!(fired("none"), format!("1 1 {next} {next}"), "none of the 500");
    assert_eq!(fired("last"), format!("1 1 {last} {last}"));
    assert_eq!(fired("all"), format!("100 100 {} {last}", last - 99_000));
    for name in ["paused-none", "paused-last", "paused-all"] {
        assert_eq!(fired(name), "0 0", "{name}");
    }
    cluster.all_have_completed("away", 102);
    cluster.check();
}
