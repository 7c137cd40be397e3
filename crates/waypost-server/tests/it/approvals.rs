//! Approvals over HTTP: decided once, by those who may, with a form that fits.

use serde_json::{Value, json};

use crate::support::House;

fn release(config: &Value) -> Value {
    json!({ "name": "release", "nodes": [
        { "id": "ask", "type": "approval", "config": config },
        { "id": "ship", "type": "noop", "needs": ["ask"] },
        { "id": "stop", "type": "noop", "needs": [{ "node": "ask", "branch": "rejected" }] },
    ] })
}

/// Starts an execution that waits for an approval; gives the wait's id.
pub(crate) async fn asked(house: &House, id: &str, config: &Value) -> String {
    let definition = house.post("/v1/definitions", &release(config)).await;
    assert!(definition.status == 200 || definition.status == 201);
    house.post("/v1/executions", &json!({ "workflow": "release", "id": id })).await.expect(201);
    // The start is answered before the node is evaluated.
    for _ in 0..10_000 {
        let list = house.get("/v1/waits?consistent=true&kind=approval").await.expect(200).json();
        let mut waits = list["waits"].as_array().unwrap().iter();
        if let Some(wait) = waits.find(|wait| wait["execution"] == id) {
            assert_eq!((&wait["title"], &wait["node"]), (&json!("Ship it?"), &json!("ask")));
            return wait["id"].as_str().unwrap().to_owned();
        }
    }
    panic!("{id} does not wait");
}

async fn output(house: &House, id: &str, node: &str) -> Value {
    house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200);
    let nodes = house.get(&format!("/v1/executions/{id}/nodes")).await.expect(200).json();
    let nodes = nodes["nodes"].as_array().unwrap();
    nodes.iter().find(|found| found["id"] == node).expect("the node").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_decision_is_refused_and_names_the_first() {
    let house = House::open().await;
    let wait = asked(&house, "r1", &json!({ "title": "Ship it?" })).await;
    let decide = format!("/v1/waits/{wait}/decide");
    let approve = json!({ "decision": "approved", "by": "ann", "comment": "looks good" });
    house.post(&decide, &approve).await.expect(200);
    let ask = output(&house, "r1", "ask").await;
    assert_eq!(ask["branch"], "approved");
    let found = &ask["output"];
    assert_eq!((&found["by"], &found["comment"]), (&json!("ann"), &json!("looks good")));
    let late = house.post(&decide, &json!({ "decision": "rejected", "by": "bob" })).await;
    let late = late.expect(409).json();
    assert_eq!(late["code"], "already_decided");
    let detail = late["detail"].as_str().unwrap();
    assert!(detail.contains("approved by ann"), "{detail}");
    assert_eq!(output(&house, "r1", "stop").await["status"], "SKIPPED");
    house.post("/v1/waits/r1~999/decide", &approve).await.expect(409);
    house.post("/v1/waits/nobody~7/decide", &approve).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn decisions_at_once_are_one_decision() {
    let house = House::open().await;
    for round in 0..5 {
        let id = format!("race{round}");
        let wait = asked(&house, &id, &json!({ "title": "Ship it?" })).await;
        let decide = format!("/v1/waits/{wait}/decide");
        let verdict = |verdict: &str, by: &str| json!({ "decision": verdict, "by": by });
        let (ann, bob) = (verdict("approved", "ann"), verdict("rejected", "bob"));
        let (ann, bob) = tokio::join!(house.post(&decide, &ann), house.post(&decide, &bob));
        let mut statuses = [ann.status, bob.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
        let (won, lost) = if ann.status == 200 { ("ann", bob) } else { ("bob", ann) };
        let detail = lost.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("by {won}")), "{detail}");
        assert_eq!(output(&house, &id, "ask").await["output"]["by"], won);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn form_is_checked_against_the_schema_of_the_node() {
    let house = House::open().await;
    let form = json!({
        "type": "object",
        "required": ["amount"],
        "properties": { "amount": { "type": "integer", "maximum": 100 } },
    });
    let config = json!({ "title": "Ship it?", "form": form, "approvers": ["ann", "bob"] });
    let wait = asked(&house, "f1", &config).await;
    let decide = format!("/v1/waits/{wait}/decide");
    let with = |form: Value| json!({ "decision": "approved", "by": "ann", "form": form });
    for bad in [json!(null), json!({}), json!({ "amount": 101 }), json!({ "amount": "1" })] {
        let refused = house.post(&decide, &with(bad)).await.expect(422).json();
        assert_eq!(refused["code"], "invalid_input");
    }
    let eve = json!({ "decision": "approved", "by": "eve", "form": { "amount": 1 } });
    let refused = house.post(&decide, &eve).await.expect(403).json();
    assert_eq!(refused["code"], "not_an_approver");
    house.post(&format!("/v1/waits/{wait}/complete"), &json!({})).await.expect(409);
    house.post(&decide, &with(json!({ "amount": 7 }))).await.expect(200);
    assert_eq!(output(&house, "f1", "ask").await["output"]["form"]["amount"], 7);
}

/// Otherwise every approval would fail, and the execution could never continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn form_that_is_no_schema_is_refused_when_it_is_deployed() {
    let house = House::open().await;
    for (form, why) in [
        (json!({ "type": "nonsense" }), "`form` is not a valid JSON Schema"),
        (json!({ "$ref": "#/nope" }), "`form` is not a valid JSON Schema"),
        (json!({ "$ref": "https://example.com/x" }), "`form` refers to"),
        (json!(true), "`form` must be a JSON Schema"),
    ] {
        let definition = release(&json!({ "title": "Ship it?", "form": form }));
        let refused = house.post("/v1/definitions", &definition).await.expect(422).json();
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(why), "{form}: {message}");
    }
}

