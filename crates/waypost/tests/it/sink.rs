//! An HTTP server that fails at random and remembers every request by its idempotency key.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What the sink saw under one key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Requests in all.
    pub(crate) requests: u64,
    /// Those it answered with 200.
    pub(crate) accepted: u64,
}

/// A running sink; it serves until the process ends.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

impl Sink {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let (shared, dice) = (Arc::clone(&seen), Arc::new(AtomicU64::new(1)));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, dice) = (Arc::clone(&shared), Arc::clone(&dice));
                // A client that was killed leaves a broken connection behind: nothing to do.
                std::thread::spawn(move || serve(stream?, &seen, &dice));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self, key: &str) -> Seen {
        self.seen.lock().unwrap().get(key).copied().unwrap_or_default()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.seen.lock().unwrap().keys().cloned().collect()
    }
}

/// Answers one request: `/no` always 400; others 500, a dropped connection, or 200 by chance.
fn serve(
    mut stream: TcpStream,
    seen: &Mutex<BTreeMap<String, Seen>>,
    dice: &AtomicU64,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let refuse = line.contains("/no");
    let (mut key, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if lower.starts_with("idempotency-key:") {
            key = line["idempotency-key:".len()..].trim().to_owned();
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let roll = dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) >> 33;
    let status = match roll % 10 {
        _ if refuse => "400 Bad Request",
        0..3 => "500 Internal Server Error",
        3 => "dropped",
        _ => "200 OK",
    };
    let mut seen = seen.lock().unwrap();
    let entry = seen.entry(key).or_default();
    entry.requests += 1;
    entry.accepted += u64::from(status == "200 OK");
    drop(seen);
    if status == "dropped" {
        return Ok(());
    }
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\
         connection: close\r\n\r\n{{\"sink\": true}}"
    )
}
