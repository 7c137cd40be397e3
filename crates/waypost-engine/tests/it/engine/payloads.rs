//! Payloads that are too large for the log: kept as blobs, passed on by reference, looked into, and
//! made of maps.

use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::status::Status;
use waypost_engine::config::Config;
use waypost_engine::{Engine, Plans, ResultsOf, StartRequest, put_results};
use waypost_ports::blobs::{Blobs, MemoryBlobs};
use waypost_ports::store::StoreError;

use super::remote::LONG;
use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};

async fn output(engine: &Engine, lab: &Lab, flow: &str, input: Json) -> serde_json::Value {
    let plan = lab.flow(flow);
    let started = engine.start(StartRequest::new(plan, 1, input)).await.unwrap();
    let end = started.ended().await.unwrap();
    assert_eq!(end.status, Status::Completed, "{:?}", end.failure);
    let output = end.output.unwrap();
    let content = |blob: waypost_core::blob::BlobRef| {
        Json::parse_bytes(&lab.blobs.get(&blob.digest, u64::MAX).unwrap())
    };
    output.resolve(content).unwrap().to_value().unwrap()
}

fn large() -> Json {
    let text = "x".repeat(2 * PAYLOAD_BYTES_MAX);
    Json::from_value(&serde_json::json!({ "n": 7, "text": text }))
}

#[tokio::test]
async fn large_input_is_passed_on_by_reference_and_can_be_looked_into() {
    let lab = Lab::new();
    let engine = lab.engine();
    let flow = r#"keyed "k-${{ input.n }}"; a = value("${{ input }}"); b = if(nodes.a.output.n == 7) needs a; o = output({"a": "${{ nodes.a.output }}", "n": "${{ nodes.a.output.n }}"}) needs b:true"#;
    let given = output(&engine, &lab, flow, large()).await;
    assert_eq!(given, serde_json::json!({ "a": large().to_value().unwrap(), "n": 7 }));
    engine.stop(LONG).await;
}

#[tokio::test]
async fn results_of_a_map_are_complete_and_in_order_and_feed_another_map() {
    let lab = Lab::new();
    let engine = lab.engine();
    let text = "y".repeat(1_000);
    let flow = format!(
        r#"m = map(700, at 64) {{x = value({{"n": "${{{{ index }}}}", "text": "{text}"}})}}; k = map(${{{{ nodes.m.output.results }}}}, at 50) {{y = value("${{{{ item.n }}}}")}} needs m; o = output({{"first": "${{{{ nodes.m.output.results }}}}", "second": "${{{{ nodes.k.output.results }}}}"}}) needs k"#
    );
    let given = output(&engine, &lab, &flow, Json::null()).await;
    let first: Vec<_> = (0..700).map(|n| serde_json::json!({ "n": n, "text": text })).collect();
    let second: Vec<u64> = (0..700).collect();
    assert_eq!(given, serde_json::json!({ "first": first, "second": second }));
    engine.stop(LONG).await;
}

#[tokio::test]
async fn bug_references_in_results_were_data_for_the_readers_of_their_blob() {
    let lab = Lab::new();
    let small = |parts: &mut waypost_engine::Parts| {
        let config = parts.config.clone();
        parts.config = Config { inline_bytes_max: 10, map_results_bytes_max: 0, ..config };
    };
    let engine = lab.engine_with(small);
    let input = Json::parse(r#"{"n":7,"more":"than ten bytes"}"#).unwrap();
    let flow = r#"m = map(2) {x = value({"all": "${{ input }}"})}; k = map(${{ nodes.m.output.results }}) {y = value("${{ item.all.n }}")} needs m; o = output(["${{ nodes.m.output.results }}", "${{ nodes.k.output.results }}"]) needs k"#;
    let given = output(&engine, &lab, flow, input.clone()).await;
    let all = serde_json::json!({ "all": input.to_value().unwrap() });
    assert_eq!(given, serde_json::json!([[all, all], [7, 7]]));
    engine.stop(LONG).await;
}

#[tokio::test]
async fn bug_store_that_was_away_when_results_were_read_failed_the_map() {
    let lab = Lab::new();
    let engine = lab.engine();
    let flow = "m = map(3) {x = value(${{ index }})}";
    let started = lab.start(&engine, flow).await;
    let execution = started.execution;
    started.ended().await.unwrap();
    engine.stop(LONG).await;
    // As after a restart: the plan has to be read first.
    let plans = Plans::new(Box::new(waypost_core::flow::compile));
    let map = lab.flow(flow).find("m").unwrap().into();
    let of = ResultsOf { execution, map, attempt: 1, count: 3 };
    let away = StoreError::Unavailable("away".to_owned());
    lab.store.break_calls(&[Call::Definition], &Fault::Fails(away));
    let error = put_results(&lab.blobs, &*lab.store, &plans, of).unwrap_err();
    assert!(error.is_passing(), "{error}");
    lab.store.heal();
    let blob = put_results(&lab.blobs, &*lab.store, &plans, of).unwrap().unwrap();
    assert_eq!(lab.blobs.get(&blob.digest, blob.bytes).unwrap(), b"[0,1,2]");
}

#[tokio::test]
async fn damaged_blob_fails_the_node_that_looks_into_it_and_is_named() {
    let lab = Lab::new();
    let engine = lab.engine();
    let kept = engine.keep(large()).await.unwrap();
    let blob = kept.as_reference().expect("a reference");
    MemoryBlobs::damage(&lab.blobs, &blob.digest);
    let plan = lab.flow("b = if(input.n == 7)");
    let started = engine.start(StartRequest::new(plan, 1, kept)).await.unwrap();
    let failure = started.ended().await.unwrap().failure.expect("it failed");
    assert_eq!(&*failure.kind, "blob");
    assert!(failure.message.contains(&blob.digest.to_string()), "{}", failure.message);
    engine.stop(LONG).await;
}

#[tokio::test]
async fn inline_limit_is_a_setting() {
    let lab = Lab::new();
    let small = |parts: &mut waypost_engine::Parts| {
        parts.config = Config { inline_bytes_max: 10, ..parts.config.clone() };
    };
    let engine = lab.engine_with(small);
    let input = Json::parse(r#"{"n":7,"more":"than ten bytes"}"#).unwrap();
    assert!(engine.keep(input.clone()).await.unwrap().as_reference().is_some());
    let given = output(&engine, &lab, r#"a = output("${{ input.n }}")"#, input).await;
    assert_eq!(given, serde_json::json!(7));
    engine.stop(LONG).await;
}
