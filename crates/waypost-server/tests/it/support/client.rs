//! HTTP/1.1 over a plain socket. Paths, headers and bodies are sent as a test writes them, however
//! odd: a proper client would set them right.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A test that hangs fails after this.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Ask {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, headers: Vec::new(), body: None }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub(crate) fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target).json(body)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a key, where there is one.
    pub(crate) fn key(self, key: &str) -> Self {
        if key.is_empty() { self } else { self.header("Authorization", &format!("Bearer {key}")) }
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").body(body.to_string())
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// As it is sent. `Host` and `Content-Length` are added where the test does not say otherwise.
    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !self.has("host") {
            text.push_str(&format!("Host: {address}\r\n"));
        }
        let framed = self.has("content-length") || self.has("transfer-encoding");
        if let (Some(body), false) = (&self.body, framed) {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        [text.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }
}

/// A reply.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    /// The code of a problem.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Fails unless it is this problem.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.code(), code, "{}", answer.text());
        answer
    }
}

/// A connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: BufReader<S>,
    address: SocketAddr,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), address)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S, address: SocketAddr) -> Self {
        Self { stream: BufReader::new(stream), address }
    }

    /// Sends a request and reads its reply.
    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<Answer> {
        self.send(&ask.bytes(self.address)).await?;
        self.answer(ask).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        with_timeout(self.stream.get_mut().write_all(bytes)).await
    }

    /// Reads the reply to a request.
    pub(crate) async fn answer(&mut self, ask: &Ask) -> io::Result<Answer> {
        with_timeout(async {
            let mut answer = self.head().await?;
            if ask.method != "HEAD" {
                answer.body = self.body(&answer).await?;
            }
            Ok(answer)
        })
        .await
    }

    /// Reads the head of a reply.
    pub(crate) async fn head(&mut self) -> io::Result<Answer> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not a reply: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None => return Ok(Answer { status, headers, body: Vec::new() }),
            }
        }
    }

    async fn body(&mut self, answer: &Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if let Some(length) = answer.header("content-length") {
            body.resize(length.parse().map_err(io::Error::other)?, 0);
            self.stream.read_exact(&mut body).await?;
        } else if answer.header("transfer-encoding").is_some() {
            while let Some(piece) = self.chunk().await? {
                body.extend(piece);
            }
        }
        Ok(body)
    }

    /// Reads a piece of a body whose length nobody knew; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.line().await?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let mut piece = vec![0; size + 2];
        self.stream.read_exact(&mut piece).await?;
        piece.truncate(size);
        Ok((size > 0).then_some(piece))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Waits until the other side closes; gives what it still said.
    pub(crate) async fn until_closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end, too.
        drop(with_timeout(self.stream.read_to_end(&mut rest)).await);
        rest
    }
}

pub(crate) async fn with_timeout<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.expect("nothing happens")
}
