//! The feed: frames of all executions, in an order in which no frame ever appears before a place that
//! was already read.
//!
//! A frame's place begins with the number of the transaction that wrote it. PostgreSQL assigns numbers
//! before transactions commit, so a reader that reads up to the newest frame would miss a transaction
//! with a lower number that commits later. Readers stop before the oldest open transaction.
//!
//! The feed is therefore a moment behind the commits. A reader that finds such frames waits briefly, so
//! that a caller finds what it has just committed. A long transaction of another client of the same
//! server delays the feed, and has no other effect.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use waypost_core::frame::Parent;
use waypost_core::id::{AppendId, ExecutionNo};
use waypost_ports::query::{FEED_BYTES_MAX, FeedFrame, FeedPosition, FeedRequest};
use waypost_ports::store::StoredFrame;

use crate::connection::{Connection, Params};
use crate::error::Result;
use crate::history;
use crate::queries::sql;
use crate::text::{count, from_stored, get, limit, text_or_none};

/// How long to wait for transactions that are older than the newest frame.
const PATIENCE: Duration = Duration::from_millis(250);

/// How often to check whether they have ended.
const POLL: Duration = Duration::from_millis(2);

/// The maximum of frames of a page.
const FRAMES_MAX: i64 = 10_000;

/// The frames after a place.
pub(crate) async fn page(db: &mut Connection, request: &FeedRequest) -> Result<Vec<FeedFrame>> {
    let after = i64::try_from(request.after.0).unwrap_or(i64::MAX);
    let end = settled_end(db, after).await?;
    let bytes = i64::try_from(FEED_BYTES_MAX).unwrap_or(i64::MAX);
    let params: Params<'_> = &[&after, &end, &limit(request.limit).min(FRAMES_MAX), &bytes];
    db.query_map(sql!("frames_feed"), params, read).await
}

/// The place after the last frame.
pub(crate) async fn end(db: &mut Connection) -> Result<FeedPosition> {
    let end = settled_end(db, 0).await?;
    let row = db.query_one(sql!("feed_last"), &[&end]).await?;
    Ok(FeedPosition(from_stored(get(&row, 0)?)))
}

/// A place before which nothing new can appear; beyond every current frame, if that does not take
/// long. A statement of its own: the snapshots of later ones are at least as new.
async fn settled_end(db: &mut Connection, after: i64) -> Result<i64> {
    let started = Instant::now();
    let mut wanted = None;
    loop {
        let row = db.query_one(sql!("feed_end"), &[]).await?;
        let (end, last): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
        let wanted = *wanted.get_or_insert(last);
        if wanted < end || wanted <= after || started.elapsed() >= PATIENCE {
            return Ok(end);
        }
        sleep(POLL).await;
    }
}

/// A frame whose columns are damaged is given as such: the feed has to get past it.
fn read(row: &Row) -> Result<FeedFrame> {
    let parent = match get::<Option<i64>>(row, 13)? {
        Some(first_seq) => {
            Some(Parent { first_seq: from_stored(first_seq), append_id: AppendId(get(row, 14)?) })
        }
        None => None,
    };
    let frame = match history::read_frame(row, parent) {
        Ok(frame) => frame,
        Err(error) => StoredFrame::unreadable(ExecutionNo(get(row, 0)?), error.to_string()),
    };
    let key = text_or_none(row, 12)?.unwrap_or_default();
    Ok(FeedFrame { position: FeedPosition(count(row, 11)?), key, frame })
}
