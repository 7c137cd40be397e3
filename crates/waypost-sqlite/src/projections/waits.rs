//! Pages of open waits.

use rusqlite::{Connection, Row, params};
use waypost_core::id::ExecutionNo;
use waypost_core::projection::WaitDetail;
use waypost_core::time::Timestamp;
use waypost_ports::query::{WaitCollector, WaitPage, WaitRow, WaitsRequest};

use super::{file, queries};
use crate::connection::{from_stored, to_stored};

/// A page of open waits; `head` is how far the log goes.
pub(super) fn page(
    connection: &Connection,
    request: &WaitsRequest,
    head: i64,
) -> rusqlite::Result<WaitPage> {
    let lag = file::progress(connection)?.lag(head);
    let mut collector = WaitCollector::new(request);
    while let Some(((execution, seq), wanted)) = collector.wants() {
        let (seq, limit) = (to_stored(seq)?, i64::try_from(wanted).unwrap_or(i64::MAX));
        let rows: rusqlite::Result<Vec<WaitRow>> = match request.kind {
            None => connection
                .prepare_cached(queries::WAITS_LIST)?
                .query_map(params![execution.0, seq, limit], read)?
                .collect(),
            Some(kind) => connection
                .prepare_cached(queries::WAITS_LIST_BY_KIND)?
                .query_map(params![execution.0, seq, limit, kind], read)?
                .collect(),
        };
        collector.take(rows?, wanted);
    }
    Ok(collector.page(lag))
}

fn read(row: &Row<'_>) -> rusqlite::Result<WaitRow> {
    let text = |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, String>(column)?.into());
    Ok(WaitRow {
        execution: ExecutionNo(row.get(0)?),
        seq: from_stored(row.get(1)?),
        key: text(2)?,
        workflow: text(3)?,
        node: text(4)?,
        kind: text(5)?,
        since: Timestamp(row.get(6)?),
        due: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        detail: WaitDetail::read(row.get::<_, Option<String>>(8)?.as_deref()),
    })
}
