//! Streams of events, as server-sent events: of one execution, and of all.
//!
//! A stream reads the log from its client's position, page after page, and then waits for commits. It
//! sends what is stored, in the stored order. A client that reconnects with the id of the last event it
//! saw continues with the next one, on any instance. A stream has one page in memory, and none while it
//! waits for room: a slow client slows its own stream only. A client that reads nothing for too long is
//! disconnected, with a marker as the last thing it finds.

mod line;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use waypost_core::id::ExecutionNo;
use waypost_ports::query::{
    EventRow, EventsRequest, FeedFrame, FeedPosition, FeedRequest, Read, read_events,
};

use self::line::{Ending, Line, open, write_event};
use crate::access::Identity;
use crate::budget::Share;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader;
use crate::server::{Sent, Server};
use crate::watchers::Watch;
use crate::wire;

/// Events of one execution that are read at once.
const EVENTS_AT_ONCE: usize = 32;
/// Frames of all executions that are read at once.
const FRAMES_AT_ONCE: usize = 64;

/// Bytes after which a page ends: with the event that reaches them.
const PAGE_BYTES: usize = 64 * 1024;

/// The reader of a stream.
pub(crate) struct Listener {
    /// Whose key must stay worth something for as long as the stream lasts.
    identity: Identity,
    /// Ends the connection that it came on.
    connection: CancellationToken,
}

impl From<Call> for Listener {
    fn from(call: Call) -> Self {
        Self { identity: call.identity, connection: call.connection }
    }
}

/// How far a stream goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// It stays open for later events.
    Follow,
    /// It ends with the events up to now.
    UpToNow,
}

/// The events of one execution, after a seq.
pub(crate) async fn of_one(
    server: &Arc<Server>,
    execution: ExecutionNo,
    after: u64,
    reach: Reach,
    listener: Listener,
) -> Result<Reply, Problem> {
    if server.blocking(move |server| is_over(server, execution, after)).await? {
        // Nothing more will come: this response stops a browser from reconnecting.
        return Ok(Reply::empty());
    }
    let (line, reply) = open(server, listener)?;
    let watch = server.watchers.watch(execution);
    let up_to_now = (reach == Reach::UpToNow).then_some(u64::MAX);
    server.tasks.spawn(async move {
        let read = |after| read_one(&line, execution, after);
        line.carry(follow(&line, &watch, after, up_to_now, read)).await;
    });
    Ok(reply)
}

/// Is there nothing after a seq, for good? The control row goes with the last frame: where it is gone
/// and nothing has come since, nothing will.
fn is_over(server: &Server, execution: ExecutionNo, after: u64) -> Result<bool, Problem> {
    let backend = server.reader.backend();
    let is_empty = || backend.weigh(Read::Events { execution, after, limit: 1, bytes: 1 });
    Ok(is_empty()? == 0 && !backend.is_unfinished(execution)? && is_empty()? == 0)
}

/// Sends page after page from a place on. With `until`, nothing is waited for, and the stream ends
/// with the page that passes that place.
async fn follow<P: Copy + PartialOrd, F>(
    line: &Line,
    watch: &Watch,
    mut place: P,
    until: Option<P>,
    read: impl Fn(P) -> F,
) -> Result<Ending, Problem>
where
    F: Future<Output = Result<(Page<P>, Option<Share>), Problem>>,
{
    loop {
        let turn = match line.turn().await {
            Ok(turn) => turn,
            Err(ending) => return Ok(ending),
        };
        let look = watch.until(async || {
            let (page, share) = read(place).await?;
            let enough = page.any || page.ended || until.is_some();
            Ok::<_, Problem>(enough.then_some((page, share)))
        });
        let Some((page, share)) = line.idle(look).await? else { return Ok(Ending::Gone) };
        if !page.any && page.ended {
            return Ok(Ending::Over);
        }
        // Later commits are not followed: on a busy server that would never end.
        if !page.any || until.is_some_and(|until| place > until) {
            return Ok(Ending::UpToNow);
        }
        place = page.upto;
        if let Some(ending) = line.send(page.text, turn, share) {
            return Ok(ending);
        }
    }
}

/// A page of a stream.
struct Page<P> {
    /// The text to send, after the filter.
    text: String,
    /// Is there anything in it, whatever a filter leaves of that?
    any: bool,
    /// The place after it.
    upto: P,
    /// Is there nothing after it, for good?
    ended: bool,
}

