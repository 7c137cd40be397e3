//! Control executions: what can be asked of them where, and what they say when it cannot.

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::json;
use waypost_core::limits::EARLY_SIGNALS_MAX;

use crate::support::{Ask, House, house};

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused_with_the_reason() {
    let house = House::open().await;
    let nothing = json!({});
    house.start(house::PATIENT, "e").await;
    house.get("/v1/executions/e?wait=0s").await.expect(200);
    // It waits, and is not paused.
    let reply = house.ask(&Ask::new("POST", "/v1/executions/e/resume")).await;
    assert!(reply.refused(409, "illegal_transition").json()["detail"].is_string());
    let paused = house.post("/v1/executions/e/pause", &nothing).await.expect(200).json();
    assert_eq!(paused["status"], "PAUSED");
    house.post("/v1/executions/e/pause", &nothing).await.refused(409, "illegal_transition");
    let why = house.get("/v1/executions/e/why").await.expect(200).json();
    assert_eq!(why["reasons"][0]["unblockedBy"], "resume", "{why}");
    let resumed = house.ask(&Ask::new("POST", "/v1/executions/e/resume")).await;
    resumed.expect(200);
    let cancelled = house.post("/v1/executions/e/cancel", &json!({ "reason": "enough" })).await;
    cancelled.expect(200);
    let end = house.get("/v1/executions/e?wait=60s").await.expect(200).json();
    assert_eq!(end["status"], "CANCELLED");
    for what in ["pause", "cancel"] {
        let reply = house.post(&format!("/v1/executions/e/{what}"), &nothing).await;
        let reply = reply.refused(409, "execution_ended").json();
        assert!(reply["detail"].as_str().unwrap().contains("CANCELLED"), "{reply}");
    }
    let signal = json!({ "name": "go" });
    house.post("/v1/executions/e/signals", &signal).await.refused(409, "execution_ended");
}

#[tokio::test]
async fn a_message_that_is_sent_twice_is_taken_once() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    // Nothing waits for this one: it is kept, once.
    let early = json!({ "name": "later", "body": 1, "messageId": "m1" });
    let first = house.post("/v1/executions/e/signals", &early).await.expect(200).json();
    assert_eq!((first.get("duplicate"), &first["messageId"]), (None, &json!("m1")));
    let again = house.post("/v1/executions/e/signals", &early).await.expect(200).json();
    assert_eq!(again["duplicate"], true, "{again}");
    let go = json!({ "name": "go", "messageId": "m2" });
    house.post("/v1/executions/e/signals", &go).await.expect(200);
    house.get("/v1/executions/e?wait=60s").await.expect(200);
    // A sender that repeats it because the response was lost learns that it was taken, also after
    // the end.
    let again = house.post("/v1/executions/e/signals", &go).await.expect(200).json();
    assert_eq!((&again["duplicate"], &again["status"]), (&json!(true), &json!("COMPLETED")));
    let other = json!({ "name": "go", "messageId": "m3" });
    house.post("/v1/executions/e/signals", &other).await.refused(409, "execution_ended");
    let events = house.get("/v1/executions/e/events?type=SignalReceived").await.expect(200).json();
    assert_eq!(events["events"].as_array().unwrap().len(), 2, "{events}");
}

/// The id of the only open wait, once there is one.
pub(crate) async fn open_wait(house: &House, id: &str) -> String {
    house.wait_for(id, "NodeWaiting").await;
    let target = format!("/v1/executions/{id}/nodes?state=incomplete");
    let nodes = house.get(&target).await.expect(200).json();
    let wait = nodes["nodes"].as_array().unwrap().iter().find_map(|node| node.get("wait"));
    let shown = wait.unwrap()["id"].as_str().unwrap().to_owned();
    let why = house.get(&format!("/v1/executions/{id}/why")).await.expect(200).json();
    assert_eq!(why["reasons"][0]["wait"], json!(shown), "{why}");
    shown
}

