//! Streams of events, as server-sent events: of one execution, and of all.
//!
//! A stream reads the log from where its reader is, page after page, and then waits for commits.
//! What it sends is what is stored, in the stored order; a reader that comes back with the id of the
//! last event it saw goes on with the next one, on any instance. There is no buffer of events: a slow
//! reader makes its own stream slow. One that reads nothing for too long is let go, with a marker as
//! the last thing it will find when it reads on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use waypost_core::id::ExecutionId;
use waypost_ports::query::{
    EventRow, EventsRequest, FeedFrame, FeedPosition, FeedRequest, read_events,
};

use crate::http::call::{Reply, ReplyBody};
use crate::problem::{Code, Problem};
use crate::reader;
use crate::server::Server;
use crate::watchers::Watch;
use crate::wire;

/// Pages that may wait for a reader.
pub(crate) const PAGES_WAITING_MAX: usize = 4;
/// Bytes after which a page ends: with the event that reaches them.
const PAGE_BYTES: usize = 64 * 1024;
/// Events of one execution that are read at once.
const EVENTS_AT_ONCE: usize = 32;
/// Frames of all executions that are read at once.
const FRAMES_AT_ONCE: usize = 64;

/// How far a stream goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// It stays open, for what is yet to come.
    Follow,
    /// It ends with what there is.
    UpToNow,
}

/// The events of one execution, after a seq.
pub(crate) async fn of_one(
    server: &Arc<Server>,
    execution: ExecutionId,
    after: u64,
    reach: Reach,
) -> Result<Reply, Problem> {
    let first = read_one(server, execution, after).await?;
    if first.events.is_empty() && first.ended {
        // There is nothing more to come: to a browser this says not to ask again.
        return Ok(Reply::empty());
    }
    let (line, reply) = open(server)?;
    let watch = server.watchers.watch(execution);
    let server = Arc::clone(server);
    server.tasks.spawn({
        let server = Arc::clone(&server);
        async move {
            let stream = follow_one(&server, &line, &watch, execution, after, reach);
            line.carry(&server, stream).await;
        }
    });
    Ok(reply)
}

async fn follow_one(
    server: &Arc<Server>,
    line: &Line,
    watch: &Watch,
    execution: ExecutionId,
    mut after: u64,
    reach: Reach,
) -> Result<Ending, Problem> {
    loop {
        let look = watch.until(async || {
            let page = read_one(server, execution, after).await?;
            let enough = !page.events.is_empty() || page.ended || reach == Reach::UpToNow;
            Ok::<_, Problem>(enough.then_some(page))
        });
        let page = line.idle(look).await?;
        let Some(page) = page else { return Ok(Ending::Gone) };
        if page.events.is_empty() {
            return Ok(if page.ended { Ending::Over } else { Ending::UpToNow });
        }
        after = page.events.last().map_or(after, |event| event.seq);
        let events = page.events.into_iter();
        let events = events.map(|event| (event.seq.to_string(), reader::event(event)));
        if let Some(ending) = line.tell(events).await? {
            return Ok(ending);
        }
    }
}

/// A page of one execution's log.
struct Page {
    events: Vec<EventRow>,
    /// Is there nothing after it, for good?
    ended: bool,
}

async fn read_one(
    server: &Arc<Server>,
    execution: ExecutionId,
    after: u64,
) -> Result<Page, Problem> {
    let request = EventsRequest { execution, node: None, kind: None, after, limit: EVENTS_AT_ONCE };
    server
        .blocking(move |server| {
            let home = server.reader.home();
            let events = home.events(&request)?;
            if !events.is_empty() {
                return Ok(Page { events, ended: false });
            }
            // The control row goes with the last frame: where it is gone and nothing has come
            // since, nothing will.
            let ended = home.load(execution)?.is_none_or(|history| history.control.is_none());
            let events = if ended { home.events(&request)? } else { events };
            Ok(Page { ended: ended && events.is_empty(), events })
        })
        .await
}

/// The events of all executions in the order of their commits, after a place.
pub(crate) async fn of_all(
    server: &Arc<Server>,
    after: Option<&str>,
    kinds: Vec<String>,
    reach: Reach,
) -> Result<Reply, Problem> {
    let end = server.blocking(|server| Ok(server.reader.home().feed_end()?)).await?;
    let place = match after {
        Some(text) => Place::parse(text).ok_or_else(|| {
            Problem::new(Code::BadParameter, "this is not the id of an event of this stream")
        })?,
        None => Place::after(end),
    };
    let until = (reach == Reach::UpToNow).then_some(end);
    let (line, reply) = open(server)?;
    let watch = server.watchers.watch_all();
    let server = Arc::clone(server);
    server.tasks.spawn({
        let server = Arc::clone(&server);
        async move {
            let stream = follow_all(&server, &line, &watch, place, until, &kinds);
            line.carry(&server, stream).await;
        }
    });
    Ok(reply)
}

