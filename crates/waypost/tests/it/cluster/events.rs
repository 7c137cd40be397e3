//! Events that are published at several instances, some of them twice, while instances are killed: what fires, one by
//! one, in windows and behind throttles, is what a model says.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde_json::{Value, json};
use waypost_testbed::wait_until;

use super::numbers::{percent, scaled};
use super::rig::{Api, Cluster, LONG, With};

/// Events of the full length.
const EVENTS: usize = 100_000;
/// Events of one request.
const AT_ONCE: usize = 50;
/// Publishers at once. Each has keys of its own, so that the events of a key have an order.
const PUBLISHERS: usize = 8;
/// Keys of each publisher.
const KEYS: usize = 5;
/// Of so many events, one is published twice.
const DOUBLED: usize = 20;
/// Events of a batch.
const BATCH: usize = 40;
/// A request is given up after so long, and sent again to another instance.
const TRIES: usize = 10_000;

const FLOWS: [&str; 6] = [
    r#"
name: each
on:
  - event: each
    type: load
    if: event.data.n % 10 == 0
nodes:
  - { id: done, type: output, config: { value: ["${{ input.n }}"] } }
"#,
    r#"
name: batches
on:
  - event: batches
    type: load
    if: event.data.n % 2 == 0
    batch: { key: event.data.key, size: 40, wait: 1s }
nodes:
  - { id: done, type: output, config: { value: "${{ input.events | map(attribute='data.n') | list }}" } }
"#,
    r#"
name: last
on:
  - event: last
    type: load
    debounce: { key: event.data.key, period: 1s, max: 5s }
nodes:
  - { id: done, type: output, config: { value: ["${{ input.n }}"] } }
"#,
    r#"
name: paced
on:
  - event: paced
    type: load
    if: event.data.n % 5 == 0
    throttle: { key: event.data.key, limit: 1, per: 200ms }
nodes:
  - { id: done, type: output, config: { value: ["${{ input.n }}"] } }
"#,
    r#"
name: dropped
on:
  - event: dropped
    type: load
    if: event.data.n % 10 == 0
    throttle: { key: event.data.key, limit: 2, per: 500ms, over: drop }
nodes:
  - { id: done, type: output, config: { value: ["${{ input.n }}"] } }
"#,
    r#"
name: newest
on:
  - event: newest
    type: load
    if: event.data.n % 10 == 0
    throttle: { key: event.data.key, limit: 2, per: 500ms, over: latest }
nodes:
  - { id: done, type: output, config: { value: ["${{ input.n }}"] } }
"#,
];

/// The key and the number of each event with this outcome at the trigger of a workflow, with when it was stored,
/// in the order of these times.
fn fires(
    cluster: &Cluster,
    workflow: &str,
    outcome: u8,
    keys: &BTreeMap<usize, String>,
) -> BTreeMap<String, Vec<(i64, usize)>> {
    let sql = format!(
        "SELECT f.at || ' ' || convert_from(f.label, 'utf8') FROM trigger_fires AS f
         JOIN triggers AS t ON t.number = f.trigger
         WHERE t.workflow = '{workflow}' AND f.outcome = {outcome} ORDER BY f.at, f.place"
    );
    let mut fires: BTreeMap<String, Vec<(i64, usize)>> = BTreeMap::new();
    for line in cluster.sql(&sql).lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, "test", number] = words[..] else { panic!("{line}") };
        let number: usize = number.parse().unwrap();
        fires.entry(keys[&number].clone()).or_default().push((at.parse().unwrap(), number));
    }
    fires
}

/// Of each key, no `limit + 1` executions started within `per`; each event of the model has started or, if it may,
/// was skipped. Returns the numbers that have started, by key.
fn check_throttle(
    cluster: &Cluster,
    (workflow, limit, per): (&str, usize, i64),
    wanted: &BTreeSet<usize>,
    keys: &BTreeMap<usize, String>,
) -> BTreeMap<String, Vec<usize>> {
    const STARTED: u8 = 0;
    const SKIPPED: u8 = 2;
    let started = fires(cluster, workflow, STARTED, keys);
    for (key, starts) in &started {
        for (first, last) in starts.iter().zip(starts.iter().skip(limit)) {
            assert!(last.0 - first.0 >= per, "{workflow} {key}: {first:?} {last:?}");
        }
    }
    let skipped = fires(cluster, workflow, SKIPPED, keys);
    let mut all: Vec<usize> =
        started.values().chain(skipped.values()).flatten().map(|(_, number)| *number).collect();
    all.sort_unstable();
    assert_eq!(all, wanted.iter().copied().collect::<Vec<_>>(), "{workflow}");
    let mut ended: Vec<usize> = outputs(cluster, workflow).concat();
    ended.sort_unstable();
    let numbers = |(key, starts): (&String, &Vec<(i64, usize)>)| {
        (key.clone(), starts.iter().map(|(_, number)| *number).collect::<Vec<_>>())
    };
    let started: BTreeMap<String, Vec<usize>> = started.iter().map(numbers).collect();
    let mut numbers: Vec<usize> = started.values().flatten().copied().collect();
    numbers.sort_unstable();
    assert_eq!(ended, numbers, "{workflow}");
    started
}

/// One event.
fn event(n: usize, key: &str) -> Value {
    json!({ "specversion": "1.0", "type": "load", "source": "test", "id": n.to_string(),
            "data": { "n": n, "key": key } })
}

