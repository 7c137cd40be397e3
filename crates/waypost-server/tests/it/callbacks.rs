//! Callbacks: by the right token, once, in time; and what others learn.

use serde_json::{Value, json};
use waypost_core::time::Timestamp;
use waypost_engine::links::{Link, LinkPurpose, Links};
use waypost_ports::access::{Access as _, AuditRequest, Role};
use waypost_server::config::Config;

use crate::support::house::PUBLIC_URL;
use crate::support::{Ask, House};
use crate::workers::{say, take};

const FLOW: &str = "booking";

/// An operation that a remote worker starts, and what follows it.
async fn deploy(house: &House, more: &Value) {
    deploy_with(house, more, None).await;
}

async fn deploy_with(house: &House, more: &Value, retry: Option<&Value>) {
    let input = json!({ "url": "${{ callback.url }}", "say": "t: ${{ callback.token }}!" });
    let mut start = json!({ "type": "worker", "config": { "handler": "h", "input": input } });
    if let Some(retry) = retry {
        start["retry"] = retry.clone();
    }
    let mut config = json!({ "start": start });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    house.deploy(&json!({ "name": FLOW, "nodes": [
        { "id": "book", "type": "async-operation", "config": config },
        { "id": "done", "type": "output", "needs": ["book"],
          "config": { "value": "${{ nodes.book.output }}" } },
    ] }));
}

