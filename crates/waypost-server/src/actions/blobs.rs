//! Blobs: uploads and downloads, streamed in both directions.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::id::Token;
use waypost_ports::blobs::{BlobBytes, BlobError};

use crate::access::Identity;
use crate::http::call::{Call, Reply, ReplyBody};
use crate::http::route::UPLOAD;
use crate::problem::{Code, Problem};
use crate::server::Server;
use crate::wire;

/// How long a transfer waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are handed to a connection at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that wait for a connection.
const CHUNKS: usize = 2;

/// What a browser may do with uploaded content: nothing.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

pub(crate) async fn put(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let permit = take_turn(&server).await?;
    let no_body = || Problem::internal(&"an upload without a body");
    let mut content = call.upload.take().ok_or_else(no_body)?;
    let (blobs, limit) = (Arc::clone(&server.blobs), server.config.blob_bytes_max);
    let stored = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        blobs.put(&mut content, limit)
    });
    let blob = stored.await.map_err(|error| Problem::internal(&error))??;
    server.engine.metrics().blob_bytes_put_total.add(blob.bytes);
    let BlobRef { digest, bytes } = blob;
    let task = call.values.get("task").map(|task| u128::from_str_radix(task, 16).map(Token));
    let task = task.transpose();
    let task = task.map_err(|_| Problem::new(Code::BadParameter, "`task` is not a token"))?;
    let receipt = task.map(|token| server.engine.upload_receipt(token, &digest));
    let reply = wire::Blob { digest: digest.to_string(), bytes, receipt };
    let location = format!("/v1/blobs/{digest}");
    Ok(Reply::json(StatusCode::CREATED, &reply)?.with(header::LOCATION, &location))
}

pub(crate) async fn get(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let parsed = call.values.text("digest").parse();
    let digest: BlobDigest = parsed.map_err(|error| Problem::internal(&error))?;
    let permit = take_turn(&server).await?;
    let range = call.values.get("range").map(str::to_owned);
    let opening = {
        let (server, identity) = (Arc::clone(&server), call.identity.clone());
        move || open(&server, &identity, &digest, range.as_deref())
    };
    let opened = tokio::task::spawn_blocking(opening).await;
    let (bytes, opened) = opened.map_err(|error| Problem::internal(&error))??;
    let Some(OpenedBlob { range, is_part, first, rest }) = opened else {
        let detail = format!("the blob has {bytes} bytes");
        let problem = Problem::new(Code::RangeNotSatisfiable, detail);
        let reply = Reply::problem(&problem);
        return Ok(reply.with(header::CONTENT_RANGE, &format!("bytes */{bytes}")));
    };
    let (sender, chunks) = mpsc::channel(CHUNKS);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        send(&digest, first.into_iter().map(Ok).chain(rest), &sender);
    });
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let reply = Reply::new(status, ReplyBody::Stream(chunks))
        .with(header::CONTENT_TYPE, "application/octet-stream")
        .with(header::CONTENT_LENGTH, &(range.end - range.start).to_string())
        .with(header::CONTENT_DISPOSITION, &format!("attachment; filename=\"{digest}\""))
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
        .with(header::ACCEPT_RANGES, "bytes")
        .with(header::ETAG, &format!("\"{digest}\""));
    let content_range = format!("bytes {}-{}/{bytes}", range.start, range.end.saturating_sub(1));
    Ok(if is_part { reply.with(header::CONTENT_RANGE, &content_range) } else { reply })
}

/// The right to move one blob. Each takes a thread and some memory.
async fn take_turn(server: &Server) -> Result<OwnedSemaphorePermit, Problem> {
    let turn = Arc::clone(&server.blob_transfers).acquire_owned();
    let turn = tokio::time::timeout(PATIENCE, turn).await.map_err(|_| {
        Problem::new(Code::Overloaded, "too many blobs are being sent and received")
            .hint("`http_blob_transfers_max` of GET /v1/limits is how many there may be")
            .retry_after(5)
    })?;
    turn.map_err(|error| Problem::internal(&error))
}

/// A blob whose first part has been read and verified.
struct OpenedBlob {
    range: Range<u64>,
    is_part: bool,
    first: Option<Vec<u8>>,
    rest: BlobBytes,
}

