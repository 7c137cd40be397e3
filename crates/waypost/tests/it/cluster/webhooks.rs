//! Messages to a webhook endpoint that fails and swallows replies, while the instances that send them are
//! killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use waypost_testbed::{Received, Sink, wait_until};

use super::flows::CHAIN;
use super::numbers::scaled;
use super::rig::{Cluster, LONG, With};

/// Executions of the full length.
const FULL: usize = 10_000;
/// Of 100 messages, how many fail at their first attempt: half of them with a status, half without.
const FAILING: u32 = 30;
/// An instance is killed after so many starts.
const KILL_EVERY: usize = 50;

/// What is left of the messages, in words.
const LEFT: &str = "SELECT string_agg(concat_ws(' ', state, attempts, due - waypost_now(), status, \
                    convert_from(reason, 'utf8'), claim), E'\\n') FROM outbox WHERE state <> 1";

/// One request at the endpoint.
#[derive(Clone, Debug)]
struct Attempt {
    id: String,
    execution: String,
    seq: u64,
    kind: String,
    body: Vec<u8>,
    accepted: bool,
}

type Attempts = Arc<Mutex<Vec<Attempt>>>;

/// Records a request, and chooses its answer: a message may fail at its first attempt, never later.
fn answer(attempts: &Attempts, request: &Received) -> Option<(u16, String)> {
    let id = request.header("webhook-id").unwrap_or_default().to_owned();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let mut attempts = attempts.lock();
    let is_first = !attempts.iter().any(|attempt| attempt.id == id);
    let lot = id.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let accepted = !is_first || lot % 100 >= FAILING;
    attempts.push(Attempt {
        id,
        execution: body["data"]["execution"].as_str().unwrap_or_default().to_owned(),
        seq: body["data"]["seq"].as_u64().unwrap_or_default(),
        kind: body["type"].as_str().unwrap_or_default().to_owned(),
        body: request.body.clone(),
        accepted,
    });
    match (accepted, lot.is_multiple_of(2)) {
        (true, _) => Some((200, String::new())),
        (false, true) => Some((500, String::new())),
        (false, false) => None,
    }
}

/// The kinds of accepted messages of each execution, in the order of their first acceptance.
fn accepted(attempts: &[Attempt]) -> BTreeMap<String, Vec<(u64, String)>> {
    let mut by_execution: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.accepted) {
        let of = by_execution.entry(attempt.execution.clone()).or_default();
        let message = (attempt.seq, attempt.kind.clone());
        if !of.contains(&message) {
            of.push(message);
        }
    }
    by_execution
}

#[test]
fn every_message_arrives_in_order_under_one_id_though_its_senders_are_killed() {
    let attempts = Attempts::default();
    let seen = Arc::clone(&attempts);
    let sink = Sink::start_with(move |request| answer(&seen, request));
    // Short, because swallowed replies take as long; and long enough for a busy machine, because a message
    // that fails twice waits for five minutes.
    let mut cluster = Cluster::start_with(2, With::Postgres, &["--set", "webhook_timeout=5s"]);
    cluster.deploy(CHAIN);
    let events = ["execution.created", "execution.completed"];
    cluster.add_endpoint(&sink.url("/hook"), "chain", &events);
    let input = |_| Value::Null;
    let started = cluster.start_while_killing((scaled(FULL), KILL_EVERY), "chain", input);
    let within = LONG + Duration::from_millis(20 * started.len() as u64);
    let until = Instant::now() + within;
    wait_until("all messages are delivered", within + LONG, || {
        let late = Instant::now() > until;
        let left = || (cluster.sql(LEFT), cluster.sql("SELECT count(*) FROM control"));
        assert!(!late, "messages and executions that are left: {:?}", left());
        cluster.sql("SELECT count(*) FROM outbox WHERE state <> 1") == "0"
            && cluster.sql("SELECT count(*) FROM control") == "0"
    });
    let rows = cluster.sql("SELECT count(*) FROM outbox");
    assert_eq!(rows, (2 * started.len()).to_string(), "one row a message");
    let attempts = attempts.lock().clone();
    let by_execution = accepted(&attempts);
    let of: BTreeSet<&String> = by_execution.keys().collect();
    assert_eq!(of, started.iter().collect(), "about each execution, and no other");
    for (execution, messages) in &by_execution {
        let kinds: Vec<&str> = messages.iter().map(|(_, kind)| kind.as_str()).collect();
        assert_eq!(kinds, ["execution.created", "execution.completed"], "{execution}");
    }
    let mut bodies: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for attempt in &attempts {
        let body = bodies.entry(&attempt.id).or_insert(&attempt.body);
        assert_eq!(*body, attempt.body, "the body of {} is always the same", attempt.id);
    }
    assert_eq!(bodies.len(), 2 * started.len(), "one id a message");
    assert!(attempts.len() > bodies.len(), "some were repeated");
    cluster.check();
}
