//! Leases and numbers. An instance is alive until its lease expires, by the database's time. Its
//! executions are not touched when it dies: claims look for rows whose owner is not alive.

use waypost_core::time::Timestamp;
use waypost_ports::store::{Heartbeat, Renewal};

use crate::connection::Connection;
use crate::error::Result;
use crate::queries::sql;
use crate::text::get;

/// Renews or ends a lease, and sets numbers aside.
pub(crate) async fn heartbeat(db: &mut Connection, heartbeat: &Heartbeat) -> Result<Renewal> {
    let Heartbeat { instance, numbers, fold, lease, about } = heartbeat;
    let lease = lease.map(|lease| i64::try_from(lease.0).unwrap_or(i64::MAX));
    let numbers = i64::from(*numbers);
    let row = db
        .query_one(
            sql!("instance_renew"),
            &[
                &instance.0,
                &lease,
                &i32::from(*fold),
                &about.version.as_bytes(),
                &about.address.as_ref().map(|address| address.as_bytes()),
                &i64::from(about.running),
                &numbers,
            ],
        )
        .await?;
    let last: i64 = get::<Option<i64>>(&row, 1)?.unwrap_or_default();
    let first = last - numbers + 1;
    let oldest: Option<i32> = get(&row, 2)?;
    let oldest = oldest.and_then(|oldest| u16::try_from(oldest).ok()).unwrap_or(*fold);
    let (now, numbers) = (Timestamp(get(&row, 0)?), first..last + 1);
    // The statement saw the others, and itself as it was before.
    Ok(Renewal { now, numbers, fold: oldest.min(*fold) })
}
