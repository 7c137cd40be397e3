//! Stream triggers on the sources of other programs, while instances are killed: each entry starts one execution,
//! and what cannot be read any more is reported.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waypost_core::trigger::entry_id;
use waypost_testbed::postgres::{Postgres, database_of};
use waypost_testbed::{Redis, RedisReply};

use super::numbers::{Random, percent, scaled};
use super::rig::{Cluster, LONG, With};

/// Entries of each source, in the full length.
const FULL: usize = 5_000;
/// Rows that one transaction writes.
const BATCH: usize = 10;

/// One trigger for each way to read: a stream, rows that are marked, rows by transaction.
const FEED: &str = "
name: feed
on:
  - stream: entries
    source: { redis: shop, stream: orders }
    from: beginning
    every: 100ms
    input: { n: \"${{ item.fields.n }}\" }
  - stream: marked
    source: { postgres: erp, table: marked, key: id, done: fired_at }
    every: 100ms
    input: { n: \"${{ item.id }}\" }
  - stream: numbered
    source: { postgres: erp, table: numbered, key: id, safe: xid, xid: written }
    from: beginning
    every: 100ms
    input: { n: \"${{ item.id }}\" }
nodes:
  - { id: done, type: noop }
";

const TABLES: &str = "
CREATE TABLE marked (id bigint PRIMARY KEY, fired_at timestamptz);
CREATE INDEX ON marked (id) WHERE fired_at IS NULL;
CREATE TABLE numbered (
    id bigint PRIMARY KEY, written xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX ON numbered (written, id);";

/// Servers that are not those of the cluster, and the settings that name them.
struct Outside {
    redis: Redis,
    database: String,
    settings: tempfile::NamedTempFile,
}

impl Outside {
    fn start() -> Self {
        let (redis, postgres) = (Redis::start(), Postgres::shared());
        let url = postgres.database();
        let database = database_of(&url).to_owned();
        let settings = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "[sources.shop]\nkind = \"redis\"\nurl = \"{}\"\nstreams = [\"orders\"]\nworkflows = [\"*\"]\n\
             [sources.erp]\nkind = \"postgres\"\nurl = \"{url}\"\ntables = [\"*\"]\nworkflows = [\"feed\"]\n",
            redis.url(),
        );
        std::fs::write(settings.path(), text).unwrap();
        Self { redis, database, settings }
    }

    fn cluster(&self, count: usize) -> Cluster {
        let path = self.settings.path().to_str().unwrap();
        Cluster::start_with(count, With::Postgres, &["--config", path])
    }

    fn sql(&self, sql: &str) -> String {
        Postgres::shared().sql(&self.database, sql)
    }

    fn add(&self, n: usize) {
        let added = self.redis.command(&["XADD", "orders", "*", "n", &n.to_string()]);
        assert!(matches!(added, RedisReply::Bytes(Some(_))), "{added:?}");
    }

    /// Writes so many entries and rows, in transactions that commit out of order.
    fn produce(&self, count: usize, stop: &AtomicBool) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..count).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(|n| self.add(n));
            });
            for writer in 0..4 {
                scope.spawn(move || self.write_rows(count, writer, stop));
            }
        });
    }

    /// A fourth of the rows. A transaction waits before it commits, so that later ones overtake it.
    fn write_rows(&self, count: usize, writer: usize, stop: &AtomicBool) {
        for batch in (writer..count.div_ceil(BATCH)).step_by(4) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (first, end) = (batch * BATCH, (batch * BATCH + BATCH).min(count));
            let rows = |table: &str| {
                let last = end - 1;
                format!("INSERT INTO {table} SELECT n FROM generate_series({first}, {last}) AS n;")
            };
            let held = (batch * 7) % 10;
            self.sql(&format!(
                "BEGIN; {} {} SELECT pg_sleep({held} * 0.02); COMMIT;",
                rows("marked"),
                rows("numbered")
            ));
        }
    }
}

/// How far the triggers are: the entry, and the transaction of the row.
fn places(cluster: &Cluster) -> Option<[(u64, u64); 2]> {
    let place = |name: &str| {
        let path = format!("/v1/triggers/feed/{name}");
        (0..3).find_map(|at| {
            let asked = cluster.api.ask(at, reqwest::Method::GET, &path, None);
            let answer = cluster.block_on(asked).ok().filter(|answer| answer.is_ok())?;
            Some(answer.body["cursor"]["place"].as_str().unwrap_or("0-0").to_owned())
        })
    };
    let xid = place("numbered")?;
    let xid = xid.split([' ', '-']).next().unwrap().parse().unwrap();
    Some([entry_id(&place("entries")?).unwrap(), (xid, 0)])
}

