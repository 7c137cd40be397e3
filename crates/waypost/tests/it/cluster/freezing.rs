//! An instance that stands still for three leases with calls in flight, and then goes on as if
//! nothing had happened.

use std::time::{Duration, Instant};

use serde_json::json;
use waypost_testbed::Sink;

use super::flows::{CHAIN, held_calls};
use super::numbers::{lease, metric};
use super::rig::{Cluster, LONG, With};

#[test]
fn an_instance_that_was_frozen_changes_nothing_any_more_and_serves_on() {
    check(With::Postgres);
}

#[test]
fn one_that_was_frozen_with_redis_does_not_either() {
    check(With::Redis);
}

fn check(with: With) {
    let mut cluster = Cluster::start(3, with);
    let sink = Sink::start();
    cluster.deploy(CHAIN);
    let api = cluster.api.clone();
    let ids = held_calls(&cluster, &sink, 30);
    let id = cluster.block_on(api.instance(0));
    let frozen = Instant::now();
    cluster.process(0).freeze();
    // The others take over when the lease is over, and make the calls again.
    sink.wait_for(60, LONG);
    sink.release();
    // Asked of the others: the frozen one takes connections, and says nothing.
    let others = api.without(0);
    cluster.block_on(async {
        for id in &ids {
            assert_eq!(others.ended(id, LONG).await["status"], "COMPLETED");
        }
    });
    waypost_testbed::pause((3 * lease()).saturating_sub(frozen.elapsed()));
    let refused = |metrics: &str| metric(metrics, "waypost_commits_fenced_total");
    let frames = format!("SELECT count(*) FROM frames WHERE instance = '{id}'");
    let written = cluster.sql(&frames);
    cluster.process(0).thaw();
    cluster.ready(0);
    // It finds its calls answered, appends that they are done, and is refused; one refusal tells it
    // that an execution is lost.
    waypost_testbed::wait_until("its late appends were refused", LONG, || {
        refused(&cluster.block_on(api.metrics(0))) >= 30
    });
    assert_eq!(cluster.sql(&frames), written, "nothing that it had decided went in");
    // Both sides say so in their logs.
    let lost = cluster.process(0).output();
    assert!(lost.contains("executions were lost to another instance"), "{lost}");
    let others = [1, 2].map(|at| cluster.process(at).output()).concat();
    let taken = others.lines().filter(|line| {
        line.contains("executions were taken over from an instance that is gone")
            && line.contains(&id)
    });
    assert!(taken.count() > 0, "{others}");
    // Then it works as before.
    cluster.block_on(async {
        let id = api.start(0, "chain", &json!(null), "after").await;
        let ended = api.ended(&id, Duration::from_secs(60)).await;
        assert_eq!(ended["status"], "COMPLETED");
        for id in &ids {
            let completed = api.events(1, id, "NodeCompleted").await;
            assert_eq!(completed.len(), 4, "{completed:?}");
        }
    });
    let counts = sink.counts();
    assert_eq!(counts.len(), 60, "two calls of thirty executions, each under one key");
    cluster.check();
}
