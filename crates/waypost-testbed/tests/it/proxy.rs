//! The proxy breaks exactly what the test asks for.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use waypost_testbed::{Direction, Mode, Proxy, wait_until};

use crate::PATIENCE;

/// A server that sends back what it gets.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                std::io::copy(&mut reader, &mut &stream).ok();
            });
        }
    });
    port
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, text.as_bytes());
}

#[test]
fn proxy_counts_forwarded_bytes_and_connections() {
    let proxy = Proxy::start(echo());
    let mut stream = connect(&proxy);
    exchange(&mut stream, "hello");
    exchange(&mut connect(&proxy), "again");
    assert_eq!(proxy.accepted(), 2);
    assert_eq!(proxy.bytes(Direction::ToServer), 10);
    assert_eq!(proxy.bytes(Direction::ToClient), 10);
    drop(stream);
    wait_until("connections are closed", PATIENCE, || proxy.open() == 0);
}

#[test]
fn a_cut_closes_and_a_refusal_lasts() {
    let proxy = Proxy::start(echo());
    let mut stream = connect(&proxy);
    exchange(&mut stream, "hello");
    proxy.cut();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    let mut stream = connect(&proxy);
    exchange(&mut stream, "hello");
    proxy.refuse();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    let refused = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.accept();
    exchange(&mut connect(&proxy), "hello");
}

#[test]
fn a_stalled_direction_keeps_its_bytes() {
    let proxy = Proxy::start(echo());
    let mut stream = connect(&proxy);
    exchange(&mut stream, "hello");
    proxy.set(Direction::ToClient, Mode::Stall);
    stream.write_all(b"kept").unwrap();
    wait_until("the server has it", PATIENCE, || proxy.bytes(Direction::ToServer) == 9);
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    proxy.set_both(&Mode::Pass);
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"kept");

    // A cut reaches also those that are stalled.
    proxy.set_both(&Mode::Stall);
    stream.write_all(b"lost").unwrap();
    proxy.cut();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn answers_are_swallowed_after_some_bytes() {
    let proxy = Proxy::start(echo());
    let mut stream = connect(&proxy);
    proxy.set(Direction::ToClient, Mode::SwallowAfter(3));
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 3];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hel");
    wait_until("all went in", PATIENCE, || proxy.bytes(Direction::ToServer) == 5);
    proxy.set(Direction::ToClient, Mode::Swallow);
    stream.write_all(b"?").unwrap();
    wait_until("it is gone", PATIENCE, || proxy.swallowed(Direction::ToClient) == 3);
    assert_eq!(proxy.bytes(Direction::ToClient), 3);
}