#[test]
fn each_entry_and_row_starts_one_execution_while_instances_are_killed() {
    let count = scaled(FULL).max(300);
    let outside = Outside::start();
    outside.sql(TABLES);
    let mut cluster = outside.cluster(3);
    cluster.deploy(FEED);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producing = scope.spawn(|| outside.produce(count, &stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            kill_until_all_fired(&mut cluster, 3 * count, || producing.is_finished());
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    let of = |name: &str, what: &str| {
        cluster.sql(&format!(
            "SELECT {what} FROM trigger_fires f JOIN triggers t ON t.number = f.trigger \
             WHERE t.name = '{name}' AND f.outcome = 0"
        ))
    };
    for name in ["entries", "marked", "numbered"] {
        let counts = of(name, "count(*) || ' ' || count(DISTINCT f.execution)");
        assert_eq!(counts, format!("{count} {count}"), "{name}");
    }
    assert_eq!(cluster.sql("SELECT count(*) FROM trigger_fires WHERE outcome <> 0"), "0");
    assert_eq!(cluster.sql("SELECT count(*) FROM submissions"), (3 * count).to_string());
    waypost_testbed::wait_until("all rows are marked", LONG, || {
        outside.sql("SELECT count(*) FROM marked WHERE fired_at IS NULL") == "0"
    });
    for name in ["marked", "numbered"] {
        let sum = of(name, "sum(convert_from(f.label, 'UTF8')::bigint)");
        assert_eq!(sum, (count * (count - 1) / 2).to_string(), "{name}: other rows have fired");
    }
    cluster.check();
}

/// Kills instances and looks at the cursors, until so many items have fired.
fn kill_until_all_fired(cluster: &mut Cluster, count: usize, is_produced: impl Fn() -> bool) {
    let (mut random, mut last, mut kills) = (Random(2_026), [(0, 0); 2], 0);
    let began = Instant::now();
    let long = if percent() >= 100 { LONG * 5 } else { LONG };
    loop {
        let fired = cluster.sql("SELECT count(*) FROM trigger_fires WHERE outcome = 0");
        if is_produced() && fired == count.to_string() && kills > 0 {
            break;
        }
        assert!(began.elapsed() < long, "{fired} of {count} have fired after {kills} kills");
        let at = usize::try_from(random.below(3)).unwrap();
        cluster.kill(at);
        cluster.start_again(at);
        kills += 1;
        let next = Instant::now() + Duration::from_millis(500 + random.below(1_500));
        while Instant::now() < next {
            if let Some(now) = places(cluster) {
                let back = now.iter().zip(&last).any(|(now, before)| now < before);
                assert!(!back, "a cursor went back: {last:?}, then {now:?}");
                last = now;
            }
            cluster.block_on(waypost_testbed::moment());
        }
    }
    (0..3).for_each(|at| cluster.ready(at));
}

/// Asks for the trigger until it is as it should be.
fn until(cluster: &Cluster, what: &str, done: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    waypost_testbed::wait_until(what, LONG, || {
        last = cluster.block_on(cluster.api.get(0, "/v1/triggers/feed/entries")).body;
        done(&last)
    });
    last
}

fn behind(trigger: &Value, position: u64) -> bool {
    trigger["cursor"]["position"] == position
}

#[test]
fn trimmed_stream_is_a_gap_and_one_that_was_created_again_breaks_its_trigger() {
    let outside = Outside::start();
    outside.sql(TABLES);
    let cluster = outside.cluster(1);
    cluster.deploy(FEED);
    (0..3).for_each(|n| outside.add(n));
    until(&cluster, "three entries have fired", |trigger| behind(trigger, 3));
    let post = |action: &str, body: Value| {
        let path = format!("/v1/triggers/feed/entries/{action}");
        let answer = cluster.block_on(cluster.api.post(0, &path, &body));
        assert!(answer.is_ok(), "{answer:?}");
    };
    post("pause", json!({}));
    (3..10).for_each(|n| outside.add(n));
    outside.redis.command(&["XTRIM", "orders", "MAXLEN", "2"]);
    post("resume", Value::Null);
    let trigger = until(&cluster, "the gap was passed", |trigger| behind(trigger, 10));
    assert_eq!((&trigger["state"], &trigger["cursor"]["removed"]), (&json!("active"), &json!(5)));
    let gaps = cluster.block_on(cluster.api.get(0, "/v1/triggers/feed/entries/fires?outcome=gap"));
    let gap = &gaps.body["fires"][0];
    assert_eq!(gap["event"], "TriggerGap", "{gaps:?}");
    let metrics = cluster.block_on(cluster.api.metrics(0));
    assert_eq!(super::numbers::metric(&metrics, "waypost_trigger_entries_removed_total"), 5);

    outside.redis.command(&["DEL", "orders"]);
    outside.add(10);
    let broken = until(&cluster, "the trigger is broken", |trigger| trigger["state"] == "broken");
    let reason = broken["reason"].as_str().unwrap();
    assert!(reason.starts_with("the source went back"), "{reason}");
    post("rewind", json!({ "cursor": "beginning" }));
    post("resume", Value::Null);
    until(&cluster, "the new stream is read", |trigger| behind(trigger, 1));
    assert_eq!(cluster.sql("SELECT count(*) FROM trigger_fires WHERE outcome = 0"), "6");
    cluster.check();
}

#[test]
fn source_that_the_settings_do_not_grant_is_refused_at_deploy() {
    let outside = Outside::start();
    let cluster = outside.cluster(1);
    let deploy = |source: &str| cluster.block_on(cluster.api.deploy(0, source));
    for (from, to, part) in [
        ("redis: shop", "redis: stock", "no source \"stock\""),
        ("stream: orders", "stream: payments", "\"payments\" may not be read"),
        ("name: feed", "name: other", "\"other\" may not read the source \"erp\""),
    ] {
        let answer = deploy(&FEED.replacen(from, to, 1));
        assert_eq!(answer.status, 422, "{answer:?}");
        let text = answer.body.to_string().replace("\\\"", "\"");
        assert!(text.contains(part) && text.contains("unknown_source"), "{text}");
    }
    // The table of a granted source that is not there: the trigger says why nothing fires.
    cluster.deploy(FEED);
    let path = "/v1/triggers/feed/marked";
    waypost_testbed::wait_until("the failure is shown", LONG, || {
        let trigger = cluster.block_on(cluster.api.get(0, path)).body;
        trigger["failure"].as_str().is_some_and(|why| why.contains("no table public.marked"))
    });
}
