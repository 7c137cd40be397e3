//! Lists, page by page, to their ends.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{House, house};

/// Follows `next` to the end and gives all rows.
async fn walk(house: &House, target: &str, rows: &str, cursor: &str) -> Vec<Value> {
    let (mut all, mut place) = (Vec::new(), String::new());
    loop {
        let page = house.get(&format!("{target}{place}")).await.expect(200).json();
        all.extend(page[rows].as_array().unwrap().iter().cloned());
        match page.get("next") {
            None => return all,
            Some(Value::String(next)) => place = format!("&{cursor}={next}"),
            Some(next) => place = format!("&{cursor}={next}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_list_can_be_walked_to_its_end() {
    let house = House::open().await;
    for at in 0..25 {
        let start = json!({ "workflow": house::QUICK, "id": format!("e{at}"), "labels": { "odd": (at % 2).to_string() } });
        house.post("/v1/executions?wait=60s", &start).await.expect(201);
        let definition =
            json!({ "name": format!("w{at}"), "nodes": [{ "id": "a", "type": "noop" }] });
        house.post("/v1/definitions", &definition).await.expect(201);
        let version =
            json!({ "name": "many", "nodes": [{ "id": format!("n{at}"), "type": "noop" }] });
        house.post("/v1/definitions", &version).await.expect(201);
    }
    for limit in [1, 7, 25, 1_000] {
        let list = |target: &str| format!("{target}limit={limit}");
        let all = walk(&house, &list("/v1/executions?"), "executions", "cursor").await;
        let ids: Vec<_> = all.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        let newest_first: Vec<_> = (0..25).rev().map(|at| format!("e{at}")).collect();
        assert_eq!(ids, newest_first, "limit {limit}");
        let odd = walk(&house, &list("/v1/executions?label=odd=1&"), "executions", "cursor").await;
        assert_eq!(odd.len(), 12, "limit {limit}");
        let all = walk(&house, &list("/v1/definitions?"), "definitions", "cursor").await;
        let names: BTreeSet<_> = all.iter().map(|row| row["workflow"].to_string()).collect();
        assert_eq!((all.len(), names.len()), (29, 29), "limit {limit}");
        let target = list("/v1/definitions/many/versions?");
        let all = walk(&house, &target, "definitions", "cursor").await;
        let versions: Vec<_> = all.iter().map(|row| row["version"].as_u64().unwrap()).collect();
        assert_eq!(versions, (1..=25).rev().collect::<Vec<_>>(), "limit {limit}");
        let all = walk(&house, &list("/v1/executions/e3/events?"), "events", "after").await;
        let seqs: Vec<_> = all.iter().map(|row| row["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "limit {limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_waits_are_listed_by_kind_and_workflow_to_their_end() {
    let house = House::open().await;
    for name in ["letters", "parcels"] {
        let nodes = json!([
            { "id": "pause", "type": "delay", "config": { "duration": "1h" } },
            { "id": "answer", "type": "wait-for-events", "config": { "events": ["yes", "no"] } },
        ]);
        house.post("/v1/definitions", &json!({ "name": name, "nodes": nodes })).await.expect(201);
        for at in 0..3 {
            let start = json!({ "workflow": name, "id": format!("{name}-{at}") });
            house.post("/v1/executions", &start).await.expect(201);
        }
    }
    // Starts are answered before the nodes are evaluated.
    let mut left = 10_000;
    while walk(&house, "/v1/waits?consistent=true", "waits", "cursor").await.len() < 12 {
        left -= 1;
        assert!(left > 0, "they do not wait");
    }
    for limit in [1, 4, 100] {
        let list = |filter: &str| format!("/v1/waits?consistent=true&limit={limit}{filter}");
        let all = walk(&house, &list(""), "waits", "cursor").await;
        assert_eq!(all.len(), 12, "{all:?}");
        let delays = walk(&house, &list("&kind=delay"), "waits", "cursor").await;
        assert!(delays.iter().all(|wait| wait["kind"] == "delay" && wait["due"].is_string()));
        let few = walk(&house, &list("&kind=signal&workflow=parcels"), "waits", "cursor").await;
        let executions: Vec<_> =
            few.iter().map(|wait| wait["execution"].as_str().unwrap()).collect();
        assert_eq!(executions, ["parcels-2", "parcels-1", "parcels-0"]);
        let signals = json!(["yes", "no"]);
        assert!(few.iter().all(|wait| wait["signals"] == signals && wait["node"] == "answer"));
    }
    let first =
        &house.get("/v1/waits?consistent=true&kind=signal").await.expect(200).json()["waits"][0];
    let id = first["id"].as_str().unwrap();
    house.post(&format!("/v1/waits/{id}/complete"), &json!({ "body": 1 })).await.expect(200);
    let left = house.get("/v1/waits?consistent=true&kind=signal").await.expect(200).json();
    assert_eq!(left["waits"].as_array().unwrap().len(), 5);
    house.get("/v1/waits?kind=sleep").await.expect(400);
    house.get("/v1/waits?cursor=nobody~7").await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_can_be_walked_to_its_end() {
    let house = House::open().await;
    for at in 0..25 {
        let new = json!({ "name": format!("k{at}"), "role": "viewer" });
        house.post("/v1/keys", &new).await.expect(201);
    }
    house.server.audit.close();
    for limit in [1, 7, 25, 1_000] {
        let target = format!("/v1/audit?limit={limit}");
        let all = walk(&house, &target, "entries", "cursor").await;
        let places: BTreeSet<_> = all.iter().map(|row| row["place"].as_u64().unwrap()).collect();
        assert_eq!((all.len(), places.len()), (25, 25), "limit {limit}");
    }
}

#[tokio::test]
async fn events_can_be_filtered() {
    let house = House::open().await;
    house.finish(house::QUICK, "e").await;
    let count = async |query: &str| {
        let page = house.get(&format!("/v1/executions/e/events?{query}")).await.expect(200).json();
        page["events"].as_array().unwrap().len()
    };
    assert_eq!(count("type=RunCreated").await, 1);
    assert_eq!(count("type=RunCompleted&node=first").await, 0);
    assert_eq!(count("type=NodeCompleted&node=first").await, 1);
    assert_eq!(count("after=9223372036854775807").await, 0);
    assert_eq!(count("node=nobody").await, 0);
}
