//! API keys and the audit log.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use waypost_core::time::Timestamp;
use waypost_ports::access::{Access, AuditEntry, AuditPage, AuditRequest, KeyRow, NewKey, Role};
use waypost_ports::store::StoreError;

use crate::connection::{all, from_stored, limit_and_one, run};
use crate::queries;
use crate::store::{SqliteStore, Write};

impl Access for SqliteStore {
    fn add_key(&self, key: &NewKey) -> Result<(), StoreError> {
        match self.write(|write| add(write, key))? {
            true => Ok(()),
            false => Err(StoreError::Refused(format!("there is a key of id {} already", key.id))),
        }
    }

    fn keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.readers.read(|connection| all(connection, queries::KEYS_LIST, [], read_key))
    }

    fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        self.write(|write| Ok(run(&write.tx, queries::KEY_REVOKE, params![id, write.now.0])? > 0))
    }

    fn record(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        match entries.is_empty() {
            true => Ok(()),
            false => self.write(|write| entries.iter().try_for_each(|entry| insert(write, entry))),
        }
    }

    fn audit(&self, request: &AuditRequest) -> Result<AuditPage, StoreError> {
        self.readers.read(|connection| audit(connection, request))
    }
}

/// Returns false if the id is taken.
fn add(write: &Write<'_>, key: &NewKey) -> rusqlite::Result<bool> {
    let NewKey { id, name, role, digest } = key;
    let row = params![&**id, &**name, role.name(), digest.as_slice(), write.now.0];
    Ok(run(&write.tx, queries::KEY_INSERT, row)? > 0)
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    let role = row.get_ref(2)?.as_str()?;
    let role = Role::parse(role).ok_or_else(|| {
        let unknown = format!("there is no role {role:?}").into();
        rusqlite::Error::FromSqlConversionFailure(2, Type::Text, unknown)
    })?;
    let (id, name) = (text(row, 0)?, text(row, 1)?);
    Ok(KeyRow {
        key: NewKey { id, name, role, digest: row.get(3)? },
        created_at: Timestamp(row.get(4)?),
        revoked_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

fn insert(write: &Write<'_>, entry: &AuditEntry) -> rusqlite::Result<()> {
    let AuditEntry { at, actor, address, action, subject, status } = entry;
    let row = params![at.0, &**actor, &**address, &**action, subject.as_deref(), status];
    run(&write.tx, queries::AUDIT_INSERT, row)?;
    Ok(())
}

fn audit(connection: &Connection, request: &AuditRequest) -> rusqlite::Result<AuditPage> {
    let before = request.before.map_or(i64::MAX, |place| i64::try_from(place).unwrap_or(i64::MAX));
    let one_more = limit_and_one(request.limit);
    let mut rows = match &request.actor {
        Some(actor) => {
            let by_actor = params![before, one_more, actor];
            all(connection, queries::AUDIT_BY_ACTOR, by_actor, read_entry)?
        }
        None => all(connection, queries::AUDIT_LIST, [before, one_more], read_entry)?,
    };
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    Ok(AuditPage { rows, more })
}

fn read_entry(row: &Row<'_>) -> rusqlite::Result<(u64, AuditEntry)> {
    let entry = AuditEntry {
        at: Timestamp(row.get(1)?),
        actor: text(row, 2)?,
        address: text(row, 3)?,
        action: text(row, 4)?,
        subject: row.get_ref(5)?.as_str_or_null()?.map(Into::into),
        status: row.get(6)?,
    };
    Ok((from_stored(row.get(0)?), entry))
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Arc<str>> {
    Ok(row.get_ref(column)?.as_str()?.into())
}
