//! A store that takes no writes: whoever asks hears so at once, and nothing that was taken is lost.

use std::time::Duration;

use serde_json::{Value, json};
use waypost_ports::store::StoreError;
use waypost_server::config::Config;

use crate::support::{Answer, Ask, House, house};

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].as_str().unwrap().to_owned()
}

fn start(id: &str) -> Ask {
    let body = json!({ "workflow": house::QUICK, "id": id });
    Ask::post("/v1/executions?wait=60s", &body).header("Idempotency-Key", id)
}

/// So long that the test would not end if anybody had to wait for it.
async fn patient_house() -> House {
    House::with(Config { commit_timeout: Duration::from_secs(86_400), ..Config::default() }).await
}

/// Waits until an execution has this status.
async fn until(house: &House, id: &str, status: &str) {
    while house.get(&format!("/v1/executions/{id}")).await.json()["status"] != status {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn store_that_takes_no_writes_is_noticed_at_the_first_and_forgotten_when_it_does() {
    let house = patient_house().await;
    for (error, what) in [
        (StoreError::Full("no space".into()), "the store is full"),
        (StoreError::ReadOnly("a standby".into()), "the store is read-only"),
    ] {
        let waiting = what.rsplit(' ').next().unwrap();
        house.start(house::PATIENT, waiting).await;
        // A frame that is still under way would find out before the first request does.
        until(&house, waiting, "WAITING").await;
        house.get("/readyz").await.expect(200);
        house.failing.fail(Some(error));
        // The first one is with the store already: it may be taken yet.
        let id = format!("first-{}", what.len());
        let first = house.ask(&start(&id)).await.refused(503, "store_unavailable");
        assert!(detail(&first).contains("is not known"), "{}", first.text());
        // Nothing is asked of the store any more.
        let signal = json!({ "name": "go" });
        let target = format!("/v1/executions/{waiting}/signals");
        for answer in [
            house.ask(&start("second")).await,
            house.post(&target, &signal).await,
            house.post("/v1/executions/nobody-knows/cancel", &json!({})).await,
            house.get("/readyz").await,
        ] {
            if answer.status != 404 {
                let answer = answer.refused(503, "store_unavailable");
                assert!(detail(&answer).contains(what), "{}", answer.text());
            }
        }
        house.get("/livez").await.expect(200);
        house.get("/v1/executions").await.expect(200);
        house.get("/v1/workers").await.expect(200);
        house.failing.fail(None);
        // What was in hand is done, once, and others are taken again.
        let again = loop {
            let again = house.ask(&start(&id)).await;
            if again.status != 503 {
                break again;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(again.expect(200).json()["status"], "COMPLETED");
        house.get("/readyz").await.expect(200);
        house.post(&target, &signal).await.expect(200);
        until(&house, waiting, "COMPLETED").await;
    }
    house.get("/v1/executions/second").await.refused(404, "unknown_execution");
}

#[tokio::test]
async fn store_that_is_away_for_long_is_noticed_and_what_waits_for_it_is_done() {
    let house = patient_house().await;
    house.start(house::PATIENT, "e").await;
    house.failing.fail(Some(StoreError::Unavailable("a reset".into())));
    let waiting = start("waiting");
    let waiting = house.ask(&waiting);
    let failing = async {
        loop {
            let ready = house.get("/readyz").await;
            if ready.status == 503 {
                let answer = house.ask(&start("refused")).await.refused(503, "store_unavailable");
                assert!(detail(&answer).contains("writes to the store fail"), "{}", answer.text());
                house.failing.fail(None);
                return;
            }
        }
    };
    let (waited, ()) = tokio::join!(waiting, failing);
    let ended: Value = waited.expect(201).json();
    assert_eq!(ended["status"], "COMPLETED");
}
