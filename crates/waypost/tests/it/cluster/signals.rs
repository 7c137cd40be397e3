//! Signals before, at and after parking, from any instance: none is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::{Value, json};
use waypost_testbed::Sink;

use super::flows::GATE;
use super::numbers::{scaled, within};
use super::rig::{Api, Cluster, LONG, With};

/// Requests under way at once.
const AT_ONCE: usize = 64;

/// Waits for the ends of these executions, each with its output.
async fn all_completed(api: &Api, ids: &[String], output: impl Fn(usize) -> Value) {
    let ended = iter(ids).map(|id| api.ended(id, LONG)).buffered(AT_ONCE);
    for (n, ended) in ended.collect::<Vec<Value>>().await.into_iter().enumerate() {
        assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &output(n)));
    }
}

#[test]
fn signals_sent_before_at_and_after_parking_all_arrive() {
    for with in With::BOTH {
        let cluster = Cluster::start(3, with);
        cluster.deploy(GATE);
        let api = Arc::new(cluster.api.clone());
        let count = scaled(10_000);
        cluster.block_on(async {
            let ids: Vec<String> = iter(0..count)
                .map(|n| {
                    let api = Arc::clone(&api);
                    async move {
                        let input = json!({ "text": n.to_string() });
                        let id = api.start(n, "gate", &input, &format!("s{n}")).await;
                        let body = json!({ "name": "go", "body": { "by": n }, "messageId": format!("m{n}") });
                        let path = format!("/v1/executions/{id}/signals");
                        // A third at once, which is before or while it parks; the rest afterwards.
                        if n % 3 == 0 {
                            let sent = api.post(n + 1, &path, &body).await;
                            assert!(sent.is_ok(), "{sent:?}");
                        }
                        id
                    }
                })
                .buffered(AT_ONCE)
                .collect()
                .await;
            iter(ids.iter().enumerate().filter(|(n, _)| n % 3 != 0))
                .map(|(n, id)| {
                    let api = Arc::clone(&api);
                    async move {
                        let body = json!({ "name": "go", "body": { "by": n }, "messageId": format!("m{n}") });
                        let path = format!("/v1/executions/{id}/signals");
                        let sent = api.post(n + 2, &path, &body).await;
                        assert!(sent.is_ok(), "{sent:?}");
                        // Twice under one id is once.
                        let again = api.post(n, &path, &body).await;
                        assert!(again.is_ok() || again.status == 409, "{again:?}");
                    }
                })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<()>>()
                .await;
            all_completed(&api, &ids, |n| json!({ "text": n.to_string(), "by": n })).await;
        });
        cluster.check();
        cluster.mail_is_gone();
    }
}

const BY_KEY: &str = r#"
name: by-key
nodes:
  - { id: paid, type: wait-for-events, config: { name: paid, key: "${{ input.order }}" } }
  - { id: out, type: output, needs: [paid], config: { value: "${{ nodes.paid.output }}" } }
"#;

const EMITS: &str = r#"
name: emits
nodes:
  - { id: pay, type: emit, config: { signal: paid, key: "${{ input.order }}", body: "${{ input.order }}" } }
"#;

/// Half of the signals come from executions, half from outside; a third before anything waits for them, the
/// rest while it begins to.
#[test]
fn signals_by_key_reach_the_one_that_waits_once() {
    for with in With::BOTH {
        let cluster = Cluster::start(3, with);
        cluster.deploy(BY_KEY);
        cluster.deploy(EMITS);
        let api = Arc::new(cluster.api.clone());
        let count = scaled(10_000);
        cluster.block_on(async {
            let ids: Vec<String> = iter(0..count)
                .map(|n| {
                    let api = Arc::clone(&api);
                    async move {
                        let input = json!({ "order": n });
                        let receiver = format!("r{n}");
                        let receive = api.start(n, "by-key", &input, &receiver);
                        let send = async {
                            if n % 2 == 0 {
                                api.start(n + 1, "emits", &input, &format!("e{n}")).await;
                                return;
                            }
                            let (key, id) = (n.to_string(), format!("m{n}"));
                            let body =
                                json!({ "name": "paid", "key": key, "body": n, "messageId": id });
                            for at in [n + 1, n + 2] {
                                let sent = api.post(at, "/v1/signals", &body).await;
                                assert!(sent.is_ok(), "{sent:?}");
                            }
                        };
                        if n % 3 == 0 {
                            send.await;
                            return receive.await;
                        }
                        futures_util::future::join(receive, send).await.0
                    }
                })
                .buffered(AT_ONCE)
                .collect()
                .await;
            all_completed(&api, &ids, |n| json!(n)).await;
        });
        cluster.check();
        for (table, left) in [("inbox", 0), ("subscriptions", 0)] {
            assert_eq!(cluster.sql(&format!("SELECT count(*) FROM {table}")), left.to_string());
        }
        assert_eq!(cluster.sql("SELECT count(*) FROM published WHERE NOT taken"), "0");
    }
}

const SENDER: &str = r#"
name: sender
nodes:
  - { id: send, type: emit, config: { to: "${{ input.to }}", signal: go } }
"#;

/// Polls come once a minute here, so that only a notification can be quick. The receiver is in the memory of
/// its owner, which waits for a response besides.
#[test]
fn emitted_signal_notifies_the_owner_on_another_instance() {
    With::both(|with| {
        let cluster = Cluster::start_with(2, with, &["--set", "poll_every=1m"]);
        let sink = Sink::start();
        sink.hold();
        let url = sink.url("/call");
        cluster.deploy(SENDER);
        cluster.deploy(&format!(
            r#"
name: receiver
nodes:
  - {{ id: busy, type: api-call, config: {{ method: POST, url: "{url}" }} }}
  - {{ id: wait, type: wait-for-events, config: {{ name: go }} }}
"#
        ));
        let api = cluster.api.clone();
        within(Duration::from_secs(20), |turn| {
            cluster.block_on(async {
                let key = format!("receiver-{turn}");
                let receiver = api.start(0, "receiver", &json!(null), &key).await;
                sink.wait_for(turn + 1, LONG);
                let began = Instant::now();
                let input = json!({ "to": receiver });
                let sender = api.start(1, "sender", &input, &format!("sender-{turn}")).await;
                assert_eq!(api.ended(&sender, LONG).await["status"], "COMPLETED");
                while api.events(0, &receiver, "SignalReceived").await.is_empty() {
                    assert!(began.elapsed() < LONG, "the signal does not arrive");
                    waypost_testbed::moment().await;
                }
                began.elapsed()
            })
        });
        sink.release();
    });
}
