//! Polls, without I/O: from a page to its items.

use serde::Deserialize;
use serde_json::Value;
use waypost_core::expr::{Rendered, Scope};
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Payload, PollCursor, PollTrigger};
use waypost_ports::source::SourcePage;

use super::items::{PageItem, key_of, wrong};

/// Items of one page.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Bytes of a cursor.
pub const CURSOR_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a cursor that executions know of.
const SHOWN_CURSOR_BYTES_MAX: usize = 4 * 1024;

/// A page, evaluated.
#[derive(Debug)]
pub struct PageItems {
    pub items: Vec<PageItem>,
    /// After the page.
    pub cursor: PollCursor,
    /// Is there another page to be read at once?
    pub more: bool,
}

/// The request for the page after a cursor.
pub fn page_request(poll: &PollTrigger, cursor: &PollCursor) -> Result<Rendered, Failure> {
    let mut scope = Scope::new();
    scope.json("cursor", &moved_back(&cursor.cursor, poll.lookback));
    poll.request.render_around_secrets(&scope)
}

/// A cursor from which a source is read that lists entries late: each of its times, earlier by the span.
fn moved_back(cursor: &Json, lookback: Option<Millis>) -> Json {
    let (Some(span), Ok(mut value)) = (lookback, cursor.to_value()) else { return cursor.clone() };
    fn move_times(value: &mut Value, span: Millis) {
        match value {
            Value::String(text) => {
                if let Some(time) = Timestamp::parse(text) {
                    *text = time.minus(span).to_string();
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| move_times(value, span)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| move_times(value, span));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    move_times(&mut value, span);
    Json::from_value(&value)
}

/// What is on a page.
pub fn read_page(
    poll: &PollTrigger,
    cursor: &PollCursor,
    page: &SourcePage,
) -> Result<PageItems, Failure> {
    let mut scope = Scope::new();
    scope.json("body", &page.body);
    scope.json("headers", &page.headers);
    scope.json("status", &Json::from_value(&page.status.into()));
    scope.json("cursor", &cursor.cursor);
    let items: Vec<Json> = serde_json::from_str(poll.items.eval(&scope)?.text())
        .map_err(|_| wrong("the field `items` gave no list".to_owned()))?;
    if items.len() > PAGE_ITEMS_MAX {
        return Err(wrong(format!(
            "the page has {} items; at most {PAGE_ITEMS_MAX} are taken: ask the source for smaller pages",
            items.len()
        )));
    }
    scope.json("item", items.last().unwrap_or(&Json::null()));
    let next = match &poll.next {
        Some(template) => template.render(&scope)?,
        None => cursor.cursor.clone(),
    };
    if next.bytes() > CURSOR_BYTES_MAX {
        return Err(wrong(format!(
            "the cursor has {} bytes; at most {CURSOR_BYTES_MAX} are kept",
            next.bytes()
        )));
    }
    let more = poll.more.as_ref().map(|more| more.eval(&scope)).transpose()?;
    let more = more.is_some_and(|more| !matches!(more.text(), "null" | "false" | "\"\""));
    // From the same cursor the same page would be read, again and again without a pause.
    let moved = next.text() != cursor.cursor.text();
    let more = more && moved;
    // Of another cursor, the page is another one.
    let etag = etag(&page.headers).filter(|_| !moved);
    let items = items.iter().enumerate().map(|(at, item)| page_item(poll, cursor, (at, item)));
    Ok(PageItems {
        items: items.collect(),
        cursor: PollCursor { cursor: next, etag, dead_in_a_row: cursor.dead_in_a_row },
        more,
    })
}

fn page_item(poll: &PollTrigger, cursor: &PollCursor, (at, item): (usize, &Json)) -> PageItem {
    let key = match &poll.key {
        // Without keys an item is known by its place in the page that was read from a cursor.
        None => {
            let page = blake3::hash(cursor.cursor.text().as_bytes());
            Ok(format!("{page} {at}"))
        }
        Some(key) => key_of(key, item),
    };
    let mut found = PageItem::new(key, item, Payload::item(item, &cursor.cursor));
    if cursor.cursor.bytes() <= SHOWN_CURSOR_BYTES_MAX
        && let Ok(details) = Json::object([("cursor", cursor.cursor.clone())].into_iter())
    {
        found.occurrence = found.occurrence.with_details(details);
    }
    found
}

fn etag(headers: &Json) -> Option<String> {
    #[derive(Deserialize)]
    struct Headers {
        etag: Option<String>,
    }
    serde_json::from_str(headers.text()).ok().and_then(|headers: Headers| headers.etag)
}

#[cfg(test)]
mod tests;
