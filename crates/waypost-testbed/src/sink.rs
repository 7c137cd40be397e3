//! An HTTP server that accepts and records every request: what the outside world saw of a test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Bytes that a request's head or body may have.
const PART_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// `GET`, `POST`, ….
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Received {
    /// The first header of this name, which is written in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its `Idempotency-Key`.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }
}

/// A server on a free port of loopback. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Sink {
    port: u16,
    shared: Arc<SinkShared>,
}

#[derive(Debug)]
struct SinkShared {
    state: Mutex<SinkState>,
    changed: Condvar,
}

#[derive(Debug)]
struct SinkState {
    received: Vec<Received>,
    status: u16,
    body: Vec<u8>,
    holding: bool,
    closed: bool,
    connections: Vec<TcpStream>,
}

impl Sink {
    /// Starts one that answers every request with 200 and `{}` at once.
    ///
    /// # Panics
    ///
    /// When there is no free port.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("a listener has an address").port();
        let state = SinkState {
            received: Vec::new(),
            status: 200,
            body: b"{}".to_vec(),
            holding: false,
            closed: false,
            connections: Vec::new(),
        };
        let shared = Arc::new(SinkShared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || serve(&listener, &serving));
        Self { port, shared }
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of a path on it.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Answers from now on with this status and JSON body.
    pub fn answer(&self, status: u16, body: &str) {
        let mut state = self.shared.state.lock();
        state.status = status;
        state.body = body.as_bytes().to_vec();
    }

    /// Takes requests from now on, but answers none before [`Sink::release`].
    pub fn hold(&self) {
        self.shared.state.lock().holding = true;
    }

    /// Answers the held requests, and later ones at once.
    pub fn release(&self) {
        self.shared.state.lock().holding = false;
        self.shared.changed.notify_all();
    }

    /// The requests so far, in the order of arrival.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.state.lock().received.clone()
    }

    /// How often each `Idempotency-Key` came.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for key in self.shared.state.lock().received.iter().filter_map(Received::key) {
            *counts.entry(key.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Waits until this many requests have come in all.
    ///
    /// # Panics
    ///
    /// When they do not come in time.
    pub fn wait_for(&self, count: usize, within: Duration) {
        let until = Instant::now() + within;
        let mut state = self.shared.state.lock();
        while state.received.len() < count {
            let late = self.shared.changed.wait_until(&mut state, until).timed_out();
            let came = state.received.len();
            assert!(!late || came >= count, "{came} of {count} requests came within {within:?}");
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        (state.closed, state.holding) = (true, false);
        for connection in &state.connections {
            connection.shutdown(Shutdown::Both).ok();
        }
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the thread that waits for the next connection.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

fn serve(listener: &TcpListener, shared: &Arc<SinkShared>) {
    for stream in listener.incoming().flatten() {
        let mut state = shared.state.lock();
        if state.closed {
            return;
        }
        state.connections.extend(stream.try_clone());
        drop(state);
        let shared = Arc::clone(shared);
        // An error is the client's connection ending, which is nothing to a sink.
        std::thread::spawn(move || converse(&stream, &shared).ok());
    }
}

/// Answers the requests of one connection, until it ends.
fn converse(stream: &TcpStream, shared: &SinkShared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let mut state = shared.state.lock();
        state.received.push(request);
        shared.changed.notify_all();
        while state.holding {
            shared.changed.wait(&mut state);
        }
        let mut answer = format!(
            "HTTP/1.1 {} Sunk\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            state.status,
            state.body.len()
        )
        .into_bytes();
        answer.extend_from_slice(&state.body);
        drop(state);
        (&*stream).write_all(&answer)?;
    }
    Ok(())
}

/// The next request, or nothing where the connection ends instead.
pub(crate) fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Received>> {
    let first = read_line(reader)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (Some(method), Some(path), Some(_)) = (words.next(), words.next(), words.next()) else {
        return Ok(None);
    };
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Received { method, path, headers, body: Vec::new() };
    let chunked = request.header("transfer-encoding").is_some_and(|how| how.ends_with("chunked"));
    if chunked {
        loop {
            let size = read_line(reader)?;
            let size = size.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).map_err(std::io::Error::other)?;
            let chunk = read_bytes(reader, size)?;
            read_line(reader)?;
            if chunk.is_empty() {
                break;
            }
            request.body.extend(chunk);
        }
    } else if let Some(length) = request.header("content-length") {
        let length = length.parse().map_err(std::io::Error::other)?;
        request.body = read_bytes(reader, length)?;
    }
    Ok(Some(request))
}

fn read_line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    reader.by_ref().take(PART_BYTES_MAX as u64).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn read_bytes(reader: &mut impl Read, length: usize) -> std::io::Result<Vec<u8>> {
    if length > PART_BYTES_MAX {
        return Err(std::io::Error::other("the body is too large"));
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}