/// Starts an execution and takes the task that starts its operation; gives it and the path of the callback.
async fn started(house: &House, id: &str) -> (Value, String) {
    house.start(FLOW, id).await;
    let task = take(house).await;
    assert_eq!((&task["execution"], &task["node"]), (&json!(id), &json!("book/start")));
    let url = task["input"]["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(PUBLIC_URL).unwrap().to_owned();
    let token = path.strip_prefix("/v1/callbacks/").unwrap();
    assert_eq!(task["input"]["say"], format!("t: {token}!"));
    (task, path)
}

async fn report(house: &House, task: &Value) {
    say(house, task, "start", json!({})).await.expect(200);
    say(house, task, "report", json!({ "status": "completed", "output": 1 })).await.expect(200);
}

/// The end of an execution.
async fn end(house: &House, id: &str) -> Value {
    house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200).json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_during_the_wait_completes_the_node_once() {
    let house = House::open().await;
    deploy(&house, &json!({ "timeout": "1h" })).await;
    let (task, path) = started(&house, "e").await;
    report(&house, &task).await;
    let mut waits = json!([]);
    while waits == json!([]) {
        let list = house.get("/v1/waits?consistent=true&kind=async-operation").await.expect(200);
        waits = list.json()["waits"].clone();
    }
    assert_eq!((&waits[0]["node"], &waits[0]["kind"]), (&json!("book"), &json!("async-operation")));
    assert!(waits[0]["due"].is_string(), "{waits}");
    let why = house.get("/v1/executions/e/why").await.expect(200).json();
    assert_eq!(why["reasons"][0]["unblockedBy"], "callback", "{why}");
    let received = house.post(&path, &json!({ "id": 7 })).await.expect(200);
    assert_eq!(received.json(), json!({ "execution": "e", "node": "book" }));
    assert_eq!(received.header("cache-control"), Some("no-store"));
    assert_eq!(received.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(end(&house, "e").await["output"], json!({ "id": 7 }));
    // With the same body or another one: harmless, and refused.
    for body in [json!({ "id": 7 }), json!({ "id": 8 })] {
        house.post(&path, &body).await.refused(409, "callback_received");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_before_the_start_is_recorded_is_kept() {
    let house = House::open().await;
    deploy(&house, &json!({})).await;
    let (task, path) = started(&house, "e").await;
    house.post(&path, &json!("early")).await.expect(200);
    house.post(&path, &json!("late")).await.refused(409, "callback_received");
    report(&house, &task).await;
    assert_eq!(end(&house, "e").await["output"], "early");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callbacks_at_once_are_one() {
    let house = House::open().await;
    deploy(&house, &json!({})).await;
    for round in 0..5 {
        let id = format!("e{round}");
        let (task, path) = started(&house, &id).await;
        report(&house, &task).await;
        let (one, two) = (json!(1), json!(2));
        let (one, two) = tokio::join!(house.post(&path, &one), house.post(&path, &two));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{one:?} {two:?}");
        let won = if one.status == 200 { 1 } else { 2 };
        assert_eq!(end(&house, &id).await["output"], won);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_after_the_operation_is_over_is_gone() {
    let house = House::open().await;
    deploy(&house, &json!({ "timeout": 1 })).await;
    let (task, path) = started(&house, "late").await;
    report(&house, &task).await;
    assert_eq!(end(&house, "late").await["status"], "FAILED");
    house.post(&path, &json!(1)).await.refused(410, "operation_over");
    let (task, path) = started(&house, "cancelled").await;
    report(&house, &task).await;
    house.post("/v1/executions/cancelled/cancel", &json!({})).await;
    house.post(&path, &json!(1)).await.refused(410, "operation_over");
    // A retry starts another operation, with another link.
    house.post("/v1/executions/late/retry", &json!({})).await;
    let again = take(&house).await;
    let url = again["input"]["url"].as_str().unwrap();
    assert_ne!(url.strip_prefix(PUBLIC_URL).unwrap(), path);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_callback_fails_the_node() {
    let house = House::open().await;
    deploy(&house, &json!({})).await;
    let (task, path) = started(&house, "e").await;
    report(&house, &task).await;
    let said = json!({ "message": "no seats", "code": 17 });
    house.post(&format!("{path}?outcome=maybe"), &said).await.refused(400, "bad_parameter");
    house.post(&format!("{path}?outcome=failed"), &said).await.expect(200);
    let failure = &end(&house, "e").await["failure"];
    assert_eq!(failure["kind"], "operation_failed", "{failure}");
    assert_eq!((&failure["message"], &failure["details"]), (&json!("no seats"), &said));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_links_are_all_answered_as_paths_that_do_not_exist() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    let links = Links::new(&[7; 32]);
    let link = Link {
        execution: waypost_core::id::ExecutionId("e".into()),
        generation: 0,
        node: "book".into(),
        subject: "book/1".into(),
        expires_at: None,
    };
    let token = links.issue(LinkPurpose::Callback, &link);
    let last = if token.ends_with('A') { 'B' } else { 'A' };
    let wrong = [
        "x".to_owned(),
        token[..token.len() - 1].to_owned(),
        format!("{}{last}", &token[..token.len() - 1]),
        format!("{token}A"),
        format!("{token}%3D"),
        links.issue(LinkPurpose::Approval, &link),
        Links::new(&[8; 32]).issue(LinkPurpose::Callback, &link),
    ];
    let mut texts = Vec::new();
    for wrong in &wrong {
        for ask in [
            Ask::post(&format!("/v1/callbacks/{wrong}"), &json!(1)),
            Ask::post(&format!("/v1/callbacks/{wrong}?outcome=nonsense"), &json!(1)),
            Ask::new("POST", &format!("/v1/callbacks/{wrong}"))
                .header("Content-Type", "text/plain"),
        ] {
            texts.push(house.ask(&ask).await.refused(404, "not_found").text());
        }
    }
    let unknown = Ask::get("/v1/nowhere").key(&admin);
    texts.push(house.ask(&unknown).await.refused(404, "not_found").text());
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    // A right one, for an execution that is not there, or that has expired.
    let right = format!("/v1/callbacks/{token}");
    house.ask(&Ask::post(&right, &json!(1))).await.refused(410, "operation_over");
    let past = Link { expires_at: Some(Timestamp(1)), ..link };
    let past = format!("/v1/callbacks/{}", links.issue(LinkPurpose::Callback, &past));
    house.ask(&Ask::post(&past, &json!(1))).await.refused(410, "link_expired");
    // It is no right to anything else.
    for ask in [
        Ask::get("/v1/executions").key(&token),
        Ask::get(&right),
        Ask::get(&format!("/v1/executions?token={token}")),
    ] {
        house.ask(&ask).await.refused(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_of_one_execution_is_worthless_for_another() {
    let house = House::open().await;
    deploy(&house, &json!({})).await;
    let (one, of_one) = started(&house, "one").await;
    let (two, _) = started(&house, "two").await;
    report(&house, &one).await;
    report(&house, &two).await;
    house.post(&of_one, &json!(1)).await.expect(200);
    assert_eq!(end(&house, "one").await["output"], 1);
    let two = house.get("/v1/executions/two").await.expect(200).json();
    assert!(["RUNNING", "WAITING"].contains(&two["status"].as_str().unwrap()), "{two}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_of_a_callback_is_json_of_a_bounded_size_or_nothing() {
    let house = House::open().await;
    deploy(&house, &json!({})).await;
    let (task, path) = started(&house, "e").await;
    report(&house, &task).await;
    let text = Ask::new("POST", &path).header("Content-Type", "text/plain").body("done");
    house.ask(&text).await.refused(415, "unsupported_media_type");
    let json = |body: Vec<u8>| {
        Ask::new("POST", &path).header("Content-Type", "application/json").body(body)
    };
    house.ask(&json(b"{\"a\":".to_vec())).await.refused(400, "bad_body");
    let deep = [vec![b'['; 500], vec![b']'; 500]].concat();
    house.ask(&json(deep)).await.refused(400, "bad_body");
    let digest = "0".repeat(64);
    house.post(&path, &json!({ "$blob": digest })).await.refused(400, "bad_body");
    let large = json!("x".repeat(1024 * 1024));
    house.post(&path, &large).await.refused(413, "body_too_large");
    let fits = json!("x".repeat(100 * 1024));
    house.post(&path, &fits).await.expect(200);
    assert_eq!(end(&house, "e").await["output"], fits);
    let (task, path) = started(&house, "empty").await;
    report(&house, &task).await;
    house.ask(&Ask::new("POST", &path)).await.expect(200);
    assert_eq!(end(&house, "empty").await["output"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_of_wrong_links_does_not_hold_up_right_ones() {
    let house = House::with(Config { link_requests_per_second: 1, ..Config::default() }).await;
    deploy(&house, &json!({})).await;
    let (task, path) = started(&house, "e").await;
    report(&house, &task).await;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(house.post("/v1/callbacks/wrong", &json!(1)).await.status);
    }
    assert!(statuses.starts_with(&[404, 404]) && statuses.contains(&429), "{statuses:?}");
    house.post(&path, &json!(1)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_has_the_token() {
    let house = House::with(Config { link_requests_per_second: 1, ..Config::default() }).await;
    deploy(&house, &json!({})).await;
    let (task, path) = started(&house, "e").await;
    let token = path.rsplit('/').next().unwrap().to_owned();
    report(&house, &task).await;
    let mut replies = String::new();
    for _ in 0..5 {
        replies += &house.post(&path, &json!(1)).await.text();
    }
    let events = house.get("/v1/executions/e/events").await.expect(200).text();
    let nodes = house.get("/v1/executions/e/nodes").await.expect(200).text();
    let metrics = house.get("/metrics").await.expect(200).text();
    house.server.audit.close();
    let request = AuditRequest { actor: None, before: None, limit: 1_000 };
    let audit = format!("{:?}", house.store.audit(&request).unwrap());
    assert!(audit.contains("link ") && audit.contains("429"), "{audit}");
    for (place, text) in [
        ("replies", replies),
        ("events", events.clone()),
        ("nodes", nodes),
        ("metrics", metrics),
        ("audit", audit),
    ] {
        assert!(!text.contains(&token), "{place}: {text}");
    }
    assert!(events.contains("callback:"), "the log says who called back: {events}");
}

/// The worker of the start gives back what it was given, in every way that it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_that_a_worker_reports_is_masked() {
    let house = House::open().await;
    let retry = json!({ "maxAttempts": 2, "waitDuration": 1 });
    deploy_with(&house, &json!({}), Some(&retry)).await;
    let (task, path) = started(&house, "e").await;
    let token = path.rsplit('/').next().unwrap().to_owned();
    say(&house, &task, "start", json!({})).await.expect(200);
    say(&house, &task, "checkpoint", json!({ "data": task["input"] })).await.expect(200);
    let message = format!("POST {}: connection refused", task["input"]["url"].as_str().unwrap());
    let details = task["input"].clone();
    let failure =
        json!({ "kind": "http", "message": message, "retryable": true, "details": details });
    let failed = json!({ "status": "failed", "failure": failure });
    say(&house, &task, "report", failed).await.expect(200);
    let again = take(&house).await;
    assert_eq!(again["input"], task["input"], "its next attempt has the link");
    assert_eq!(again["checkpoint"], json!({ "url": "***", "say": "t: ***!" }));
    say(&house, &again, "start", json!({})).await.expect(200);
    let done = json!({ "status": "completed", "output": again["input"] });
    say(&house, &again, "report", done).await.expect(200);
    let events = house.get("/v1/executions/e/events?limit=1000").await.expect(200).text();
    assert!(!events.contains(&token[token.len() - 40..]), "{events}");
    assert!(events.contains("POST ***: connection refused"), "{events}");
    assert!(events.contains("t: ***!"), "{events}");
    house.post(&path, &json!(1)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn person_completes_the_wait_by_hand() {
    let house = House::open().await;
    deploy(&house, &json!({})).await;
    let (task, path) = started(&house, "e").await;
    report(&house, &task).await;
    let mut id = None;
    while id.is_none() {
        let list = house.get("/v1/waits?consistent=true&kind=async-operation").await.expect(200);
        id = list.json()["waits"][0]["id"].as_str().map(str::to_owned);
    }
    let complete = format!("/v1/waits/{}/complete", id.unwrap());
    house.post(&complete, &json!({ "body": "by hand" })).await.expect(200);
    assert_eq!(end(&house, "e").await["output"], "by hand");
    house.post(&path, &json!(1)).await.refused(410, "operation_over");
}
