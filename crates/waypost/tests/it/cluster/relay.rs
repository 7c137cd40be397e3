//! Reports that go straight to the owner of their execution, through streams that somebody deletes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use waypost_testbed::{RedisReply, wait_until};

use super::numbers::scaled;
use super::rig::{Api, Cluster, LONG, With};
use super::workers::{self, FOREIGN};

/// Executions under way at once.
const CLIENTS: usize = 12;
/// Deletions of a stream, in the full length of the test.
const DELETIONS: usize = 2_000;

/// Starts executions with a task elsewhere, each after the end of the one before, until it is told to
/// stop.
async fn client(api: Api, next: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let id = api.start(n, "foreign", &json!({ "n": n, "ms": n % 50 }), &format!("l{n}")).await;
        let ended = api.ended(&id, LONG).await;
        assert_eq!(
            (&ended["status"], &ended["output"]),
            (&json!("COMPLETED"), &json!(n)),
            "{ended}"
        );
    }
}

/// Reports that were relayed to this outcome, by all instances together.
fn relayed(cluster: &Cluster, outcome: &str) -> u64 {
    let count = |at| {
        let page = cluster.block_on(cluster.api.get(at, "/metrics")).body;
        let Value::String(page) = page else { panic!("{page}") };
        let name = format!("waypost_reports_relayed_total{{outcome=\"{outcome}\"}} ");
        let number = page.lines().find_map(|line| line.strip_prefix(&name));
        number.unwrap_or_else(|| panic!("{page}")).parse::<u64>().unwrap()
    };
    (0..3).map(count).sum()
}

/// Waits until so many more were relayed and committed.
fn more_is_relayed(cluster: &Cluster, count: u64) {
    let enough = relayed(cluster, "committed") + count;
    wait_until("reports are relayed", LONG, || relayed(cluster, "committed") >= enough);
}

/// Deletes all streams of results, and says how many there were.
fn delete_streams(cluster: &Cluster) -> usize {
    let redis = cluster.redis.as_ref().unwrap();
    let RedisReply::Many(keys) = redis.command(&["KEYS", "*results:*"]) else { panic!("no keys") };
    let mut deleted = 0;
    for key in keys {
        let RedisReply::Bytes(Some(key)) = key else { continue };
        let key = String::from_utf8(key).unwrap();
        deleted += usize::from(redis.command(&["DEL", &key]) == RedisReply::Number(1));
    }
    deleted
}

#[test]
fn streams_of_results_are_deleted_again_and_again() {
    let mut cluster = Cluster::start(3, With::Redis);
    cluster.deploy(FOREIGN);
    let worker = workers::worker(&cluster, "roaming");
    let (next, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| (cluster.api.clone(), Arc::clone(&next), Arc::clone(&stop)))
        .map(|(api, next, stop)| cluster.runtime.spawn(client(api, next, stop)))
        .collect();
    more_is_relayed(&cluster, 20);
    let mut deleted = 0;
    wait_until("enough is deleted, and some of it with a report", LONG * 2, || {
        deleted += delete_streams(&cluster);
        deleted >= scaled(DELETIONS) && relayed(&cluster, "unanswered") > 0
    });
    more_is_relayed(&cluster, 20);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        cluster.block_on(client).unwrap();
    }
    // Its worker lives, so nothing that it did is done again.
    let mut ran = BTreeSet::new();
    for line in worker.output().lines().filter(|line| line.starts_with("ran ")) {
        let execution = line.split(' ').nth(1).map(str::to_owned);
        assert!(ran.insert(execution), "done twice: {line}");
    }
    assert!(ran.len() >= next.load(Ordering::Relaxed), "all was done by it");
    cluster.all_have_lived();
    cluster.check();
}
