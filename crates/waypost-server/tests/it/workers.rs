//! What remote workers say of themselves: what is published is taken, and nothing else.

use serde_json::{Value, json};

use crate::support::{Answer, Ask, House};

const WORKER: &str = "/v1/workers/0d9c7a5e-0000-4000-8000-000000000001";
const OTHER: &str = "/v1/workers/0d9c7a5e-0000-4000-8000-000000000002";

#[tokio::test]
async fn a_worker_names_its_tasks_as_the_description_says() {
    let house = House::open().await;
    let document = house.get("/openapi.json").await.expect(200).json();
    let mut schema = document.clone();
    schema["$ref"] = json!("#/components/schemas/PollRequest");
    let published = jsonschema::validator_for(&schema).unwrap();
    let token = "0123456789abcdef0123456789abcdef";
    let sign = |tasks: Option<Value>| {
        let mut sign = json!({ "name": "w", "handlers": ["h"], "capacity": 4, "max": 0 });
        if let Some(tasks) = tasks {
            sign["tasks"] = tasks;
        }
        sign
    };
    let cases = [
        (None, true),
        (Some(json!([])), true),
        (Some(json!([token, token])), true),
        (Some(json!(vec![token; 100_000])), true),
        (Some(json!(vec![token; 100_001])), false),
        (Some(Value::Null), false),
        (Some(json!(token)), false),
        (Some(json!([token, 5])), false),
        (Some(json!([&token[1..]])), false),
        (Some(json!([token.to_uppercase()])), false),
        (Some(json!([format!("+{}", &token[1..])])), false),
        (Some(json!([format!("{token}0")])), false),
    ];
    for (tasks, fits) in cases {
        let sign = sign(tasks);
        assert_eq!(published.is_valid(&sign), fits, "{}", shown(&sign));
        for what in ["poll?wait=0s", "heartbeat", "leave"] {
            let reply = house.post(&format!("{WORKER}/{what}"), &sign).await;
            match (fits, what) {
                (true, "leave") => reply.expect(204),
                (true, _) => reply.expect(200),
                (false, _) => reply.refused(400, "bad_body"),
            };
        }
    }
    let workers = house.get("/v1/workers").await.expect(200);
    assert!(!workers.json().to_string().contains(token), "the list shows no token");
}

#[tokio::test]
async fn a_public_key_is_32_bytes_in_base64_as_the_description_says() {
    let house = House::open().await;
    let mut schema = house.get("/openapi.json").await.expect(200).json();
    schema["$ref"] = json!("#/components/schemas/PollRequest");
    let published = jsonschema::validator_for(&schema).unwrap();
    let key = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let cases = [
        (json!(key), true),
        (json!(""), false),
        (json!(&key[4..]), false),
        (json!(format!("AAAA{key}")), false),
        (json!(key.trim_end_matches('=')), false),
        (json!(key.replace("AA=", "AB=")), false),
        (json!(key.replace('C', "-")), false),
        (json!(5), false),
        (Value::Null, false),
    ];
    for (key, fits) in cases {
        let sign =
            json!({ "name": "w", "handlers": ["h"], "capacity": 1, "max": 0, "publicKey": key });
        assert_eq!(published.is_valid(&sign), fits, "{key}");
        let reply = house.post(&format!("{WORKER}/poll?wait=0s"), &sign).await;
        match fits {
            true => reply.expect(200),
            false => reply.refused(400, "bad_body"),
        };
    }
    let listed = house.get("/v1/workers").await.expect(200).json();
    assert_eq!(
        (&listed["workers"][0]["handlers"], &listed["workers"][0]["takesSecrets"]),
        (&json!(["h"]), &json!(true))
    );
}

/// Deploys a workflow of one node that is made remotely, with a retry policy, and starts this execution.
async fn start(house: &House, retry: Option<Value>, id: &str) {
    let mut node = json!({ "id": "a", "type": "worker", "config": { "handler": "h" } });
    if let Some(retry) = retry {
        node["retry"] = retry;
    }
    let definition = json!({ "name": "far", "nodes": [node] });
    house.post("/v1/definitions", &definition).await.expect(201);
    house.start("far", id).await;
}

/// Polls until there is a task, which may be due only in a moment.
pub(crate) async fn take(house: &House) -> Value {
    let sign = json!({ "name": "w", "handlers": ["h"], "capacity": 4, "max": 1 });
    loop {
        let polled = house.post(&format!("{WORKER}/poll?wait=5s"), &sign).await.expect(200).json();
        if let Some(task) = polled["tasks"].get(0) {
            return task.clone();
        }
    }
}

/// Says something of a task that was taken.
pub(crate) async fn say(house: &House, task: &Value, what: &str, more: Value) -> Answer {
    let mut body = more;
    body["worker"] = json!(WORKER.rsplit('/').next());
    for field in ["execution", "node", "attempt"] {
        body[field] = task[field].clone();
    }
    let token = task["token"].as_str().unwrap();
    house.post(&format!("/v1/tasks/{token}/{what}"), &body).await
}

