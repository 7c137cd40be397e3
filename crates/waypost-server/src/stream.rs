//! Streams of events, as server-sent events: of one execution, and of all.
//!
//! A stream reads the log from where its reader is, page after page, and then waits for commits.
//! What it sends is what is stored, in the stored order; a reader that comes back with the id of the
//! last event it saw goes on with the next one, on any instance. There is no buffer of events: a slow
//! reader makes its own stream slow. One that reads nothing for too long is let go, with a marker as
//! the last thing it will find when it reads on.

mod line;

use std::sync::Arc;

use waypost_core::id::ExecutionId;
use waypost_ports::query::{
    EventRow, EventsRequest, FeedFrame, FeedPosition, FeedRequest, read_events,
};

use self::line::{Ending, Line, open};
use crate::access::Identity;
use crate::http::call::Reply;
use crate::problem::{Code, Problem};
use crate::reader;
use crate::server::Server;
use crate::watchers::Watch;
use crate::wire;

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
    reader: Identity,
) -> Result<Reply, Problem> {
    let first = read_one(server, execution, after).await?;
    if first.events.is_empty() && first.ended {
        // There is nothing more to come: to a browser this says not to ask again.
        return Ok(Reply::empty());
    }
    let (line, reply) = open(server, reader)?;
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
            let ended = !home.is_unfinished(execution)?;
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
    reader: Identity,
) -> Result<Reply, Problem> {
    let end = server.blocking(|server| Ok(server.reader.home().feed_end()?)).await?;
    let place = match after {
        Some(text) => Place::parse(text).ok_or_else(|| {
            Problem::new(Code::BadParameter, "this is not the id of an event of this stream")
        })?,
        None => Place::after(end),
    };
    if place.frame > end.0 {
        // Of another store, or of this one before it was restored: its reader would hear nothing.
        let detail = "this event is not in the store: the stream ends before it";
        return Err(Problem::new(Code::UnknownEvent, detail)
            .hint("begin anew without it, or with after=0 for everything"));
    }
    let until = (reach == Reach::UpToNow).then_some(end);
    let (line, reply) = open(server, reader)?;
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
