//! `api-call`: what is sent, and what is made of the answer.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_ports::handler::{Marks, Task};

use crate::server::{Reply, Server, head};
use crate::support::{Signs, call, call_err, call_ok, details, handler, run_with, settings, task};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn every_method_is_sent_as_written() {
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        let server = Server::fixed("200 OK", &[], "").await;
        let output = call_ok(json!({"url": server.url("/a"), "method": method})).await;
        assert_eq!(server.request().method, method);
        assert_eq!(output["status"], 200);
    }
    let server = Server::fixed("200 OK", &[], "").await;
    call_ok(json!({"url": server.url("/a")})).await;
    assert_eq!(server.request().method, "GET");
}

#[tokio::test]
async fn headers_are_sent_and_ours_added() {
    let server = Server::fixed("200 OK", &[], "").await;
    call_ok(json!({
        "url": server.url("/"),
        "headers": {"X-Tenant": "blue", "x-count": 3, "x-flag": true, "x-none": null, "x-name": "Zoë"},
    }))
    .await;
    let request = server.request();
    assert_eq!(request.header("x-tenant"), Some("blue"));
    assert_eq!(request.header("x-count"), Some("3"));
    assert_eq!(request.header("x-flag"), Some("true"));
    assert_eq!(request.header("x-none"), None);
    assert_eq!(request.header("x-name"), Some("Zoë"));
    assert_eq!(request.header("idempotency-key"), Some("exe_test/profile/1"));
    let agent = concat!("waypost/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.header("user-agent"), Some(agent));
    assert_eq!(request.header("referer"), None);
}

#[tokio::test]
async fn header_with_a_line_break_or_a_reserved_name_is_refused() {
    let server = Server::fixed("200 OK", &[], "").await;
    for value in ["a\r\nx-evil: 1", "a\nb", "a\0b"] {
        let failure = call_err(json!({"url": server.url("/"), "headers": {"x-a": value}})).await;
        assert_eq!((&*failure.kind, failure.retryable), ("invalid_config", false), "{value:?}");
    }
    for name in ["x a", "x\r\ny", "", "Host", "content-length", "Transfer-Encoding"] {
        let failure = call_err(json!({"url": server.url("/"), "headers": {name: "1"}})).await;
        assert_eq!(failure.kind, "invalid_config", "{name:?}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_key_is_the_same_for_every_attempt_unless_the_definition_sets_its_own() {
    let server = Server::fixed("200 OK", &[], "").await;
    let config = json!({"url": server.url("/"), "method": "POST", "body": {}});
    for attempt in [1, 2, 3] {
        let task = waypost_ports::handler::Task { attempt, ..task("api-call", &config) };
        run_with(&settings(), task).await.unwrap();
    }
    call_ok(json!({"url": server.url("/"), "headers": {"Idempotency-Key": "mine"}})).await;
    let odd = waypost_ports::handler::Task {
        idempotency_key: "Bestellung ü\n1".into(),
        ..task("api-call", &config)
    };
    run_with(&settings(), odd).await.unwrap();
    let keys: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.header("idempotency-key").unwrap().to_owned())
        .collect();
    let ours = "exe_test/profile/1";
    assert_eq!(keys, [ours, ours, ours, "mine", "Bestellung+%C3%BC%0A1"]);
}

#[tokio::test]
async fn query_parameters_are_added_and_encoded() {
    for (path, query, expected) in [
        ("/a", json!({"q": "x y&z", "n": 3}), "/a?n=3&q=x+y%26z"),
        ("/a?p=1", json!({"q": true}), "/a?p=1&q=true"),
        ("/a", json!({"tag": ["a", "b"], "none": null}), "/a?tag=a&tag=b"),
        ("/a", json!({"none": null}), "/a"),
        ("/a", json!({"n": 9_007_199_254_740_993_u64}), "/a?n=9007199254740993"),
    ] {
        let server = Server::fixed("200 OK", &[], "").await;
        call_ok(json!({"url": server.url(path), "query": query})).await;
        assert_eq!(server.request().target, expected);
    }
    let failure = call_err(json!({"url": "http://127.0.0.1/", "query": {"q": {"a": 1}}})).await;
    assert_eq!(failure.kind, "invalid_config");
}

#[tokio::test]
async fn bodies_are_sent_as_json_or_as_text() {
    for (config, content_type, sent) in [
        (json!({"body": {"a": [1, null]}}), Some("application/json"), r#"{"a":[1,null]}"#),
        (json!({"body": "x"}), Some("application/json"), r#""x""#),
        (json!({"body": null}), None, ""),
        (json!({"text": "a=1"}), Some("text/plain; charset=utf-8"), "a=1"),
        (
            json!({"text": "a=1", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}),
            Some("application/x-www-form-urlencoded"),
            "a=1",
        ),
    ] {
        let server = Server::fixed("200 OK", &[], "").await;
        let mut config = config;
        config["url"] = json!(server.url("/"));
        config["method"] = json!("POST");
        call_ok(config).await;
        let request = server.request();
        assert_eq!((request.header("content-type"), &*request.body), (content_type, sent));
    }
}

#[tokio::test]
async fn numbers_survive_in_both_directions_to_the_letter() {
    let numbers = r#"{"big":9007199254740993,"huge":1e400,"exact":0.10}"#;
    let server = Server::fixed("200 OK", &[JSON], numbers).await;
    let config = format!(r#"{{"url":"{}","method":"POST","body":{numbers}}}"#, server.url("/"));
    let mut task = task("api-call", &json!({}));
    task.config = Json::parse(&config).unwrap();
    let output = run_with(&settings(), task).await.unwrap();
    assert_eq!(server.request().body, numbers);
    assert!(output.text().contains(&format!(r#""body":{numbers}"#)), "{output}");
}

#[tokio::test]
async fn the_output_has_status_headers_and_body() {
    let server = Server::fixed(
        "201 Created",
        &[("Content-Type", "application/problem+json; charset=utf-8"), ("X-A", "1"), ("x-a", "2")],
        r#"{"id": 5}"#,
    )
    .await;
    let output = call_ok(json!({"url": server.url("/")})).await;
    assert_eq!(output["status"], 201);
    assert_eq!(output["headers"]["x-a"], "1, 2");
    assert_eq!(output["body"], json!({"id": 5}));

    for (content_type, body, expected) in [
        ("text/plain", "{\"id\": 5}", json!("{\"id\": 5}")),
        ("text/html", "<p>ü</p>", json!("<p>ü</p>")),
        ("application/json", "", json!(null)),
        ("text/plain", "", json!(null)),
    ] {
        let server = Server::fixed("200 OK", &[("content-type", content_type)], body).await;
        let output = call_ok(json!({"url": server.url("/")})).await;
        assert_eq!(output["body"], expected, "{content_type} {body}");
    }
}

#[tokio::test]
async fn response_that_cannot_be_decoded_is_a_failure() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    // 127 levels are fine by themselves, but not inside of `{body: …}`.
    let just_too_deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    for (content_type, body, word) in [
        ("application/json", b"{\"a\":".as_slice(), "JSON"),
        ("application/json", b"1, 2", "JSON"),
        ("application/json", deep.as_bytes(), "127"),
        ("application/json", just_too_deep.as_bytes(), "127"),
        ("text/plain", &[0x66, 0xff, 0xfe], "UTF-8"),
        ("application/octet-stream", &[0x80], "UTF-8"),
    ] {
        let server = Server::fixed("200 OK", &[("content-type", content_type)], body).await;
        let failure = call_err(json!({"url": server.url("/")})).await;
        assert_eq!((&*failure.kind, failure.retryable), ("invalid_response", false));
        assert!(failure.message.contains(word), "{}", failure.message);
    }
    let deepest = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let server = Server::fixed("200 OK", &[JSON], deepest).await;
    assert!(call(json!({"url": server.url("/")})).await.is_ok());
}

#[tokio::test]
async fn statuses_decide_success_and_whether_to_try_again() {
    for (status, accept, expected) in [
        ("200 OK", json!([]), None),
        ("304 Not Modified", json!([]), None),
        ("400 Bad Request", json!([]), Some(false)),
        ("404 Not Found", json!([]), Some(false)),
        ("404 Not Found", json!([404]), None),
        ("404 Not Found", json!(["404"]), None),
        ("404 Not Found", json!(["4xx"]), None),
        ("404 Not Found", json!([410, "5xx"]), Some(false)),
        ("408 Request Timeout", json!([]), Some(true)),
        ("425 Too Early", json!([]), Some(true)),
        ("429 Too Many Requests", json!([]), Some(true)),
        ("500 Internal Server Error", json!([]), Some(true)),
        ("503 Service Unavailable", json!([]), Some(true)),
        ("503 Service Unavailable", json!(["5XX"]), None),
    ] {
        let server = Server::fixed(status, &[], "").await;
        let outcome =
            call(json!({"url": server.url("/x?token=s3cret"), "acceptStatus": accept})).await;
        match (outcome, expected) {
            (Ok(_), None) => {}
            (Err(failure), Some(retryable)) => {
                let code = status.split(' ').next().unwrap().parse().ok();
                assert_eq!((&*failure.kind, failure.status), ("http", code));
                assert_eq!(failure.retryable, retryable, "{status}");
                assert!(failure.message.contains(status), "{}", failure.message);
                assert!(!failure.message.contains("s3cret"), "{}", failure.message);
            }
            (outcome, expected) => panic!("{status} {accept}: {outcome:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_failure_shows_the_start_of_the_body() {
    let server = Server::fixed("422 Unprocessable", &[JSON], r#"{"field": "age"}"#).await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    let expected = json!({"status": 422, "body": {"field": "age"}, "truncated": false});
    assert_eq!(details(&failure), expected);

    let server = Server::fixed("500 Oops", &[], "x".repeat(100_000)).await;
    let found = details(&call_err(json!({"url": server.url("/")})).await);
    assert_eq!(found["body"].as_str().unwrap().len(), 4096);
    assert_eq!(found["truncated"], true);
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms() {
    const NOW: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (value, expected) in [
        ("7", Some(7_000)),
        ("0", Some(0)),
        ("Sun, 06 Nov 1994 08:51:07 GMT", Some(90_000)),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
        ("soon", None),
        ("-5", None),
        ("", None),
    ] {
        let server = Server::fixed("429 Slow Down", &[NOW, ("retry-after", value)], "").await;
        let failure = call_err(json!({"url": server.url("/")})).await;
        assert_eq!(failure.retry_after.map(|wait| wait.0), expected, "{value:?}");
    }
    let endless = [("retry-after", "99999999999999999999")];
    let server = Server::fixed("503 Later", &endless, "").await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!(failure.retry_after, Some(waypost_core::time::DURATION_MAX));
}

#[tokio::test]
async fn connection_that_is_refused_or_broken_is_a_transient_failure() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let failure = call_err(json!({"url": format!("http://{address}/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("connection", true));
    assert!(failure.message.contains("refused"), "{}", failure.message);
    assert!(failure.unsent, "no request goes out without a connection");

    for bytes in [
        b"".as_slice(),
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    ] {
        let server = Server::start(move |_| Reply::Bytes(bytes.to_vec())).await;
        let failure = call_err(json!({"url": server.url("/")})).await;
        let text = String::from_utf8_lossy(bytes);
        assert_eq!((&*failure.kind, failure.retryable), ("connection", true), "{text} {failure:?}");
        assert!(!failure.unsent, "the request may have had its effect");
        assert_eq!(server.requests().len(), 1, "no hidden retries");
    }
}

#[tokio::test]
async fn call_with_an_invalid_url_is_invalid_config() {
    for url in ["", "/users", "example.com", "http://", "http://[::1", "http://a b/"] {
        let failure = call_err(json!({"url": url})).await;
        assert_eq!((&*failure.kind, failure.retryable), ("invalid_config", false), "{url}");
    }
    let failure = call_err(json!({"url": 5})).await;
    assert_eq!(failure.kind, "invalid_config");
}

#[tokio::test]
async fn cancelling_ends_the_call_and_its_connection() {
    let mut server = Server::start(|_| Reply::Hang(head("200 OK", &[]))).await;
    let cancel = CancellationToken::new();
    let config = json!({"url": server.url("/")});
    let run = handler(&settings(), "api-call").run(task("api-call", &config), cancel.clone());
    let stop = async {
        server.asked().await;
        cancel.cancel();
        server.connection_ended().await;
    };
    let (outcome, ()) = tokio::join!(run, stop);
    let failure = outcome.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("cancelled", false));
}

#[tokio::test]
async fn one_handler_makes_many_calls() {
    let server = Server::fixed("200 OK", &[], "x").await;
    let caller = handler(&settings(), "api-call");
    // More kinds of client than are kept at a time.
    for seconds in 1..=40 {
        let config = json!({"url": server.url("/"), "connectTimeout": format!("{seconds}s")});
        caller.run(task("api-call", &config), CancellationToken::new()).await.unwrap();
    }
    assert_eq!(server.requests().len(), 40);
}

#[tokio::test]
async fn a_task_has_its_own_time_limit() {
    let mut server = Server::start(|_| Reply::Hang(Vec::new())).await;
    let config = json!({"url": server.url("/")});
    let mut task = task("api-call", &config);
    task.timeout = Some(Millis(50));
    let failure = run_with(&settings(), task).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("timeout", true));
    assert!(failure.message.contains("50ms"), "{}", failure.message);
    server.connection_ended().await;
}

#[tokio::test]
async fn head_and_body_of_a_response_are_signs_of_life() {
    for (body, expected) in [("", 1), ("received", 2)] {
        let server = Server::fixed("200 OK", &[], body).await;
        let signs = Arc::new(Signs::default());
        let marks = Marks::to(Arc::clone(&signs) as _);
        let task = Task { marks, ..task("api-call", &json!({"url": server.url("/")})) };
        run_with(&settings(), task).await.unwrap();
        assert_eq!(signs.count(), expected, "{body:?}");
    }
}
