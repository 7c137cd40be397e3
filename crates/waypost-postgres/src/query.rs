//! Lists and logs for people.

use tokio_postgres::Row;
use uuid::Uuid;
use waypost_core::id::{DefinitionHash, ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::query::{
    BACKLOG_MAX, Backlog, DefinitionPage, DefinitionRow, DefinitionsRequest, EventRow,
    EventsRequest, ExecutionPage, FEED_BYTES_MAX, FeedFrame, FeedPosition, FeedRequest,
    InstanceRow, ListRequest, MAIL_ROW_BYTES, ProjectionLag, Query, Read, Submitted, WaitPage,
    WaitsRequest, read_events,
};
use waypost_ports::store::{About, History, StoreError, StoredFrame};

use crate::connection::{Connection, Params, Role};
use crate::error::Result;
use crate::projections::{list, waits};
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{
    array, count, from_stored, get, limit, limit_and_one, narrow, text, text_or_none, time,
};
use crate::{feed, history, projections};

/// Frames of one log that are read at a time, and bytes of them.
const FRAMES_AT_ONCE: i64 = 1_000;
const BYTES_AT_ONCE: i64 = 4 << 20;

impl Query for PostgresStore {
    fn find(&self, key: Option<&str>) -> Result<Option<ExecutionNo>, StoreError> {
        let read = |row: &Row| Ok(get::<Option<i64>>(row, 0)?.map(ExecutionNo));
        let found = self.run(Role::Api, async |db| match key {
            Some(key) => db.query_opt(sql!("submission_by_key"), &[&key.as_bytes()], read).await,
            None => db.query_opt(sql!("execution_newest"), &[], read).await,
        })?;
        Ok(found.flatten())
    }

    fn submitted(&self, idempotency: &str) -> Result<Option<Submitted>, StoreError> {
        let key = idempotency.as_bytes();
        let read = |row: &Row| {
            Ok(Submitted { execution: ExecutionNo(get(row, 0)?), digest: array(row, 1)? })
        };
        self.run(Role::Api, async |db| {
            db.query_opt(sql!("submission_by_idempotency"), &[&key], read).await
        })
    }

    fn look(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.run(Role::Api, async |db| history::load(db, execution, history::From::Snapshot).await)
    }

    fn is_unfinished(&self, execution: ExecutionNo) -> Result<bool, StoreError> {
        self.run(Role::Api, async |db| {
            get(&db.query_one(sql!("control_exists"), &[&execution.0]).await?, 0)
        })
    }

    fn list(&self, request: &ListRequest) -> Result<ExecutionPage, StoreError> {
        self.run(Role::Api, async |db| list::page(db, request).await)
    }

    fn waits(&self, request: &WaitsRequest) -> Result<WaitPage, StoreError> {
        self.run(Role::Api, async |db| waits::page(db, request).await)
    }

    fn events(&self, request: &EventsRequest) -> Result<Vec<EventRow>, StoreError> {
        self.run(Role::Api, async |db| events(db, request).await)
    }

    fn feed(&self, request: &FeedRequest) -> Result<Vec<FeedFrame>, StoreError> {
        self.run(Role::Api, async |db| feed::page(db, request).await)
    }

    fn weigh(&self, read: Read) -> Result<u64, StoreError> {
        self.run(Role::Api, async |db| weigh(db, read).await)
    }

    fn feed_end(&self) -> Result<FeedPosition, StoreError> {
        self.run(Role::Api, async |db| feed::end(db).await)
    }

    fn definitions(&self, request: &DefinitionsRequest) -> Result<DefinitionPage, StoreError> {
        self.run(Role::Api, async |db| definitions(db, request).await)
    }

    fn current(&self, workflow: &str) -> Result<Option<DefinitionRow>, StoreError> {
        self.run(Role::Api, async |db| {
            db.query_opt(sql!("definition_current"), &[&workflow.as_bytes()], definition).await
        })
    }

    /// With a connection of the engine's: whether an instance is ready must not depend on how many
    /// people read.
    fn is_alive(&self, instance: InstanceId) -> Result<bool, StoreError> {
        self.run(Role::Engine, async |db| {
            get(&db.query_one(sql!("instance_alive"), &[&instance.0]).await?, 0)
        })
    }

    fn instances(&self) -> Result<Vec<InstanceRow>, StoreError> {
        self.run(Role::Api, async |db| db.query_map(sql!("instances_list"), &[], instance).await)
    }

    fn backlog(&self) -> Result<Backlog, StoreError> {
        self.run(Role::Api, async |db| {
            let most = BACKLOG_MAX.cast_signed();
            let row = db.query_one(sql!("backlog"), &[&most]).await?;
            let oldest = get::<Option<i64>>(&row, 1)?.unwrap_or(0);
            Ok(Backlog { executions: count(&row, 0)?, oldest: Millis(from_stored(oldest)) })
        })
    }

    fn lag(&self) -> Result<ProjectionLag, StoreError> {
        self.run(Role::Api, async |db| projections::lag(db).await)
    }

    fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError> {
        self.projections.rebuild(progress)
    }
}

/// Frames are read a page at a time: a log may be longer than memory.
async fn events(db: &mut Connection, request: &EventsRequest) -> Result<Vec<EventRow>> {
    let mut rows = Vec::new();
    let mut next = i64::try_from(request.after).unwrap_or(i64::MAX).saturating_add(1);
    let bytes_at_once = limit(request.bytes).min(BYTES_AT_ONCE);
    while !request.is_full(&rows) {
        let params: Params<'_> = &[&request.execution.0, &next, &FRAMES_AT_ONCE, &bytes_at_once];
        let page = db.query(sql!("frames_page"), params).await?;
        let Some(last) = page.last() else { break };
        let after: i64 = get(last, 2)?;
        // A page begins with the frame that holds `next`, or the last one where none does.
        if after < next {
            break;
        }
        for row in &page {
            let frame = history::read_frame(row, None).unwrap_or_else(|error| {
                StoredFrame::unreadable(request.execution, error.to_string())
            });
            read_events(&frame, request, &mut rows);
        }
        next = after.saturating_add(1);
    }
    Ok(rows)
}

/// Adds up the lengths of rows, which the database has without reading large ones.
async fn weigh(db: &mut Connection, read: Read) -> Result<u64> {
    let row = match read {
        Read::State(execution) => db.query_one(sql!("weigh_state"), &[&execution.0]).await?,
        Read::Mail(execution) => {
            let row = limit(MAIL_ROW_BYTES);
            db.query_one(sql!("weigh_mail"), &[&execution.0, &row]).await?
        }
        Read::Events { execution, after, limit: frames, bytes } => {
            let next = i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1);
            let params: Params<'_> = &[&execution.0, &next, &limit(frames), &limit(bytes)];
            db.query_one(sql!("weigh_events"), params).await?
        }
        Read::Feed(FeedRequest { after, limit: frames }) => {
            let after = i64::try_from(after.0).unwrap_or(i64::MAX);
            let params: Params<'_> = &[&after, &limit(frames), &limit(FEED_BYTES_MAX)];
            db.query_one(sql!("weigh_feed"), params).await?
        }
    };
    count(&row, 0)
}

