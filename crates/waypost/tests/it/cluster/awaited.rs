//! Nodes that wait for the delivery of their message, while the instances that own them and send for them
//! are killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use waypost_testbed::{Received, Sink, wait_until};

use super::numbers::scaled;
use super::rig::{Cluster, LONG, With};

/// Executions of the full length, with Redis and without.
const FULL: usize = 5_000;
/// Of 100 messages, how many fail at their first attempt: a third of them without a reply.
const FAILING: u64 = 30;
/// An instance is killed after so many starts.
const KILL_EVERY: usize = 40;

const AWAITED: &str = r#"
name: awaited
nodes:
  - { id: tell, type: notify, config: { message: "${{ input.n }}", wait: true } }
  - { id: done, type: output, needs: [tell], config: { value: "${{ nodes.tell.output }}" } }
"#;

/// How often each message came, by its number.
type Attempts = Arc<Mutex<BTreeMap<u64, usize>>>;

/// Counts a request, and chooses its answer: a message may fail at its first attempt, never later, because
/// the second failure of a message costs five minutes.
fn answer(attempts: &Attempts, request: &Received) -> Option<(u16, String)> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let n = body["data"]["message"].as_u64().unwrap();
    let mut attempts = attempts.lock();
    let count = attempts.entry(n).or_default();
    *count += 1;
    let lot = n.wrapping_mul(37) % 100;
    match (*count > 1 || lot >= FAILING, lot % 3) {
        (true, _) => Some((204, String::new())),
        (false, 0) => None,
        (false, _) => Some((500, String::new())),
    }
}

#[test]
fn each_awaited_delivery_wakes_its_node_once_though_instances_are_killed() {
    With::both(check);
}

fn check(with: With) {
    let attempts = Attempts::default();
    let seen = Arc::clone(&attempts);
    let sink = Sink::start_with(move |request| answer(&seen, request));
    // A swallowed reply takes as long as that.
    let mut cluster = Cluster::start_with(2, with, &["--set", "webhook_timeout=2s"]);
    cluster.deploy(AWAITED);
    cluster.add_endpoint(&sink.url("/hook"), "awaited", &["execution.notified"]);
    let input = |n| json!({ "n": n });
    let started = cluster.start_while_killing((scaled(FULL), KILL_EVERY), "awaited", input);
    let api = cluster.api.clone();
    let within = LONG + Duration::from_millis(20 * started.len() as u64);
    let until = Instant::now() + within;
    wait_until("all executions have ended", within + LONG, || {
        let open = cluster.sql("SELECT count(*) FROM control");
        let pending = || cluster.sql("SELECT count(*) FROM outbox WHERE state = 0");
        assert!(Instant::now() < until, "{open} wait; pending messages: {}", pending());
        open == "0"
    });
    for id in &started {
        let events = cluster.block_on(api.all_events(0, id));
        let count = |kind: &str, node: &str| {
            let of = |event: &&Value| event["type"] == kind && event["node"] == node;
            events.iter().filter(of).count()
        };
        for kind in ["NodeWaiting", "NodeResumed", "NodeCompleted"] {
            assert_eq!(count(kind, "tell"), 1, "{kind} of {id}: {events:?}");
        }
        let ends = events.iter().filter(|event| event["type"] == "RunCompleted").count();
        assert_eq!(ends, 1, "{id} has ended once: {events:?}");
        let ended = cluster.block_on(api.get(0, &format!("/v1/executions/{id}"))).body;
        let result = json!({ "delivered": 1, "failed": 0 });
        assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &result), "{id}");
    }
    for table in ["inbox", "outbox_awaited"] {
        assert_eq!(cluster.sql(&format!("SELECT count(*) FROM {table}")), "0", "{table}");
    }
    let attempts = attempts.lock().clone();
    assert_eq!(attempts.len(), started.len(), "about each execution, and no other");
    assert!(attempts.values().any(|count| *count > 1), "some were repeated");
    cluster.check();
}
