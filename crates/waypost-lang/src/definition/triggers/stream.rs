//! Triggers that fire with the entries of a stream or the rows of a table.

use std::sync::Arc;

use waypost_core::limits::{
    STREAM_INTERVAL, STREAM_INTERVAL_MAX, STREAM_INTERVAL_MIN, STREAM_NAME_BYTES_MAX,
};
use waypost_core::trigger::{
    RowMark, StreamSource, StreamStart, StreamTrigger, TableName, TableSafety, TriggerKind,
};

use super::Block;
use crate::diagnostics::{Code, quoted};
use crate::source::Span;

/// The values of `safe`.
pub(crate) const SAFETIES: &[&str] = &["mark", "xid"];

const FIELDS: &[&str] =
    &["redis", "stream", "postgres", "table", "key", "safe", "done", "order", "xid"];
const OF_REDIS: &[&str] = &["stream"];
const OF_POSTGRES: &[&str] = &["table", "key", "safe", "done", "order", "xid"];
const EXAMPLES: &str = "`source: { redis: shop, stream: orders }`, or `source: { postgres: erp, table: orders, key: id, done: fired }`";

pub(super) fn read(block: &mut Block<'_, '_, '_>) -> Option<TriggerKind> {
    block.required("source", EXAMPLES);
    let source = block.inner("source", FIELDS, source);
    let bounds = (STREAM_INTERVAL_MIN, STREAM_INTERVAL_MAX);
    let every = block.duration_within("every", bounds, Code::BadInterval);
    let every = every.unwrap_or(STREAM_INTERVAL);
    block.leave_out("every", STREAM_INTERVAL.0);
    let key = block.expression("key", &["item"]);
    let from = block.text("from").map_or(StreamStart::Now, |text| StreamStart::parse(&text));
    block.leave_out("from", StreamStart::Now.name());
    let source = source?;
    check_start(block, &source, &from);
    Some(TriggerKind::Stream(Box::new(StreamTrigger { source, every, key, from })))
}

fn source(block: &mut Block<'_, '_, '_>) -> Option<StreamSource> {
    let (redis, postgres) = (block.present("redis"), block.present("postgres"));
    let (kind, others) = match (redis, postgres) {
        (Some(_), None) => ("redis", OF_POSTGRES),
        (None, Some(_)) => ("postgres", OF_REDIS),
        (found, _) => {
            let span = found.map_or(block.span.clone(), |entry| entry.key_span.clone());
            let message = "`source` needs exactly one of `redis` and `postgres`";
            block.context.faults.error(Code::BadSource, &span, message).hint(EXAMPLES);
            return None;
        }
    };
    for name in others {
        if let Some(entry) = block.present(name) {
            let span = entry.key_span.clone();
            let message = format!("`{name}` does not go with `{kind}`");
            block.context.faults.error(Code::BadSource, &span, message).hint(EXAMPLES);
        }
    }
    let named = named(block, kind);
    match kind {
        "redis" => {
            let stream = stream_name(block);
            Some(StreamSource::Redis { source: named?, stream: stream? })
        }
        _ => {
            let table = table(block);
            let key = needed_column(block, "key", "the column that identifies a row: `key: id`");
            let safety = safety(block);
            Some(StreamSource::Postgres {
                source: named?,
                table: table?,
                key: key?,
                safety: safety?,
            })
        }
    }
}

/// The name of a source of the settings. A URL is a common mistake, and has a password in it.
fn named(block: &mut Block<'_, '_, '_>, field: &str) -> Option<Arc<str>> {
    let span = block.present(field)?.value.span.clone();
    let name = block.text(field)?;
    if !StreamSource::is_name(&name) {
        let message = format!("`{field}` must be the name of a source in the settings");
        let hint = "the settings have the URL: [sources.shop]; here is its name: `shop`";
        block.context.faults.error(Code::BadSource, &span, message).hint(hint);
        return None;
    }
    Some(name.into())
}

fn stream_name(block: &mut Block<'_, '_, '_>) -> Option<Arc<str>> {
    block.required("stream", "the key of the stream: `stream: orders`")?;
    let span = span_of(block, "stream");
    let name = block.text("stream")?;
    if name.is_empty() || name.len() > STREAM_NAME_BYTES_MAX {
        let message = format!("`stream` must have 1 to {STREAM_NAME_BYTES_MAX} bytes");
        block.context.faults.error(Code::BadSource, &span, message);
        return None;
    }
    Some(name.into())
}

