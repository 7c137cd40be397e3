//! Maps that run are steered and listed: items are cancelled, maps held, tuned and released.

use serde_json::{Value, json};
use waypost_core::event::STEERED_LOG_FORMAT;
use waypost_core::id::InstanceId;
use waypost_ports::access::Role;
use waypost_ports::store::{About, Heartbeat, LEASE, Store as _};

use crate::support::events::Events;
use crate::support::{Ask, House};

/// Each item waits for a signal, two at a time; `gate` ends a group before.
fn each(name: &str, items: u64) -> Value {
    json!({ "name": name, "nodes": [
        { "id": "gate", "type": "group", "nodes": [{ "id": "in", "type": "noop" }] },
        { "id": "each", "type": "map", "needs": ["gate"],
          "config": { "items": items, "concurrency": 2, "tolerate": { "count": items } },
          "nodes": [{ "id": "wait", "type": "wait-for-events", "config": { "name": "go", "filter": "signal.index == index" } },
                    { "id": "done", "type": "output", "needs": ["wait"], "config": { "value": "${{ index }}" } }] },
        { "id": "after", "type": "output", "needs": ["each"], "config": { "value": "${{ nodes.each.output }}" } },
    ] })
}

async fn running(items: u64) -> House {
    let house = House::open().await;
    house.deploy(&each("each", items));
    house.start("each", "e").await;
    house.wait_for("e", "ItemsOpened").await;
    house
}

async fn go(house: &House, index: u64) {
    let signal = json!({ "name": "go", "body": { "index": index } });
    house.post("/v1/executions/e/signals", &signal).await.expect(200);
}

async fn items(house: &House, query: &str) -> Value {
    let target = format!("/v1/executions/e/nodes?under=each{query}");
    let list = house.get(&target).await.expect(200).json();
    assert_eq!(list["nodes"], json!([]));
    list["items"].clone()
}

