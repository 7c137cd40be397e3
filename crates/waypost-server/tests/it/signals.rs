//! Signals by key over the API.

use serde_json::{Value, json};
use waypost_ports::access::Role;

use crate::support::{Ask, House};

const SIGNALS: &str = "/v1/signals";

/// A workflow that waits for a payment of its order.
fn waits() -> Value {
    json!({ "name": "waits", "nodes": [
        { "id": "paid", "type": "wait-for-events",
          "config": { "name": "paid", "key": "${{ input.order }}" } },
        { "id": "out", "type": "output", "needs": ["paid"],
          "config": { "value": "${{ nodes.paid.output }}" } },
    ] })
}

async fn start(house: &House, id: &str, order: &Value) {
    let started = json!({ "workflow": "waits", "id": id, "input": { "order": order } });
    house.post("/v1/executions", &started).await.expect(201);
}

#[tokio::test]
async fn a_published_signal_reaches_all_that_wait_for_its_key() {
    let house = House::open().await;
    house.deploy(&waits());
    for (id, order) in [("a", json!(7)), ("b", json!("7")), ("c", json!(8))] {
        start(&house, id, &order).await;
        house.wait_for(id, "NodeWaiting").await;
    }
    let signal = json!({ "name": "paid", "key": "7", "body": { "by": "ada" }, "messageId": "m1" });
    let sent = house.post(SIGNALS, &signal).await.expect(200).json();
    let expected = json!({ "messageId": "m1", "executions": 2, "repeated": false });
    assert_eq!(sent, expected);
    for id in ["a", "b"] {
        let ended = house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200).json();
        assert_eq!(ended["output"], json!({ "by": "ada" }), "{ended}");
    }
    let again = house.post(SIGNALS, &signal).await.expect(200).json();
    assert_eq!((&again["executions"], &again["repeated"]), (&json!(0), &json!(true)));
    assert_eq!(house.get("/v1/executions/c").await.expect(200).json()["status"], "WAITING");
    let why = house.get("/v1/executions/c/why").await.expect(200).text();
    assert!(why.contains("paid[8]"), "{why}");
}

#[tokio::test]
async fn a_signal_that_nothing_waits_for_is_kept() {
    let house = House::open().await;
    house.deploy(&waits());
    let signal = json!({ "name": "paid", "key": "7", "body": 1, "keep": "1h" });
    let sent = house.post(SIGNALS, &signal).await.expect(200).json();
    assert_eq!(sent["executions"], 0, "{sent}");
    start(&house, "a", &json!("7")).await;
    let ended = house.get("/v1/executions/a?wait=60s").await.expect(200).json();
    assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &json!(1)));
}

#[tokio::test]
async fn a_signal_that_cannot_be_published_says_why() {
    let house = House::open().await;
    for (signal, code, why) in [
        (json!({ "name": "pa[id", "key": "7" }), "invalid_input", "must not contain `[`"),
        (json!({ "name": "paid", "key": "7", "keep": "31d" }), "invalid_input", "from 1s to 30d"),
        (json!({ "name": "paid", "key": "7", "keep": "0s" }), "invalid_input", "from 1s to 30d"),
        (json!({ "name": "paid", "key": "7", "messageId": "emit-1" }), "invalid_input", "`emit`"),
        (json!({ "name": "paid", "key": "7", "keep": "soon" }), "invalid_input", "soon"),
    ] {
        let refused = house.post(SIGNALS, &signal).await.refused(422, code).json();
        assert!(refused["detail"].as_str().unwrap().contains(why), "{refused}");
    }
    for signal in [json!({ "name": "paid" }), json!({ "name": "", "key": "" })] {
        let refused = house.post(SIGNALS, &signal).await;
        assert!([400, 422].contains(&refused.status), "{refused:?}");
    }
    let blob = json!({ "name": "paid", "key": "7", "body": { "$blob": "0".repeat(64) } });
    let refused = house.post(SIGNALS, &blob).await.refused(400, "bad_body").json();
    assert!(refused["detail"].as_str().unwrap().contains("cannot name blobs"), "{refused}");
    let large = json!({ "name": "paid", "key": "7", "body": "x".repeat(300_000) });
    house.post(SIGNALS, &large).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn publishing_needs_the_right_to_control() {
    let house = House::keyed().await;
    let signal = json!({ "name": "paid", "key": "7" });
    for (role, status) in [(Role::Viewer, 403), (Role::Operator, 200)] {
        let ask = Ask::post(SIGNALS, &signal).key(&house.key(role));
        house.ask(&ask).await.expect(status);
    }
}
