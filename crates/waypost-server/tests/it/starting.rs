//! Starting executions: ids, labels, inputs, idempotency, waiting for the end.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Ask, House, house};

#[tokio::test]
async fn an_execution_is_started_and_waited_for() {
    let house = House::open().await;
    let start = json!({ "workflow": house::QUICK, "input": { "n": 12345678901234567890_u64 } });
    let said = house.post("/v1/executions?wait=60s", &start).await.expect(201);
    let started = said.json();
    assert_eq!(started["status"], "COMPLETED");
    assert_eq!(started["output"], start["input"], "numbers are kept to the letter");
    let place = said.header("location").unwrap();
    assert_eq!(place, format!("/v1/executions/{}", started["id"].as_str().unwrap()));
    let found = house.get(place).await.expect(200).json();
    assert_eq!((&found["status"], &found["output"]), (&json!("COMPLETED"), &start["input"]));
    let output = house.get(&format!("{place}/output")).await.expect(200).json();
    assert_eq!(output, start["input"]);
}

#[tokio::test]
async fn waiting_ends_with_the_execution_or_with_patience() {
    let house = House::open().await;
    let start = json!({ "workflow": house::PATIENT, "id": "w" });
    let said = house.post("/v1/executions?wait=10ms", &start).await.expect(201).json();
    assert_eq!(said.get("output"), None);
    house.wait_for("w", "RunPaused").await;
    let found = house.get("/v1/executions/w?wait=10ms").await.expect(200).json();
    assert_eq!(found["status"], "WAITING");
    house.get("/v1/executions/w/output").await.refused(409, "execution_runs");
    let mut waiting = house.connect().await;
    let ask = Ask::get("/v1/executions/w?wait=60s");
    waiting.send(&ask.bytes(house.address)).await.unwrap();
    let signal = json!({ "name": "go", "body": { "by": "Ada" } });
    house.post("/v1/executions/w/signals", &signal).await.expect(200);
    let found = waiting.answer(&ask).await.unwrap().expect(200).json();
    assert_eq!(found["status"], "COMPLETED");
    assert_eq!(found["output"], json!({ "by": "Ada" }));
}

#[tokio::test]
async fn an_own_id_is_taken_once() {
    let house = House::open().await;
    for id in ["a", "A.b:c_d-9", &"x".repeat(128)] {
        house.start(house::QUICK, id).await;
        house.get(&format!("/v1/executions/{id}")).await.expect(200);
        let again = json!({ "workflow": house::QUICK, "id": id });
        house.post("/v1/executions", &again).await.refused(409, "id_taken");
    }
    for id in ["", ".", "..", ".a", "last", "a b", "a/b", "a~1", "ä", "a\n", &"x".repeat(129)] {
        let start = json!({ "workflow": house::QUICK, "id": id });
        let said = house.post("/v1/executions", &start).await;
        assert_eq!((said.status, said.code().as_str()), (400, "bad_body"), "{id:?}");
    }
}

