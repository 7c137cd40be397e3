//! Webhook endpoints over the API.

use serde_json::{Value, json};
use waypost_core::id::InstanceId;
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::time::Millis;
use waypost_ports::outbox::{MessageClaim, MessageResult, Outbox};

use crate::support::{Ask, House};

const ENDPOINTS: &str = "/v1/webhook-endpoints";

async fn create(house: &House, body: &Value) -> Value {
    house.post(ENDPOINTS, body).await.expect(201).json()
}

/// Claims everything that is due, as a dispatcher does, and records one result for all of it.
fn settle(house: &House, result: &Delivered) -> usize {
    let claim = uuid::Uuid::new_v4();
    let (instance, lease) = (InstanceId(uuid::Uuid::from_u128(9)), Millis::from_secs(60));
    let request = MessageClaim { claim, instance, limit: 64, lease, for_triggers: true };
    let claimed = house.store.claim_messages(&request).unwrap().messages;
    let results: Vec<MessageResult> = claimed
        .iter()
        .map(|(message, _)| MessageResult {
            name: message.name.clone(),
            result: result.clone(),
            took: Millis(5),
            jitter: Jitter::NONE,
        })
        .collect();
    house.store.settle_messages(claim, &results).unwrap();
    results.len()
}

#[tokio::test]
async fn endpoint_is_registered_shown_changed_and_deleted() {
    let house = House::open().await;
    let asked = json!({
        "url": "https://example.com/hook",
        "workflow": "order",
        "events": ["execution.failed", "execution.completed"],
        "description": "orders",
        "includeOutput": true,
    });
    let made = create(&house, &asked).await;
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() > 40, "{secret}");
    let endpoint = &made["endpoint"];
    assert_eq!(endpoint["events"], json!(["execution.completed", "execution.failed"]));
    assert_eq!((&endpoint["state"], &endpoint["failures"]), (&json!("active"), &json!(0)));
    let path = format!("{ENDPOINTS}/{}", endpoint["id"].as_str().unwrap());
    let shown = house.get(&path).await.expect(200);
    assert_eq!(shown.json(), *endpoint);
    assert!(!shown.text().contains("whsec_"));
    let listed = house.get(ENDPOINTS).await.expect(200).json();
    assert_eq!(listed["endpoints"], json!([endpoint]));
    for (action, state) in [("pause", "paused"), ("resume", "active")] {
        let changed = house.ask(&Ask::new("POST", &format!("{path}/{action}"))).await;
        assert_eq!(changed.expect(200).json()["state"], state);
    }
    let rotated = house.ask(&Ask::new("POST", &format!("{path}/rotate"))).await.expect(200).json();
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["endpoint"]["formerSecretUntil"].is_string(), "{rotated}");
    house.ask(&Ask::new("DELETE", &path)).await.expect(204);
    house.get(&path).await.refused(404, "unknown_endpoint");
    house.ask(&Ask::new("DELETE", &path)).await.refused(404, "unknown_endpoint");
    for action in ["pause", "resume", "rotate", "test"] {
        let asked = Ask::new("POST", &format!("{path}/{action}"));
        house.ask(&asked).await.refused(404, "unknown_endpoint");
    }
}

#[tokio::test]
async fn endpoint_that_cannot_be_called_or_gets_nothing_is_refused() {
    let house = House::open().await;
    for url in ["http://example.com/", "https://127.0.0.1/", "https://u:p@example.com/", "hook"] {
        let asked = json!({ "url": url });
        house.post(ENDPOINTS, &asked).await.refused(422, "endpoint_refused");
    }
    for events in [json!([]), json!(["execution.unknown"])] {
        let asked = json!({ "url": "https://example.com/", "events": events });
        house.post(ENDPOINTS, &asked).await.refused(400, "bad_body");
    }
    let made = create(&house, &json!({ "url": "https://example.com/" })).await;
    let replay = format!("{ENDPOINTS}/{}/replay", made["endpoint"]["id"].as_str().unwrap());
    let two = json!({ "dead": true, "ids": [] });
    for asked in [json!({}), json!({ "dead": false }), two, json!({ "ids": ["x"] })] {
        house.post(&replay, &asked).await.refused(400, "bad_body");
    }
}