/// Publishes events until an instance says that all that they led to is durable.
async fn publish(api: &Api, from: usize, events: &[Value]) {
    let body = Value::from(events.to_vec());
    for turn in from..from + TRIES {
        if let Ok(answer) = api.publish(turn, &body).await
            && answer.is_ok()
        {
            return;
        }
        waypost_testbed::moment().await;
    }
    panic!("nobody takes the events");
}

/// The part of one publisher: its events in order, each of a key of its own, some of them twice.
async fn publisher(api: Api, lane: usize, count: usize) -> BTreeMap<usize, String> {
    let mut published = BTreeMap::new();
    let mut portion = Vec::new();
    for n in (lane..count).step_by(PUBLISHERS) {
        let key = format!("{lane}-{}", n / PUBLISHERS % KEYS);
        portion.push(event(n, &key));
        let is_doubled = (n / PUBLISHERS).is_multiple_of(DOUBLED);
        if is_doubled {
            portion.push(event(n, &key));
        }
        published.insert(n, key);
        if portion.len() >= AT_ONCE {
            publish(&api, n, &portion).await;
            if is_doubled {
                publish(&api, n + 1, &portion).await;
            }
            portion.clear();
        }
    }
    if !portion.is_empty() {
        publish(&api, lane, &portion).await;
    }
    published
}

/// The numbers in the outputs of the executions of a workflow.
fn outputs(cluster: &Cluster, workflow: &str) -> Vec<Vec<usize>> {
    let sql = format!(
        "SELECT context::jsonb ->> 'output' FROM executions WHERE workflow_id = '{workflow}' ORDER BY created_at"
    );
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    cluster.sql(&sql).lines().map(read).collect()
}

#[test]
fn events_fire_as_a_model_says_while_instances_are_killed() {
    let mut cluster = Cluster::start(3, With::Postgres);
    FLOWS.iter().for_each(|flow| cluster.deploy(flow));
    let count = scaled(EVENTS).min(if percent() < 100 { 1_000 } else { EVENTS });
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|lane| cluster.runtime.spawn(publisher(cluster.api.clone(), lane, count)))
        .collect();
    let collected = "SELECT count(*) FROM trigger_fires WHERE outcome = 5";
    for part in 1..=if percent() < 100 { 1 } else { 9 } {
        let wanted = i64::try_from(count * part * 3 / 20).unwrap();
        wait_until("a part has arrived", LONG * 5, || cluster.number(collected) >= wanted);
        cluster.kill(part % 3);
        cluster.start_again(part % 3);
        cluster.ready(part % 3);
    }
    let mut keys = BTreeMap::new();
    for published in cluster.block_on(join_all(publishers)) {
        keys.extend(published.unwrap());
    }
    assert_eq!(keys.len(), count);
    wait_until("all windows have fired", LONG * 2, || {
        cluster.sql("SELECT count(*) FROM trigger_groups") == "0"
    });
    wait_until("all have ended", LONG * 2, || cluster.sql("SELECT count(*) FROM control") == "0");
    let fired = "SELECT count(*) FROM trigger_fires WHERE outcome = 0";
    let shown = "SELECT count(*) FROM executions WHERE status = 'COMPLETED'";
    wait_until("all are shown", LONG, || cluster.sql(fired) == cluster.sql(shown));
    // One by one.
    let mut each: Vec<usize> = outputs(&cluster, "each").concat();
    each.sort_unstable();
    assert_eq!(each, (0..count).step_by(10).collect::<Vec<_>>());
    // Each event is in one batch, with others of its key, in order.
    let batches = outputs(&cluster, "batches");
    for batch in &batches {
        let of: BTreeSet<&String> = batch.iter().map(|n| &keys[n]).collect();
        assert!(of.len() == 1 && batch.len() <= BATCH && batch.is_sorted(), "{batch:?}");
    }
    let mut all = batches.concat();
    all.sort_unstable();
    assert_eq!(all, (0..count).step_by(2).collect::<Vec<_>>());
    // The last event of each key fires, and events before it may have.
    let last: Vec<usize> = outputs(&cluster, "last").concat();
    let newest: BTreeMap<&String, usize> = keys.iter().map(|(n, key)| (key, *n)).collect();
    let distinct: BTreeSet<usize> = last.iter().copied().collect();
    assert_eq!(distinct.len(), last.len(), "none twice");
    assert!(newest.values().all(|n| distinct.contains(n)), "{newest:?} {distinct:?}");
    assert!(distinct.iter().all(|n| keys.contains_key(n)));
    check_throttles(&cluster, count, &keys);
    cluster.check();
}

fn check_throttles(cluster: &Cluster, count: usize, keys: &BTreeMap<usize, String>) {
    let each = |step: usize| (0..count).step_by(step).collect::<BTreeSet<usize>>();
    // Nothing is skipped, and those of a key start in the order in which they were published.
    let paced = check_throttle(cluster, ("paced", 1, 200), &each(5), keys);
    assert_eq!(paced.values().flatten().copied().collect::<BTreeSet<_>>(), each(5));
    assert!(paced.values().all(|numbers| numbers.is_sorted()), "{paced:?}");
    check_throttle(cluster, ("dropped", 2, 500), &each(10), keys);
    // The last event of each key starts.
    let started = check_throttle(cluster, ("newest", 2, 500), &each(10), keys);
    let newest: BTreeMap<&String, usize> = each(10).iter().map(|n| (&keys[n], *n)).collect();
    assert!(newest.iter().all(|(key, n)| started[*key].contains(n)), "{newest:?} {started:?}");
}
