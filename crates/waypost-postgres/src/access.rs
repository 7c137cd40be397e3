//! API keys and the audit log.

use tokio_postgres::Row;
use waypost_core::time::Timestamp;
use waypost_ports::access::{Access, AuditEntry, AuditPage, AuditRequest, KeyRow, NewKey, Role};
use waypost_ports::store::StoreError;

use crate::connection::{Connection, Params, Role as Pool};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{array, count, get, limit_and_one, text, text_or_none, time};

impl Access for PostgresStore {
    fn add_key(&self, key: &NewKey) -> Result<(), StoreError> {
        let NewKey { id, name, role, digest } = key;
        let added = self.run(Pool::Api, async |db| {
            let params: Params<'_> =
                &[&id.as_bytes(), &name.as_bytes(), &role.name(), &digest.as_slice()];
            db.execute(sql!("key_insert"), params).await
        })?;
        match added {
            0 => Err(StoreError::Refused(format!("there is a key of id {id} already"))),
            _ => Ok(()),
        }
    }

    fn keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.run(Pool::Api, async |db| db.query_map(sql!("keys_list"), &[], read_key).await)
    }

    fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        self.run(Pool::Api, async |db| {
            Ok(db.execute(sql!("key_revoke"), &[&id.as_bytes()]).await? > 0)
        })
    }

    fn record(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        match entries.is_empty() {
            true => Ok(()),
            false => self.run(Pool::Api, async |db| insert(db, entries).await),
        }
    }

    fn audit(&self, request: &AuditRequest) -> Result<AuditPage, StoreError> {
        self.run(Pool::Api, async |db| audit(db, request).await)
    }
}

fn read_key(row: &Row) -> Result<KeyRow> {
    let role: &str = get(row, 2)?;
    let role =
        Role::parse(role).ok_or_else(|| DbError::Corrupt(format!("there is no role {role:?}")))?;
    Ok(KeyRow {
        key: NewKey { id: text(row, 0)?, name: text(row, 1)?, role, digest: array(row, 3)? },
        created_at: Timestamp(get(row, 4)?),
        revoked_at: time(row, 5)?,
    })
}

async fn insert(db: &mut Connection, entries: &[AuditEntry]) -> Result<()> {
    let times: Vec<i64> = entries.iter().map(|entry| entry.at.0).collect();
    let actors: Vec<&[u8]> = entries.iter().map(|entry| entry.actor.as_bytes()).collect();
    let addresses: Vec<&[u8]> = entries.iter().map(|entry| entry.address.as_bytes()).collect();
    let actions: Vec<&[u8]> = entries.iter().map(|entry| entry.action.as_bytes()).collect();
    let subjects: Vec<Option<&[u8]>> = entries
        .iter()
        .map(|entry| entry.subject.as_ref().map(|subject| subject.as_bytes()))
        .collect();
    let statuses: Vec<i32> = entries.iter().map(|entry| entry.status.into()).collect();
    let params: Params<'_> = &[&times, &actors, &addresses, &actions, &subjects, &statuses];
    db.execute(sql!("audit_insert"), params).await?;
    Ok(())
}

async fn audit(db: &mut Connection, request: &AuditRequest) -> Result<AuditPage> {
    let before = request.before.map_or(i64::MAX, |place| i64::try_from(place).unwrap_or(i64::MAX));
    let one_more = limit_and_one(request.limit);
    let rows = match &request.actor {
        Some(actor) => {
            db.query(sql!("audit_by_actor"), &[&before, &one_more, &actor.as_bytes()]).await?
        }
        None => db.query(sql!("audit_list"), &[&before, &one_more]).await?,
    };
    let more = rows.len() > request.limit;
    let rows = rows.iter().take(request.limit).map(read_entry).collect::<Result<_, _>>()?;
    Ok(AuditPage { rows, more })
}

fn read_entry(row: &Row) -> Result<(u64, AuditEntry)> {
    let status: i32 = get(row, 6)?;
    let entry = AuditEntry {
        at: Timestamp(get(row, 1)?),
        actor: text(row, 2)?,
        address: text(row, 3)?,
        action: text(row, 4)?,
        subject: text_or_none(row, 5)?,
        status: u16::try_from(status)
            .map_err(|_| DbError::Corrupt(format!("status {status} is out of range")))?,
    };
    Ok((count(row, 0)?, entry))
}