#[tokio::test]
async fn messages_are_listed_given_up_and_replayed() {
    let house = House::open().await;
    let definition = json!({ "name": "order", "nodes": [{ "id": "a", "type": "noop" }] });
    house.post("/v1/definitions", &definition).await.expect(201);
    let asked = json!({ "url": "https://example.com/", "events": ["execution.completed"] });
    let made = create(&house, &asked).await;
    let path = format!("{ENDPOINTS}/{}", made["endpoint"]["id"].as_str().unwrap());
    house.finish("order", "order-1").await;
    let listed = house.get(&format!("{path}/messages?state=pending")).await.expect(200).json();
    let message = &listed["messages"][0];
    assert_eq!(message["type"], "execution.completed");
    assert_eq!((&message["execution"], &message["attempts"]), (&json!("order-1"), &json!(0)));
    let metrics = house.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("\nwaypost_outbox_depth 1\n"), "{metrics}");
    assert!(metrics.contains("\nwaypost_webhook_endpoints{state=\"active\"} 1\n"), "{metrics}");
    assert_eq!(settle(&house, &Delivered::Gone), 1);
    let endpoint = house.get(&path).await.expect(200).json();
    assert_eq!(endpoint["state"], "disabled");
    let dead = house.get("/v1/dead-letters").await.expect(200).json();
    let letter = &dead["deadLetters"][0];
    assert_eq!((&letter["id"], &letter["status"]), (&message["id"], &json!(410)));
    house.ask(&Ask::new("POST", &format!("{path}/resume"))).await.expect(200);
    let ids = json!({ "ids": [letter["id"]] });
    let replayed = house.post(&format!("{path}/replay"), &ids).await.expect(200).json();
    assert_eq!(replayed, json!({ "replayed": 1 }));
    assert_eq!(settle(&house, &Delivered::Yes { status: 200 }), 1);
    let listed = house.get(&format!("{path}/messages")).await.expect(200).json();
    let again = &listed["messages"][0];
    assert_eq!((&again["id"], &again["state"]), (&message["id"], &json!("delivered")));
    let about = house.get("/v1/executions/order-1/messages").await.expect(200).json();
    assert_eq!(about["messages"], json!([again]));
    assert!(again["settledAt"].is_string(), "{again}");
    house.get("/v1/executions/order-2/messages").await.refused(404, "unknown_execution");
    house.get(&format!("{path}/messages?state=lost")).await.refused(400, "bad_parameter");
}

