//! Events that are published through any instance while executions wait for them on all: each wakes its
//! execution, once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::{Value, json};

use super::numbers::scaled;
use super::rig::{Api, Cluster, LONG, With};

/// Executions under way at once.
const AT_ONCE: usize = 48;
/// Executions of the full length.
const FULL: usize = 5_000;

/// Waits twice: for the very event, and for any event about it.
const FLOW: &str = r#"
name: fulfil
nodes:
  - id: paid
    type: wait-for-events
    config: { type: order.paid, match: { data.n: "${{ input.n }}" } }
  - id: next
    type: wait-for-events
    needs: [paid]
    config: { type: "order.*", match: { data.n: "${{ input.n }}", data.last: true } }
  - id: done
    type: output
    needs: [next]
    config: { value: ["${{ nodes.paid.output.id }}", "${{ nodes.next.output.id }}"] }
"#;

fn event(n: usize, kind: &str, id: &str, last: bool) -> Value {
    json!({
        "specversion": "1.0", "type": kind, "source": "shop", "id": id,
        "data": { "n": n, "last": last },
    })
}

/// Waits until an execution has begun so many waits.
async fn until_waiting(api: &Api, at: usize, id: &str, count: usize) {
    let began = Instant::now();
    while api.events(at, id, "NodeWaiting").await.len() < count {
        assert!(began.elapsed() < LONG, "{id} does not wait {count} times");
        waypost_testbed::moment().await;
    }
}

/// Publishes through an instance, and once more through another, as a publisher does that got no answer.
async fn publish(api: &Api, at: usize, event: &Value) {
    let published = api.post(at, "/v1/events", event).await;
    assert_eq!((published.status, &published.body["woken"]), (200, &json!(1)), "{published:?}");
    let again = api.post(at + 1, "/v1/events", event).await;
    assert_eq!(again.status, 200, "{again:?}");
}

async fn fulfil(api: &Api, n: usize) -> String {
    let id = api.start(n, "fulfil", &json!({ "n": n }), &format!("f{n}")).await;
    until_waiting(api, n + 1, &id, 1).await;
    publish(api, n * 7 + 2, &event(n, "order.paid", &format!("p{n}"), false)).await;
    until_waiting(api, n + 2, &id, 2).await;
    publish(api, n * 5 + 1, &event(n, "order.sent", &format!("s{n}"), true)).await;
    id
}

#[test]
fn events_through_any_instance_wake_their_executions_once() {
    With::both(check);
}

fn check(with: With) {
    let cluster = Cluster::start(3, with);
    cluster.deploy(FLOW);
    let api = Arc::new(cluster.api.clone());
    let count = scaled(FULL);
    cluster.block_on(async {
        let ids: Vec<String> = iter(0..count)
            .map(|n| {
                let api = Arc::clone(&api);
                async move { fulfil(&api, n).await }
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut seen = BTreeSet::new();
        for (n, id) in ids.iter().enumerate() {
            let ended = api.ended(id, LONG).await;
            let output = json!([format!("p{n}"), format!("s{n}")]);
            assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &output));
            let received = api.events(n, id, "SignalReceived").await;
            assert_eq!(received.len(), 2, "none is taken twice: {received:?}");
            seen.insert(id);
        }
        assert_eq!(seen.len(), count);
    });
    assert_eq!(cluster.sql("SELECT count(*) FROM subscriptions"), "0");
    cluster.mail_is_gone();
    cluster.check();
}