/// A place between two events of the stream of everything: after the first `events` events of the
/// frame that ends at `frame`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    frame: u64,
    events: u64,
}

impl Place {
    fn after(position: FeedPosition) -> Self {
        Self { frame: position.0, events: u64::MAX }
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str, most: usize| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            if plain && digits.len() <= most { digits.parse().ok() } else { None }
        };
        match text.split_once('.') {
            Some((frame, events)) => {
                Some(Self { frame: number(frame, 18)?, events: number(events, 9)? })
            }
            None => Some(Self { frame: number(text, 18)?, events: u64::MAX }),
        }
    }
}

/// Is this the id of an event of the stream of everything?
pub(crate) fn is_place(text: &str) -> bool {
    Place::parse(text).is_some()
}

async fn follow_all(
    server: &Arc<Server>,
    line: &Line,
    watch: &Watch,
    mut place: Place,
    until: Option<FeedPosition>,
    kinds: &[String],
) -> Result<Ending, Problem> {
    loop {
        let look = watch.until(async || {
            let frames = read_all(server, place).await?;
            Ok::<_, Problem>((!frames.is_empty() || until.is_some()).then_some(frames))
        });
        let Some(frames) = line.idle(look).await? else { return Ok(Ending::Gone) };
        // What is committed meanwhile is not chased: a busy server would never let go.
        if frames.is_empty() || until.is_some_and(|end| place.frame > end.0) {
            return Ok(Ending::UpToNow);
        }
        let events = frames.iter().flat_map(|frame| events_of(frame, place, kinds));
        if let Some(ending) = line.tell(events).await? {
            return Ok(ending);
        }
        place = frames.last().map_or(place, |frame| Place::after(frame.position));
    }
}

/// Frames with something after a place.
async fn read_all(server: &Arc<Server>, place: Place) -> Result<Vec<FeedFrame>, Problem> {
    // A place within a frame needs that frame once more.
    let whole = place.events == u64::MAX;
    let after = FeedPosition(if whole { place.frame } else { place.frame.saturating_sub(1) });
    let request = FeedRequest { after, limit: FRAMES_AT_ONCE };
    let frames = server.blocking(move |server| Ok(server.reader.home().feed(&request)?)).await?;
    let more = |frame: &FeedFrame| {
        let header = &frame.frame.header;
        let events = header.last_seq.saturating_sub(header.first_seq) + 1;
        frame.position.0 > place.frame || events > place.events
    };
    Ok(if frames.iter().any(more) { frames } else { Vec::new() })
}

/// The events of a frame that come after a place, each with its id in the stream.
fn events_of(
    frame: &FeedFrame,
    place: Place,
    kinds: &[String],
) -> impl Iterator<Item = (String, wire::Event)> {
    let header = &frame.frame.header;
    let skip = if frame.position.0 == place.frame { place.events } else { 0 };
    let request = EventsRequest {
        execution: header.execution,
        node: None,
        kind: None,
        after: 0,
        limit: usize::MAX,
    };
    let mut rows = Vec::new();
    read_events(&frame.frame, &request, &mut rows);
    let wanted = move |(count, row): &(u64, EventRow)| {
        *count > skip && (kinds.is_empty() || kinds.contains(&row.kind))
    };
    (1..).zip(rows).filter(wanted).map(|(count, row)| {
        let id = format!("{}.{count}", frame.position.0);
        (id, wire::Event { execution: Some(frame.key.to_string()), ..reader::event(row) })
    })
}

fn write_event(text: &mut String, id: &str, event: &wire::Event) -> Result<(), Problem> {
    // JSON on one line: serde escapes line ends inside of strings, and payloads are flattened.
    let data = serde_json::to_string(event).map_err(|error| Problem::internal(&error))?;
    text.push_str("id: ");
    text.push_str(id);
    text.push_str("\nevent: ");
    text.push_str(&event.kind);
    for line in data.lines() {
        text.push_str("\ndata: ");
        text.push_str(line);
    }
    text.push_str("\n\n");
    Ok(())
}

/// Why a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// Nothing will ever come.
    Over,
    /// Its reader has got what it asked for.
    UpToNow,
    /// Its reader is gone, or the server is about to be.
    Gone,
    /// Its reader does not read.
    Slow,
}

