//! Approvals that two people decide at the same instant, at two instances: one decision each.

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::{Value, json};

use super::numbers::scaled;
use super::rig::{Answer, Api, Cluster, LONG, With};

/// Approvals of the full length, and at least.
const FULL: usize = 1_000;
const LEAST: usize = 50;
/// Races under way at once.
const AT_ONCE: usize = 8;

const RELEASE: &str = r#"
name: release
nodes:
  - { id: ask, type: approval, config: { title: "Ship it?", approvers: [ann, bob] } }
  - { id: ship, type: output, needs: [ask], config: { value: shipped } }
  - { id: stop, type: output, needs: [{ node: ask, branch: rejected }], config: { value: stopped } }
"#;

/// Waits until an execution asks; gives the wait's id.
async fn waits(api: &Api, id: &str) -> String {
    loop {
        let opened = api.events(0, id, "NodeWaiting").await;
        if let Some(event) = opened.first() {
            return format!("{id}~{}", event["seq"]);
        }
        waypost_testbed::moment().await;
    }
}

/// The path of bob's link, made at one instance and used at another.
async fn link(api: &Api, at: usize, wait: &str) -> String {
    let asked = json!({ "approver": "bob" });
    let made = api.post(at, &format!("/v1/waits/{wait}/links"), &asked).await;
    assert_eq!(made.status, 201, "{made:?}");
    let url = made.body["links"][0]["url"].as_str().unwrap();
    url[url.find("/v1/").unwrap()..].to_owned()
}

/// Ann approves with the API at one instance, bob rejects by his link at the other one, at once.
async fn race(api: &Api, n: usize, id: &str) {
    let wait = waits(api, id).await;
    let (decide, link) = (format!("/v1/waits/{wait}/decide"), link(api, n, &wait).await);
    let (approve, reject) =
        (json!({ "decision": "approved", "by": "ann" }), json!({ "decision": "rejected" }));
    let (ann, bob) = tokio::join!(api.post(n, &decide, &approve), api.post(n + 1, &link, &reject));
    let names = [(ann, "approved by ann"), (bob, "rejected by link for bob")];
    let won: Vec<&str> = names.iter().filter(|(answer, _)| answer.is_ok()).map(|of| of.1).collect();
    let [won] = won[..] else { panic!("one of them decides: {names:?}") };
    let is_lost = |(answer, _): &&(Answer, &str)| !answer.is_ok();
    let (lost, _) = names.iter().find(is_lost).expect("the other one does not");
    assert_eq!((lost.status, &lost.body["code"]), (409, &json!("already_decided")), "{lost:?}");
    let detail = lost.body["detail"].as_str().unwrap();
    assert!(detail.contains(won), "{detail} must name {won}");
    let ended = api.ended(id, LONG).await;
    let done = if won.contains("ann") { "ship" } else { "stop" };
    assert!(ended["output"].get(done).is_some_and(Value::is_string), "{ended}");
    let events = api.all_events(n, id).await;
    let of_ask = |kind: &str| {
        events.iter().filter(|event| event["type"] == kind && event["node"] == "ask").count()
    };
    assert_eq!((of_ask("NodeResumed"), of_ask("NodeCompleted")), (1, 1), "{events:?}");
}

#[test]
fn approval_decided_by_two_people_at_two_instances_has_one_decision() {
    let cluster = Cluster::start(2, With::Postgres);
    cluster.deploy(RELEASE);
    let api = &cluster.api;
    let count = scaled(FULL).max(LEAST);
    cluster.block_on(async {
        // Some are decided while their owner has them in memory, others when they are parked.
        let start = |n: usize| async move {
            (n, api.start(n, "release", &json!(null), &format!("r{n}")).await)
        };
        let started: Vec<(usize, String)> =
            iter(0..count).map(start).buffered(AT_ONCE).collect().await;
        let raced = iter(&started).map(|(n, id)| race(api, *n, id));
        raced.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    });
    cluster.check();
    cluster.mail_is_gone();
}