/// Opens a blob; `None` for a range that it does not have. Returns its length, too.
fn open(
    server: &Server,
    identity: &Identity,
    digest: &BlobDigest,
    range: Option<&str>,
) -> Result<(u64, Option<OpenedBlob>), Problem> {
    // Who may read executions may read what they name. What none names yet is for those who upload.
    if !UPLOAD.allows(identity.role) && server.reader.backend().named_by(digest)?.is_none() {
        return Err(BlobError::NotFound(*digest).into());
    }
    let reader = server.blobs.open(digest)?;
    let bytes = reader.bytes();
    let (range, is_part) = match requested(range, bytes) {
        Requested::Whole => (0..bytes, false),
        Requested::Part(range) => (range, true),
        Requested::Nothing => return Ok((bytes, None)),
    };
    let mut rest = reader.read(range.clone());
    let first = rest.next().transpose()?;
    Ok((bytes, Some(OpenedBlob { range, is_part, first, rest })))
}

/// Sends a blob for as long as its client reads. Where a part cannot be read, the reply ends before its
/// announced length, so that the client sees that it is not whole.
fn send(
    digest: &BlobDigest,
    pieces: impl Iterator<Item = Result<Vec<u8>, BlobError>>,
    chunks: &mpsc::Sender<Bytes>,
) {
    for piece in pieces {
        let mut piece = match piece {
            Ok(piece) => Bytes::from(piece),
            Err(error) => {
                tracing::error!(%digest, %error, "a blob could not be sent to its end");
                return;
            }
        };
        while !piece.is_empty() {
            let chunk = piece.split_to(piece.len().min(CHUNK_BYTES));
            if chunks.blocking_send(chunk).is_err() {
                return;
            }
        }
    }
}

/// What a `Range` header asks for.
#[derive(PartialEq, Eq, Debug)]
enum Requested {
    Whole,
    Part(Range<u64>),
    /// A range beyond the end.
    Nothing,
}

/// One range of bytes. Anything else, such as several ranges, is ignored, as RFC 9110 allows.
fn requested(header: Option<&str>, bytes: u64) -> Requested {
    let parse = || {
        let (first, last) = header?.strip_prefix("bytes=")?.trim().split_once('-')?;
        let number = |text: &str| match text {
            "" => Some(None),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(Some(digits.parse().unwrap_or(u64::MAX)))
            }
            _ => None,
        };
        match (number(first)?, number(last)?) {
            (Some(first), Some(last)) if first > last => None,
            (Some(first), last) => {
                Some(first..last.map_or(bytes, |last| last.saturating_add(1).min(bytes)))
            }
            (None, Some(count)) => Some(bytes.saturating_sub(count)..bytes),
            (None, None) => None,
        }
    };
    match parse() {
        None => Requested::Whole,
        Some(range) if range.is_empty() => Requested::Nothing,
        Some(range) => Requested::Part(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_headers_are_read_as_the_standard_says() {
        for (header, expected) in [
            ("bytes=0-0", Requested::Part(0..1)),
            ("bytes=2-4", Requested::Part(2..5)),
            ("bytes=2-", Requested::Part(2..10)),
            ("bytes=9-99999999999999999999999", Requested::Part(9..10)),
            ("bytes=-3", Requested::Part(7..10)),
            ("bytes=-99", Requested::Part(0..10)),
            ("bytes=10-", Requested::Nothing),
            ("bytes=10-20", Requested::Nothing),
            ("bytes=-0", Requested::Nothing),
            ("bytes=4-2", Requested::Whole),
            ("bytes=-", Requested::Whole),
            ("bytes=0-1,4-5", Requested::Whole),
            ("bytes=a-b", Requested::Whole),
            ("bytes=+1-2", Requested::Whole),
            ("items=0-1", Requested::Whole),
            ("0-1", Requested::Whole),
        ] {
            assert_eq!(requested(Some(header), 10), expected, "{header}");
        }
        assert_eq!(requested(None, 10), Requested::Whole);
        assert_eq!(requested(Some("bytes=0-"), 0), Requested::Nothing);
        assert_eq!(requested(Some("bytes=-1"), 0), Requested::Nothing);
    }
}
