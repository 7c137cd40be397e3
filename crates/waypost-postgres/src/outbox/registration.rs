//! The registration of endpoints: by itself, or with the deploy of a trigger that fires with ends.

use std::thread;
use std::time::Duration;

use waypost_ports::outbox::NewEndpoint;

use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::get;

/// How often the registration of an endpoint waits for the appends under way, and the pause between.
const REGISTRATION_TRIES: u32 = 10;
const REGISTRATION_PAUSE: Duration = Duration::from_millis(200);

/// Registers an endpoint, for which appends may be in the way for a moment.
pub(crate) fn registering<T>(mut register: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..REGISTRATION_TRIES {
        match register() {
            Err(DbError::Unavailable(_)) => thread::sleep(REGISTRATION_PAUSE),
            result => return result,
        }
    }
    register()
}

/// Inside of a transaction: adds an endpoint that may be there.
pub(crate) async fn add_unless_known(db: &mut Connection, endpoint: &NewEndpoint) -> Result<()> {
    // Without the lock, where nothing is to be added.
    let known = db.query_one(sql!("endpoint_exists"), &[&endpoint.id.as_bytes()]).await?;
    match get(&known, 0)? {
        true => Ok(()),
        false => add(db, endpoint).await.map(drop),
    }
}

/// Inside of a transaction; returns 0 if the id is taken.
pub(super) async fn add(db: &mut Connection, endpoint: &NewEndpoint) -> Result<u64> {
    let NewEndpoint { id, url, description, workflow, kinds, with_output, with_links, secret } =
        endpoint;
    db.query(sql!("outbox_lock_timeout"), &[]).await?;
    db.run_all(sql!("outbox_lock")).await?;
    let params: Params<'_> = &[
        &id.as_bytes(),
        &url.as_bytes(),
        &description.as_bytes(),
        &workflow.as_ref().map(|workflow| workflow.as_bytes()),
        &i64::from(kinds.bits()),
        with_output,
        with_links,
        &secret.0,
    ];
    db.execute(sql!("endpoint_insert"), params).await
}
