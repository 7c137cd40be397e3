//! The feed: frames of all executions in the order of their commits. There is one writer at a time and
//! rowids grow, so that a place in this order is a rowid and nothing ever appears before it.

use rusqlite::{Connection, Row};
use waypost_core::id::ExecutionNo;
use waypost_ports::query::{FEED_BYTES_MAX, FeedFrame, FeedPosition, FeedRequest};
use waypost_ports::store::StoredFrame;

use crate::connection::{from_stored, is_corrupt, value};
use crate::{history, queries};

/// The frames after a place.
pub(crate) fn page(
    connection: &Connection,
    request: &FeedRequest,
) -> rusqlite::Result<Vec<FeedFrame>> {
    let after = i64::try_from(request.after.0).unwrap_or(i64::MAX);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(queries::FRAMES_FEED)?;
    let mut rows = select.query([after, limit])?;
    let mut page = Vec::new();
    let mut bytes = 0;
    while bytes < FEED_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        bytes += row.get_ref(9)?.as_blob()?.len();
        page.push(FeedFrame {
            position: FeedPosition(from_stored(row.get(10)?)),
            key: row.get_ref(12)?.as_str_or_null()?.unwrap_or_default().into(),
            frame: read(connection, row)?,
        });
    }
    Ok(page)
}

/// The place after the last frame.
pub(crate) fn end(connection: &Connection) -> rusqlite::Result<FeedPosition> {
    Ok(FeedPosition(from_stored(value(connection, queries::FRAMES_HEAD, [])?)))
}

/// A frame whose columns are damaged is given as such: the feed has to get past it.
fn read(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<StoredFrame> {
    let execution = ExecutionNo(row.get(11)?);
    let frame = match row.get(0)? {
        ..=1 => history::read_frame(row, execution, None),
        first_seq => history::parent_of(connection, execution, first_seq)
            .and_then(|parent| history::read_frame(row, execution, parent)),
    };
    match frame {
        Err(error) if is_corrupt(&error) => {
            Ok(StoredFrame::unreadable(execution, error.to_string()))
        }
        frame => frame,
    }
}