/// One that was deployed by a version that did not check it goes on: its approval can be rejected.
#[test]
fn form_of_a_stored_definition_is_not_checked_again() {
    let definition = release(&json!({ "title": "Ship it?", "form": { "type": "nonsense" } }));
    let catalog = waypost_nodes::catalog();
    let bytes = definition.to_string();
    assert!(waypost_lang::parse(bytes.as_bytes(), &catalog).is_err());
    assert!(waypost_lang::compile_canonical(bytes.as_bytes(), &catalog).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comment_has_lines_and_no_other_control_characters() {
    let house = House::open().await;
    let wait = asked(&house, "c1", &json!({ "title": "Ship it?" })).await;
    let decide = format!("/v1/waits/{wait}/decide");
    let with = |comment: &str| json!({ "decision": "approved", "by": "ann", "comment": comment });
    for comment in ["", "a\u{7}b", "\u{1b}[31m", &"x".repeat(4_001)] {
        house.post(&decide, &with(comment)).await.refused(400, "bad_body");
    }
    house.post(&decide, &with("first\nsecond\tline")).await.expect(200);
    let comment = &output(&house, "c1", "ask").await["output"]["comment"];
    assert_eq!(comment, "first\nsecond\tline");
}

/// A person who rejects need not fill in the form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejection_needs_no_form_and_takes_its_branch_alone() {
    let house = House::open().await;
    let config = json!({ "title": "Ship it?", "form": { "type": "object" } });
    let wait = asked(&house, "n1", &config).await;
    let decide = format!("/v1/waits/{wait}/decide");
    house.post(&decide, &json!({ "decision": "rejected", "by": "ann" })).await.expect(200);
    assert_eq!(output(&house, "n1", "stop").await["status"], "COMPLETED");
    assert_eq!(output(&house, "n1", "ship").await["status"], "SKIPPED");
    let why = house.get("/v1/executions/n1/why").await.expect(200).json();
    assert!(why.to_string().contains("completed"), "{why}");
}
