//! Lists and logs for people.

use rusqlite::{Connection, Row};
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::query::{
    BACKLOG_MAX, Backlog, DefinitionPage, DefinitionRow, DefinitionsRequest, EventRow,
    EventsRequest, ExecutionPage, FEED_BYTES_MAX, FeedFrame, FeedPosition, FeedRequest,
    InstanceRow, ListRequest, MAIL_ROW_BYTES, ProjectionLag, Query, Read, Submitted, WaitPage,
    WaitsRequest, read_events,
};
use waypost_ports::store::{History, Store, StoreError};

use crate::connection::{first, from_stored, to_stored, value};
use crate::store::SqliteStore;
use crate::{definitions, feed, history, instances, queries};

impl Query for SqliteStore {
    fn find(&self, key: Option<&str>) -> Result<Option<ExecutionNo>, StoreError> {
        self.readers.read(|connection| {
            let read = |row: &Row<'_>| row.get(0).map(ExecutionNo);
            match key {
                Some(key) => first(connection, queries::SUBMISSION_BY_KEY, [key], read),
                None => first(connection, queries::EXECUTION_NEWEST, [], read),
            }
        })
    }

    fn submitted(&self, idempotency: &str) -> Result<Option<Submitted>, StoreError> {
        self.readers.read(|connection| {
            first(connection, queries::SUBMISSION_BY_IDEMPOTENCY, [idempotency], |row| {
                Ok(Submitted { execution: ExecutionNo(row.get(0)?), digest: row.get(1)? })
            })
        })
    }

    fn look(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.load(execution)
    }

    fn is_unfinished(&self, execution: ExecutionNo) -> Result<bool, StoreError> {
        self.readers.read(|connection| value(connection, queries::CONTROL_EXISTS, [execution.0]))
    }

    fn list(&self, request: &ListRequest) -> Result<ExecutionPage, StoreError> {
        self.projections().list(request, &self.readers)
    }

    fn waits(&self, request: &WaitsRequest) -> Result<WaitPage, StoreError> {
        self.projections().waits(request, &self.readers)
    }

    fn events(&self, request: &EventsRequest) -> Result<Vec<EventRow>, StoreError> {
        self.readers.read(|connection| events(connection, request))
    }

    fn feed(&self, request: &FeedRequest) -> Result<Vec<FeedFrame>, StoreError> {
        self.readers.read(|connection| feed::page(connection, request))
    }

    fn weigh(&self, read: Read) -> Result<u64, StoreError> {
        self.readers.read(|connection| weigh(connection, read))
    }

    fn feed_end(&self) -> Result<FeedPosition, StoreError> {
        self.readers.read(feed::end)
    }

    fn definitions(&self, request: &DefinitionsRequest) -> Result<DefinitionPage, StoreError> {
        self.readers.read(|connection| definitions::list(connection, request))
    }

    fn current(&self, workflow: &str) -> Result<Option<DefinitionRow>, StoreError> {
        self.readers.read(|connection| definitions::current(connection, workflow))
    }

    fn instances(&self) -> Result<Vec<InstanceRow>, StoreError> {
        let now = self.time();
        self.readers.read(|connection| instances::list(connection, now))
    }

    fn backlog(&self) -> Result<Backlog, StoreError> {
        let now = self.time();
        self.readers.read(|connection| {
            let mut count = connection.prepare_cached(queries::BACKLOG)?;
            count.query_row([now.0, BACKLOG_MAX.cast_signed()], |row| {
                let oldest = row.get::<_, Option<i64>>(1)?.map(Timestamp);
                Ok(Backlog {
                    executions: from_stored(row.get(0)?),
                    oldest: oldest.map_or(Millis(0), |due| now.since(due)),
                })
            })
        })
    }

    fn lag(&self) -> Result<ProjectionLag, StoreError> {
        self.projections().lag(&self.readers)
    }

    fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError> {
        self.projections().rebuild(&self.readers, progress)
    }
}

fn events(connection: &Connection, request: &EventsRequest) -> rusqlite::Result<Vec<EventRow>> {
    let execution = request.execution.0;
    let next = to_stored(request.after.min(i64::MAX as u64 - 1) + 1)?;
    let from = first(connection, queries::FRAMES_HOLDING, [execution, next], |row| row.get(0))?;
    let mut rows = Vec::new();
    history::each_frame(connection, request.execution, from.unwrap_or(1), |stored| {
        read_events(&stored, request, &mut rows);
        !request.is_full(&rows)
    })?;
    Ok(rows)
}

/// Reads the lengths of rows, which are stored before their bytes: a log of megabytes costs no more
/// than one of as many small frames.
fn weigh(connection: &Connection, read: Read) -> rusqlite::Result<u64> {
    let stored = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let bytes: i64 = match read {
        Read::State(execution) => value(connection, queries::WEIGH_STATE, [execution.0])?,
        Read::Mail(execution) => {
            value(connection, queries::WEIGH_MAIL, [execution.0, stored(MAIL_ROW_BYTES)])?
        }
        Read::Events { execution, after, limit, bytes } => {
            let next = to_stored(after.min(i64::MAX as u64 - 1) + 1)?;
            let params = [execution.0, next, stored(limit), stored(bytes)];
            value(connection, queries::WEIGH_EVENTS, params)?
        }
        Read::Feed(FeedRequest { after, limit }) => {
            let after = i64::try_from(after.0).unwrap_or(i64::MAX);
            let params = [after, stored(limit), stored(FEED_BYTES_MAX)];
            value(connection, queries::WEIGH_FEED, params)?
        }
    };
    Ok(u64::try_from(bytes).unwrap_or(0))
}
