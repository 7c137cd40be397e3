//! The connection to the reader of a stream: one page at a time, signs of life, the final event.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Listener;
use crate::budget::{Share, with_guard};
use crate::http::call::{Reply, ReplyBody};
use crate::problem::{Code, Problem};
use crate::server::Server;
use crate::wire;

/// Messages that may wait for a reader: a page, a sign of life, the final event.
const WAITING_MAX: usize = 3;

/// Why a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// Nothing will ever come.
    Over,
    /// Its reader has got everything up to now, as requested.
    UpToNow,
    /// Its reader is gone, or the server is about to be.
    Gone,
    /// Its reader does not read.
    Slow,
}

/// The way to a reader.
pub(super) struct Line {
    pages: mpsc::Sender<Bytes>,
    /// Reserved for the final event, so that there is always room for it.
    last: parking_lot::Mutex<Option<mpsc::OwnedPermit<Bytes>>>,
    /// When something was last sent.
    sent_at: parking_lot::Mutex<Instant>,
    slow_after: Duration,
    sign_of_life_every: Duration,
    /// Taken by the page that is on its way, until its last byte is.
    turn: Arc<Semaphore>,
    listener: Listener,
    server: Arc<Server>,
    _permit: OwnedSemaphorePermit,
}

pub(super) fn open(server: &Arc<Server>, listener: Listener) -> Result<(Line, Reply), Problem> {
    let permit = Arc::clone(&server.streams)
        .try_acquire_owned()
        .map_err(|_| Problem::new(Code::Overloaded, "too many streams are open").retry_after(5))?;
    let (pages, body) = mpsc::channel(WAITING_MAX);
    let last = pages.clone().try_reserve_owned().ok();
    let line = Line {
        pages,
        last: parking_lot::Mutex::new(last),
        sent_at: parking_lot::Mutex::new(Instant::now()),
        slow_after: server.config.stream_slow_after,
        sign_of_life_every: server.config.stream_sign_of_life_every,
        turn: Arc::new(Semaphore::new(1)),
        listener,
        server: Arc::clone(server),
        _permit: permit,
    };
    let mut reply = Reply::new(StatusCode::OK, ReplyBody::Stream(body));
    let fixed = header::HeaderValue::from_static;
    reply.headers.insert(header::CONTENT_TYPE, fixed("text/event-stream"));
    reply.headers.insert(header::CACHE_CONTROL, fixed("no-store"));
    // Proxies that gather would hold events back.
    reply.headers.insert(header::HeaderName::from_static("x-accel-buffering"), fixed("no"));
    Ok((line, reply))
}

impl Line {
    /// Runs a stream to its end and sends the final event.
    pub(super) async fn carry(&self, stream: impl Future<Output = Result<Ending, Problem>>) {
        // Sets a browser's reconnect delay, and opens the stream if nothing happens yet.
        if self.pages.try_send(Bytes::from_static(b"retry: 1000\n\n")).is_err() {
            return;
        }
        let metrics = &self.server.metrics;
        metrics.http_streams.add(1);
        let word = match stream.await {
            Ok(Ending::Over) => Some("event: end\ndata: {}\n\n".to_owned()),
            Ok(Ending::Gone | Ending::UpToNow) => None,
            Ok(Ending::Slow) => {
                metrics.http_streams_dropped_total.add(1);
                let data = "{\"reason\":\"slow_reader\"}";
                Some(format!("event: dropped\ndata: {data}\n\n"))
            }
            Err(problem) => {
                let data = String::from_utf8_lossy(&problem.body()).into_owned();
                Some(format!("event: problem\ndata: {data}\n\n"))
            }
        };
        metrics.http_streams.add(-1);
        if let (Some(permit), Some(word)) = (self.last.lock().take(), word) {
            drop(permit.send(Bytes::from(word)));
        }
    }

    /// Waits for something to send, and sends signs of life meanwhile. `None` if the client has
    /// disconnected.
    pub(super) async fn idle<T>(
        &self,
        something: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Option<T>, Problem> {
        tokio::pin!(something);
        loop {
            // Counted from the last message, not from here: a stream of few types wakes for all of
            // them.
            let silence_ends = *self.sent_at.lock() + self.sign_of_life_every;
            tokio::select! { // all arms are cancel-safe, or are dropped with the stream
                found = &mut something => return found.map(Some),
                () = self.pages.closed() => return Ok(None),
                () = self.server.closing.cancelled() => return Ok(None),
                () = tokio::time::sleep_until(silence_ends) => {
                    if !self.server.keys.knows(&self.listener.identity) {
                        return Ok(None);
                    }
                    // If there is no room for a comment, other messages show that the stream is
                    // alive.
                    drop(self.pages.try_send(Bytes::from_static(b": alive\n\n")));
                    *self.sent_at.lock() = Instant::now();
                }
            }
        }
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Ends the connection of its reader.
    pub(super) fn connection(&self) -> &CancellationToken {
        &self.listener.connection
    }

    /// Waits until the page before it has been sent as a whole; else returns the reason to stop.
    pub(super) async fn turn(&self) -> Result<OwnedSemaphorePermit, Ending> {
        let turn = Arc::clone(&self.turn).acquire_owned();
        tokio::select! { // all are cancel-safe
            turn = tokio::time::timeout(self.slow_after, turn) => match turn {
                Ok(turn) => turn.map_err(|_| Ending::Gone),
                Err(_) => Err(Ending::Slow),
            },
            () = self.pages.closed() => Err(Ending::Gone),
            () = self.server.closing.cancelled() => Err(Ending::Gone),
        }
    }

    /// Sends a page; returns the reason to stop if it cannot.
    pub(super) fn send(
        &self,
        text: String,
        turn: OwnedSemaphorePermit,
        share: Option<Share>,
    ) -> Option<Ending> {
        if !self.server.keys.knows(&self.listener.identity) {
            return Some(Ending::Gone);
        }
        if text.is_empty() {
            return None;
        }
        let bytes = match share {
            // A copy has no more room than it needs, unlike a text that grew.
            Some(share) => share.hold(Bytes::copy_from_slice(text.as_bytes())),
            None => text.into(),
        };
        *self.sent_at.lock() = Instant::now();
        // The page before it is gone, so there is room, unless not even signs of life are read.
        match self.pages.try_send(with_guard(bytes, turn)) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Closed(_)) => Some(Ending::Gone),
            Err(mpsc::error::TrySendError::Full(_)) => Some(Ending::Slow),
        }
    }
}

pub(super) fn write_event(text: &mut String, id: &str, event: &wire::Event) -> Result<(), Problem> {
    let data = serde_json::to_string(event).map_err(|error| Problem::internal(&error))?;
    text.push_str("id: ");
    text.push_str(id);
    text.push_str("\nevent: ");
    text.push_str(&event.kind);
    // A lone carriage return ends a line of a stream, too.
    for line in data.split(['\n', '\r']) {
        text.push_str("\ndata: ");
        text.push_str(line);
    }
    text.push_str("\n\n");
    Ok(())
}