#[tokio::test]
async fn a_wait_is_ended_once_with_what_it_is_given() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let wait = open_wait(&house, "e").await;
    let target = format!("/v1/waits/{wait}/complete");
    let answer = json!({ "body": { "by": "hand" }, "messageId": "m1" });
    house.post("/v1/waits/e~999/complete", &answer).await.refused(404, "unknown_wait");
    house.post("/v1/waits/nobody~1/complete", &answer).await.refused(404, "unknown_wait");
    house.post("/v1/executions/e/pause", &json!({})).await.expect(200);
    house.post(&target, &answer).await.refused(409, "illegal_transition");
    house.ask(&Ask::new("POST", "/v1/executions/e/resume")).await.expect(200);
    house.post(&target, &answer).await.expect(200);
    let end = house.get("/v1/executions/e?wait=60s").await.expect(200).json();
    assert_eq!((&end["status"], &end["output"]), (&json!("COMPLETED"), &json!({ "by": "hand" })));
    let again = house.post(&target, &answer).await.expect(200).json();
    assert_eq!(again["duplicate"], true, "{again}");
    let other = json!({ "messageId": "m2" });
    house.post(&target, &other).await.refused(409, "execution_ended");
}

#[tokio::test]
async fn a_request_that_was_refused_is_refused_again() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let wait = open_wait(&house, "e").await;
    // As many signals as are kept, and one more.
    let early = json!({ "name": "later" });
    let send = |_| house.post("/v1/executions/e/signals", &early);
    let mut sent = iter(0..EARLY_SIGNALS_MAX).map(send).buffer_unordered(50);
    while let Some(reply) = sent.next().await {
        reply.expect(200);
    }
    let late = json!({ "name": "later", "messageId": "m" });
    for _ in 0..2 {
        let reply = house.post("/v1/executions/e/signals", &late).await;
        let reply = reply.refused(429, "signals_full").json();
        assert!(reply["detail"].as_str().unwrap().contains("which is the limit"), "{reply}");
    }
    // In the inbox of a paused execution it is refused when that goes on, and its id is not used up.
    house.post("/v1/executions/e/pause", &json!({})).await.expect(200);
    let kept = house.post("/v1/executions/e/signals", &late).await.expect(202).json();
    assert_eq!(kept.get("duplicate"), None, "{kept}");
    house.ask(&Ask::new("POST", "/v1/executions/e/resume")).await.expect(200);
    house.wait_for("e", "MessageIgnored").await;
    let reply = house.post("/v1/executions/e/signals", &late).await.refused(429, "signals_full");
    let hint = reply.json()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("with the same messageId"), "{hint}");
    house.post(&format!("/v1/waits/{wait}/complete"), &json!({})).await.expect(200);
}

#[tokio::test]
async fn signal_with_a_reserved_name_is_refused_however_it_is_sent() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let forged = json!({ "name": "waypost.delivery.5", "body": { "delivered": 9 } });
    let reply = house.post("/v1/executions/e/signals", &forged).await.refused(400, "bad_body");
    assert!(reply.json()["detail"].as_str().unwrap().contains("reserved"), "{reply:?}");
    let start = json!({ "workflow": house::PATIENT, "id": "f", "signal": forged });
    house.post("/v1/executions", &start).await.refused(400, "bad_body");
    let publish = json!({ "name": "waypost.delivery", "key": "5" });
    house.post("/v1/signals", &publish).await.refused(422, "invalid_input");
}

#[tokio::test]
async fn signals_beyond_the_bytes_that_are_kept_are_refused() {
    let house = House::open().await;
    for (id, paused) in [("waits", false), ("paused", true)] {
        house.start(house::PATIENT, id).await;
        open_wait(&house, id).await;
        if paused {
            house.post(&format!("/v1/executions/{id}/pause"), &json!({})).await.expect(200);
        }
        let target = format!("/v1/executions/{id}/signals");
        let large = json!({ "name": "later", "body": "x".repeat(1_000_000) });
        let mut kept = 0;
        let refused = loop {
            let reply = house.post(&target, &large).await;
            match reply.status {
                200 | 202 if kept < 20 => kept += 1,
                _ => break reply.refused(429, "signals_full").json(),
            }
        };
        assert_eq!(kept, 8, "{id}: {refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("early_signals_bytes_max"), "{detail}");
        // It goes on with what it waits for as soon as it may.
        if paused {
            house.ask(&Ask::new("POST", &format!("/v1/executions/{id}/resume"))).await.expect(200);
        }
        house.post(&target, &json!({ "name": "go" })).await.expect(200);
        let end = house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200).json();
        assert_eq!(end["status"], "COMPLETED", "{id}");
    }
}