impl<P> Sent for Page<P> {
    fn bytes(&self) -> usize {
        self.text.len()
    }
}

async fn read_one(
    line: &Line,
    execution: ExecutionNo,
    after: u64,
) -> Result<(Page<u64>, Option<Share>), Problem> {
    let (limit, bytes) = (EVENTS_AT_ONCE, PAGE_BYTES);
    let request = EventsRequest { after, limit, bytes, ..EventsRequest::all(execution) };
    let read = Read::Events { execution, after, limit, bytes };
    let page = move |server: &Server| {
        let events = server.reader.backend().events(&request)?;
        let any = !events.is_empty();
        let (mut text, mut upto) = (String::new(), after);
        for event in events {
            upto = event.seq;
            write_event(&mut text, &event.seq.to_string(), &reader::event(event))?;
        }
        let ended = !any && is_over(server, execution, after)?;
        Ok(Page { text, any, upto, ended })
    };
    line.server().page(read, line.connection(), page).await
}

/// The events of all executions in the order of their commits, after a place.
pub(crate) async fn of_all(
    server: &Arc<Server>,
    after: Option<&str>,
    kinds: Arc<[String]>,
    reach: Reach,
    listener: Listener,
) -> Result<Reply, Problem> {
    let end = server.blocking(|server| Ok(server.reader.backend().feed_end()?)).await?;
    let place = match after {
        Some(text) => StreamPosition::parse(text).ok_or_else(|| {
            Problem::new(Code::BadParameter, "this is not the id of an event of this stream")
        })?,
        None => StreamPosition::after(end),
    };
    if place.frame > end.0 {
        // The position is from another store, or from this one before it was restored: its reader
        // would never receive anything.
        let detail = "this event is not in the store: the stream ends before it";
        return Err(Problem::new(Code::UnknownEvent, detail)
            .hint("begin anew without it, or with after=0 for everything"));
    }
    let until = (reach == Reach::UpToNow).then_some(StreamPosition::after(end));
    let (line, reply) = open(server, listener)?;
    let watch = server.watchers.watch_all();
    server.tasks.spawn(async move {
        let read = |place| read_all(&line, place, &kinds);
        line.carry(follow(&line, &watch, place, until, read)).await;
    });
    Ok(reply)
}

/// A place between two events of the stream of everything: after the first `events` events of the
/// frame that ends at `frame`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
struct StreamPosition {
    frame: u64,
    events: u64,
}

impl StreamPosition {
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
    StreamPosition::parse(text).is_some()
}

/// The events of frames with something after a place.
async fn read_all(
    line: &Line,
    place: StreamPosition,
    kinds: &Arc<[String]>,
) -> Result<(Page<StreamPosition>, Option<Share>), Problem> {
    // A place within a frame needs that frame once more.
    let whole = place.events == u64::MAX;
    let after = FeedPosition(if whole { place.frame } else { place.frame.saturating_sub(1) });
    let request = FeedRequest { after, limit: FRAMES_AT_ONCE };
    let kinds = Arc::clone(kinds);
    let page = move |server: &Server| {
        let frames = server.reader.backend().feed(&request)?;
        let more = |frame: &FeedFrame| {
            let header = &frame.frame.header;
            let events = header.last_seq.saturating_sub(header.first_seq) + 1;
            frame.position.0 > place.frame || events > place.events
        };
        let any = frames.iter().any(more);
        let (mut text, mut upto) = (String::new(), place);
        for frame in frames.iter().filter(|_| any) {
            for (id, event) in events_of(frame, place, &kinds) {
                write_event(&mut text, &id, &event)?;
            }
            upto = StreamPosition::after(frame.position);
        }
        Ok(Page { text, any, upto, ended: false })
    };
    line.server().page(Read::Feed(request), line.connection(), page).await
}

/// The events of a frame that come after a place, each with its id in the stream.
fn events_of(
    frame: &FeedFrame,
    place: StreamPosition,
    kinds: &[String],
) -> impl Iterator<Item = (String, wire::Event)> {
    let header = &frame.frame.header;
    let skip = if frame.position.0 == place.frame { place.events } else { 0 };
    let request = EventsRequest::all(header.execution);
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
