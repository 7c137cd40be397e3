//! Endpoints that come, by themselves or with the deploy of a trigger that fires with ends, and go.

use rusqlite::params;
use waypost_ports::outbox::NewEndpoint;

use crate::connection::run;
use crate::queries;
use crate::store::Write;

pub(super) fn delete(write: &Write<'_>, id: &str) -> rusqlite::Result<bool> {
    run(&write.tx, queries::AWAITED_KEEP, [id])?;
    run(&write.tx, queries::ENDPOINT_MESSAGES_DELETE, [id])?;
    Ok(run(&write.tx, queries::ENDPOINT_DELETE, [id])? > 0)
}

/// Returns false if the id is taken.
pub(crate) fn add(write: &Write<'_>, endpoint: &NewEndpoint) -> rusqlite::Result<bool> {
    let NewEndpoint { id, url, description, workflow, kinds, with_output, with_links, secret } =
        endpoint;
    let row = params![
        &**id,
        &**url,
        &**description,
        workflow.as_deref(),
        kinds.bits(),
        with_output,
        with_links,
        secret.0,
        write.now.0
    ];
    Ok(run(&write.tx, queries::ENDPOINT_INSERT, row)? > 0)
}
