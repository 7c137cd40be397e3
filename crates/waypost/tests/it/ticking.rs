//! Triggers of a server on a folder: it is killed and started again, it was away for days, and a backup is made
//! while it fires.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use waypost_core::time::{Millis, Timestamp};
use waypost_testbed::{pause, wait_until};

use crate::cluster::entries::EntrySource;
use crate::program::{Program, Running};

/// How long anything may take that is not itself what is tested.
const LONG: Duration = Duration::from_secs(120);
/// How often a server is killed.
const KILLS: usize = 3;
/// Entries that a source gets at once.
const ENTRIES: usize = 120;
const HOUR: i64 = 3_600_000;

const EACH_SECOND: &str = r#"
name: tick
on:
  - { schedule: often, every: 1s }
nodes:
  - { id: done, type: output, config: { value: "${{ trigger.at }}" } }
"#;

fn serve(program: &Program) -> Running {
    let args = ["serve", "--listen", "127.0.0.1:0", "--allow-egress", "127.0.0.1/32"];
    program.start(&args, "serves http")
}

fn deploy(program: &Program, name: &str, source: &str) {
    let file = program.file(name, source).display().to_string();
    let ran = program.run(&["deploy", &file]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

/// The log of a folder, which a server may be writing.
fn log(folder: &Path) -> Connection {
    let log = Connection::open(folder.join("log.db")).unwrap();
    log.busy_timeout(LONG).unwrap();
    log
}

/// A column of numbers.
fn numbers(folder: &Path, sql: &str) -> Vec<i64> {
    let log = log(folder);
    let mut select = log.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn each_second_fires_once_though_the_server_is_killed() {
    let program = Program::new();
    let mut server = serve(&program);
    let deployed = now_ms();
    deploy(&program, "tick.yaml", EACH_SECOND);
    let nominal = "SELECT nominal FROM trigger_fires WHERE outcome = 0 ORDER BY nominal";
    for kill in 0..KILLS {
        let before = numbers(&program.data(), nominal).len();
        wait_until("it fires", LONG, || numbers(&program.data(), nominal).len() > before);
        // At any moment of a second.
        pause(Duration::from_millis(350 * (kill as u64 + 1)));
        server.kill();
        server = serve(&program);
    }
    let before = numbers(&program.data(), nominal).len();
    wait_until("it fires", LONG, || numbers(&program.data(), nominal).len() > before + 1);
    let ran = program.run(&["triggers", "pause", "tick/often"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    server.kill();
    let fired = numbers(&program.data(), nominal);
    let registered = numbers(&program.data(), "SELECT registered_at FROM triggers")[0];
    assert!(fired[0] > deployed && fired[0] - registered <= 1_000, "{registered} {fired:?}");
    let expected: Vec<i64> = (fired[0]..=*fired.last().unwrap()).step_by(1_000).collect();
    assert_eq!(fired, expected, "each second, and none twice");
    let wrong = "SELECT place FROM trigger_fires WHERE outcome <> 0 OR at < nominal";
    assert_eq!(numbers(&program.data(), wrong), Vec::<i64>::new(), "no other outcome, none early");
    let executions =
        numbers(&program.data(), "SELECT count(DISTINCT execution) FROM trigger_fires");
    assert_eq!(executions, [i64::try_from(fired.len()).unwrap()]);
    let check = program.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
}

#[test]
fn each_entry_of_a_source_starts_one_execution_though_the_server_is_killed() {
    let source = EntrySource::start(3);
    let program = Program::new();
    let mut server = serve(&program);
    deploy(&program, "entries.yaml", &source.definition());
    let fired = "SELECT count(*) FROM trigger_fires WHERE outcome = 0";
    let mut visible = 0;
    for _ in 0..KILLS {
        source.burst(ENTRIES);
        visible += ENTRIES;
        // Under way, not at the end of the burst.
        let some = i64::try_from(visible - ENTRIES / 2).unwrap();
        wait_until("some have fired", LONG, || numbers(&program.data(), fired)[0] > some);
        server.kill();
        server = serve(&program);
    }
    let all = i64::try_from(visible).unwrap();
    wait_until("all entries have fired", LONG, || numbers(&program.data(), fired)[0] >= all);
    let open = "SELECT count(*) FROM control";
    wait_until("all have ended", LONG, || numbers(&program.data(), open) == [0]);
    server.kill();
    assert_eq!(numbers(&program.data(), fired), [all], "each entry once");
    let executions = "SELECT count(DISTINCT execution) FROM frames";
    assert_eq!(numbers(&program.data(), executions), [all]);
    assert_eq!(source.trouble().1, Vec::<String>::new(), "the cursor never goes back");
    let check = program.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
}

/// A laptop that was closed on Friday: the folder is one that was left three days ago.
#[test]
fn server_that_was_away_for_three_days_fires_what_catch_up_says() {
    let program = Program::new();
    let away = Millis(3 * 24 * HOUR.unsigned_abs());
    let now = Timestamp(now_ms());
    // So that no time is due while the test runs.
    let offset = (now.0 + HOUR / 2).rem_euclid(HOUR) / 1_000;
    let entry = |name: &str, catch_up: &str| {
        format!("  - {{ schedule: {name}, every: 1h, offset: {offset}s{catch_up} }}\n")
    };
    let entries = [
        entry("none", ", catchUp: { missed: none }"),
        entry("default", ""),
        entry("last", ", catchUp: { missed: last, window: 1h }"),
        entry("all", ", catchUp: { missed: all, window: 30d, max: 1000 }"),
        entry("some", ", catchUp: { missed: all, window: 30d, max: 10 }"),
        entry("a-day", ", catchUp: { missed: all }"),
    ];
    let source =
        format!("name: hourly\non:\n{}nodes:\n  - {{ id: done, type: noop }}\n", entries.concat());
    let server = serve(&program);
    deploy(&program, "hourly.yaml", &source);
    server.kill();
    // Everything in it is three days older.
    let log = log(&program.data());
    let shift = i64::try_from(away.0).unwrap();
    let moved = log
        .execute(
            "UPDATE triggers SET registered_at = registered_at - ?1, next_due = next_due - ?1, \
             claimable_at = claimable_at - ?1, \
             cursor = json_set(cursor, '$.schedule.after', json_extract(cursor, '$.schedule.after') - ?1)",
            [shift],
        )
        .unwrap();
    assert_eq!(moved, 6);
    drop(log);
    let server = serve(&program);
    let due = format!("SELECT count(*) FROM triggers WHERE next_due <= {}", now.0 + HOUR / 4);
    wait_until("all that was due was dealt with", LONG, || numbers(&program.data(), &due) == [0]);
    server.kill();
    let newest = (now.0 - offset * 1_000).div_euclid(HOUR) * HOUR + offset * 1_000;
    let fired = |name: &str| {
        let sql = format!(
            "SELECT f.nominal FROM trigger_fires AS f JOIN triggers AS t ON t.number = f.trigger \
             WHERE t.name = '{name}' AND f.outcome = 0 ORDER BY f.nominal"
        );
        numbers(&program.data(), &sql)
    };
    let times = |count: i64| (0..count).rev().map(|n| newest - n * HOUR).collect::<Vec<_>>();
    // The newest time is half an hour old, and the next one is not due: it is late, and not missed.
    for (name, count) in
        [("none", 1), ("default", 1), ("last", 1), ("all", 72), ("some", 10), ("a-day", 24)]
    {
        assert_eq!(fired(name), times(count), "{name}");
    }
    let check = program.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
}

/// The time of this machine, which is the store's.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_millis()).unwrap()
}

/// The command of the guide, while executions are started as fast as they can be.
#[test]
fn backup_under_load_ends_and_has_everything_that_was_answered_before() {
    let program = Program::new();
    let server = serve(&program);
    deploy(&program, "tick.yaml", EACH_SECOND);
    let folder = program.path().join("backup");
    std::fs::create_dir(&folder).unwrap();
    let (over, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    let before = std::thread::scope(|scope| {
        for lane in 0..2 {
            let (program, over, started) = (&program, &over, &started);
            scope.spawn(move || {
                let mut n = 0;
                while !over.load(Ordering::Relaxed) {
                    let id = format!("load-{lane}-{n}");
                    let ran = program.run(&["start", "tick", "--id", &id]);
                    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
                    started.fetch_add(1, Ordering::Relaxed);
                    n += 1;
                }
            });
        }
        wait_until("the load has begun", LONG, || started.load(Ordering::Relaxed) > 10);
        let before = program.json(&["list", "--limit", "1000"]);
        let to = folder.join("log.db").display().to_string();
        log(&program.data()).execute("VACUUM INTO ?1", [&to]).unwrap();
        over.store(true, Ordering::Relaxed);
        before
    });
    server.kill();
    let data = folder.display().to_string();
    let check = program.run(&["check", "--data", &data]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    let after = program.json(&["list", "--limit", "1000", "--data", &data]);
    let ids = |list: &Value| {
        let all = list["executions"].as_array().unwrap_or_else(|| panic!("{list}"));
        all.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (before, after) = (ids(&before), ids(&after));
    assert!(
        before.len() > 10 && before.iter().all(|id| after.contains(id)),
        "{before:?} {after:?}"
    );
    assert_eq!(numbers(&folder, "SELECT count(*) FROM triggers"), [1]);
}
