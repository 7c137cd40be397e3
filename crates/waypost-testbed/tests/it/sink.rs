//! The sink takes everything, counts keys, and answers as the test says.

use std::io::{Read, Write};
use std::net::TcpStream;

use waypost_testbed::Sink;

use crate::PATIENCE;

fn send(stream: &mut TcpStream, key: &str, body: &str) {
    let length = body.len();
    write!(
        stream,
        "POST /pay?x=1 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
}

fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"}") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn requests_are_recorded_and_counted_by_key() {
    let sink = Sink::start();
    let mut stream = TcpStream::connect(("127.0.0.1", sink.port())).unwrap();
    for key in ["a", "b", "a"] {
        send(&mut stream, key, "{\"n\": 1}");
        assert!(answer(&mut stream).starts_with("HTTP/1.1 200 "));
    }
    let counts = sink.counts();
    assert_eq!((counts["a"], counts["b"]), (2, 1));
    let first = &sink.received()[0];
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/pay?x=1"));
    assert_eq!((first.key(), first.body.as_slice()), (Some("a"), &b"{\"n\": 1}"[..]));
}

#[test]
fn a_body_in_chunks_is_put_together() {
    let sink = Sink::start();
    let mut stream = TcpStream::connect(("127.0.0.1", sink.port())).unwrap();
    write!(
        stream,
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
    )
    .unwrap();
    answer(&mut stream);
    assert_eq!(sink.received()[0].body, b"abc0123456789");
}

#[test]
fn answers_wait_until_they_are_released() {
    let sink = Sink::start();
    sink.hold();
    sink.answer(503, "{\"busy\": true}");
    let mut stream = TcpStream::connect(("127.0.0.1", sink.port())).unwrap();
    send(&mut stream, "a", "");
    sink.wait_for(1, PATIENCE);
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    sink.release();
    let answer = answer(&mut stream);
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("{\"busy\": true}"),
        "{answer}"
    );
}
