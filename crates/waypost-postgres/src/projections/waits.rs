//! Pages of open waits.

use tokio_postgres::Row;
use waypost_core::id::ExecutionNo;
use waypost_core::projection::WaitDetail;
use waypost_core::time::Timestamp;
use waypost_ports::query::{WaitCollector, WaitPage, WaitRow, WaitsRequest};

use super::lag;
use super::queries::sql;
use crate::connection::Connection;
use crate::error::Result;
use crate::text::{from_stored, get, limit, text, text_or_none, time};

/// A page, in one snapshot: a wait that closes meanwhile appears once.
pub(crate) async fn page(db: &mut Connection, request: &WaitsRequest) -> Result<WaitPage> {
    db.begin_snapshot().await?;
    let lag = lag(db).await?;
    let mut collector = WaitCollector::new(request);
    while let Some(((execution, seq), wanted)) = collector.wants() {
        let (seq, most) = (seq.cast_signed(), limit(wanted));
        let rows = match request.kind {
            None => db.query_map(sql!("waits_list"), &[&execution.0, &seq, &most], read).await?,
            Some(kind) => {
                let sql = sql!("waits_list_by_kind");
                db.query_map(sql, &[&execution.0, &seq, &most, &kind], read).await?
            }
        };
        collector.take(rows, wanted);
    }
    db.commit().await?;
    Ok(collector.page(lag))
}

fn read(row: &Row) -> Result<WaitRow> {
    let kind: &str = get(row, 5)?;
    Ok(WaitRow {
        execution: ExecutionNo(get(row, 0)?),
        seq: from_stored(get(row, 1)?),
        key: text(row, 2)?,
        workflow: text(row, 3)?,
        node: text(row, 4)?,
        kind: kind.into(),
        since: Timestamp(get(row, 6)?),
        due: time(row, 7)?,
        detail: WaitDetail::read(text_or_none(row, 8)?.as_deref()),
    })
}
