//! The current version of a workflow: what starts use, and how deploys move it.

use serde_json::{Value, json};

use crate::support::{Ask, House};

fn definition(node: &str) -> Value {
    json!({ "name": "order", "nodes": [{ "id": node, "type": "noop" }] })
}

async fn deploy(house: &House, query: &str, node: &str, status: u16) -> Value {
    let path = format!("/v1/definitions{query}");
    let reply = house.ask(&Ask::post(&path, &definition(node))).await.expect(status).json();
    let fields = ["version", "created", "current", "previous"];
    fields.iter().map(|field| reply.get(field).cloned().unwrap_or_default()).collect()
}

async fn started(house: &House) -> Value {
    let start = json!({ "workflow": "order" });
    house.post("/v1/executions", &start).await.expect(201).json()["version"].clone()
}

#[tokio::test]
async fn deploy_of_an_older_content_rolls_back() {
    let house = House::open().await;
    assert_eq!(deploy(&house, "", "a", 201).await, json!([1, true, 1, null]));
    assert_eq!(deploy(&house, "", "b", 201).await, json!([2, true, 2, 1]));
    assert_eq!(started(&house).await, 2);
    assert_eq!(deploy(&house, "", "a", 200).await, json!([1, false, 1, 2]));
    assert_eq!(started(&house).await, 1);
    assert_eq!(deploy(&house, "", "a", 200).await, json!([1, false, 1, 1]));

    let shown = house.get("/v1/definitions/order").await.expect(200).json();
    assert_eq!((&shown["version"], &shown["current"]), (&json!(1), &json!(1)));
    let newest = house.get("/v1/definitions/order/versions/2").await.expect(200).json();
    assert_eq!((&newest["version"], &newest["current"]), (&json!(2), &json!(1)));
    house.get("/v1/definitions/order/versions/3").await.refused(404, "unknown_definition");
    for path in ["/v1/definitions", "/v1/definitions/order/versions"] {
        let list = house.get(path).await.expect(200).json();
        let rows = list["definitions"].as_array().unwrap();
        let row = rows.iter().find(|row| row["workflow"] == "order").unwrap();
        assert_eq!((&row["version"], &row["current"]), (&json!(2), &json!(1)), "{path}");
    }

    house.server.audit.close();
    let audit = house.get("/v1/audit").await.expect(200).json();
    let deploys: Vec<_> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .filter(|entry| entry["action"] == "deployDefinition")
        .map(|entry| entry["subject"].clone())
        .collect();
    let expected = ["order v1", "order v2 (was v1)", "order v1 (was v2)", "order v1"];
    assert_eq!(deploys, expected);
}

#[tokio::test]
async fn dry_run_says_what_would_be_current_and_moves_nothing() {
    let house = House::open().await;
    assert_eq!(deploy(&house, "?dryRun=true", "a", 200).await, json!([null, true, null, null]));
    deploy(&house, "", "a", 201).await;
    deploy(&house, "", "b", 201).await;
    assert_eq!(deploy(&house, "?dryRun=true", "a", 200).await, json!([1, false, 1, 2]));
    assert_eq!(deploy(&house, "?dryRun=true", "c", 200).await, json!([null, true, null, 2]));
    assert_eq!(started(&house).await, 2);
}

#[tokio::test]
async fn deploy_that_keeps_the_current_version_moves_nothing() {
    let house = House::open().await;
    let keep = "?keepCurrent=true";
    assert_eq!(deploy(&house, keep, "a", 201).await, json!([1, true, 1, null]), "the first");
    assert_eq!(deploy(&house, keep, "b", 201).await, json!([2, true, 1, 1]));
    assert_eq!(started(&house).await, 1);
    let start = json!({ "workflow": "order", "version": 2 });
    assert_eq!(house.post("/v1/executions", &start).await.expect(201).json()["version"], 2);
}

/// Whatever is current: the same key is the same submission.
#[tokio::test]
async fn idempotent_start_repeated_after_a_rollback_returns_the_same_execution() {
    let house = House::open().await;
    deploy(&house, "", "a", 201).await;
    deploy(&house, "", "b", 201).await;
    let start = json!({ "workflow": "order" });
    let ask = Ask::post("/v1/executions", &start).header("Idempotency-Key", "k");
    let first = house.ask(&ask).await.expect(201).json();
    deploy(&house, "", "a", 200).await;
    let again = house.ask(&ask).await.expect(200).json();
    assert_eq!((&again["id"], &again["version"]), (&first["id"], &json!(2)));
}