#[tokio::test]
async fn notify_node_sends_its_message_with_its_completion() {
    let house = House::open().await;
    let nodes = json!([
        { "id": "tell", "type": "notify", "config": { "message": { "at": "${{ input.at }}" } } },
        { "id": "gate", "type": "wait-for-events", "needs": ["tell"], "config": { "name": "go" } },
    ]);
    let definition = json!({ "name": "tells", "nodes": nodes });
    house.post("/v1/definitions", &definition).await.expect(201);
    let asked = json!({ "url": "https://example.com/", "events": ["execution.notified"] });
    let made = create(&house, &asked).await;
    create(&house, &json!({ "url": "https://example.com/", "workflow": "tells" })).await;
    let start = json!({ "workflow": "tells", "id": "t-1", "input": { "at": 7 } });
    house.post("/v1/executions", &start).await.expect(201);
    house.wait_for("t-1", "NodeCompleted").await;
    let path = format!("{ENDPOINTS}/{}/messages", made["endpoint"]["id"].as_str().unwrap());
    let listed = house.get(&path).await.expect(200).json();
    let [message] = &listed["messages"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!(message["type"], "execution.notified");
    let events = "/v1/executions/t-1/events?type=NodeCompleted";
    let events = house.get(events).await.expect(200).json();
    assert_eq!(message["seq"], events["events"][0]["seq"]);
    let claim = uuid::Uuid::new_v4();
    let (instance, lease) = (InstanceId(uuid::Uuid::from_u128(9)), Millis::from_secs(60));
    let request = MessageClaim { claim, instance, limit: 64, lease, for_triggers: true };
    let claimed = house.store.claim_messages(&request).unwrap().messages;
    let notes: Vec<Value> = claimed
        .iter()
        .map(|(message, _)| serde_json::from_slice::<Value>(&message.data).unwrap())
        .filter(|data| data["node"] == "tell")
        .collect();
    let [note] = &notes[..] else { panic!("only one endpoint gets it: {notes:?}") };
    assert_eq!(note["message"], json!({ "at": 7 }));
}

#[tokio::test]
async fn approval_sends_messages_when_it_opens_and_when_people_are_reminded() {
    let house = House::open().await;
    let config = json!({
        "title": "Ship ${{ input.what }}?", "description": "see the list", "approvers": ["ann"],
        "reminder": "10ms", "escalate": { "after": "500ms", "to": ["eve"] }, "timeout": "1h",
    });
    let nodes = json!([{ "id": "ask", "type": "approval", "config": config }]);
    let definition = json!({ "name": "asks", "nodes": nodes });
    house.post("/v1/definitions", &definition).await.expect(201);
    let events = json!(["approval.requested", "approval.reminded", "approval.escalated"]);
    create(&house, &json!({ "url": "https://example.com/", "events": events })).await;
    create(&house, &json!({ "url": "https://example.com/", "workflow": "asks" })).await;
    let start = json!({ "workflow": "asks", "id": "a-1", "input": { "what": "it" } });
    house.post("/v1/executions", &start).await.expect(201);
    // Both are recorded within a second.
    for _ in 0..100_000 {
        let all = "/v1/executions/a-1/events?type=NodeReminded";
        let found = house.get(all).await.expect(200).json();
        if found["events"].as_array().unwrap().len() == 2 {
            break;
        }
    }
    let wait = house.get("/v1/waits?consistent=true&kind=approval").await.expect(200).json();
    let wait = &wait["waits"][0];
    let mut shown = Vec::new();
    // One message about an execution is under way at a time.
    for _ in 0..3 {
        let claim = uuid::Uuid::new_v4();
        let (instance, lease) = (InstanceId(uuid::Uuid::from_u128(9)), Millis::from_secs(60));
        let request = MessageClaim { claim, instance, limit: 64, lease, for_triggers: true };
        let claimed = house.store.claim_messages(&request).unwrap().messages;
        let results = claimed.iter().map(|(message, _)| {
            let data: Value = serde_json::from_slice(&message.data).unwrap();
            if data["node"] == "ask" {
                assert_eq!((&data["wait"], &data["due"]), (&wait["id"], &wait["due"]));
                assert_eq!(data["title"], "Ship it?");
                shown.push(json!([message.kind.name(), data["approvers"], data["escalatedTo"]]));
            }
            let (name, result) = (message.name.clone(), Delivered::Yes { status: 200 });
            MessageResult { name, result, took: Millis(5), jitter: Jitter::NONE }
        });
        let results: Vec<MessageResult> = results.collect();
        house.store.settle_messages(claim, &results).unwrap();
    }
    let expected = [
        json!(["approval.requested", ["ann"], null]),
        json!(["approval.reminded", ["ann"], null]),
        json!(["approval.escalated", ["ann", "eve"], ["eve"]]),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn notify_node_that_waits_completes_with_what_became_of_its_message() {
    let house = House::open().await;
    let tell = |name: &str, config: Value| json!({ "name": name, "nodes": [{ "id": "tell", "type": "notify", "config": config }] });
    let waits = json!({ "message": { "n": 7 }, "wait": true });
    house.post("/v1/definitions", &tell("waits", waits)).await.expect(201);
    let hasty = json!({ "message": 7, "wait": true, "timeout": "10ms" });
    house.post("/v1/definitions", &tell("hasty", hasty)).await.expect(201);
    let never = json!({ "message": 7, "timeout": "10ms" });
    house.post("/v1/definitions", &tell("never", never)).await.refused(422, "invalid_definition");
    // No endpoint gets it.
    house.finish("waits", "w-0").await;
    let output = async |id: &str| {
        let nodes = house.get(&format!("/v1/executions/{id}/nodes")).await.expect(200).json();
        nodes["nodes"][0]["output"].clone()
    };
    assert_eq!(output("w-0").await, json!({ "delivered": 0, "failed": 0 }));
    let asked = json!({ "url": "https://example.com/", "events": ["execution.notified"] });
    create(&house, &asked).await;
    create(&house, &asked).await;
    // It is not delivered in time.
    let ended = house.finish("hasty", "h-1").await;
    assert_eq!(
        (&ended["status"], &ended["failure"]["kind"]),
        (&json!("FAILED"), &json!("timeout"))
    );
    assert_eq!(settle(&house, &Delivered::Yes { status: 200 }), 2);
    house.post("/v1/executions", &json!({ "workflow": "waits", "id": "w-1" })).await.expect(201);
    house.wait_for("w-1", "NodeWaiting").await;
    let why = house.get("/v1/executions/w-1/why").await.expect(200).json();
    assert!(why.to_string().contains("until its message is delivered"), "{why}");
    let claim = uuid::Uuid::new_v4();
    let (instance, lease) = (InstanceId(uuid::Uuid::from_u128(9)), Millis::from_secs(60));
    let request = MessageClaim { claim, instance, limit: 64, lease, for_triggers: true };
    let claimed = house.store.claim_messages(&request).unwrap().messages;
    let results = [Delivered::Yes { status: 204 }, Delivered::Gone];
    for ((message, _), result) in claimed.into_iter().zip(results) {
        let data: Value = serde_json::from_slice(&message.data).unwrap();
        assert_eq!((&data["node"], &data["message"]), (&json!("tell"), &json!({ "n": 7 })));
        let (name, took, jitter) = (message.name, Millis(5), Jitter::NONE);
        let result = MessageResult { name, result, took, jitter };
        house.store.settle_messages(claim, &[result]).unwrap();
    }
    house.get("/v1/executions/w-1?wait=60s").await.expect(200);
    assert_eq!(output("w-1").await, json!({ "delivered": 1, "failed": 1 }));

    // The endpoint that is left is deleted while a node waits for it.
    house.post("/v1/executions", &json!({ "workflow": "waits", "id": "w-2" })).await.expect(201);
    house.wait_for("w-2", "NodeWaiting").await;
    for endpoint in house.get(ENDPOINTS).await.expect(200).json()["endpoints"].as_array().unwrap() {
        let path = format!("{ENDPOINTS}/{}", endpoint["id"].as_str().unwrap());
        house.ask(&Ask::new("DELETE", &path)).await.expect(204);
    }
    assert_eq!(settle(&house, &Delivered::Yes { status: 200 }), 0);
    house.get("/v1/executions/w-2?wait=60s").await.expect(200);
    assert_eq!(output("w-2").await, json!({ "delivered": 0, "failed": 1 }));
}
