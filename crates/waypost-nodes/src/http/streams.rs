//! Bodies that go from and to the blob store in pieces, without being in memory as a whole.

use std::io::{self, Read};
use std::sync::Arc;

use futures_util::stream;
use reqwest::{Body, Response};
use tokio::sync::mpsc;
use waypost_core::blob::BlobRef;
use waypost_core::failure::{Failure, kind};
use waypost_ports::blobs::{BlobError, Blobs};
use waypost_ports::handler::Marks;

use super::call::Call;
use super::exchange::failure_of;
use super::response::too_large;
use crate::outcome::INVALID_RESPONSE;

/// Pieces that wait between the connection and the blob store.
const PIECES_MAX: usize = 4;

/// How the bytes of a response become the content of a blob.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyForm {
    /// As they are.
    Bytes,
    /// As a JSON string; they must be UTF-8.
    Text,
}

/// Puts a response's body into the blob store: what was read of it already, and the rest.
pub(crate) async fn save(
    call: &Call,
    blobs: &Arc<dyn Blobs>,
    (begun, mut response): (Vec<u8>, Response),
    form: BodyForm,
) -> Result<BlobRef, Failure> {
    let max = call.response_bytes_max;
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let putting = {
        let blobs = Arc::clone(blobs);
        // Escapes can make a text six times as long.
        let most =
            if form == BodyForm::Text { max.saturating_mul(6).saturating_add(2) } else { max };
        tokio::task::spawn_blocking(move || blobs.put(&mut Pieces::new(receiver), most))
    };
    let mut encoder = Encoder { form, rest: Vec::new() };
    let mut read = begun.len() as u64;
    let mut piece = encoder.open();
    piece.extend(encoder.encode(begun)?);
    loop {
        // If the other side is gone, it says why.
        if !piece.is_empty() && sender.send(BodyPiece::Bytes(piece)).await.is_err() {
            break;
        }
        let chunk = response.chunk().await.map_err(|error| failure_of(call, &error))?;
        let Some(chunk) = chunk else {
            sender.send(BodyPiece::Bytes(encoder.close()?)).await.ok();
            sender.send(BodyPiece::End).await.ok();
            break;
        };
        call.marks.beat();
        read += chunk.len() as u64;
        if read > max {
            return Err(too_large(call));
        }
        piece = encoder.encode(chunk.to_vec())?;
    }
    drop(sender);
    let put = putting.await.unwrap_or_else(|_| Err(BlobError::Unavailable("stopped".to_owned())));
    put.map_err(|error| blob_failure(&error))
}

/// The failure of an attempt that could not use the blob store.
pub(crate) fn blob_failure(error: &BlobError) -> Failure {
    match error {
        BlobError::TooLarge { .. } => Failure::permanent(kind::TOO_LARGE, error.to_string()),
        error if error.is_passing() => Failure::transient(kind::BLOB_STORE, error.to_string()),
        error => Failure::permanent(kind::BLOB, error.to_string()),
    }
}

enum BodyPiece {
    Bytes(Vec<u8>),
    /// That was all. Without it, the body was cut off.
    End,
}

/// Pieces as something that can be read, on a thread that may block.
struct Pieces {
    from: mpsc::Receiver<BodyPiece>,
    piece: io::Cursor<Vec<u8>>,
    over: bool,
}

impl Pieces {
    fn new(from: mpsc::Receiver<BodyPiece>) -> Self {
        Self { from, piece: io::Cursor::default(), over: false }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || self.over || buffer.is_empty() {
                return Ok(read);
            }
            match self.from.blocking_recv() {
                Some(BodyPiece::Bytes(bytes)) => self.piece = io::Cursor::new(bytes),
                Some(BodyPiece::End) => self.over = true,
                None => return Err(io::Error::other("the response was cut off")),
            }
        }
    }
}

struct Encoder {
    form: BodyForm,
    /// The beginning of a character whose end has not come.
    rest: Vec<u8>,
}

impl Encoder {
    fn open(&self) -> Vec<u8> {
        if self.form == BodyForm::Text { vec![b'"'] } else { Vec::new() }
    }

    fn encode(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        if self.form == BodyForm::Bytes {
            return Ok(bytes);
        }
        self.rest.extend(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(error) => return Err(Failure::permanent(INVALID_RESPONSE, not_text(&error))),
        };
        let after = self.rest.split_off(whole);
        let text = String::from_utf8_lossy(&self.rest);
        let quoted = serde_json::Value::from(&*text).to_string();
        self.rest = after;
        Ok(quoted
            .into_bytes()
            .split_off(1)
            .split_last()
            .map(|(_, text)| text.to_vec())
            .unwrap_or_default())
    }

    fn close(&mut self) -> Result<Vec<u8>, Failure> {
        match (self.form, std::str::from_utf8(&self.rest)) {
            (BodyForm::Bytes, _) => Ok(Vec::new()),
            (BodyForm::Text, Ok(_)) => Ok(vec![b'"']),
            (BodyForm::Text, Err(error)) => {
                Err(Failure::permanent(INVALID_RESPONSE, not_text(&error)))
            }
        }
    }
}

pub(crate) fn not_text(error: &std::str::Utf8Error) -> String {
    format!("the response is not text in UTF-8: {error}; `download: true` keeps any bytes")
}

/// A body that is read from the blob store while it is sent.
pub(crate) async fn body(
    blobs: &Arc<dyn Blobs>,
    blob: BlobRef,
    marks: Marks,
) -> Result<Body, Failure> {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let store = Arc::clone(blobs);
    let opened = tokio::task::spawn_blocking(move || store.open(&blob.digest)).await;
    let opened = opened.unwrap_or_else(|_| Err(BlobError::Unavailable("stopped".to_owned())));
    let reader = opened.map_err(|error| Failure { unsent: true, ..blob_failure(&error) })?;
    tokio::task::spawn_blocking(move || {
        for piece in reader.read(..) {
            let piece = piece.map_err(io::Error::other);
            let ends = piece.is_err();
            if sender.blocking_send(piece).is_err() || ends {
                return;
            }
        }
    });
    let pieces = stream::unfold((receiver, marks), |(mut receiver, marks)| async {
        let piece = receiver.recv().await?;
        marks.beat();
        Some((piece, (receiver, marks)))
    });
    Ok(Body::wrap_stream(pieces))
}
