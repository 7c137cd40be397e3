//! What workers elsewhere say of themselves: what is published is taken, and nothing else.

use serde_json::{Value, json};

use crate::support::House;

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
