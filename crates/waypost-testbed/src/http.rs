//! The HTTP of the sink, the stub and the bucket: a listener that reads requests and sends the responses that its
//! owner chooses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Bytes that a request's head or body may have.
const PART_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    /// The first header of this name, which is written in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its `Idempotency-Key`.
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }
}

/// A response.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl From<(u16, String)> for Response {
    fn from((status, body): (u16, String)) -> Self {
        let headers = vec![("Content-Type", "application/json".to_owned())];
        Self { status, headers, body: body.into_bytes() }
    }
}

/// A server on a free port of loopback. Its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct HttpListener {
    pub(crate) port: u16,
    /// `None` when it is over.
    connections: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl HttpListener {
    /// Starts one. `respond` may block; it returns a response, such as a status and a JSON body, or
    /// `None` to end the connection.
    pub(crate) fn start<R, T>(respond: R) -> Self
    where
        R: Fn(Received) -> Option<T> + Clone + Send + 'static,
        T: Into<Response>,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("a listener has an address").port();
        let connections = Arc::new(Mutex::new(Some(Vec::new())));
        let open = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                match &mut *open.lock() {
                    Some(open) => open.extend(stream.try_clone()),
                    None => return,
                }
                let respond = respond.clone();
                std::thread::spawn(move || {
                    // An error is the client's connection ending.
                    converse(&stream, respond).ok();
                    stream.shutdown(Shutdown::Both).ok();
                });
            }
        });
        Self { port, connections }
    }

    /// The address of a path on it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Closes every connection, and takes no more.
    pub(crate) fn close(&self) {
        let Some(connections) = self.connections.lock().take() else { return };
        for connection in connections {
            connection.shutdown(Shutdown::Both).ok();
        }
        // Wakes the thread that waits for the next connection.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        self.close();
    }
}

/// Answers the requests of one connection, until it ends.
fn converse<T: Into<Response>>(
    stream: &TcpStream,
    respond: impl Fn(Received) -> Option<T>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let is_head = request.method == "HEAD";
        let Some(response) = respond(request) else { return Ok(()) };
        let Response { status, headers, body } = response.into();
        let mut head = format!("HTTP/1.1 {status} Test\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = (head + "\r\n").into_bytes();
        if !is_head {
            bytes.extend(body);
        }
        (&*stream).write_all(&bytes)?;
    }
    Ok(())
}

/// The next request, or nothing where the connection ends instead.
fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Received>> {
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
