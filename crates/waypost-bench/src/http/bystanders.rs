//! Bystanders: idle connections that must not slow down active ones: readers of streams on which
//! nothing happens, connections whose requests never end, and clients that request much and do not
//! read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::client::{Client, ServerAddress};
use crate::flows;

/// How often a slow connection sends a byte.
const DRIP_EVERY: Duration = Duration::from_secs(3);
/// Bystanders that come in at once.
const COMING_MAX: usize = 32;
/// Events of the log that slow readers request, and bytes of each.
const LARGE_EVENTS: u64 = 50;
const LARGE_EVENT_BYTES: u64 = 1_000_000;
/// Bytes that a slow reader's socket buffers, so that the rest stays with the server.
const SLOW_READER_BUFFER: u32 = 16 * 1024;
/// The last event of an execution that waits for a signal.
const PARKED: &[u8] = b"RunPaused";

/// How many of each kind.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// Then once more with so many readers of streams on which nothing happens
    #[arg(long, default_value_t = 0)]
    pub(super) idle_streams: usize,
    /// Then once more with so many connections whose requests never end
    #[arg(long, default_value_t = 0)]
    pub(super) slow_connections: usize,
    /// Then once more with so many clients that ask for a log of 1 MB events and do not read it
    #[arg(long, default_value_t = 0)]
    pub(super) slow_readers: usize,
}

impl Crowd {
    pub(super) fn is_any(self) -> bool {
        self.idle_streams + self.slow_connections + self.slow_readers > 0
    }
}

/// All bystanders. Dropping this disconnects them.
pub(super) struct Bystanders {
    tasks: JoinSet<()>,
    seen: Arc<BystanderCounts>,
    /// Connections whose replies are never read.
    readers: Vec<TcpStream>,
}

/// Their observations of the server.
#[derive(Default)]
pub(super) struct BystanderCounts {
    streams_lost: AtomicU64,
    slow_closed: AtomicU64,
}

impl BystanderCounts {
    /// Streams that ended though nothing had happened on them.
    pub(super) fn streams_lost(&self) -> u64 {
        self.streams_lost.load(Ordering::Relaxed)
    }

    /// Slow connections that the server lost patience with, each replaced by a new one.
    pub(super) fn slow_closed(&self) -> u64 {
        self.slow_closed.load(Ordering::Relaxed)
    }
}

impl Bystanders {
    /// Lets them in, and returns when all of them are there and idle.
    pub(super) async fn gather(target: &ServerAddress, crowd: Crowd) -> Result<Self> {
        let Crowd { idle_streams, slow_connections, slow_readers } = crowd;
        let (mut tasks, seen) = (JoinSet::new(), Arc::new(BystanderCounts::default()));
        for stream in open_streams(target, idle_streams).await? {
            tasks.spawn(read_on(stream, Arc::clone(&seen)));
        }
        for number in 0..slow_connections {
            let stream = begin_slowly(target).await?;
            let offset = DRIP_EVERY.mul_f64(number as f64 / slow_connections as f64);
            tasks.spawn(drip(target.clone(), stream, offset, Arc::clone(&seen)));
        }
        let readers = open_readers(target, slow_readers).await?;
        Ok(Self { tasks, seen, readers })
    }

    /// Sends them away.
    pub(super) async fn leave(mut self) -> Arc<BystanderCounts> {
        self.tasks.shutdown().await;
        drop(self.readers);
        self.seen
    }
}

/// Starts so many executions that wait for a signal, and opens the stream of each.
async fn open_streams(target: &ServerAddress, count: usize) -> Result<Vec<TcpStream>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    Client::connect(target).await?.deploy(target, flows::PARKED).await?;
    let start =
        target.post("/v1/executions", "application/json", "{\"workflow\":\"bench-parked\"}");
    let opening = (0..count).map(|_| open_stream(target, &start));
    stream::iter(opening).buffer_unordered(COMING_MAX).try_collect().await
}

/// Creates a log of large events, and requests pages and streams of it that are not read.
async fn open_readers(target: &ServerAddress, count: usize) -> Result<Vec<TcpStream>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut client = Client::connect(target).await?;
    client.deploy(target, &flows::payload(LARGE_EVENTS)).await?;
    let input = flows::payload_input(LARGE_EVENT_BYTES)?;
    let start = format!("{{\"workflow\":\"bench-payload\",\"input\":{}}}", input.text());
    let start = target.post("/v1/executions?wait=60s", "application/json", &start);
    let id = client.start(&start).await?;
    let paths = ["events?limit=1000", "stream", "nodes", "output"];
    let paths = paths.map(|path| target.get(&format!("/v1/executions/{id}/{path}")));
    let mut readers = Vec::with_capacity(count);
    for request in paths.iter().cycle().take(count) {
        let mut reader = target.connect_with_buffer(SLOW_READER_BUFFER).await?;
        reader.write_all(request).await?;
        readers.push(reader);
    }
    Ok(readers)
}

async fn open_stream(target: &ServerAddress, start: &[u8]) -> Result<TcpStream> {
    let id = Client::connect(target).await?.start(start).await?;
    let mut stream = target.connect().await?;
    stream.write_all(&target.get(&format!("/v1/executions/{id}/stream"))).await?;
    let mut read = Vec::new();
    while !read.windows(PARKED.len()).any(|window| window == PARKED) {
        if stream.read_buf(&mut read).await? == 0 {
            bail!("a stream ended at once: {}", String::from_utf8_lossy(&read));
        }
    }
    Ok(stream)
}

/// Reads a stream for as long as there is one.
async fn read_on(mut stream: TcpStream, seen: Arc<BystanderCounts>) {
    let mut signs_of_life = [0; 256];
    while stream.read(&mut signs_of_life).await.is_ok_and(|read| read > 0) {}
    seen.streams_lost.fetch_add(1, Ordering::Relaxed);
}

/// A connection with the beginning of a request.
async fn begin_slowly(target: &ServerAddress) -> Result<TcpStream> {
    let mut stream = target.connect().await?;
    let request = target.get("/livez");
    // All but the empty line that would end it, and a header that has only begun.
    stream.write_all(request.get(..request.len() - 2).unwrap_or_default()).await?;
    stream.write_all(b"X-Slow: ").await?;
    Ok(stream)
}

/// Sends a byte now and then, and comes back when the server closes the connection.
async fn drip(
    target: ServerAddress,
    mut stream: TcpStream,
    offset: Duration,
    seen: Arc<BystanderCounts>,
) {
    tokio::time::sleep(offset).await;
    loop {
        tokio::time::sleep(DRIP_EVERY).await;
        if stream.write_all(b"x").await.is_ok() && is_open(&stream) {
            continue;
        }
        seen.slow_closed.fetch_add(1, Ordering::Relaxed);
        match begin_slowly(&target).await {
            Ok(fresh) => stream = fresh,
            Err(_) => return,
        }
    }
}

/// A server that sends anything in reply to half a request is closing the connection.
fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0; 16]);
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
