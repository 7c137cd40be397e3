//! Peers that are slow, greedy or many; and a server that is about to stop.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use waypost_engine::EngineError;
use waypost_server::config::Config;
use waypost_server::problem::Problem;

use crate::support::{Ask, House, house};

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let house = House::with(Config { header_timeout: SOON, ..Config::default() }).await;
    // Nothing at all, half a line, and half of the headers.
    for head in ["", "GET /livez HT", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let mut client = house.connect().await;
        client.send(head.as_bytes()).await.unwrap();
        let rest = String::from_utf8(client.until_closed().await).unwrap();
        assert!(!rest.contains("200 OK"), "{head:?}: {rest}");
    }
    // Nor is a second request, on a connection that idles.
    let mut client = house.connect().await;
    client.ask(&Ask::get("/livez")).await.unwrap().expect(200);
    assert_eq!(client.until_closed().await, b"");
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let house = House::with(Config { header_timeout: SOON, ..Config::default() }).await;
    let mut client = house.connect().await;
    client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    // Each byte comes in time, and all of them together never do.
    let mut tick = tokio::time::interval(SOON / 5);
    for _ in 0..10_000 {
        tick.tick().await;
        if client.send(b"X").await.is_err() {
            return;
        }
    }
    panic!("the server never lost patience");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let house = House::with(Config { body_timeout: SOON, ..Config::default() }).await;
    for framing in [("Content-Length", "1000"), ("Transfer-Encoding", "chunked")] {
        let ask = Ask::new("POST", "/v1/executions")
            .header("Content-Type", "application/json")
            .header(framing.0, framing.1);
        let mut client = house.connect().await;
        client.send(&ask.bytes(house.address)).await.unwrap();
        client.send(b"5\r\n{").await.unwrap();
        client.answer(&ask).await.unwrap().refused(408, "body_timeout");
        assert_eq!(client.until_closed().await, b"");
    }
    // Nor is the rest of one that was refused: the answer comes at once, and then the end.
    let ask = Ask::new("POST", "/nowhere").header("Content-Length", "1000");
    let mut client = house.connect().await;
    client.send(&ask.bytes(house.address)).await.unwrap();
    client.answer(&ask).await.unwrap().refused(404, "not_found");
    assert_eq!(client.until_closed().await, b"");
}

#[tokio::test]
async fn body_cut_off_leaves_server_running() {
    let house = House::open().await;
    let ask = Ask::new("POST", "/v1/executions")
        .header("Content-Type", "application/json")
        .header("Content-Length", "1000");
    let mut client = house.connect().await;
    client.send(&ask.bytes(house.address)).await.unwrap();
    client.send(b"{").await.unwrap();
    client.stream.get_mut().shutdown().await.unwrap();
    client.until_closed().await;
    house.get("/livez").await.expect(200);
}

