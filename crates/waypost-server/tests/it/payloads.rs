//! Large payloads over HTTP: they are kept as blobs, named by their digest, and cannot be forged.

use serde_json::{Value, json};
use waypost_core::blob::BlobDigest;
use waypost_core::json::Json;
use waypost_ports::blobs::Blobs as _;

use crate::support::{Ask, House, house};
use crate::{control, workers};

/// JSON of two MiB.
fn large() -> Value {
    json!({ "n": 7, "text": "x".repeat(2 << 20) })
}

/// Uploads content; gives its digest and, for a task, its receipt.
async fn upload(house: &House, content: &[u8], task: Option<&Value>) -> (String, Value) {
    let query =
        task.map_or_else(String::new, |task| format!("?task={}", task["token"].as_str().unwrap()));
    let ask = Ask::new("PUT", &format!("/v1/blobs{query}")).body(content);
    let put = house.ask(&ask).await.expect(201).json();
    (put["digest"].as_str().unwrap().to_owned(), put["receipt"].clone())
}

/// The output of an execution with the contents of its blobs, and how many it refers to.
async fn output(house: &House, id: &str) -> (Value, usize) {
    let found = house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200).json();
    assert_eq!(found["status"], "COMPLETED", "{found}");
    let reply = house.get(&format!("/v1/executions/{id}/output")).await.expect(200);
    // Read as the server wrote it: only its own spelling is a reference.
    let output = Json::parse_own(&reply.text()).unwrap();
    let content = |blob: waypost_core::blob::BlobRef| {
        Json::parse_bytes(&house.blobs.get(&blob.digest, u64::MAX).unwrap())
    };
    let whole = output.resolve(content).unwrap().to_value().unwrap();
    (whole, output.references().count())
}

async fn run(house: &House, id: &str, input: &Value) -> (Value, usize) {
    let start = json!({ "workflow": house::QUICK, "id": id, "input": input });
    house.post("/v1/executions", &start).await.expect(201);
    output(house, id).await
}

#[tokio::test]
async fn input_above_the_inline_limit_is_kept_as_a_blob() {
    let house = House::open().await;
    assert_eq!(run(&house, "small", &json!({ "n": 7 })).await, (json!({ "n": 7 }), 0));
    assert!(run(&house, "large", &large()).await == (large(), 1));
}

#[tokio::test]
async fn input_that_names_a_blob_refers_to_it() {
    let house = House::open().await;
    let content = large().to_string();
    let (digest, _) = upload(&house, content.as_bytes(), None).await;
    let named = json!({ "$blob": digest });
    assert!(run(&house, "whole", &named).await == (large(), 1));
    let (found, count) = run(&house, "parts", &json!([named, { "a": named }, 5])).await;
    assert!(found == json!([large(), { "a": large() }, 5]) && count == 2);
    // The length is the blob's own, whatever the caller says.
    let wrong = json!({ "$blob": digest, "bytes": 1 });
    assert!(run(&house, "length", &wrong).await == (large(), 1));
    let reply = house.get("/v1/executions/length/output").await.expect(200).json();
    assert_eq!(reply["bytes"], content.len());
}

#[tokio::test]
async fn bug_references_in_a_large_input_became_data() {
    let house = House::open().await;
    let (digest, _) = upload(&house, large().to_string().as_bytes(), None).await;
    let text = "y".repeat(2 << 20);
    let input = json!({ "files": [{ "$blob": digest }], "text": text });
    let (found, references) = run(&house, "both", &input).await;
    assert!(found == json!({ "files": [large()], "text": text }) && references == 2);
}

#[tokio::test]
async fn input_that_names_an_unknown_blob_is_refused() {
    let house = House::open().await;
    let digest = BlobDigest::of(b"unknown").to_string();
    let start = json!({ "workflow": house::QUICK, "input": { "a": { "$blob": digest } } });
    let refused = house.post("/v1/executions", &start).await.refused(400, "bad_body");
    assert!(refused.text().contains(&digest), "{}", refused.text());
}

#[tokio::test]
async fn object_that_only_resembles_a_reference_stays_data() {
    let house = House::open().await;
    let (digest, _) = upload(&house, b"[1]", None).await;
    for (at, data) in [
        json!({ "$blob": "nonsense", "bytes": 3 }),
        json!({ "$blob": 7 }),
        json!({ "$blob": digest, "bytes": 3, "more": 1 }),
        json!({ "$blob": digest.to_uppercase(), "bytes": 3 }),
        json!(format!("{{\"$blob\":\"{digest}\",\"bytes\":3}}")),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(run(&house, &format!("data-{at}"), &data).await, (data, 0));
    }
    // A definition is text from outside, too.
    let forged = json!({ "$blob": digest, "bytes": 3 });
    let node = json!({ "id": "a", "type": "output", "config": { "value": forged } });
    house.deploy(&json!({ "name": "forging", "nodes": [node] }));
    house.start("forging", "forged").await;
    assert_eq!(output(&house, "forged").await, (forged, 0));
}