/// What the retry policy asks for comes through, and what a worker breaks is not the node's fault.
#[tokio::test]
async fn a_failure_is_judged_as_if_it_had_happened_in_a_slot() {
    let house = House::open().await;
    let retry = json!({ "maxAttempts": 2, "waitDuration": 1, "retryOn": ["5xx"] });
    start(&house, Some(retry), "one").await;
    let failure = |status: Value| {
        let mut failure = json!({ "kind": "http", "message": "it said no" });
        if !status.is_null() {
            failure["httpStatus"] = status;
        }
        failure
    };
    let lost = json!({ "status": "abandoned", "failure": failure(Value::Null) });
    let report = |status: u16| json!({ "status": "failed", "failure": failure(json!(status)) });
    let first = take(&house).await;
    for wrong in [json!(99), json!(1000), json!("503")] {
        let report = json!({ "status": "failed", "failure": failure(wrong) });
        say(&house, &first, "report", report).await.expect(400);
    }
    say(&house, &first, "report", json!({ "status": "abandoned" })).await.expect(400);
    say(&house, &first, "report", lost).await.expect(200);
    let second = take(&house).await;
    assert_eq!(second["attempt"], 2, "a lost attempt is made again");
    say(&house, &second, "report", report(503)).await.expect(200);
    let third = take(&house).await;
    assert_eq!(third["attempt"], 3, "and was no try: 5xx is tried again");
    say(&house, &third, "report", report(503)).await.expect(200);
    let ended = house.get("/v1/executions/one").await.expect(200).json();
    assert_eq!(ended["status"], "FAILED");
    house.start("far", "two").await;
    let only = take(&house).await;
    say(&house, &only, "report", report(404)).await.expect(200);
    let ended = house.get("/v1/executions/two").await.expect(200).json();
    assert_eq!(ended["status"], "FAILED", "404 is not tried again");
}

/// A mark that comes late, by whichever way, does not replace those after it.
#[tokio::test]
async fn marks_stay_in_the_order_in_which_they_were_counted() {
    let house = House::open().await;
    start(&house, None, "one").await;
    let first = take(&house).await;
    assert_eq!(first.get("checkpoint"), None);
    for (data, number, status) in [
        (json!("a"), json!(1), 200),
        (json!("b"), json!(2), 200),
        (json!("a"), json!(1), 200),
        (json!("c"), json!(0), 400),
        (json!("c"), Value::Null, 400),
    ] {
        let mark = json!({ "data": data, "number": number });
        say(&house, &first, "checkpoint", mark.clone()).await.expect(status);
    }
    let lost = json!({ "kind": "broken", "message": "it broke" });
    let lost = json!({ "status": "abandoned", "failure": lost });
    say(&house, &first, "report", lost).await.expect(200);
    assert_eq!(take(&house).await["checkpoint"], "b");
}

fn shown(sign: &Value) -> String {
    sign.to_string().chars().take(300).collect()
}

#[tokio::test]
async fn a_failure_that_the_log_would_not_hold_is_refused_as_too_large() {
    let house = House::open().await;
    start(&house, None, "one").await;
    let task = take(&house).await;
    // Either would be held; both together would not.
    let (message, details) = ("m".repeat(4_000), "d".repeat(1024 * 1024 - 2_000));
    let mut failure = json!({ "kind": "k", "message": message, "details": details });
    let report = |failure: &Value| json!({ "status": "failed", "failure": failure });
    say(&house, &task, "report", report(&failure)).await.refused(413, "body_too_large");
    failure["details"] = Value::Null;
    say(&house, &task, "report", report(&failure)).await.expect(200);
}

#[tokio::test]
async fn task_of_paused_execution_cannot_be_started() {
    let house = House::open().await;
    start(&house, None, "one").await;
    let task = take(&house).await;
    house.post("/v1/executions/one/pause", &json!({})).await.expect(200);
    say(&house, &task, "start", json!({})).await.refused(409, "illegal_transition");
}

/// Has a worker poll for a long time, and hang up while it waits. Returns when the server knows.
async fn poll_and_hang_up(house: &House, worker: &str, max: u32) {
    let sign = json!({ "name": "gone", "handlers": ["h"], "capacity": 9, "max": max });
    let ask = Ask::post(&format!("{worker}/poll?wait=60s"), &sign);
    let mut client = house.connect().await;
    client.send(&ask.bytes(house.address)).await.unwrap();
    loop {
        let list = house.get("/v1/workers").await.expect(200).json();
        if list["workers"].as_array().unwrap().iter().any(|worker| worker["name"] == "gone") {
            break;
        }
    }
    drop(client);
    // The one that asks is the last.
    while !house.get("/metrics").await.expect(200).text().contains("waypost_http_connections 1\n") {
    }
}

#[tokio::test]
async fn worker_disconnected_while_polling_gets_no_task() {
    let house = House::open().await;
    poll_and_hang_up(&house, WORKER, 1).await;
    start(&house, None, "one").await;
    // Shorter than the time after which a task that no worker got is offered again.
    let sign = json!({ "name": "w", "handlers": ["h"], "capacity": 4, "max": 1 });
    let polled = house.post(&format!("{OTHER}/poll?wait=8s"), &sign).await.expect(200).json();
    assert_eq!(polled["tasks"][0]["execution"], "one", "{polled}");
}

#[tokio::test]
async fn worker_reconnected_after_poll_receives_cancellations() {
    let house = House::open().await;
    start(&house, None, "one").await;
    let task = take(&house).await;
    say(&house, &task, "start", json!({})).await.expect(200);
    poll_and_hang_up(&house, WORKER, 0).await;
    house.post("/v1/executions/one/pause", &json!({ "now": true })).await.expect(200);
    let sign = json!({ "name": "w", "handlers": ["h"], "capacity": 4, "max": 0 });
    let polled = house.post(&format!("{WORKER}/poll?wait=4s"), &sign).await.expect(200).json();
    assert_eq!(polled["cancel"], json!([task["token"]]));
}