/// Indexes and statuses on a page.
fn shown(items: &Value) -> Vec<String> {
    let page = items["page"].as_array().unwrap().iter();
    page.map(|item| format!("{} {}", item["index"], item["status"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn cancelled_item_counts_as_failed_and_is_listed() {
    let house = running(3).await;
    let cancel = json!({ "reason": "stuck", "messageId": "m1" });
    let target = "/v1/executions/e/nodes/each[1]/cancel";
    let first = house.post(target, &cancel).await.expect(200).json();
    assert_eq!((&first["id"], &first["messageId"]), (&json!("e"), &json!("m1")));
    let again = house.post(target, &cancel).await.expect(200).json();
    assert_eq!(again["duplicate"], true, "{again}");
    house.post(target, &json!({})).await.refused(409, "illegal_transition");
    let failed = items(&house, "&status=FAILED").await;
    let failure =
        json!({ "kind": "cancelled", "message": "the item was cancelled by local: stuck" });
    assert_eq!(failed["page"], json!([{ "index": 1, "status": "FAILED", "failure": failure }]));
    for index in [0, 2] {
        go(&house, index).await;
    }
    let end = house.get("/v1/executions/e?wait=60s").await.expect(200).json();
    assert_eq!(end["output"]["failedIndexes"], json!([1]), "{end}");
    assert_eq!(end["output"]["failures"][0]["kind"], "cancelled");
    house.post(target, &json!({})).await.refused(409, "execution_ended");
    assert_eq!(shown(&items(&house, "").await), ["0 COMPLETED", "1 FAILED", "2 COMPLETED"]);
}

#[tokio::test]
async fn requests_that_do_not_fit_the_map_say_why() {
    let house = running(5).await;
    for (target, body, status, code, detail) in [
        ("each[9]/cancel", json!({}), 404, "unknown_node", "has 5 items"),
        ("x[0]/cancel", json!({}), 404, "unknown_node", "no node \"x[0]\""),
        ("each[4]/cancel", json!({}), 409, "illegal_transition", "has not begun"),
        ("each/cancel", json!({}), 409, "illegal_transition", "not an item"),
        ("gate/cancel", json!({}), 409, "illegal_transition", "gate is not a map"),
        ("each[0]/wait/cancel", json!({}), 409, "illegal_transition", "is not a map"),
        ("gate/tune", json!({ "held": true }), 409, "illegal_transition", "gate is not a map"),
        ("x/tune", json!({ "held": true }), 404, "unknown_node", "no node \"x\""),
        ("each/tune", json!({}), 400, "bad_body", "`held`"),
        ("each/tune", json!({ "concurrency": 0 }), 400, "bad_body", "1 to 10000"),
        ("each/tune", json!({ "concurrency": 10_001 }), 400, "bad_body", "1 to 10000"),
        ("each/tune", json!({ "hold": true }), 400, "bad_body", "hold"),
    ] {
        let reply = house.post(&format!("/v1/executions/e/nodes/{target}"), &body).await;
        let reply = reply.refused(status, code).json();
        let (said, hint) = (reply["detail"].as_str().unwrap(), &reply["hint"]);
        assert!(
            said.contains(detail) && (hint.is_string() || code == "bad_body"),
            "{target}: {reply}"
        );
    }
    for (query, status, code) in [
        ("under=gate", 409, "illegal_transition"),
        ("under=x", 404, "unknown_node"),
        ("under=each&status=WAITING", 400, "bad_parameter"),
        ("under=each&state=incomplete", 400, "bad_parameter"),
        ("status=FAILED", 400, "bad_parameter"),
        ("limit=5", 400, "bad_parameter"),
    ] {
        house.get(&format!("/v1/executions/e/nodes?{query}")).await.refused(status, code);
    }
}

#[tokio::test]
async fn held_map_says_who_holds_it_and_goes_on_when_released() {
    let house = House::locked().await;
    house.deploy(&each("each", 4));
    let key = house.key(Role::Admin);
    let post = async |target: &str, body: Value| {
        let ask = Ask::post(&format!("/v1/executions{target}"), &body).key(&key);
        house.ask(&ask).await
    };
    let get = async |target: &str| {
        let ask = Ask::get(&format!("/v1/executions/e{target}")).key(&key);
        house.ask(&ask).await.expect(200).json()
    };
    post("", json!({ "workflow": "each", "id": "e" })).await.expect(201);
    let opened = async || get("/events?type=ItemsOpened").await["events"].as_array().unwrap().len();
    let stream = Ask::get("/v1/executions/e/stream").header("Accept", "text/event-stream");
    let mut events = Events::open(house.connect().await, &house, &stream.key(&key)).await;
    while events.next().await.unwrap().kind != "ItemsOpened" {}
    let hold = json!({ "held": true, "concurrency": 4, "reason": "the API is slow" });
    post("/e/nodes/each/tune", hold).await.expect(200);
    for index in [0, 1] {
        let signal = json!({ "name": "go", "body": { "index": index } });
        post("/e/signals", signal).await.expect(200);
    }
    let nodes = get("/nodes").await;
    let map = nodes["nodes"].as_array().unwrap().iter().find(|node| node["id"] == "each").unwrap();
    let progress = &map["items"];
    assert_eq!((&progress["done"], &progress["open"]), (&json!(2), &json!(0)), "{map}");
    let holder = format!("key:{}", key.split('_').nth(1).unwrap());
    assert_eq!((&progress["held"]["by"], &progress["concurrency"]), (&json!(holder), &json!(4)));
    let why = get("/why").await;
    let reason = &why["reasons"][0];
    assert_eq!(
        (&reason["node"], &reason["unblockedBy"]),
        (&json!("each"), &json!("release")),
        "{why}"
    );
    assert!(
        reason["what"]
            .as_str()
            .unwrap()
            .starts_with(&format!("is held by {holder} (the API is slow)")),
        "{why}"
    );
    assert_eq!(opened().await, 1);
    post("/e/nodes/each/tune", json!({ "held": false })).await.expect(200);
    assert_eq!(opened().await, 2, "the owner opens items in the frame of the release");
    post("/e/cancel", json!({})).await.expect(200);
}

#[tokio::test]
async fn items_are_listed_by_page_and_status() {
    let house = running(2_500).await;
    let first = items(&house, "&limit=1000").await;
    assert_eq!((&first["count"], &first["next"]), (&json!(2_500), &json!(999)));
    let last = items(&house, "&limit=1000&after=1999").await;
    assert_eq!((last["page"].as_array().unwrap().len(), last.get("next")), (500, None));
    let open = items(&house, "&status=RUNNING").await;
    assert_eq!(shown(&open), ["0 RUNNING", "1 RUNNING"]);
    assert!(open["page"][0]["startedAt"].is_string(), "{open}");
    go(&house, 0).await;
    let done = items(&house, "&status=COMPLETED").await;
    assert_eq!(done["page"], json!([{ "index": 0, "status": "COMPLETED", "output": 0 }]));
    assert_eq!(shown(&items(&house, "&status=PENDING&limit=1").await), ["3 PENDING"]);
    house.post("/v1/executions/e/cancel", &json!({})).await.expect(200);
    house.get("/v1/executions/e?wait=60s").await.expect(200);
    let ended = shown(&items(&house, "&limit=4").await);
    assert_eq!(ended, ["0 COMPLETED", "1 FAILED", "2 FAILED", "3 CANCELLED"]);
}

/// The older instance may own the execution: it could read neither the mail nor the event.
#[tokio::test]
async fn request_is_refused_while_an_older_instance_is_alive() {
    let house = running(3).await;
    let older = |lease| Heartbeat {
        instance: InstanceId(uuid::Uuid::from_u128(7)),
        numbers: 1,
        fold: STEERED_LOG_FORMAT - 1,
        lease,
        about: About::default(),
    };
    house.store.heartbeat(&older(Some(LEASE))).unwrap();
    let (cancel, tune) =
        ("/v1/executions/e/nodes/each[0]/cancel", "/v1/executions/e/nodes/each/tune");
    house.post(cancel, &json!({})).await.refused(409, "cluster_too_old");
    house.post(tune, &json!({ "held": true })).await.refused(409, "cluster_too_old");
    let events = house.get("/v1/executions/e/events?type=BodyEnding").await.expect(200).json();
    assert_eq!(events["events"], json!([]));
}
