//! Versions of workflows.

use rusqlite::{Connection, Row, params};
use waypost_core::id::DefinitionHash;
use waypost_core::time::Timestamp;
use waypost_ports::query::{DefinitionPage, DefinitionRow, DefinitionsRequest};
use waypost_ports::store::{Defined, Definition, DefinitionRef, NewDefinition};

use crate::connection::{all, first, limit_and_one, run};
use crate::store::Write;
use crate::{queries, triggers};

/// Keeps a definition, as the next version of its workflow unless its content is known, and moves the
/// workflow's pointer. `None`, and nothing is stored, if there would be too many triggers.
pub(crate) fn define(write: &Write<'_>, new: &NewDefinition) -> rusqlite::Result<Option<Defined>> {
    if !triggers::has_room(write, new)? {
        return Ok(None);
    }
    let row = params![new.hash.0.as_slice(), &*new.name, &*new.canonical, write.now.0];
    let created = run(&write.tx, queries::DEFINITION_INSERT, row)? > 0;
    let definition = by_hash(&write.tx, new.hash)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let name = &*definition.name;
    let previous = first(&write.tx, queries::CURRENT_VERSION, [name], |row| row.get(0))?;
    let current = match previous {
        Some(previous) if !new.make_current => previous,
        _ => definition.version,
    };
    if previous != Some(current) {
        run(&write.tx, queries::CURRENT_VERSION_SET, params![name, current])?;
    }
    if new.make_current || previous.is_none() {
        triggers::register(write, new, &definition)?;
    }
    Ok(Some(Defined { definition, created, previous, current }))
}

pub(crate) fn find(
    connection: &Connection,
    which: &DefinitionRef,
) -> rusqlite::Result<Option<Definition>> {
    match which {
        DefinitionRef::Hash(hash) => by_hash(connection, *hash),
        DefinitionRef::Version(name, version) => {
            first(connection, queries::DEFINITION_BY_VERSION, params![&**name, version], read)
        }
        DefinitionRef::Current(name) => match current(connection, name)? {
            Some(row) => by_hash(connection, row.hash),
            None => Ok(None),
        },
    }
}

/// The current version of a workflow, without its content.
pub(crate) fn current(
    connection: &Connection,
    workflow: &str,
) -> rusqlite::Result<Option<DefinitionRow>> {
    first(connection, queries::DEFINITION_CURRENT, [workflow], read_row)
}

pub(crate) fn list(
    connection: &Connection,
    request: &DefinitionsRequest,
) -> rusqlite::Result<DefinitionPage> {
    let after = request.after.as_ref();
    let one_more = limit_and_one(request.limit);
    let mut rows = match &request.workflow {
        Some(workflow) => {
            let before = after.map_or(i64::MAX, |(_, version)| i64::from(*version));
            let page = params![workflow, before, one_more];
            all(connection, queries::DEFINITION_VERSIONS, page, read_row)?
        }
        None => {
            let name = after.map(|(name, _)| name);
            all(connection, queries::DEFINITIONS_LATEST, params![name, one_more], read_row)?
        }
    };
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    Ok(DefinitionPage { rows, more })
}

pub(crate) fn by_hash(
    connection: &Connection,
    hash: DefinitionHash,
) -> rusqlite::Result<Option<Definition>> {
    first(connection, queries::DEFINITION_BY_HASH, [hash.0.as_slice()], read)
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
