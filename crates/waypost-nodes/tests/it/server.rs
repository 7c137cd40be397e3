//! A tiny HTTP server: answers from a function, remembers what it was asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

pub(crate) enum Reply {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes, then nothing, until the client goes away.
    Hang(Vec<u8>),
    /// Sends the first bytes, then the second again and again until the client goes away.
    Endless(Vec<u8>, Vec<u8>),
}

/// A whole response with a length.
pub(crate) fn reply(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes = head(status, headers);
    bytes.truncate(bytes.len() - 2);
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    bytes.extend(body);
    Reply::Bytes(bytes)
}

/// The head of a response that ends with its connection.
pub(crate) fn head(status: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    gone: mpsc::UnboundedReceiver<()>,
    asked: mpsc::UnboundedReceiver<()>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (gone_tx, gone) = mpsc::unbounded_channel();
        let (asked_tx, asked) = mpsc::unbounded_channel();
        let seen = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            let respond = Arc::new(respond);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, respond) = (Arc::clone(&seen), Arc::clone(&respond));
                let (gone, asked) = (gone_tx.clone(), asked_tx.clone());
                connections.spawn(async move {
                    serve(stream, &seen, &asked, &*respond).await;
                    gone.send(()).ok();
                });
            }
        });
        Self { address, requests, gone, asked, _tasks: tasks }
    }

    /// A server that always answers the same.
    pub(crate) async fn fixed(
        status: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Self {
        let Reply::Bytes(bytes) = reply(status, headers, body) else { unreachable!() };
        Self::start(move |_| Reply::Bytes(bytes.clone())).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request so far.
    pub(crate) fn request(&self) -> Request {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    /// Waits until a request has come.
    pub(crate) async fn asked(&mut self) {
        self.asked.recv().await.unwrap();
    }

    /// Waits until a connection has ended.
    pub(crate) async fn connection_ended(&mut self) {
        self.gone.recv().await.unwrap();
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    asked: &mpsc::UnboundedSender<()>,
    respond: &(dyn Fn(&Request) -> Reply + Send + Sync),
) {
    let Some(request) = read_request(&mut stream).await else { return };
    let reply = respond(&request);
    seen.lock().unwrap().push(request);
    asked.send(()).ok();
    answer(&mut stream, reply).await;
}

pub(crate) async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), reply: Reply) {
    match reply {
        Reply::Bytes(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        }
        Reply::Hang(bytes) => {
            stream.write_all(&bytes).await.ok();
            while let Ok(1..) = stream.read(&mut [0; 64]).await {}
        }
        Reply::Endless(first, again) => {
            stream.write_all(&first).await.ok();
            while stream.write_all(&again).await.is_ok() {}
        }
    }
}

pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let mut request = parse_head(std::str::from_utf8(&bytes[..end]).unwrap());
            let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
            while bytes.len() < end + 4 + length {
                let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
                bytes.extend(&chunk[..count]);
            }
            request.body = String::from_utf8(bytes.split_off(end + 4)).unwrap();
            return Some(request);
        }
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        bytes.extend(&chunk[..count]);
    }
}

fn parse_head(head: &str) -> Request {
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, target) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Request { method, target, headers, body: String::new() }
}
