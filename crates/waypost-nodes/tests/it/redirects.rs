//! `api-call`: redirects are followed by hand, each hop judged anew.

use serde_json::{Value, json};

use crate::server::{Server, reply};
use crate::support::{call_err, call_ok};

/// A server that redirects `/start` to `target` and answers everything else with 200.
async fn redirecting(status: &'static str, target: String) -> Server {
    Server::start(move |request| match request.target.as_str() {
        "/start" => reply(status, &[("location", &target)], "moved"),
        _ => reply("200 OK", &[], "there"),
    })
    .await
}

fn with_credentials(url: &str) -> Value {
    json!({
        "url": url,
        "headers": {"authorization": "Bearer s3cret", "cookie": "a=b", "x-trace": "1"},
    })
}

#[tokio::test]
async fn methods_and_bodies_follow_the_status() {
    for (status, method, expected) in [
        ("301 Moved", "POST", ("GET", "")),
        ("301 Moved", "PUT", ("PUT", "\"x\"")),
        ("302 Found", "POST", ("GET", "")),
        ("302 Found", "GET", ("GET", "\"x\"")),
        ("303 See Other", "POST", ("GET", "")),
        ("303 See Other", "DELETE", ("GET", "")),
        ("307 Temporary", "POST", ("POST", "\"x\"")),
        ("308 Permanent", "PUT", ("PUT", "\"x\"")),
    ] {
        let server = redirecting(status, "/there?x=1".into()).await;
        let config = json!({"url": server.url("/start"), "method": method, "body": "x"});
        let output = call_ok(config).await;
        assert_eq!(output["body"], "there");
        let last = server.requests().pop().unwrap();
        assert_eq!(last.target, "/there?x=1");
        assert_eq!((&*last.method, &*last.body), expected, "{status} {method}");
        assert_eq!(last.header("content-type").is_some(), !last.body.is_empty());
        assert_eq!(last.header("idempotency-key"), Some("exe_test/profile/1"));
    }
}

#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let server = redirecting("302 Found", "/there".into()).await;
    call_ok(with_credentials(&server.url("/start"))).await;
    let last = server.requests().pop().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(last.header("cookie"), Some("a=b"));

    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let other = Server::fixed("200 OK", &[], "other").await;
        let first = redirecting(status, other.url("/")).await;
        let output = call_ok(with_credentials(&first.url("/start"))).await;
        assert_eq!(output["body"], "other");
        let seen = other.request();
        assert_eq!(seen.header("authorization"), None, "{status}");
        assert_eq!(seen.header("cookie"), None, "{status}");
        assert_eq!(seen.header("x-trace"), Some("1"), "{status}");
    }
}

#[tokio::test]
async fn a_loop_ends_after_five() {
    let server =
        Server::start(|_| reply("302 Found", &[("location", "/again?key=s3cret")], "")).await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("too_many_redirects", false));
    assert!(!failure.message.contains("s3cret"), "{}", failure.message);
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn denied_targets_are_denied_on_every_hop() {
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        for target in [
            "http://169.254.169.254/latest/meta-data/",
            "http://[::ffff:169.254.169.254]/",
            "http://2852039166/",
            "http://10.0.0.1:8080/",
            "//192.168.1.1/",
            "file:///etc/passwd",
            "gopher://127.0.0.1/",
            "http://user:password@127.0.0.1/",
        ] {
            let server = redirecting(status, target.into()).await;
            let failure = call_err(json!({"url": server.url("/start")})).await;
            assert_eq!((&*failure.kind, failure.retryable), ("egress_denied", false), "{target}");
            assert_eq!(server.requests().len(), 1, "{target}");
        }
    }
}

#[tokio::test]
async fn redirects_need_not_be_followed() {
    let server = redirecting("302 Found", "http://169.254.169.254/".into()).await;
    let config = json!({"url": server.url("/start"), "followRedirects": false});
    let output = call_ok(config).await;
    assert_eq!((&output["status"], &output["body"]), (&json!(302), &json!("moved")));
    assert_eq!(output["headers"]["location"], "http://169.254.169.254/");
}

#[tokio::test]
async fn redirect_without_status_or_location_is_a_plain_response() {
    let server = Server::fixed("302 Found", &[], "no location").await;
    assert_eq!(call_ok(json!({"url": server.url("/")})).await["body"], "no location");
    let server = Server::fixed("200 OK", &[("location", "/elsewhere")], "here").await;
    assert_eq!(call_ok(json!({"url": server.url("/")})).await["body"], "here");
    let server = Server::fixed("302 Found", &[("location", "http://[")], "").await;
    assert_eq!(call_err(json!({"url": server.url("/")})).await.kind, "invalid_response");
}
