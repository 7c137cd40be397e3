//! An instance that is told to go, with calls in flight: the others go on with them at once, not after a
//! lease.

use std::time::{Duration, Instant};

use serde_json::json;
use waypost_testbed::Sink;

use super::flows::held_calls;
use super::numbers::within;
use super::rig::{Cluster, LONG, With};

/// Calls in flight.
const COUNT: usize = 50;

/// How long the others may take after it is gone. A second is what is promised, and this is a machine with
/// other things to do; a lease is 15 s.
const WITHIN: Duration = Duration::from_secs(3);

#[test]
fn instance_stopped_in_order_is_taken_over_at_once_on_postgres() {
    check(With::Postgres);
}

#[test]
fn instance_stopped_in_order_is_taken_over_at_once_with_redis() {
    check(With::Redis);
}

fn check(with: With) {
    within(WITHIN, |_| leave(with));
}

/// How long the others took.
fn leave(with: With) -> Duration {
    // Less than the calls take, so that none of them ends here.
    // A lease as in production: what comes within seconds does not come from the end of one.
    let flags = ["--drain-timeout", "1s", "--set", "lease=15s"];
    let mut cluster = Cluster::start_with(3, with, &flags);
    let sink = Sink::start();
    let api = cluster.api.clone();
    let ids = held_calls(&cluster, &sink, COUNT);
    let gone = cluster.block_on(api.instance(0));
    let driven = |cluster: &Cluster, by: &str| {
        let sql = "SELECT count(*) FROM control AS c JOIN instances AS i ON i.id = c.owner \
                   WHERE i.alive_until > waypost_now() AND i.id";
        cluster.sql(&format!("{sql} {by} '{gone}'")).parse::<usize>().unwrap()
    };
    assert_eq!(driven(&cluster, "="), COUNT, "all are driven by the one that goes");
    let mut leaving = cluster.instances[0].process.take().unwrap();
    leaving.terminate();
    let status = leaving.wait(LONG);
    let left = Instant::now();
    assert!(status.success(), "{status}: {}", leaving.output());
    let taken_over = || driven(&cluster, "<>") == COUNT;
    waypost_testbed::wait_until("all are driven by others", LONG, taken_over);
    let took = left.elapsed();
    // They do not only own them: all calls are made again.
    sink.wait_for(2 * COUNT, LONG);
    sink.release();
    let others = api.without(0);
    cluster.block_on(async {
        for (n, id) in ids.iter().enumerate() {
            let ended = others.ended(id, LONG).await;
            assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &json!(n)));
        }
    });
    assert_eq!(sink.counts().len(), 2 * COUNT, "attempts of one node share its key");
    cluster.check();
    took
}

/// Each deploy stops the instance that makes the calls, before they end: none of that is held against
/// them.
#[test]
fn calls_that_outlast_six_rolling_deploys_are_not_quarantined() {
    let mut cluster = Cluster::start_with(2, With::Postgres, &["--drain-timeout", "1s"]);
    let sink = Sink::start();
    let api = cluster.api.clone();
    let ids = held_calls(&cluster, &sink, 3);
    for deploy in 0..6 {
        let at = deploy % 2;
        let mut leaving = cluster.instances[at].process.take().unwrap();
        leaving.terminate();
        let status = leaving.wait(LONG);
        assert!(status.success(), "{status}: {}", leaving.output());
        sink.wait_for((deploy + 2) * ids.len(), LONG);
        cluster.start_again(at);
        cluster.ready(at);
    }
    sink.release();
    cluster.block_on(async {
        for id in &ids {
            let ended = api.ended(id, LONG).await;
            assert_eq!(ended["status"], "COMPLETED", "{ended}");
        }
    });
    cluster.check();
}
