//! Versions of workflows.

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use waypost_core::id::DefinitionHash;
use waypost_core::time::Timestamp;
use waypost_ports::query::{DefinitionPage, DefinitionRow, DefinitionsRequest};
use waypost_ports::store::{Defined, Definition, DefinitionRef, NewDefinition};

use crate::connection::limit_and_one;
use crate::queries;
use crate::store::Write;

/// Keeps a definition, as the next version of its workflow unless its content is known, and moves the
/// workflow's pointer.
pub(crate) fn define(write: &Write<'_>, new: &NewDefinition) -> rusqlite::Result<Defined> {
    let mut insert = write.tx.prepare_cached(queries::DEFINITION_INSERT)?;
    let params = params![new.hash.0.as_slice(), &*new.name, &*new.canonical, write.now.0];
    let created = insert.execute(params)? > 0;
    let definition = by_hash(&write.tx, new.hash)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let mut select = write.tx.prepare_cached(queries::CURRENT_VERSION)?;
    let previous = select.query_row([&*definition.name], |row| row.get(0)).optional()?;
    let current = match previous {
        Some(previous) if !new.make_current => previous,
        _ => definition.version,
    };
    if previous != Some(current) {
        let mut set = write.tx.prepare_cached(queries::CURRENT_VERSION_SET)?;
        set.execute(params![&*definition.name, current])?;
    }
    Ok(Defined { definition, created, previous, current })
}

/// Finds a definition.
pub(crate) fn find(
    connection: &Connection,
    which: &DefinitionRef,
) -> rusqlite::Result<Option<Definition>> {
    match which {
        DefinitionRef::Hash(hash) => by_hash(connection, *hash),
        DefinitionRef::Version(name, version) => {
            select(connection, queries::DEFINITION_BY_VERSION, params![&**name, version])
        }
    }
}

/// The current version of a workflow, without its content.
pub(crate) fn current(
    connection: &Connection,
    workflow: &str,
) -> rusqlite::Result<Option<DefinitionRow>> {
    let mut select = connection.prepare_cached(queries::DEFINITION_CURRENT)?;
    select.query_row([workflow], read_row).optional()
}

/// A page of definitions.
pub(crate) fn list(
    connection: &Connection,
    request: &DefinitionsRequest,
) -> rusqlite::Result<DefinitionPage> {
    let after = request.after.as_ref();
    let one_more = limit_and_one(request.limit);
    let mut rows = match &request.workflow {
        Some(workflow) => {
            let before = after.map_or(i64::MAX, |(_, version)| i64::from(*version));
            let mut select = connection.prepare_cached(queries::DEFINITION_VERSIONS)?;
            let rows = select.query_map(params![workflow, before, one_more], read_row)?;
            rows.collect::<Result<Vec<_>, _>>()?
        }
        None => {
            let name = after.map(|(name, _)| name);
            let mut select = connection.prepare_cached(queries::DEFINITIONS_LATEST)?;
            let rows = select.query_map(params![name, one_more], read_row)?;
            rows.collect::<Result<Vec<_>, _>>()?
        }
    };
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    Ok(DefinitionPage { rows, more })
}

/// Finds a definition by its content.
pub(crate) fn by_hash(
    connection: &Connection,
    hash: DefinitionHash,
) -> rusqlite::Result<Option<Definition>> {
    select(connection, queries::DEFINITION_BY_HASH, [hash.0.as_slice()])
}

fn select(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<Option<Definition>> {
    connection.prepare_cached(sql)?.query_row(params, read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Definition> {
    let (name, canonical): (String, String) = (row.get(0)?, row.get(3)?);
    Ok(Definition {
        name: name.into(),
        version: row.get(1)?,
        hash: DefinitionHash(row.get(2)?),
        canonical: canonical.into(),
    })
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<DefinitionRow> {
    let workflow: String = row.get(0)?;
    Ok(DefinitionRow {
        workflow: workflow.into(),
        version: row.get(1)?,
        hash: DefinitionHash(row.get(2)?),
        created_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        current: row.get(4)?,
    })
}
