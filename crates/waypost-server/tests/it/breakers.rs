//! Circuit breakers over the API.

use serde_json::json;
use waypost_core::breaker::{BreakerChange, BreakerPolicy};
use waypost_core::time::Millis;
use waypost_ports::access::Role;
use waypost_ports::breakers::Breakers;

use crate::support::{Ask, House};

const BREAKERS: &str = "/v1/breakers";
const RESET: &str = "/v1/breakers/reset";

/// Reports a failure; two of them open a breaker.
fn fail(house: &House, key: &str) {
    let (period, cooldown) = (Millis::from_secs(60), Millis::from_secs(30));
    let policy = BreakerPolicy { failures: 2, period, cooldown };
    let failed = BreakerChange::Failed { policy, probe: None, message: "http: 503".into() };
    house.store.change_breaker(key, &failed).unwrap();
}

#[tokio::test]
async fn breakers_are_listed_counted_and_reset() {
    let house = House::open().await;
    assert_eq!(house.get(BREAKERS).await.expect(200).json(), json!({ "breakers": [] }));
    let key = "https://billing.example/charge";
    fail(&house, key);
    fail(&house, key);
    fail(&house, "other");
    let listed = house.get(BREAKERS).await.expect(200).json();
    let open = &listed["breakers"][0];
    assert_eq!((&open["key"], &open["status"]), (&json!(key), &json!("open")));
    assert_eq!((&open["failures"], &open["probes"]), (&json!(2), &json!(0)));
    assert_eq!(open["lastFailure"], "http: 503");
    assert!(open["since"].is_string() && open["until"].is_string(), "{open}");
    let closed =
        json!({ "key": "other", "status": "closed", "failures": 1, "lastFailure": "http: 503" });
    assert_eq!(listed["breakers"][1], closed);
    let metrics = house.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("\nwaypost_breakers_open 1\n"), "{metrics}");
    house.post(RESET, &json!({ "key": key })).await.expect(204);
    let left = house.get(BREAKERS).await.expect(200).json();
    assert_eq!(left["breakers"].as_array().unwrap().len(), 1);
    let again = house.post(RESET, &json!({ "key": key })).await.expect(404).json();
    assert_eq!(again["code"], "unknown_breaker");
}

#[tokio::test]
async fn breakers_are_listed_in_pages() {
    let house = House::open().await;
    ["c", "a", "b"].iter().for_each(|key| fail(&house, key));
    let page = house.get("/v1/breakers?limit=2").await.expect(200).json();
    assert_eq!((&page["breakers"][1]["key"], &page["next"]), (&json!("b"), &json!("b")));
    let rest = house.get("/v1/breakers?limit=2&cursor=b").await.expect(200).json();
    assert_eq!(rest["breakers"].as_array().unwrap().len(), 1);
    assert_eq!((&rest["breakers"][0]["key"], &rest["next"]), (&json!("c"), &json!(null)));
}

#[tokio::test]
async fn breakers_are_seen_by_viewers_and_reset_by_operators() {
    let house = House::keyed().await;
    fail(&house, "a");
    let ask = |method: &str, path: &str, role: Role| {
        let ask = Ask::new(method, path).key(&house.key(role));
        if method == "POST" { ask.json(&json!({ "key": "a" })) } else { ask }
    };
    house.ask(&ask("GET", BREAKERS, Role::Viewer)).await.expect(200);
    house.ask(&ask("POST", RESET, Role::Viewer)).await.expect(403);
    house.ask(&ask("POST", RESET, Role::Operator)).await.expect(204);
}
