//! `api-call`: servers that mean ill, or just too well.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use waypost_core::time::Millis;
use waypost_nodes::Settings;

use crate::server::{Reply, Server, answer, head, read_request, reply};
use crate::support::{call_err, call_ok, handler, run_with, settings, task};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn an_announced_length_beyond_the_cap_is_refused_at_once() {
    let mut server = Server::start(|_| {
        Reply::Hang(b"HTTP/1.1 200 OK\r\ncontent-length: 67108865\r\n\r\n".to_vec())
    })
    .await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("too_large", false));
    server.connection_ended().await;
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_cap() {
    let chunk = [b"10000\r\n".to_vec(), vec![b'x'; 0x10000], b"\r\n".to_vec()].concat();
    let mut server = Server::start(move |_| {
        Reply::Endless(head("200 OK", &[("transfer-encoding", "chunked")]), chunk.clone())
    })
    .await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("too_large", false));
    server.connection_ended().await;
}

#[tokio::test]
async fn the_cap_can_be_lower_and_is_exact() {
    let server = Server::fixed("200 OK", &[], "x".repeat(1000)).await;
    let output = call_ok(json!({"url": server.url("/"), "responseBytesMax": 1000})).await;
    assert_eq!(output["body"].as_str().unwrap().len(), 1000);
    let failure = call_err(json!({"url": server.url("/"), "responseBytesMax": 999})).await;
    assert_eq!(failure.kind, "too_large");
    assert!(failure.message.contains("999"), "{}", failure.message);
}

#[tokio::test]
async fn text_that_grows_too_large_as_json_is_refused() {
    let server = Server::fixed("200 OK", &[], "\u{1}".repeat(11 * MIB)).await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!(failure.kind, "too_large");
}

#[tokio::test]
async fn compressed_bodies_are_read() {
    for (encoding, bytes) in [("gzip", gzip(b"hello")), ("deflate", zlib(b"hello"))] {
        let server = Server::fixed("200 OK", &[("content-encoding", encoding)], bytes).await;
        let output = call_ok(json!({"url": server.url("/")})).await;
        assert_eq!(output["body"], "hello", "{encoding}");
        assert!(server.request().header("accept-encoding").unwrap().contains(encoding));
    }
}

#[tokio::test]
async fn a_decompression_bomb_is_cut_at_the_cap() {
    let zeros = vec![b'0'; 200 * MIB];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros))] {
        assert!(bomb.len() < MIB, "{encoding}: small on the wire");
        let server = Server::fixed("200 OK", &[("content-encoding", encoding)], &bomb).await;
        let failure = call_err(json!({"url": server.url("/")})).await;
        assert_eq!((&*failure.kind, failure.retryable), ("too_large", false), "{encoding}");
        // The body of a failed call is no way around it either.
        let server = Server::fixed("500 Oops", &[("content-encoding", encoding)], &bomb).await;
        let failure = call_err(json!({"url": server.url("/")})).await;
        assert!(failure.details.unwrap().bytes() < 10_000, "{encoding}");
    }
}

#[tokio::test]
async fn broken_content_encoding_is_a_permanent_failure_with_a_name() {
    let whole = gzip(b"hello hello hello hello hello hello");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    for (encoding, body) in [
        ("gzip", whole[..whole.len() - 9].to_vec()),
        ("gzip", whole[..4].to_vec()),
        ("gzip", flipped),
        ("deflate", zlib(b"hello hello hello")[..6].to_vec()),
        ("deflate", b"this is not zlib".to_vec()),
        ("br", b"this is not brotli".to_vec()),
        ("br", vec![0x1b, 0x0e]),
        ("zstd", b"whatever it is".to_vec()),
        ("nonsense", b"\xff\xfe".to_vec()),
        ("gzip, gzip", whole.clone()),
        ("GZIP", whole.clone()),
    ] {
        let server = Server::fixed("200 OK", &[("content-encoding", encoding)], &body).await;
        let failure = call_err(json!({"url": server.url("/")})).await;
        let shown =
            (&*failure.kind, failure.retryable, failure.message.contains("Content-Encoding"));
        assert_eq!(shown, ("invalid_response", false, true), "{encoding}: {}", failure.message);
    }
    // A connection that breaks off is another matter, and worth another try.
    let cut = [head("200 OK", &[("content-encoding", "gzip"), ("content-length", "100")]), whole];
    let cut = cut.concat();
    let server = Server::start(move |_| Reply::Bytes(cut.clone())).await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("connection", true), "{}", failure.message);
}