#[tokio::test]
async fn signal_to_paused_execution_is_accepted_and_delivered_on_resume() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    open_wait(&house, "e").await;
    house.post("/v1/executions/e/pause", &json!({})).await.expect(200);
    let signal = json!({ "name": "go", "messageId": "m" });
    for duplicate in [None, Some(&json!(true))] {
        let kept = house.post("/v1/executions/e/signals", &signal).await.expect(202).json();
        assert_eq!(kept.get("duplicate"), duplicate);
    }
    let log = house.get("/v1/executions/e/events").await.expect(200).json();
    house.ask(&Ask::new("POST", "/v1/executions/e/resume")).await.expect(200);
    let end = house.get("/v1/executions/e?wait=60s").await.expect(200).json();
    assert_eq!(end["status"], "COMPLETED", "{log}");
}

#[tokio::test]
async fn resume_of_waiting_execution_is_refused_and_not_logged() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    open_wait(&house, "e").await;
    let resume = Ask::new("POST", "/v1/executions/e/resume");
    house.ask(&resume).await.refused(409, "illegal_transition");
    let log = house.get("/v1/executions/e/events?type=MessageIgnored").await.expect(200).json();
    assert_eq!(log["events"], json!([]));
}

/// bug: a dry run ignored the limits of the budget, also those that the retry refuses.
#[tokio::test]
async fn dry_run_of_a_retry_is_refused_where_the_retry_is() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    house.post("/v1/executions/e/cancel", &json!({})).await.expect(200);
    house.get("/v1/executions/e?wait=60s").await.expect(200);
    let path = "/v1/executions/e/retry";
    for dry_run in [true, false] {
        let asked = json!({ "dryRun": dry_run, "budget": { "tokens": 5 } });
        let refused = house.post(path, &asked).await.expect(409).json();
        assert!(refused["detail"].as_str().unwrap().contains("budget"), "{refused}");
    }
    let dry = house.post(path, &json!({ "dryRun": true })).await.expect(200).json();
    assert_ne!(dry["nodes"], json!([]), "{dry}");
}

#[tokio::test]
async fn pause_resume_cancel_and_retry_record_a_reason_and_take_a_message_once() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let asked = |verb: &str| json!({ "reason": format!("{verb} it"), "messageId": verb });
    let path = |verb: &str| format!("/v1/executions/e/{verb}");
    house.post(&path("pause"), &asked("pause")).await.expect(200);
    let shown = house.get("/v1/executions/e").await.expect(200).json();
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("PAUSED"), &json!("pause it")));
    let why = house.get("/v1/executions/e/why").await.expect(200).json();
    let what = why["reasons"][0]["what"].as_str().unwrap();
    assert!(what.contains("pause it"), "{why}");
    house.post(&path("resume"), &asked("resume")).await.expect(200);
    let shown = house.get("/v1/executions/e").await.expect(200).json();
    assert_eq!(shown.get("reason"), None, "{shown}");
    house.post(&path("cancel"), &asked("cancel")).await.expect(200);
    let end = house.get("/v1/executions/e?wait=60s").await.expect(200).json();
    assert_eq!((&end["status"], &end["reason"]), (&json!("CANCELLED"), &json!("cancel it")));
    house.post(&path("retry"), &asked("retry")).await.expect(200);
    // Each of them again, although none of them would be accepted now: it gets the answer of the first.
    for verb in ["pause", "resume", "cancel", "retry"] {
        let again = house.post(&path(verb), &asked(verb)).await.expect(200).json();
        assert_eq!((&again["duplicate"], &again["messageId"]), (&json!(true), &json!(verb)));
    }
    for (verb, kind) in
        [("pause", "RunPauseRequested"), ("resume", "RunResumed"), ("retry", "RunReopened")]
    {
        let list = house.get(&format!("/v1/executions/e/events?type={kind}")).await.expect(200);
        let events = list.json()["events"].as_array().unwrap().clone();
        let asked: Vec<_> =
            events.iter().filter(|event| event["data"]["origin"]["message"] == verb).collect();
        assert_eq!(asked.len(), 1, "{events:?}");
        assert_eq!(asked[0]["data"]["reason"], format!("{verb} it"), "{events:?}");
    }
}
