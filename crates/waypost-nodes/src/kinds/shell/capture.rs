//! Captured output: the start of a stream up to a cap, and its last lines for the case of failure.

use tokio::io::{AsyncRead, AsyncReadExt};
use waypost_ports::handler::Marks;

/// Bytes of a stream's end that go into the details of a failure.
const TAIL_BYTES: usize = 4 * 1024;
const CHUNK_BYTES: usize = 8 * 1024;

/// The stored head and tail of a stream. Both take a bounded amount of memory.
pub(super) struct Capture {
    head: Vec<u8>,
    head_bytes_max: usize,
    tail: Vec<u8>,
    truncated: bool,
}

impl Capture {
    pub(super) fn new(head_bytes_max: usize) -> Self {
        Self { head: Vec::new(), head_bytes_max, tail: Vec::new(), truncated: false }
    }

    /// Reads a stream to its end, so that the writer is never blocked by output that is not stored.
    /// Whatever comes is a sign of life.
    pub(super) async fn drain(&mut self, stream: Option<impl AsyncRead + Unpin>, marks: &Marks) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; CHUNK_BYTES];
        // An error of a pipe means that it is gone, which counts as its end.
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            marks.beat();
            self.keep(chunk.get(..count).unwrap_or_default());
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.head_bytes_max - self.head.len();
        let (kept, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(kept);
        self.truncated |= !rest.is_empty();
        self.tail.extend_from_slice(bytes);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
    }

    /// Was more written than is stored?
    pub(super) fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The start of the stream. Bytes that are not UTF-8 become replacement characters; a character
    /// cut in half by the cap is left out.
    pub(super) fn head(&self) -> String {
        let whole = match std::str::from_utf8(&self.head) {
            Err(error) if self.truncated && error.error_len().is_none() => error.valid_up_to(),
            _ => self.head.len(),
        };
        String::from_utf8_lossy(self.head.get(..whole).unwrap_or_default()).into_owned()
    }

    pub(super) fn tail(&self) -> String {
        String::from_utf8_lossy(&self.tail).into_owned()
    }
}
