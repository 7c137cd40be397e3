//! A client that costs next to nothing: it shares the machine with the server that it measures.
//!
//! It implements as much HTTP/1.1 as is needed here: one request at a time over a persistent
//! connection, replies with a `Content-Length`. Requests are built once and sent many times.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The longest that a reply may take: longer than the wait that the server is asked for.
const REPLY_MAX: Duration = Duration::from_secs(60);

/// The server to talk to.
#[derive(Clone)]
pub(super) struct ServerAddress {
    address: SocketAddr,
    host: String,
    key: Option<String>,
}

impl ServerAddress {
    pub(super) fn new(url: &str, key: Option<&str>) -> Result<Self> {
        let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.filter(|host| !host.contains('/'));
        let host = host.with_context(|| format!("{url:?} is not a URL like http://host:port"))?;
        let mut addresses =
            host.to_socket_addrs().with_context(|| format!("{url:?} names no host and port"))?;
        let address = addresses.next().with_context(|| format!("{host:?} has no address"))?;
        Ok(Self { address, host: host.to_owned(), key: key.map(str::to_owned) })
    }

    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\n{}\r\n", self.headers()).into_bytes()
    }

    pub(super) fn post(&self, path: &str, media_type: &str, body: &str) -> Vec<u8> {
        self.post_with(path, &format!("Content-Type: {media_type}\r\n"), body)
    }

    /// `more` are further headers, each with the end of its line.
    pub(super) fn post_with(&self, path: &str, more: &str, body: &str) -> Vec<u8> {
        let (headers, length) = (self.headers(), body.len());
        let content = format!("{more}Content-Length: {length}\r\n");
        format!("POST {path} HTTP/1.1\r\n{headers}{content}\r\n{body}").into_bytes()
    }

    fn headers(&self) -> String {
        let key = self.key.as_ref().map(|key| format!("Authorization: Bearer {key}\r\n"));
        format!("Host: {}\r\n{}", self.host, key.unwrap_or_default())
    }

    /// As `connect`, with a socket that buffers little unread data.
    pub(super) async fn connect_with_buffer(&self, bytes: u32) -> Result<TcpStream> {
        let socket = match self.address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_recv_buffer_size(bytes)?;
        let stream = socket.connect(self.address).await;
        stream.with_context(|| format!("cannot connect to {}", self.address))
    }

    /// A connection without anything around it.
    pub(super) async fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A connection for requests.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response.
pub(super) struct HttpReply<'a> {
    pub(super) status: u16,
    pub(super) body: &'a [u8],
}

impl HttpReply<'_> {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.body).into_owned()
    }

    /// The body, if the status is a success.
    fn json(&self) -> Result<serde_json::Value> {
        if !(200..300).contains(&self.status) {
            bail!("the server answers {}: {}", self.status, self.text());
        }
        Ok(serde_json::from_slice(self.body)?)
    }
}

impl Client {
    pub(super) async fn connect(target: &ServerAddress) -> Result<Self> {
        Ok(Self { stream: target.connect().await?, buffer: Vec::with_capacity(4_096) })
    }

    pub(super) async fn deploy(&mut self, target: &ServerAddress, definition: &str) -> Result<()> {
        let deploy = target.post("/v1/definitions", "application/yaml", definition);
        self.ask(&deploy).await?.json().map(drop)
    }

    /// Starts an execution; returns its id.
    pub(super) async fn start(&mut self, request: &[u8]) -> Result<String> {
        let started = self.ask(request).await?.json()?;
        let id = started.get("id").and_then(|id| id.as_str());
        Ok(id.context("the reply names no id")?.to_owned())
    }

    /// Sends a request and reads the reply. After an error the connection is of no more use.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<HttpReply<'_>> {
        let head = tokio::time::timeout(REPLY_MAX, self.exchange(request)).await;
        let head = head.context("the server does not answer")??;
        let body = self.buffer.get(head.bytes..head.bytes + head.body_bytes).unwrap_or_default();
        Ok(HttpReply { status: head.status, body })
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<ReplyHead> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(head) = ReplyHead::find(&self.buffer)?
                && self.buffer.len() >= head.bytes + head.body_bytes
            {
                return Ok(head);
            }
        }
    }
}

/// The head of a reply.
#[derive(PartialEq, Eq, Debug)]
struct ReplyHead {
    status: u16,
    /// Its own length, the empty line included.
    bytes: usize,
    body_bytes: usize,
}

impl ReplyHead {
    /// The head at the beginning of the bytes read; `None` while it is incomplete.
    fn find(read: &[u8]) -> Result<Option<Self>> {
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(read.get(..end).unwrap_or_default())?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.context("this is not a reply of HTTP/1.1")?.parse()?;
        let length = lines.filter_map(|line| line.split_once(':'));
        let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).last();
        let body_bytes = length.context("the reply does not say its length")?.1.trim().parse()?;
        Ok(Some(Self { status, bytes: end + 4, body_bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_long_the_reply_is() {
        let whole = b"HTTP/1.1 201 Created\r\nA: b\r\ncontent-LENGTH: 12\r\n\r\n{\"id\"";
        let head = ReplyHead { status: 201, bytes: whole.len() - 5, body_bytes: 12 };
        assert_eq!(ReplyHead::find(whole).unwrap(), Some(head));
        assert_eq!(ReplyHead::find(&whole[..30]).unwrap(), None, "the rest is still to come");
        assert!(ReplyHead::find(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_server_is_named_by_host_and_port() {
        for url in ["http://127.0.0.1:7070", "http://127.0.0.1:7070/", "http://[::1]:1"] {
            assert!(ServerAddress::new(url, None).is_ok(), "{url}");
        }
        for url in ["https://127.0.0.1:7070", "127.0.0.1:7070", "http://127.0.0.1:1/v1"] {
            assert!(ServerAddress::new(url, None).is_err(), "{url}");
        }
    }
}
