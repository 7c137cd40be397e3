//! A body of any length on its way from its connection to a thread that blocks, a few pieces at a time.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{HeaderMap, header};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::body::check_encoding;
use crate::problem::{Code, Problem};
use crate::server::Server;

/// Pieces between the two sides. A piece is what was read from the connection at once.
const PIECES: usize = 4;

/// Bytes a second below which an upload is too slow.
pub const UPLOAD_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;

/// The body of an upload, for the one who takes it.
#[derive(Clone, Debug, Default)]
pub struct Upload(Arc<Mutex<Option<UploadReader>>>);

impl Upload {
    /// The two sides of an upload.
    pub(super) fn new() -> (mpsc::Sender<Option<Bytes>>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES);
        let reader = UploadReader { pieces, current: Bytes::new(), is_complete: false };
        (sender, Self(Arc::new(Mutex::new(Some(reader)))))
    }

    /// The body, once.
    pub fn take(&self) -> Option<UploadReader> {
        self.0.lock().take()
    }
}

/// Reads an upload, on a thread that may block.
#[derive(Debug)]
pub struct UploadReader {
    /// `None` is the end: a channel that is closed without it has broken off.
    pieces: mpsc::Receiver<Option<Bytes>>,
    current: Bytes,
    is_complete: bool,
}

impl Read for UploadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.is_complete {
            match self.pieces.blocking_recv() {
                Some(Some(piece)) => self.current = piece,
                Some(None) => self.is_complete = true,
                None => return Err(io::Error::other("the body broke off")),
            }
        }
        let bytes = self.current.len().min(buffer.len());
        let read = self.current.split_to(bytes);
        buffer[..bytes].copy_from_slice(&read);
        Ok(bytes)
    }
}

/// The length of a body, where it is announced.
pub(super) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(super) fn too_large(limit: u64) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("a body may have at most {limit} bytes"))
        .hint("GET /v1/limits lists all limits")
}

/// Rejects an upload before a byte of it is read. It is never in memory as a whole.
pub(super) fn check(server: &Server, headers: &HeaderMap) -> Result<Bytes, Problem> {
    check_encoding(headers)?;
    let limit = server.config.blob_bytes_max;
    match announced(headers) {
        Some(length) if length > limit => Err(too_large(limit)),
        _ => Ok(Bytes::new()),
    }
}

/// Passes a body on until it ends, or its reader wants no more of it.
pub(super) async fn pass_on(
    body: &mut Incoming,
    pieces: mpsc::Sender<Option<Bytes>>,
    patience: Duration,
) -> Result<(), Problem> {
    let (mut received, mut waited) = (0, Duration::ZERO);
    loop {
        let began = Instant::now();
        let frame = tokio::time::timeout(patience, body.frame()).await;
        // Only the time that the sender takes: a slow store is not its fault.
        waited += began.elapsed();
        let in_time = patience + Duration::from_secs(received / UPLOAD_BYTES_PER_SECOND_MIN);
        let piece = match frame {
            Ok(Some(Ok(frame))) if waited <= in_time => frame.into_data().ok(),
            Ok(Some(Ok(_))) | Err(_) => return Err(too_slow(patience)),
            Ok(Some(Err(_))) => return Err(Problem::new(Code::BadRequest, "the body broke off")),
            Ok(None) => {
                // Its reader may have failed meanwhile.
                pieces.send(None).await.unwrap_or_default();
                return Ok(());
            }
        };
        let Some(piece) = piece else { continue };
        received += piece.len() as u64;
        if pieces.send(Some(piece)).await.is_err() {
            return Ok(());
        }
    }
}

fn too_slow(patience: Duration) -> Problem {
    let (rate, seconds) = (UPLOAD_BYTES_PER_SECOND_MIN / 1024, patience.as_secs());
    let detail = format!("an upload must come at {rate} KiB a second or faster, after {seconds} s");
    Problem::new(Code::BodyTimeout, detail)
}
