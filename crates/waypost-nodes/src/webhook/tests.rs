//! Requests to endpoints on loopback, and URLs that are refused before any request.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use waypost_core::time::{Millis, Timestamp};
use waypost_ports::outbox::SigningSecret;
use waypost_ports::webhook::DELIVERY_TIMEOUT;

use super::*;

/// Answers one request with this text; returns the request.
fn answer_once(response: &'static str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?a=1", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"{\"a\":1}") {
            let read = stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the request ended early");
            request.extend_from_slice(&chunk[..read]);
        }
        stream.write_all(response.as_bytes()).unwrap();
        sender.send(String::from_utf8(request).unwrap()).unwrap();
    });
    (url, received)
}

fn webhooks(allowed: &[&str]) -> HttpWebhooks {
    let egress = Egress::new(allowed.iter().map(|entry| entry.parse().unwrap()));
    HttpWebhooks::new(egress, DELIVERY_TIMEOUT)
}

fn request(url: &str) -> WebhookRequest {
    WebhookRequest {
        url: url.into(),
        id: "msg_a_1_2_00000003".to_owned(),
        at: Timestamp(1_614_265_330_999),
        body: "{\"a\":1}".to_owned(),
        secrets: vec![SigningSecret(vec![1]), SigningSecret(vec![2])],
    }
}

#[tokio::test]
async fn message_is_posted_with_its_headers() {
    let (url, received) = answer_once("HTTP/1.1 204 No Content\r\n\r\n");
    let sent = webhooks(&["127.0.0.1"]).send(request(&url)).await;
    assert_eq!(sent, Delivered::Yes { status: 204 });
    let received = received.recv().unwrap();
    assert!(received.starts_with("POST /hook?a=1 HTTP/1.1\r\n"), "{received}");
    let has = |header: &str| received.lines().any(|line| line == header);
    assert!(has("webhook-id: msg_a_1_2_00000003"), "{received}");
    assert!(has("webhook-timestamp: 1614265330"), "{received}");
    assert!(has("content-type: application/json"), "{received}");
    let signed = received.lines().find_map(|line| line.strip_prefix("webhook-signature: "));
    let signed = signed.expect("it is signed");
    assert_eq!(signed.split(' ').filter(|one| one.starts_with("v1,")).count(), 2, "{signed}");
}

#[tokio::test]
async fn statuses_are_told_apart() {
    let no = |status, retry_after, reason: &str| Delivered::No {
        status: Some(status),
        retry_after,
        reason: reason.to_owned(),
    };
    let table = [
        ("HTTP/1.1 410 Gone\r\n\r\n", Delivered::Gone),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
            no(302, None, "answered 302 Found; redirects are not followed"),
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n\r\n",
            no(503, Some(Millis(7_000)), "answered 503 Service Unavailable"),
        ),
    ];
    for (response, expected) in table {
        let (url, _received) = answer_once(response);
        let sent = webhooks(&["127.0.0.1"]).send(request(&url)).await;
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn refused_urls_are_never_called() {
    let table = [
        ("http://example.com/", &[][..], "https"),
        ("http://hooks.internal/", &["10.0.0.0/8"], "https"),
        ("https://127.0.0.1/", &[], "denied"),
        ("http://127.0.0.1:80/", &["127.0.0.1:81"], "denied"),
        ("https://user:pass@example.com/", &[], "password"),
        ("ftp://example.com/", &[], "http"),
        ("https://example.com/#part", &[], "fragment"),
        ("example", &[], "URL"),
    ];
    for (url, allowed, word) in table {
        let webhooks = webhooks(allowed);
        let reason = webhooks.refuse(url).expect(url);
        assert!(reason.contains(word), "{url}: {reason}");
        let sent = webhooks.send(request(url)).await;
        assert_eq!(sent.reason(), Some(reason.as_str()), "{url}");
    }
    let allowed = webhooks(&["hooks.internal:8080", "127.0.0.1"]);
    for url in ["http://hooks.internal:8080/", "http://127.0.0.1:9/", "https://example.com/a?b=c"] {
        assert_eq!(allowed.refuse(url), None, "{url}");
    }
}