async fn definitions(db: &mut Connection, request: &DefinitionsRequest) -> Result<DefinitionPage> {
    let after = request.after.as_ref();
    let one_more = limit_and_one(request.limit);
    let rows = match &request.workflow {
        Some(workflow) => {
            let before = after.map_or(i64::MAX, |(_, version)| i64::from(*version));
            let params: Params<'_> = &[&workflow.as_bytes(), &before, &one_more];
            db.query(sql!("definition_versions"), params).await?
        }
        None => {
            let name = after.map(|(name, _)| name.as_bytes());
            db.query(sql!("definitions_latest"), &[&name, &one_more]).await?
        }
    };
    let mut rows = rows.iter().map(definition).collect::<Result<Vec<_>, _>>()?;
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    Ok(DefinitionPage { rows, more })
}

fn definition(row: &Row) -> Result<DefinitionRow> {
    Ok(DefinitionRow {
        workflow: text(row, 0)?,
        version: narrow(row, 1)?,
        hash: DefinitionHash(array(row, 2)?),
        created_at: Some(Timestamp(get(row, 3)?)),
        current: narrow(row, 4)?,
    })
}

fn instance(row: &Row) -> Result<InstanceRow> {
    let fold: i32 = get::<Option<i32>>(row, 3)?.unwrap_or_default();
    let running: i64 = get::<Option<i64>>(row, 7)?.unwrap_or_default();
    Ok(InstanceRow {
        instance: InstanceId(get::<Uuid>(row, 0)?),
        alive_until: time(row, 1)?,
        alive: get(row, 2)?,
        fold: u16::try_from(fold).unwrap_or_default(),
        owned: count(row, 4)?,
        about: About {
            version: text_or_none(row, 5)?.unwrap_or_default(),
            address: text_or_none(row, 6)?,
            running: u32::try_from(running).unwrap_or_default(),
        },
        silent: get::<Option<i64>>(row, 8)?.map(|ms| Millis(u64::try_from(ms).unwrap_or(0))),
    })
}
