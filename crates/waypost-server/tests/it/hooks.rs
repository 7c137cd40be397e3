//! Requests of other systems that fire webhook triggers.

use std::net::Ipv4Addr;

use aws_lc_rs::hmac;
use serde_json::{Value, json};
use waypost_server::config::Config;

use super::support::house::HOOK_SECRET;
use super::support::triggered::{FAILING, HOOKED, PICKY, deploy};
use super::support::{Answer, Ask, House};

async fn house(config: Config) -> House {
    let house = House::empty(config).await;
    [HOOKED, PICKY, FAILING].into_iter().for_each(|workflow| deploy(&house, workflow));
    house
}

/// A request as GitHub signs it.
fn signed_with(secret: &str, trigger: &str, body: &str) -> Ask {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let tag: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let ask = Ask::new("POST", &format!("/v1/hooks/{HOOKED}/{trigger}"));
    ask.header("Content-Type", "application/json")
        .header("X-Hub-Signature-256", &format!("sha256={tag}"))
        .body(body)
}

fn signed(trigger: &str, body: &str) -> Ask {
    signed_with(HOOK_SECRET, trigger, body)
}

fn open(trigger: &str, body: &Value) -> Ask {
    Ask::post(&format!("/v1/hooks/{HOOKED}/{trigger}"), body)
}

