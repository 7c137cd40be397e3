//! What workers elsewhere say of themselves: what is published is taken, and nothing else.

use serde_json::{Value, json};

use crate::support::{Ask, House};

const WORKER: &str = "/v1/workers/0d9c7a5e-0000-4000-8000-000000000001";

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
            let said = house.post(&format!("{WORKER}/{what}"), &sign).await;
            match (fits, what) {
                (true, "leave") => said.expect(204),
                (true, _) => said.expect(200),
                (false, _) => said.refused(400, "bad_body"),
            };
        }
    }
    let workers = house.get("/v1/workers").await.expect(200);
    assert!(!workers.json().to_string().contains(token), "nobody is shown a token");
}

fn shown(sign: &Value) -> String {
    sign.to_string().chars().take(300).collect()
}

/// A task in the hands of a worker that has not begun it; of the execution `e`.
async fn task(house: &House) -> Value {
    let far = "name: far\nnodes:\n  - { id: n, type: worker, config: { handler: h, input: 1 } }\n";
    let deploy = Ask::new("POST", "/v1/definitions").header("Content-Type", "application/yaml");
    house.ask(&deploy.body(far)).await.expect(201);
    house.start("far", "e").await;
    let sign = json!({ "name": "w", "handlers": ["h"], "capacity": 1, "max": 1 });
    let polled = house.post(&format!("{WORKER}/poll?wait=60s"), &sign).await.expect(200).json();
    polled["tasks"][0].clone()
}

fn told(task: &Value, what: &str) -> (String, Value) {
    let worker = WORKER.rsplit('/').next();
    let body = json!({ "worker": worker, "execution": "e", "node": "n", "attempt": 1 });
    (format!("/v1/tasks/{}/{what}", task["token"].as_str().unwrap()), body)
}

#[tokio::test]
async fn a_failure_that_the_log_would_not_hold_is_refused_as_too_large() {
    let house = House::open().await;
    let (target, mut report) = told(&task(&house).await, "report");
    // Either would be held; both together would not.
    let (message, details) = ("m".repeat(4_000), "d".repeat(1024 * 1024 - 2_000));
    report["status"] = json!("failed");
    report["failure"] = json!({ "kind": "k", "message": message, "details": details });
    house.post(&target, &report).await.refused(413, "body_too_large");
    report["failure"]["details"] = Value::Null;
    house.post(&target, &report).await.expect(200);
}

#[tokio::test]
async fn what_is_held_is_not_begun() {
    let house = House::open().await;
    let (target, start) = told(&task(&house).await, "start");
    house.post("/v1/executions/e/pause", &json!({})).await.expect(200);
    house.post(&target, &start).await.refused(409, "illegal_transition");
}
