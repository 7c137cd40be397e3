//! Requests that meet the end of an execution: whatever the reply says is what happened.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Answer, Ask, House, house};

const ROUNDS: usize = 2_000;
/// Races at once.
const LANES: usize = 20;

const ENDS: &[&str] = &["RunCompleted", "RunFailed", "RunCancelled", "RunTimedOut"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_completion_says_what_happened() {
    let house = Arc::new(House::open().await);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let house = Arc::clone(&house);
        lanes.spawn(async move {
            for round in (lane..ROUNDS).step_by(LANES) {
                race(&house, round).await;
            }
        });
    }
    lanes.join_all().await;
}

async fn race(house: &House, round: usize) {
    let id = format!("e{round}");
    let signal = json!({ "name": "go", "body": round });
    let (mut one, mut other) = (house.connect().await, house.connect().await);
    let cancel = Ask::post(&format!("/v1/executions/{id}/cancel"), &json!({}));
    let reply = if round.is_multiple_of(2) {
        // Against the signal that completes it.
        house.start(house::PATIENT, &id).await;
        let go = Ask::post(&format!("/v1/executions/{id}/signals"), &signal);
        let (_, reply) = tokio::join!(one.ask(&go), other.ask(&cancel));
        reply.unwrap()
    } else {
        // Against its own start: until it is there, there is nothing to cancel.
        let start = Ask::post("/v1/executions", &json!({ "workflow": house::QUICK, "id": id }));
        let cancelling = async {
            loop {
                let reply = other.ask(&cancel).await.unwrap();
                if reply.status != 404 {
                    return reply;
                }
            }
        };
        let (started, reply) = tokio::join!(one.ask(&start), cancelling);
        started.unwrap().expect(201);
        reply
    };
    agrees(house, &id, &reply).await;
}

/// Does the log agree with the reply?
async fn agrees(house: &House, id: &str, reply: &Answer) {
    let end = house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200).json();
    let log: Value = house.get(&format!("/v1/executions/{id}/events")).await.expect(200).json();
    let kinds =
        log["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap());
    let ends: Vec<&str> = kinds.filter(|kind| ENDS.contains(kind)).collect();
    assert_eq!(ends.len(), 1, "{id}: {ends:?}");
    let status = end["status"].as_str().unwrap();
    match reply.status {
        200 => {
            assert_eq!((status, ends[0]), ("CANCELLED", "RunCancelled"), "{id}: {}", reply.text())
        }
        409 => {
            assert_eq!((reply.code().as_str(), status), ("execution_ended", "COMPLETED"), "{id}");
            let detail = reply.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(status), "{id}: {detail}");
        }
        other => panic!("{id}: {other} {}", reply.text()),
    }
}

/// The same signal, sent several times while a cancel ends the execution.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_signal_that_races_a_cancel_is_accepted_only_if_the_log_has_it() {
    let house = Arc::new(House::open().await);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let house = Arc::clone(&house);
        lanes.spawn(async move {
            for round in (lane..400).step_by(LANES) {
                repeat(&house, round).await;
            }
        });
    }
    lanes.join_all().await;
}

async fn repeat(house: &House, round: usize) {
    let id = format!("r{round}");
    house.start(house::PATIENT, &id).await;
    house.wait_for(&id, "NodeWaiting").await;
    if round.is_multiple_of(3) {
        house.post(&format!("/v1/executions/{id}/pause"), &json!({})).await.expect(200);
    }
    let cancel = Ask::post(&format!("/v1/executions/{id}/cancel"), &json!({}));
    let message = json!({ "name": "later", "messageId": "m" });
    let signal = Ask::post(&format!("/v1/executions/{id}/signals"), &message);
    let (early, late) = (house.ask(&signal), house.ask(&signal));
    let (again, last) = (house.ask(&signal), house.ask(&signal));
    let (a, cancelled, b, c, d) = tokio::join!(early, house.ask(&cancel), late, again, last);
    cancelled.expect(200);
    let log = house.get(&format!("/v1/executions/{id}/events?type=SignalReceived")).await;
    let received = log.expect(200).json()["events"].as_array().unwrap().len();
    for reply in [a, b, c, d] {
        let expected: &[u16] = if received == 1 { &[200, 202] } else { &[409] };
        assert!(expected.contains(&reply.status), "{id}: {received}, {}", reply.text());
    }
}