#[tokio::test]
async fn labels_have_limits() {
    let house = House::open().await;
    let labels = |count: usize| -> serde_json::Value {
        (0..count)
            .map(|at| (format!("l{at}"), json!("v")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let long = |chars: usize| "ä".repeat(chars);
    for labels in [labels(64), json!({ "": "" }), json!({ long(256): long(256) })] {
        let fine = labels.get("").is_none();
        let start = json!({ "workflow": house::QUICK, "labels": labels });
        house.post("/v1/executions", &start).await.expect(if fine { 201 } else { 400 });
    }
    for labels in [
        labels(65),
        json!({ long(257): "v" }),
        json!({ "n": long(257) }),
        json!({ "a=b": "v" }),
        json!({ "n": "a\u{7}" }),
        json!({ "n": 1 }),
        json!({ "n": null }),
        json!(["n"]),
    ] {
        let start = json!({ "workflow": house::QUICK, "labels": labels });
        house.post("/v1/executions", &start).await.refused(400, "bad_body");
    }
}

#[tokio::test]
async fn an_input_must_fit_its_workflow() {
    let house = House::open().await;
    for input in [json!(null), json!({}), json!({ "amount": "7" })] {
        let start = json!({ "workflow": house::CHOOSY, "input": input });
        let said = house.post("/v1/executions", &start).await.refused(422, "invalid_input");
        assert!(!said.json()["errors"].as_array().unwrap().is_empty());
    }
    let start = json!({ "workflow": house::CHOOSY, "version": 1.0, "input": { "amount": 7 } });
    let said = house.post("/v1/executions?wait=60s", &start).await.expect(201);
    assert_eq!(said.json()["output"], 7);
}

#[tokio::test]
async fn a_submission_that_is_repeated_starts_nothing_new() {
    let house = House::open().await;
    let ask = |key: &str, body: &str| {
        let ask = Ask::new("POST", "/v1/executions").header("Content-Type", "application/json");
        ask.header("Idempotency-Key", key).body(body)
    };
    let first = house.ask(&ask("k", r#"{"workflow": "quick", "input": {"a": 1, "b": 2}}"#)).await;
    let first = first.expect(201);
    assert_eq!(first.header("idempotent-replayed"), None);
    // The same, however it is spelt.
    for body in [
        r#"{"workflow": "quick", "input": {"a": 1, "b": 2}}"#,
        r#"{"input":{"a":1,"b":2},"workflow":"quick","labels":{}}"#,
    ] {
        let again = house.ask(&ask("k", body)).await.expect(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.header("location"), first.header("location"));
        assert_eq!(again.json()["id"], first.json()["id"]);
    }
    for body in [
        r#"{"workflow": "quick"}"#,
        r#"{"workflow": "quick", "input": {"a": 1, "b": 3}}"#,
        r#"{"workflow": "patient", "input": {"a": 1, "b": 2}}"#,
        r#"{"workflow": "quick", "input": {"a": 1, "b": 2}, "labels": {"x": "y"}}"#,
    ] {
        house.ask(&ask("k", body)).await.refused(422, "idempotency_mismatch");
    }
    house.ask(&ask("other", r#"{"workflow": "quick"}"#)).await.expect(201);
    for key in ["", "a b", "ä", &"x".repeat(257)] {
        house.ask(&ask(key, r#"{"workflow": "quick"}"#)).await.refused(400, "bad_parameter");
    }
    let twice = ask("k", r#"{"workflow": "quick"}"#).header("Idempotency-Key", "k");
    house.ask(&twice).await.refused(400, "bad_parameter");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_submissions_at_once_under_one_key_one_starts() {
    let house = std::sync::Arc::new(House::open().await);
    let mut all = JoinSet::new();
    for _ in 0..50 {
        let house = std::sync::Arc::clone(&house);
        all.spawn(async move {
            let start = json!({ "workflow": house::QUICK, "input": 7 });
            let said = house
                .ask(&Ask::post("/v1/executions", &start).header("Idempotency-Key", "k"))
                .await;
            (said.status, said.json()["id"].as_str().map(str::to_owned))
        });
    }
    let said = all.join_all().await;
    let created = said.iter().filter(|(status, _)| *status == 201).count();
    let replayed = said.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!((created, replayed), (1, 49), "{said:?}");
    assert!(said.iter().all(|(_, id)| *id == said[0].1), "{said:?}");
    let list = house.get("/v1/executions").await.expect(200).json();
    assert_eq!(list["executions"].as_array().unwrap().len(), 1);
}

/// Starts share their looks at the store; none of them may share one from before its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_get_the_version_that_was_deployed_before_them() {
    let house = std::sync::Arc::new(House::open().await);
    for version in 1..=10 {
        let definition = json!({
            "name": "evolving",
            "nodes": [{ "id": format!("n{version}"), "type": "noop" }],
        });
        house.post("/v1/definitions", &definition).await.expect(201);
        let mut all = JoinSet::new();
        for at in 0..20 {
            let house = std::sync::Arc::clone(&house);
            all.spawn(async move {
                // Some name the first version, which they get, among others that name none.
                let mut start = json!({ "workflow": "evolving" });
                let meant = if at % 4 == 0 { 1 } else { version };
                if meant == 1 {
                    start["version"] = json!(1);
                }
                let started = house.post("/v1/executions", &start).await.expect(201).json();
                (started["version"].clone(), json!(meant))
            });
        }
        for (got, meant) in all.join_all().await {
            assert_eq!(got, meant);
        }
    }
}

#[tokio::test]
async fn a_submission_can_be_repeated_whatever_was_deployed_since() {
    let house = House::open().await;
    let definition = |input: Value| json!({ "name": "evolving", "input": input, "nodes": [{ "id": "n", "type": "noop" }] });
    house.post("/v1/definitions", &definition(json!({}))).await.expect(201);
    let start = json!({ "workflow": "evolving" });
    let ask = Ask::post("/v1/executions", &start).header("Idempotency-Key", "k");
    let first = house.ask(&ask).await.expect(201).json();
    let stricter = definition(json!({ "type": "object", "required": ["user"] }));
    house.post("/v1/definitions", &stricter).await.expect(201);
    house.post("/v1/executions", &start).await.refused(422, "invalid_input");
    let again = house.ask(&ask).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!((&again.json()["id"], &again.json()["version"]), (&first["id"], &json!(1)));
    // Under the same key, something else is something else, whatever else is wrong with it.
    let other = json!({ "workflow": "evolving", "input": 1 });
    let other = Ask::post("/v1/executions", &other).header("Idempotency-Key", "k");
    house.ask(&other).await.refused(422, "invalid_input");
}

#[tokio::test]
async fn of_two_names_the_one_that_is_taken_is_named() {
    let house = House::open().await;
    let start = |id: &str, input: u8| {
        let body = json!({ "workflow": house::QUICK, "id": id, "input": input });
        Ask::post("/v1/executions", &body).header("Idempotency-Key", "k")
    };
    house.ask(&start("e", 1)).await.expect(201);
    house.ask(&start("e", 2)).await.refused(422, "idempotency_mismatch");
    house.ask(&start("f", 1)).await.refused(422, "idempotency_mismatch");
    let body = json!({ "workflow": house::QUICK, "id": "e" });
    let ask = Ask::post("/v1/executions", &body).header("Idempotency-Key", "another");
    house.ask(&ask).await.refused(409, "id_taken");
}

/// Starts an execution with a signal, or sends it to the one that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_starts_an_execution_or_goes_to_the_one_of_its_id() {
    let house = House::open().await;
    let cart = json!({ "name": "cart", "nodes": [
        { "id": "first", "type": "wait-for-events", "config": { "name": "item" } },
        { "id": "second", "type": "wait-for-events", "needs": ["first"], "config": { "name": "item" } },
        { "id": "out", "type": "output", "needs": ["second"],
          "config": { "value": "${{ [nodes.first.output, nodes.second.output] }}" } },
    ] });
    house.post("/v1/definitions", &cart).await.expect(201);
    let add = |item: u32, message: &str| {
        let signal = json!({ "name": "item", "body": item, "messageId": message });
        json!({ "workflow": "cart", "id": "c1", "signal": signal })
    };
    house.post("/v1/executions", &add(1, "m1")).await.expect(201);
    // The reply was lost, and the caller asks again: the signal is known.
    house.post("/v1/executions", &add(1, "m1")).await.expect(200);
    let second = house.post("/v1/executions", &add(2, "m2")).await.expect(200).json();
    assert_eq!(second["id"], "c1");
    let end = house.get("/v1/executions/c1?wait=60s").await.expect(200).json();
    assert_eq!((&end["status"], &end["output"]), (&json!("COMPLETED"), &json!([1, 2])));
    let late = house.post("/v1/executions", &add(3, "m3")).await.expect(409).json();
    assert_eq!(late["code"], "execution_ended", "{late}");
    // The id belongs to another workflow.
    let other = json!({ "name": "other", "nodes": [{ "id": "a", "type": "noop" }] });
    house.post("/v1/definitions", &other).await.expect(201);
    let signal = json!({ "name": "item" });
    let taken = json!({ "workflow": "other", "id": "c1", "signal": signal });
    assert_eq!(house.post("/v1/executions", &taken).await.expect(409).json()["code"], "id_taken");
    let fresh = json!({ "workflow": "cart", "signal": signal });
    house.post("/v1/executions", &fresh).await.expect(201);
    let unknown = json!({ "workflow": "cart", "signal": { "nmae": "item" } });
    house.post("/v1/executions", &unknown).await.expect(400);
}
