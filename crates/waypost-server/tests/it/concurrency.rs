//! Concurrency keys over HTTP: the place in the queue, what can be asked of who stands in it, rejections.

use serde_json::{Value, json};

use crate::support::events::Events;
use crate::support::{Ask, House, house};

async fn start(house: &House, workflow: &str, id: &str, key: &str) -> Value {
    let body = json!({ "workflow": workflow, "id": id, "input": { "key": key } });
    house.post("/v1/executions", &body).await.expect(201).json()
}

async fn look(house: &House, id: &str) -> Value {
    house.get(&format!("/v1/executions/{id}")).await.expect(200).json()
}

/// Waits until the execution was let in and waits for its signal.
async fn is_let_in(house: &House, id: &str) {
    let mut events = Events::follow(house, &format!("/v1/executions/{id}/stream"), None).await;
    while events.next().await.unwrap().kind != "NodeWaiting" {}
}

#[tokio::test]
async fn queued_execution_shows_its_queue_position() {
    let house = House::keyed().await;
    start(&house, house::KEYED, "a", "k").await;
    is_let_in(&house, "a").await;
    let reply = start(&house, house::KEYED, "b", "k").await;
    assert_eq!(reply["status"], "SCHEDULING", "{reply}");
    start(&house, house::KEYED, "c", "k").await;
    let expected = json!({
        "key": "k", "limit": 1, "policy": "queue", "admitted": false, "queuePosition": 2,
    });
    let found = look(&house, "c").await;
    assert_eq!((&found["concurrency"], found.get("held")), (&expected, None), "{found}");
    let why = house.get("/v1/executions/c/why").await.expect(200).json();
    let reason = &why["reasons"][0];
    let what =
        "waits for a permit of concurrency key \"k\" (limit 1); 2 executions are ahead of it";
    assert_eq!(
        (&reason["what"], &reason["unblockedBy"]),
        (&json!(what), &json!("permit")),
        "{why}"
    );
    assert_eq!(look(&house, "a").await["concurrency"]["admitted"], true);
    let go = json!({ "name": "go", "body": 1 });
    house.post("/v1/executions/a/signals", &go).await.expect(200);
    is_let_in(&house, "b").await;
    assert_eq!(look(&house, "c").await["concurrency"]["queuePosition"], 1);
    assert_eq!(look(&house, "a").await.get("concurrency"), None, "what has ended has no place");
}

#[tokio::test]
async fn queued_execution_accepts_cancel_and_signals_only() {
    let house = House::keyed().await;
    start(&house, house::KEYED, "a", "k").await;
    is_let_in(&house, "a").await;
    start(&house, house::KEYED, "b", "k").await;
    let reply = house.post("/v1/executions/b/pause", &json!({})).await;
    let reply = reply.refused(409, "illegal_transition").json();
    assert!(reply["detail"].as_str().unwrap().contains("has not started"), "{reply}");
    house
        .ask(&Ask::new("POST", "/v1/executions/b/resume"))
        .await
        .refused(409, "illegal_transition");
    let early = json!({ "name": "go", "body": 7, "messageId": "m" });
    let kept = house.post("/v1/executions/b/signals", &early).await.expect(202).json();
    assert_eq!(kept["status"], "SCHEDULING", "it is kept: {kept}");
    start(&house, house::KEYED, "c", "k").await;
    let cancelled = house.post("/v1/executions/c/cancel", &json!({})).await.expect(200).json();
    assert_eq!(cancelled["status"], "CANCELLED");
    let events = house.get("/v1/executions/c/events").await.expect(200).json();
    assert!(!events.to_string().contains("Node"), "{events}");
    house.post("/v1/executions/a/signals", &json!({ "name": "go" })).await.expect(200);
    let end = house.get("/v1/executions/b?wait=60s").await.expect(200).json();
    assert_eq!((&end["status"], &end["output"]), (&json!("COMPLETED"), &json!(7)), "{end}");
}

#[tokio::test]
async fn one_too_many_is_rejected() {
    let house = House::keyed().await;
    let body = json!({ "workflow": house::REJECTING, "id": "a", "input": { "key": "k" } });
    let first = Ask::post("/v1/executions", &body).header("Idempotency-Key", "first");
    house.ask(&first).await.expect(201);
    let more = json!({ "workflow": house::REJECTING, "id": "b", "input": { "key": "k" } });
    let reply = house.post("/v1/executions", &more).await.refused(409, "concurrency_limit").json();
    assert_eq!(
        reply["detail"],
        "1 execution of its key is under way, and the workflow rejects more"
    );
    house.get("/v1/executions/b").await.refused(404, "unknown_execution");
    let again = house.ask(&first).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "it is the first one");
    start(&house, house::REJECTING, "other", "another key").await;
    is_let_in(&house, "a").await;
    house.post("/v1/executions/a/signals", &json!({ "name": "go" })).await.expect(200);
    house.get("/v1/executions/a?wait=60s").await.expect(200);
    start(&house, house::REJECTING, "b", "k").await;
}

#[tokio::test]
async fn a_key_that_cannot_be_evaluated_fails_the_execution() {
    let house = House::keyed().await;
    let body = json!({ "workflow": house::KEYED, "id": "a", "input": {} });
    let reply = house.post("/v1/executions?wait=60s", &body).await.expect(201).json();
    assert_eq!(reply["status"], "FAILED", "{reply}");
    assert_eq!(reply["failure"]["kind"], "expression", "{reply}");
    let body = json!({ "workflow": house::KEYED, "id": "b", "input": { "key": null } });
    let reply = house.post("/v1/executions", &body).await.expect(201).json();
    assert_eq!(
        (&reply["status"], &reply["failure"]["kind"]),
        (&json!("FAILED"), &json!("invalid_config"))
    );
}