/// The way to a reader.
struct Line {
    pages: mpsc::Sender<Bytes>,
    /// Kept for the last word, so that there is always room for it.
    last: parking_lot::Mutex<Option<mpsc::OwnedPermit<Bytes>>>,
    /// When something was last said.
    said_at: parking_lot::Mutex<Instant>,
    slow_after: Duration,
    sign_of_life_every: Duration,
    closing: tokio_util::sync::CancellationToken,
    _permit: OwnedSemaphorePermit,
}

fn open(server: &Server) -> Result<(Line, Reply), Problem> {
    let permit = Arc::clone(&server.streams)
        .try_acquire_owned()
        .map_err(|_| Problem::new(Code::Overloaded, "too many streams are open").retry_after(5))?;
    let (pages, body) = mpsc::channel(PAGES_WAITING_MAX + 1);
    let last = pages.clone().try_reserve_owned().ok();
    let line = Line {
        pages,
        last: parking_lot::Mutex::new(last),
        said_at: parking_lot::Mutex::new(Instant::now()),
        slow_after: server.config.stream_slow_after,
        sign_of_life_every: server.config.stream_sign_of_life_every,
        closing: server.closing.clone(),
        _permit: permit,
    };
    let mut headers = HeaderMap::new();
    let fixed = header::HeaderValue::from_static;
    headers.insert(header::CONTENT_TYPE, fixed("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, fixed("no-store"));
    // Proxies that gather would hold events back.
    headers.insert(header::HeaderName::from_static("x-accel-buffering"), fixed("no"));
    let body = ReplyBody::Stream(body);
    Ok((line, Reply { status: StatusCode::OK, headers, body, subject: None }))
}

impl Line {
    /// Runs a stream to its end and says the last word.
    async fn carry(&self, server: &Server, stream: impl Future<Output = Result<Ending, Problem>>) {
        // Tells a browser how soon to come back, and opens the stream where nothing happens yet.
        if self.pages.try_send(Bytes::from_static(b"retry: 1000\n\n")).is_err() {
            return;
        }
        server.metrics.streams.add(1);
        let word = match stream.await {
            Ok(Ending::Over) => Some("event: end\ndata: {}\n\n".to_owned()),
            Ok(Ending::Gone | Ending::UpToNow) => None,
            Ok(Ending::Slow) => {
                server.metrics.streams_dropped.add(1);
                let data = "{\"reason\":\"slow_reader\"}";
                Some(format!("event: dropped\ndata: {data}\n\n"))
            }
            Err(problem) => {
                let data = String::from_utf8_lossy(&problem.body()).into_owned();
                Some(format!("event: problem\ndata: {data}\n\n"))
            }
        };
        server.metrics.streams.add(-1);
        if let (Some(permit), Some(word)) = (self.last.lock().take(), word) {
            drop(permit.send(Bytes::from(word)));
        }
    }

    /// Waits for something to send, showing signs of life meanwhile. `None` when nobody listens
    /// any more.
    async fn idle<T>(
        &self,
        something: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Option<T>, Problem> {
        tokio::pin!(something);
        loop {
            // Counted from the last word, not from here: a stream of few types wakes for all of them.
            let silence_ends = *self.said_at.lock() + self.sign_of_life_every;
            tokio::select! { // all arms are cancel-safe, or are dropped with the stream
                found = &mut something => return found.map(Some),
                () = self.pages.closed() => return Ok(None),
                () = self.closing.cancelled() => return Ok(None),
                () = tokio::time::sleep_until(silence_ends) => {
                    // A line without room for a comment has enough to say.
                    drop(self.pages.try_send(Bytes::from_static(b": alive\n\n")));
                    *self.said_at.lock() = Instant::now();
                }
            }
        }
    }

    /// Sends events, in pages; gives the reason to stop where it cannot.
    async fn tell(
        &self,
        events: impl Iterator<Item = (String, wire::Event)>,
    ) -> Result<Option<Ending>, Problem> {
        let mut text = String::new();
        for (id, event) in events {
            write_event(&mut text, &id, &event)?;
            if text.len() >= PAGE_BYTES
                && let Some(ending) = self.send(std::mem::take(&mut text)).await
            {
                return Ok(Some(ending));
            }
        }
        Ok(if text.is_empty() { None } else { self.send(text).await })
    }

    /// Sends a page; gives the reason to stop where it cannot.
    async fn send(&self, text: String) -> Option<Ending> {
        let sent = self.pages.send(Bytes::from(text));
        tokio::select! { // a page that is dropped is read again by whoever comes back
            sent = tokio::time::timeout(self.slow_after, sent) => match sent {
                Ok(Ok(())) => {
                    *self.said_at.lock() = Instant::now();
                    None
                }
                Ok(Err(_)) => Some(Ending::Gone),
                Err(_) => Some(Ending::Slow),
            },
            () = self.closing.cancelled() => Some(Ending::Gone),
        }
    }
}