fn id(answer: &Answer) -> String {
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// What an execution ended with.
async fn output(house: &House, id: &str) -> Value {
    let target = format!("/v1/executions/{id}/stream");
    let mut events = super::support::events::Events::follow(house, &target, None).await;
    while let Some(event) = events.next().await {
        if event.kind == "RunCompleted" {
            return house.get(&format!("/v1/executions/{id}/output")).await.json();
        }
    }
    panic!("{id} did not complete")
}

#[tokio::test]
async fn signed_request_starts_one_execution_however_often_it_is_sent() {
    let house = house(Config::default()).await;
    let ask = signed("github", r#"{"n":1}"#);
    let first = house.ask(&ask).await.expect(202);
    assert_eq!(first.json()["outcome"], "started");
    assert_eq!(output(&house, &id(&first)).await, json!({ "n": 1 }));
    // The id of the delivery is not signed: another one makes no other delivery.
    let again = ask.clone().header("X-GitHub-Delivery", "another");
    let again = house.ask(&again).await.expect(200);
    assert_eq!((again.json()["outcome"].as_str(), id(&again)), (Some("repeated"), id(&first)));
    let other = house.ask(&signed_with("old-hook-secret", "github", "{}")).await.expect(202);
    assert_ne!(id(&other), id(&first), "during a rotation both secrets are taken");
    let shown = house.get(&format!("/v1/executions/{}", id(&first))).await.json();
    assert_eq!(shown["trigger"]["name"], "github", "{shown}");
}

#[tokio::test]
async fn requests_that_are_not_signed_right_are_refused_and_say_little() {
    let house = house(Config { hook_failures_per_second: 1_000, ..Config::default() }).await;
    let mut changed = signed("github", r#"{"n":1}"#);
    changed.body = Some(br#"{"n":2}"#.to_vec());
    let refused = house.ask(&changed).await.refused(401, "bad_signature");
    assert!(refused.text().contains("scheme github") && !refused.text().contains("sha256="));
    house.ask(&signed_with("wrong", "github", "{}")).await.refused(401, "bad_signature");
    house.ask(&open("github", &json!({}))).await.refused(401, "bad_signature");
    house.ask(&signed("unknown", "{}")).await.refused(404, "unknown_hook");
    house.ask(&signed("paid", "{}")).await.refused(404, "unknown_hook");
    house.ask(&signed("github/token", "{}")).await.refused(404, "unknown_hook");
    house.ask(&signed("no-secret", "{}")).await.refused(503, "secrets_unreadable");
    house.ask(&Ask::get("/v1/hooks/hooked/github")).await.refused(405, "method_not_allowed");
    let large = format!("\"{}\"", "x".repeat(1_000));
    house.ask(&signed("github", &large)).await.refused(413, "body_too_large");
    let page = open("open", &json!({})).header("Origin", "https://evil.example");
    house.ask(&page).await.refused(403, "foreign_origin");
}

#[tokio::test]
async fn token_of_the_path_suffices_and_get_needs_it() {
    let house = house(Config::default()).await;
    let with = |method: &str, trigger: &str, token: &str| {
        Ask::new(method, &format!("/v1/hooks/{HOOKED}/{trigger}/{token}?a=1&a=2"))
    };
    let posted = house.ask(&with("POST", "token", HOOK_SECRET)).await.expect(202);
    assert_eq!(output(&house, &id(&posted)).await, Value::Null);
    house.ask(&with("PUT", "token", HOOK_SECRET)).await.expect(202);
    house.ask(&with("POST", "token", "wrong-token")).await.refused(401, "bad_signature");
    house.ask(&with("GET", "token", HOOK_SECRET)).await.refused(404, "unknown_hook");
    house.ask(&with("GET", "link", HOOK_SECRET)).await.expect(202);
    house.ask(&with("HEAD", "link", HOOK_SECRET)).await.expect(405);
    house.ask(&open("token", &json!({}))).await.refused(404, "unknown_hook");
}

#[tokio::test]
async fn body_may_be_json_a_form_or_a_text() {
    let house = house(Config::default()).await;
    for (kind, body, expected) in [
        ("application/json", "[1]", json!([1])),
        ("application/x-www-form-urlencoded", "a=1+2&b", json!({ "a": "1 2", "b": "" })),
        ("text/plain; charset=utf-8", "hi", json!("hi")),
    ] {
        let ask = Ask::new("POST", "/v1/hooks/hooked/open").header("Content-Type", kind);
        let started = house.ask(&ask.body(body)).await.expect(202);
        assert_eq!(output(&house, &id(&started)).await, expected, "{kind}");
    }
    for (name, value) in
        [("Content-Type", "multipart/form-data; boundary=b"), ("Content-Encoding", "gzip")]
    {
        let ask = Ask::new("POST", "/v1/hooks/hooked/open").header(name, value).body("--b");
        house.ask(&ask).await.refused(415, "unsupported_media_type");
    }
    let broken =
        Ask::new("POST", "/v1/hooks/hooked/open").header("Content-Type", "application/json");
    house.ask(&broken.body("{")).await.refused(400, "bad_body");
}

#[tokio::test]
async fn output_is_the_answer_where_the_trigger_says_so() {
    let house = house(Config::default()).await;
    let ask = signed("output", r#"{"n":7}"#);
    for _ in 0..2 {
        assert_eq!(house.ask(&ask).await.expect(200).json(), json!({ "n": 7 }));
    }
    let failed = Ask::post("/v1/hooks/failing/output", &json!({}));
    let failed = house.ask(&failed).await.refused(500, "execution_failed");
    assert!(!failed.text().contains("division"), "{}", failed.text());
}

#[tokio::test]
async fn condition_id_and_input_of_the_trigger_hold() {
    let house = house(Config::default()).await;
    let filtered = house.ask(&signed("pushed", r#"{"n":1}"#)).await.expect(200);
    assert_eq!(filtered.json(), json!({ "outcome": "filtered" }));
    let push = signed("pushed", r#"{"n":2}"#).header("X-GitHub-Event", "push");
    assert_eq!(id(&house.ask(&push).await.expect(202)), "push-2");
    assert_eq!(output(&house, "push-2").await, json!({ "n": 2, "by": "pushed" }));
    // Another delivery that wants the same id.
    let taken = signed("pushed", r#"{"n": 2}"#).header("X-GitHub-Event", "push");
    for _ in 0..2 {
        let dead = house.ask(&taken).await.refused(422, "invalid_input");
        assert!(dead.text().contains("push-2"), "{}", dead.text());
    }
    let letters = house.get("/v1/triggers/hooked/pushed/dead").await.json();
    assert_eq!(letters["deadLetters"].as_array().unwrap().len(), 1, "{letters}");
}

#[tokio::test]
async fn challenge_is_answered_as_plain_text() {
    let house = house(Config::default()).await;
    let asked = open("asked", &json!({ "type": "hello", "challenge": "<b>c</b>" }));
    let answer = house.ask(&asked).await.expect(200);
    assert_eq!(answer.text(), "<b>c</b>");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    house.ask(&open("asked", &json!({ "type": "other" }))).await.expect(202);
    house
        .ask(&open("asked", &json!({ "type": "hello", "challenge": 1 })))
        .await
        .refused(422, "invalid_input");
}

#[tokio::test]
async fn dedupe_of_the_trigger_identifies_a_delivery() {
    let house = house(Config::default()).await;
    let first = house.ask(&open("keyed", &json!({ "key": "k", "n": 1 }))).await.expect(202);
    let again = house.ask(&open("keyed", &json!({ "key": "k", "n": 2 }))).await.expect(200);
    assert_eq!(id(&again), id(&first));
    house.ask(&open("keyed", &json!({ "key": 1 }))).await.expect(202);
    house.ask(&open("keyed", &json!({ "key": null }))).await.refused(422, "invalid_input");
    // Nothing identifies these.
    for _ in 0..2 {
        house.ask(&open("open", &json!({}))).await.expect(202);
    }
}

#[tokio::test]
async fn paused_trigger_starts_nothing_once_the_pause_is_answered() {
    let house = house(Config::default()).await;
    house.ask(&signed("github", "1")).await.expect(202);
    house.post("/v1/triggers/hooked/github/pause", &json!({})).await.expect(200);
    house.ask(&signed("github", "2")).await.refused(404, "unknown_hook");
    house.ask(&Ask::new("POST", "/v1/triggers/hooked/github/resume")).await.expect(200);
    house.ask(&signed("github", "2")).await.expect(202);
}

#[tokio::test]
async fn unsigned_requests_are_for_this_machine_unless_the_setting_allows_them() {
    let everywhere = (Ipv4Addr::UNSPECIFIED, 0).into();
    let closed = Config { address: everywhere, ..Config::default() };
    let ask = open("open", &json!({}));
    let public = ask.clone().header("Host", "flows.example.com");
    let here = house(Config::default()).await;
    here.ask(&ask).await.expect(202);
    here.ask(&public).await.refused(403, "forbidden");
    here.ask(&signed("github", "{}").header("Host", "flows.example.com")).await.expect(202);
    let proxied =
        Config { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..Config::default() };
    let proxied = house(proxied).await;
    proxied
        .ask(&ask.clone().header("X-Forwarded-For", "198.51.100.7"))
        .await
        .refused(403, "forbidden");
    let allowing = house(Config { allow_unsigned_hooks: true, ..closed.clone() }).await;
    allowing.ask(&public).await.expect(202);
}

#[tokio::test]
async fn failures_of_one_address_do_not_close_the_trigger_to_others() {
    let house = house(Config {
        hook_failures_per_second: 1,
        trusted_proxies: vec!["127.0.0.1".parse::<std::net::IpAddr>().unwrap().into()],
        ..Config::default()
    })
    .await;
    let from = |ask: Ask, address: &str| ask.header("X-Forwarded-For", address);
    for _ in 0..2 {
        let wrong = from(signed_with("wrong", "github", "{}"), "198.51.100.7");
        house.ask(&wrong).await.refused(401, "bad_signature");
    }
    let blocked = from(signed("github", "{}"), "198.51.100.7");
    let blocked = house.ask(&blocked).await.refused(429, "rate_limited");
    assert!(blocked.header("retry-after").is_some());
    house.ask(&from(signed("github", "{}"), "198.51.100.8")).await.expect(202);
}

#[tokio::test]
async fn rate_of_a_trigger_counts_what_is_signed_alone() {
    let house = house(Config {
        hook_requests_per_second: 1,
        hook_failures_per_second: 1_000,
        ..Config::default()
    })
    .await;
    for _ in 0..5 {
        house.ask(&signed_with("wrong", "github", "1")).await.refused(401, "bad_signature");
    }
    house.ask(&signed("github", "1")).await.expect(202);
    house.ask(&signed("github", "2")).await.expect(202);
    house.ask(&signed("github", "3")).await.refused(429, "rate_limited");
    house.ask(&signed("output", "3")).await.expect(200);
}

#[tokio::test]
async fn input_that_does_not_fit_becomes_a_dead_letter_that_can_be_retried() {
    let house = house(Config::default()).await;
    let wrong = Ask::post("/v1/hooks/picky/any", &json!({ "amount": "much" }));
    house.ask(&wrong).await.refused(422, "invalid_input");
    let letters = house.get("/v1/triggers/picky/any/dead").await.json();
    let letter = &letters["deadLetters"][0];
    assert_eq!(
        (letter["state"].as_str(), letter["payload"]["payload"]["body"].clone()),
        (Some("dead"), json!({ "amount": "much" })),
        "{letters}"
    );
    let path = format!("/v1/triggers/picky/any/dead/{}", letter["id"]);
    let retried = house.ask(&Ask::new("POST", &format!("{path}/retry"))).await;
    assert_eq!(retried.expect(200).json()["outcome"], "dead");
    house.ask(&Ask::new("POST", &format!("{path}/discard"))).await.expect(204);
    house
        .ask(&Ask::new("POST", "/v1/triggers/picky/any/dead/999/retry"))
        .await
        .refused(404, "unknown_dead_letter");
    let discarded = house.get("/v1/triggers/picky/any/dead?state=discarded").await.json();
    assert_eq!(discarded["deadLetters"][0]["id"], letter["id"]);
}

/// A sender that repeats its request while the execution runs must not take the answer for the output.
#[tokio::test]
async fn repeat_before_the_output_is_there_is_answered_as_accepted() {
    let house = house(Config::default()).await;
    let slow = json!({ "name": "slow", "on": [{
        "webhook": "in", "verify": "none", "respond": "output", "dedupe": "body.n", "id": "slow-1",
    }], "nodes": [
        { "id": "wait", "type": "wait-for-events", "config": { "event": "go" } },
        { "id": "done", "type": "output", "needs": ["wait"], "config": { "value": "done" } },
    ] });
    house.post("/v1/definitions", &slow).await.expect(201);
    let ask = Ask::post("/v1/hooks/slow/in", &json!({ "n": 1 }));
    let again = async {
        let mut client = house.connect().await;
        while house.get("/v1/executions/slow-1").await.status != 200 {
            tokio::task::yield_now().await;
        }
        let again = client.ask(&ask).await.unwrap().expect(202).json();
        assert_eq!(again, json!({ "outcome": "repeated", "id": "slow-1" }));
        house.post("/v1/executions/slow-1/signals", &json!({ "name": "go" })).await.expect(200);
    };
    let (first, ()) = tokio::join!(house.ask(&ask), again);
    assert_eq!(first.expect(200).json(), json!("done"));
    assert_eq!(house.ask(&ask).await.expect(200).json(), json!("done"));
}

/// The row that judged the first request is still kept when the second one arrives.
#[tokio::test]
async fn request_after_a_deploy_is_judged_by_the_new_version() {
    let house = House::empty(Config::default()).await;
    let version = |fields: Value| {
        let mut hook = json!({ "webhook": "in", "verify": "none" });
        hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "name": "wide", "on": [hook], "nodes": [{ "id": "a", "type": "noop" }] })
    };
    let send = async |n: u32| house.ask(&Ask::post("/v1/hooks/wide/in", &json!({ "n": n }))).await;
    for (fields, n, status) in [
        (json!({ "if": "body.n > 5" }), 1, 200),
        (json!({ "if": "body.n > 0", "input": "${{ body.missing }}" }), 2, 422),
        (json!({ "input": "${{ body.n }}" }), 3, 202),
    ] {
        house.post("/v1/definitions", &version(fields)).await.expect(201);
        send(n).await.expect(status);
    }
    let letters = house.get("/v1/triggers/wide/in/dead").await.json();
    assert_eq!(letters["deadLetters"].as_array().unwrap().len(), 1, "{letters}");
}