#[tokio::test]
async fn encoding_of_a_body_that_does_not_come_does_not_matter() {
    for encoding in ["gzip", "br", "deflate", "identity", "zstd"] {
        let headers = [("content-encoding", encoding)];
        for (method, status) in [("HEAD", "200 OK"), ("GET", "204 No Content"), ("GET", "200 OK")] {
            let server = Server::fixed(status, &headers, "").await;
            let output = call_ok(json!({"url": server.url("/"), "method": method})).await;
            assert_eq!(output["body"], json!(null), "{encoding} {method} {status}");
        }
    }
    let server = Server::fixed("200 OK", &[("content-encoding", "identity")], "plain").await;
    assert_eq!(call_ok(json!({"url": server.url("/")})).await["body"], "plain");
}

#[tokio::test]
async fn half_of_a_surrogate_pair_in_a_response_is_named() {
    let json = [("content-type", "application/json")];
    let server = Server::fixed("200 OK", &json, r#"{"a": "\ud800"}"#).await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("invalid_response", false));
    assert!(failure.message.contains(r"\ud800 at line 1 column 8"), "{}", failure.message);
}

#[tokio::test]
async fn a_corrupt_compression_is_a_failure() {
    let headers = [("content-encoding", "gzip")];
    let server = Server::fixed("200 OK", &headers, "this is not gzip at all").await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("invalid_response", false), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_never_finishes_is_left_after_the_default_time() {
    for start in
        [&b""[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow"]
    {
        let mut server = Server::start(|_| Reply::Hang(start.to_vec())).await;
        let settings = Settings { call_timeout: Millis(50), ..settings() };
        let task = task("api-call", &json!({"url": server.url("/")}));
        let failure = run_with(&settings, task).await.unwrap_err();
        assert_eq!((&*failure.kind, failure.retryable), ("timeout", true));
        server.connection_ended().await;
    }
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let line = b"x-more: and more\r\n".repeat(100);
    let mut server =
        Server::start(move |_| Reply::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), line.clone())).await;
    let failure = call_err(json!({"url": server.url("/")})).await;
    assert_eq!(failure.kind, "connection");
    server.connection_ended().await;
}

#[tokio::test]
async fn a_body_with_a_wrong_status_line_is_no_answer() {
    let server = Server::start(|_| Reply::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec())).await;
    assert_eq!(call_err(json!({"url": server.url("/")})).await.kind, "connection");
    let server = Server::start(|_| reply("204 No Content", &[], "")).await;
    assert_eq!(call_ok(json!({"url": server.url("/")})).await["body"], json!(null));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The stub answers no call before all are open. A client that queued some of them would run into its
/// timeout.
#[tokio::test]
async fn five_hundred_calls_are_open_at_once() {
    const CALLS: usize = 500;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let stub = tokio::spawn(async move {
        let mut open = Vec::new();
        while open.len() < CALLS {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await.unwrap();
            open.push(stream);
        }
        for mut stream in open {
            answer(&mut stream, reply("200 OK", &[], "ok")).await;
        }
    });
    let handler = handler(&settings(), "api-call");
    let config = json!({ "url": url });
    let calls =
        (0..CALLS).map(|_| handler.run(task("api-call", &config), CancellationToken::new()));
    let outcomes = join_all(calls).await;
    let failed = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
    assert_eq!(failed, None, "not all calls were open at once");
    stub.await.unwrap();
}