#[tokio::test]
async fn signal_and_completed_wait_carry_blobs() {
    let house = House::open().await;
    let content = large().to_string();
    let (digest, _) = upload(&house, content.as_bytes(), None).await;
    let unknown = json!({ "$blob": BlobDigest::of(b"unknown").to_string() });
    for (id, body) in [("named", json!({ "$blob": digest })), ("whole", large())] {
        house.start(house::PATIENT, id).await;
        let signal = |body: &Value| json!({ "name": "go", "body": body });
        let target = format!("/v1/executions/{id}/signals");
        house.post(&target, &signal(&unknown)).await.refused(400, "bad_body");
        house.post(&target, &signal(&body)).await.expect(200);
        assert!(output(&house, id).await == (large(), 1), "{id}");
    }
    house.start(house::PATIENT, "wait").await;
    let wait = control::open_wait(&house, "wait").await;
    let complete = |body: &Value| json!({ "body": body });
    let target = format!("/v1/waits/{wait}/complete");
    house.post(&target, &complete(&unknown)).await.refused(400, "bad_body");
    house.post(&target, &complete(&json!({ "$blob": digest }))).await.expect(200);
    assert!(output(&house, "wait").await == (large(), 1));
}

#[tokio::test]
async fn worker_reports_only_blobs_that_were_uploaded_for_its_task() {
    let house = House::open().await;
    let content = large().to_string();
    house.deploy(&json!({ "name": "far", "nodes": [
        { "id": "a", "type": "worker", "config": { "handler": "h" } },
        { "id": "done", "type": "output", "needs": ["a"],
          "config": { "value": "${{ nodes.a.output }}" } },
    ] }));
    house.start("far", "other").await;
    let other = workers::take(&house).await;
    house.start("far", "own").await;
    let own = workers::take(&house).await;
    assert_eq!((&other["execution"], &own["execution"]), (&json!("other"), &json!("own")));
    let (digest, foreign) = upload(&house, content.as_bytes(), Some(&other)).await;
    let (_, none) = upload(&house, content.as_bytes(), None).await;
    let (unrelated, of_unrelated) = upload(&house, b"[]", Some(&own)).await;
    assert_eq!(none, Value::Null);
    let report = |output: Value| json!({ "status": "completed", "output": { "file": output } });
    for claim in [
        json!({ "$blob": digest }),
        json!({ "$blob": digest, "bytes": content.len() }),
        json!({ "$blob": digest, "receipt": foreign }),
        json!({ "$blob": digest, "receipt": of_unrelated }),
        json!({ "$blob": digest, "receipt": "" }),
    ] {
        let refused = workers::say(&house, &own, "report", report(claim)).await;
        let refused = refused.refused(400, "bad_body");
        assert!(refused.text().contains("was not uploaded for this task"), "{}", refused.text());
    }
    let (_, receipt) = upload(&house, content.as_bytes(), Some(&own)).await;
    assert_ne!((&receipt, &digest), (&foreign, &unrelated));
    let claim = json!({ "$blob": digest, "receipt": receipt });
    workers::say(&house, &own, "report", report(claim)).await.expect(200);
    let (found, count) = output(&house, "own").await;
    let shown: String = found.to_string().chars().take(200).collect();
    assert!(found == json!({ "file": large() }) && count == 1, "{count}: {shown}");
}

#[tokio::test]
async fn schema_is_checked_on_the_content_of_an_input() {
    let house = House::open().await;
    house.deploy(&json!({
        "name": "strict",
        "input": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } },
        "nodes": [{ "id": "a", "type": "noop" }],
    }));
    let (fits, _) = upload(&house, large().to_string().as_bytes(), None).await;
    let (five, _) = upload(&house, b"5", None).await;
    let (lines, _) = upload(&house, b"{\"n\": 5}\n{\"n\": 6}\n", None).await;
    let (empty, _) = upload(&house, b"{}", None).await;
    let (huge, _) =
        upload(&house, format!("[\"{}\"]", "x".repeat(16 << 20)).as_bytes(), None).await;
    let named = |digest: &str| json!({ "$blob": digest });
    let unfit = json!({ "n": "7", "text": "x".repeat(2 << 20) });
    let looks = "the schema looks into blob";
    for (input, fault) in [
        (large(), ""),
        (unfit, "is not of type"),
        (named(&fits), ""),
        (named(&empty), "is a required property"),
        (named(&five), "is not of type"),
        (named(&lines), looks),
        (named(&huge), looks),
        (json!({ "n": named(&five) }), ""),
        (json!({ "n": named(&empty) }), "is not of type"),
        (json!({ "n": named(&huge) }), looks),
        (json!({ "n": 7, "rows": named(&lines), "more": [named(&huge)] }), ""),
        (json!({ "rows": named(&huge) }), "is a required property"),
    ] {
        let start = json!({ "workflow": "strict", "input": input });
        let reply = house.post("/v1/executions", &start).await;
        match fault {
            "" => drop(reply.expect(201)),
            fault => {
                let refused = reply.refused(422, "invalid_input").text();
                assert!(refused.contains(fault), "{fault}: {refused}");
            }
        }
    }
}