#[tokio::test]
async fn heads_have_limits() {
    let house = House::open().await;
    let wide = Ask::get("/livez").header("X-Wide", &"x".repeat(100 * 1024));
    let long = Ask::get(&format!("/livez?{}", "x".repeat(100 * 1024)));
    let many = (0..101).fold(Ask::get("/livez"), |ask, at| ask.header(&format!("X-{at}"), "x"));
    for ask in [wide, long, many] {
        let mut client = house.connect().await;
        client.send(&ask.bytes(house.address)).await.unwrap();
        let status = client.answer(&ask).await.map(|answer| answer.status);
        assert!(matches!(status, Ok(414 | 431)), "{status:?}");
    }
    let fine = (0..90).fold(Ask::get("/livez"), |ask, at| ask.header(&format!("X-{at}"), "x"));
    house.ask(&fine).await.expect(200);
    for nonsense in
        ["\r\n\r\n\r\n", "GET\r\n\r\n", "\0\0\0\0", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01"]
    {
        let mut client = house.connect().await;
        client.send(nonsense.as_bytes()).await.unwrap();
        client.stream.get_mut().shutdown().await.unwrap();
        let rest = String::from_utf8_lossy(&client.until_closed().await).into_owned();
        assert!(!rest.contains(" 200 ") && !rest.contains(" 500 "), "{nonsense:?}: {rest}");
    }
    house.get("/livez").await.expect(200);
}

#[tokio::test]
async fn there_are_only_so_many_connections() {
    let house = House::with(Config { connections_max: 3, ..Config::default() }).await;
    let mut inside = Vec::new();
    for _ in 0..3 {
        let mut client = house.connect().await;
        client.ask(&Ask::get("/livez")).await.unwrap().expect(200);
        inside.push(client);
    }
    assert_eq!(house.connect().await.until_closed().await, b"", "there is no room");
    for client in &mut inside {
        client.ask(&Ask::get("/livez")).await.unwrap().expect(200);
    }
    let metrics = inside[0].ask(&Ask::get("/metrics")).await.unwrap().text();
    assert!(metrics.contains("waypost_http_connections 3\n"), "{metrics}");
    assert!(metrics.contains("waypost_http_connections_refused_total 1\n"), "{metrics}");
    // Whoever leaves makes room.
    inside.pop();
    while house.connect().await.ask(&Ask::get("/livez")).await.is_err() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_its_replies_is_cut_off() {
    let house = House::with(Config { stall_timeout: SOON, ..Config::default() }).await;
    let mut deaf = house.connect().await;
    let ask = Ask::get("/openapi.json").bytes(house.address);
    // Sooner or later everything in between is full, and then the server gives up.
    while deaf.stream.get_mut().write_all(&ask).await.is_ok() {}
    let metric = "waypost_http_connections 1\n";
    while !house.get("/metrics").await.expect(200).text().contains(metric) {}
}

#[tokio::test]
async fn an_identity_may_ask_only_so_often() {
    let config = Config { requests_per_second: 1, require_keys: true, ..Config::default() };
    let house = House::with(config).await;
    let (one, other) = (
        house.key(waypost_ports::access::Role::Viewer),
        house.key(waypost_ports::access::Role::Viewer),
    );
    let ask = |key: &str| Ask::get("/v1/limits").key(key);
    let mut refused = None;
    for _ in 0..1_000 {
        let reply = house.ask(&ask(&one)).await;
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.unwrap().refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    house.ask(&ask(&other)).await.expect(200);
    house.get("/livez").await.expect(200);
}

#[tokio::test]
async fn a_server_about_to_stop_takes_nothing_new_and_answers_questions() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    house.get("/readyz").await.expect(200);
    house.server.drain();
    let reply = house.get("/readyz").await.refused(503, "draining");
    assert_eq!(reply.header("retry-after"), Some("1"));
    house.get("/livez").await.expect(200);
    for (target, body) in [
        ("/v1/executions", json!({ "workflow": house::QUICK })),
        ("/v1/executions/e/cancel", json!({})),
        ("/v1/executions/e/signals", json!({ "name": "go" })),
        ("/v1/definitions", json!({ "name": "x", "nodes": [{ "id": "a", "type": "noop" }] })),
    ] {
        let reply = house.post(target, &body).await.refused(503, "draining");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    house.get("/v1/executions/e").await.expect(200);
    house.get("/v1/executions").await.expect(200);
    house.server.closing.cancel();
    house.server.tasks.close();
    house.server.tasks.wait().await;
}

/// After the one a client may send the same again; after the other only what is known by its id.
#[test]
fn stopping_and_unanswered_have_different_codes() {
    let problem = |error: EngineError| Problem::from(error).wire();
    let (refused, unknown) = (problem(EngineError::Stopping), problem(EngineError::Unanswered));
    assert_eq!((refused.status, &*refused.code), (503, "draining"));
    assert_eq!((unknown.status, &*unknown.code), (503, "store_unavailable"));
    assert!(unknown.detail.contains("not known"), "{}", unknown.detail);
    assert!(unknown.hint.is_some_and(|hint| hint.contains("Idempotency-Key")));
}

#[tokio::test]
async fn rate_limit_counts_refused_requests() {
    let house = House::with(Config { requests_per_second: 5, ..Config::default() }).await;
    let mut client = house.connect().await;
    let mut limited = 0;
    for _ in 0..100 {
        limited += usize::from(client.ask(&Ask::get("/nowhere")).await.unwrap().status == 429);
    }
    assert!(limited > 0, "requests to unknown paths count");
}
