//! Streams of other programs, as sources of triggers: a page and the counters of the stream at one moment, and
//! what follows for the cursor.
//!
//! There is no consumer group: the cursor is in the store, and moves with what was fired. The counters tell
//! whether entries were removed before they were read, and whether the stream is another one than before.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};
use serde_json::{Map, json};
use tokio::sync::Mutex;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::trigger::{StreamCursor, StreamStart, entry_id};
use waypost_ports::source::{
    PAGE_BYTES_MAX, STREAM_ENTRY_BYTES_MAX, STREAM_PAGE_MAX, StreamEntry, StreamFault, StreamPage,
};

use crate::config::{BadConfig, Limits, RedisConfig};
use crate::link::{Dialer, Link};

/// How long a page may take.
const RESPONSE_MAX: Duration = Duration::from_secs(8);
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The place before all entries.
const START: &str = "0-0";
const SCRIPT: &str = include_str!("../scripts/entries.lua");

/// The streams of one server. Cheap to clone.
#[derive(Clone)]
pub struct RedisStreams {
    dialer: Arc<Dialer>,
    // Held while a connection is made: others wait for it instead of making their own.
    link: Arc<Mutex<Option<Arc<dyn Link>>>>,
}

/// A stream at one moment.
#[derive(Clone, PartialEq, Debug)]
struct StreamState {
    length: u64,
    newest: String,
    added: u64,
    oldest: Option<String>,
    /// After the entries that were asked for.
    more: bool,
    entries: Vec<StreamEntry>,
}

impl RedisStreams {
    /// Checks the address. It connects with the first read.
    pub fn new(config: &RedisConfig) -> Result<Self, BadConfig> {
        let limits = Limits { response: RESPONSE_MAX, connect: CONNECT_MAX, ..config.limits };
        let dialer = Dialer::new(config.servers()?, limits, config.authority.clone())?;
        Ok(Self { dialer: Arc::new(dialer), link: Arc::default() })
    }

    /// The next page of a stream.
    pub async fn read(
        &self,
        stream: &str,
        cursor: StreamCursor,
        start: &StreamStart,
    ) -> Result<StreamPage, StreamFault> {
        let after = match (cursor.place.as_deref(), start) {
            (Some(place), _) => place,
            // The first read finds out what is new.
            (None, StreamStart::Now) => "",
            (None, StreamStart::Beginning) => START,
            (None, StreamStart::After(place)) => place,
        };
        let answer = self.ask(stream, after).await?;
        match read_answer(answer)? {
            Some(state) => next_page(cursor, start, state),
            None => Ok(StreamPage { cursor: before_all(cursor, start), ..StreamPage::default() }),
        }
    }

    async fn ask(&self, stream: &str, after: &str) -> Result<Value, Failure> {
        let mut command = redis::cmd("EVAL_RO");
        command.arg(SCRIPT).arg(1).arg(stream).arg(after).arg(STREAM_PAGE_MAX);
        command.arg(STREAM_ENTRY_BYTES_MAX).arg(PAGE_BYTES_MAX);
        let mut tried = false;
        loop {
            let (link, is_new) = self.link().await.map_err(|error| self.unreachable(&error))?;
            match link.run(vec![command.clone()]).await {
                Ok(answers) => {
                    let answer = answers.into_iter().next();
                    return answer.ok_or_else(|| strange("an answer is missing"));
                }
                Err(error) => {
                    self.link.lock().await.take();
                    // A connection may have ended since it was used last.
                    if is_new || tried {
                        return Err(self.unreachable(&error));
                    }
                    tried = true;
                }
            }
        }
    }

    /// The connection, and whether it was made now.
    async fn link(&self) -> Result<(Arc<dyn Link>, bool), RedisError> {
        let mut link = self.link.lock().await;
        if let Some(link) = &*link {
            return Ok((Arc::clone(link), false));
        }
        let made: Arc<dyn Link> = Arc::from(self.dialer.link().await?);
        *link = Some(Arc::clone(&made));
        Ok((made, true))
    }

    fn unreachable(&self, error: &RedisError) -> Failure {
        let text = format!("Redis at {}: {}", self.dialer.address(), error.category());
        Failure::transient(kind::CONNECTION, text)
    }
}

fn strange(what: &str) -> Failure {
    Failure::transient(kind::CONNECTION, format!("the answer of Redis cannot be read: {what}"))
}

fn refused(reason: String) -> Failure {
    Failure::transient(kind::CONNECTION, reason)
}

/// The cursor of a stream that is not there: what it will have is new, but it keeps a place it has.
fn before_all(cursor: StreamCursor, start: &StreamStart) -> StreamCursor {
    let behind = Some(0);
    if cursor.place.is_some() {
        return StreamCursor { behind, ..cursor };
    }
    let (place, position) = match start {
        StreamStart::Now | StreamStart::Beginning => (START.to_owned(), Some(0)),
        StreamStart::After(place) => (place.to_string(), None),
    };
    StreamCursor { place: Some(place), position, behind, from: None, ..cursor }
}