fn table(block: &mut Block<'_, '_, '_>) -> Option<TableName> {
    block.required("table", "the table: `table: orders`, or `table: sales.orders`")?;
    let span = span_of(block, "table");
    let name = block.text("table")?;
    let table = TableName::parse(&name);
    if table.is_none() {
        let message = format!("`table` cannot be {}", quoted(&name));
        let hint = "write `table` or `schema.table`, each of up to 63 bytes";
        block.context.faults.error(Code::BadSource, &span, message).hint(hint);
    }
    table
}

fn needed_column(block: &mut Block<'_, '_, '_>, field: &str, hint: &str) -> Option<Arc<str>> {
    block.required(field, hint)?;
    column(block, field)
}

fn column(block: &mut Block<'_, '_, '_>, field: &str) -> Option<Arc<str>> {
    let span = span_of(block, field);
    let name = block.text(field)?;
    if !TableName::is_name(&name) {
        let message = format!("`{field}` cannot be {}", quoted(&name));
        let hint = "it is the name of a column, of up to 63 bytes";
        block.context.faults.error(Code::BadSource, &span, message).hint(hint);
        return None;
    }
    Some(name.into())
}

fn safety(block: &mut Block<'_, '_, '_>) -> Option<TableSafety> {
    let is_given = block.present("safe").is_some();
    let safe = block.word("safe", SAFETIES, Code::BadSource);
    block.leave_out("safe", "mark");
    if is_given && safe.is_none() {
        return None;
    }
    let is_xid = safe == Some("xid");
    for name in if is_xid { &["done", "order"][..] } else { &["xid"] } {
        if let Some(entry) = block.present(name) {
            let span = entry.key_span.clone();
            let safe = if is_xid { "xid" } else { "mark" };
            let message = format!("`{name}` does not go with `safe: {safe}`");
            let hint = "`mark` has `done` and `order`, `xid` has `xid`";
            block.context.faults.error(Code::BadSource, &span, message).hint(hint);
        }
    }
    if is_xid {
        let hint = "a column `written xid8 NOT NULL DEFAULT pg_current_xact_id()`: `xid: written`";
        let column = needed_column(block, "xid", hint)?;
        return Some(TableSafety::Xid { column });
    }
    let hint = "`done: fired` with a column of type boolean or timestamptz, or `done: delete`";
    let done = needed_column(block, "done", hint);
    let order = column(block, "order");
    let done = done?;
    let mark = if &*done == "delete" { RowMark::Delete } else { RowMark::Column(done) };
    Some(TableSafety::Mark { mark, order })
}

fn check_start(block: &mut Block<'_, '_, '_>, source: &StreamSource, from: &StreamStart) {
    let Some(entry) = block.present("from") else { return };
    let span = entry.value.span.clone();
    let faults = &mut *block.context.faults;
    match source {
        StreamSource::Redis { .. } if !from.is_for_redis() => {
            let message = format!("`from` cannot be {}", quoted(from.name()));
            let hint = "write `now`, `beginning` or the id of an entry, such as `1700000000000-0`";
            faults.error(Code::BadSource, &span, message).hint(hint);
        }
        StreamSource::Postgres { safety: TableSafety::Mark { .. }, .. } => {
            let message =
                "`from` does not go with `safe: mark`: all rows without the mark are read";
            let hint = "mark the rows that are not to fire";
            faults.error(Code::BadSource, &span, message).hint(hint);
        }
        StreamSource::Postgres { safety: TableSafety::Xid { .. }, .. }
            if matches!(from, StreamStart::After(_)) =>
        {
            let message = format!("`from` cannot be {}", quoted(from.name()));
            faults.error(Code::BadSource, &span, message).hint("write `now` or `beginning`");
        }
        StreamSource::Redis { .. } | StreamSource::Postgres { .. } => {}
    }
}

fn span_of(block: &Block<'_, '_, '_>, field: &str) -> Span {
    block.present(field).map_or(block.span.clone(), |entry| entry.value.span.clone())
}