/// What follows from a page for the cursor.
///
/// Of the entries after its place, it is known how many are there if the page has all of them, or if all
/// others are gone. Fewer than were added since: some were removed unread. More: it is another stream.
fn next_page(
    mut cursor: StreamCursor,
    start: &StreamStart,
    state: StreamState,
) -> Result<StreamPage, StreamFault> {
    let StreamState { length, newest, added, oldest, more, entries } = state;
    let gone = added.saturating_sub(length);
    let (place, position) = match (cursor.place.take(), start) {
        (Some(place), _) => (place, cursor.position),
        (None, StreamStart::Now) => (newest.clone(), Some(added)),
        (None, StreamStart::Beginning) => (START.to_owned(), Some(gone)),
        (None, StreamStart::After(place)) => (place.to_string(), None),
    };
    let id = |text: &str| entry_id(text).ok_or_else(|| strange("an id is none"));
    let at = id(&place)?;
    let back = |why: String| StreamFault::WentBack(format!("the source went back: {why}"));
    if id(&newest)? < at {
        return Err(back(format!("its newest entry was {newest}, and {place} was read before")));
    }
    if let Some(position) = position.filter(|position| *position > added) {
        return Err(back(format!("{added} entries were ever added, and {position} were read")));
    }
    let count = entries.len() as u64;
    let there = match oldest.as_deref().map(id).transpose()? {
        None => Some(0),
        Some(oldest) if oldest > at => Some(length),
        Some(_) if !more => Some(count),
        Some(_) => None,
    };
    let mut removed = 0;
    let position = match (position, there) {
        (Some(position), there) => {
            let since = added - position;
            if there.unwrap_or(count) > since {
                let there = there.unwrap_or(count);
                return Err(back(format!("{since} entries were added, and {there} are there")));
            }
            removed = there.map_or(0, |there| since - there);
            Some(position + removed + count)
        }
        (None, there) => there.map(|there| added.saturating_sub(there) + count),
    };
    let place = entries.last().map_or(place, |entry| entry.key.clone());
    let behind = position.map(|position| added.saturating_sub(position));
    let cursor = StreamCursor { place: Some(place), position, behind, from: None, ..cursor };
    Ok(StreamPage { entries, cursor, more, removed })
}

/// What the script has returned; `None` where there is no stream.
fn read_answer(answer: Value) -> Result<Option<StreamState>, Failure> {
    let fields = match answer {
        Value::Nil | Value::Boolean(false) => return Ok(None),
        Value::ServerError(error) => {
            let detail = error.details().unwrap_or_default();
            return Err(refused(format!("Redis refuses: {} {detail}", error.code())));
        }
        Value::Array(fields) => fields,
        _ => return Err(strange("it is no list")),
    };
    let Ok([length, newest, added, oldest, more, entries]) = <[Value; 6]>::try_from(fields) else {
        return Err(strange("it has other fields"));
    };
    let number = |value: &Value| match value {
        Value::Int(number) => Ok(*number),
        _ => Err(strange("a number is none")),
    };
    let added = u64::try_from(number(&added)?).map_err(|_| {
        refused("the server does not count entries: Redis 7 or Valkey is needed".to_owned())
    })?;
    let Value::Array(entries) = entries else { return Err(strange("the entries are no list")) };
    let oldest = text(oldest)?;
    Ok(Some(StreamState {
        length: u64::try_from(number(&length)?).map_err(|_| strange("a length is negative"))?,
        newest: text(newest)?,
        added,
        oldest: (!oldest.is_empty()).then_some(oldest),
        more: number(&more)? == 1,
        entries: entries.into_iter().map(read_entry).collect::<Result<_, _>>()?,
    }))
}

fn text(value: Value) -> Result<String, Failure> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| strange("an id is none")),
        _ => Err(strange("a text is none")),
    }
}

fn read_entry(value: Value) -> Result<StreamEntry, Failure> {
    let Value::Array(parts) = value else { return Err(strange("an entry is none")) };
    let Ok([key, fields]) = <[Value; 2]>::try_from(parts) else {
        return Err(strange("an entry has other parts"));
    };
    let key = text(key)?;
    let item = match fields {
        Value::Int(bytes) => {
            Err(format!("it has {bytes} bytes; at most {STREAM_ENTRY_BYTES_MAX} are taken"))
        }
        Value::Array(texts) => read_fields(texts).map(|fields| item(&key, &fields)),
        _ => return Err(strange("the fields of an entry are no list")),
    };
    Ok(StreamEntry { key, item })
}

fn item(id: &str, fields: &Map<String, serde_json::Value>) -> Json {
    Json::from_value(&json!({ "id": id, "fields": fields }))
}

/// Names and values in turn; of two equal names the last one counts.
fn read_fields(texts: Vec<Value>) -> Result<Map<String, serde_json::Value>, String> {
    let mut fields = Map::new();
    let mut texts = texts.into_iter().map(|text| match text {
        Value::BulkString(bytes) => {
            String::from_utf8(bytes).map_err(|_| "a field is not UTF-8".to_owned())
        }
        _ => Err("a field is no text".to_owned()),
    });
    while let Some(name) = texts.next() {
        let value = texts.next().unwrap_or_else(|| Ok(String::new()));
        fields.insert(name?, value?.into());
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;
