//! Versions of workflows.

use tokio_postgres::Row;
use waypost_core::id::DefinitionHash;
use waypost_ports::store::{Defined, Definition, DefinitionRef, NewDefinition};

use crate::connection::{Connection, Params};
use crate::error::{DbError, Result};
use crate::queries::sql;
use crate::text::{array, narrow, text};
use crate::triggers;

/// How often to try again when an instance of an older version keeps another version of the workflow.
const ATTEMPTS: u32 = 20;

/// Keeps a definition, as the next version of its workflow unless its content is known, and moves the
/// workflow's pointer. Deploys of one workflow wait for one another.
pub(crate) async fn define(db: &mut Connection, new: &NewDefinition) -> Result<Defined> {
    let name = new.name.as_bytes();
    db.begin().await?;
    let row = db.query_one(sql!("current_version_lock"), &[&name]).await?;
    let previous = Some(narrow(&row, 0)?).filter(|version| *version > 0);
    let (definition, created) = insert(db, new).await?;
    let current = match previous {
        Some(previous) if !new.make_current => previous,
        _ => definition.version,
    };
    if previous != Some(current) {
        db.execute(sql!("current_version_set"), &[&name, &i64::from(current)]).await?;
    }
    if new.make_current || previous.is_none() {
        triggers::register(db, new, &definition).await?;
    }
    db.commit().await?;
    Ok(Defined { definition, created, previous, current })
}

/// The stored definition. Also returns whether it is new.
async fn insert(db: &mut Connection, new: &NewDefinition) -> Result<(Definition, bool)> {
    let hash = new.hash.0.as_slice();
    for _ in 0..ATTEMPTS {
        let params: Params<'_> = &[&hash, &new.name.as_bytes(), &new.canonical.as_bytes()];
        let created = db.execute(sql!("definition_insert"), params).await? > 0;
        if let Some(definition) = by_hash(db, new.hash).await? {
            return Ok((definition, created));
        }
    }
    Err(DbError::Unavailable("others keep adding versions of this workflow".to_owned()))
}

pub(crate) async fn find(db: &mut Connection, which: &DefinitionRef) -> Result<Option<Definition>> {
    let (name, version) = match which {
        DefinitionRef::Hash(hash) => return by_hash(db, *hash).await,
        DefinitionRef::Version(name, version) => (name, i64::from(*version)),
        DefinitionRef::Current(name) => {
            let read = |row: &Row| Ok(DefinitionHash(array(row, 2)?));
            let hash = db.query_opt(sql!("definition_current"), &[&name.as_bytes()], read).await?;
            return match hash {
                Some(hash) => by_hash(db, hash).await,
                None => Ok(None),
            };
        }
    };
    db.query_opt(sql!("definition_by_version"), &[&name.as_bytes(), &version], read).await
}

pub(crate) async fn by_hash(
    db: &mut Connection,
    hash: DefinitionHash,
) -> Result<Option<Definition>> {
    db.query_opt(sql!("definition_by_hash"), &[&hash.0.as_slice()], read).await
}

fn read(row: &Row) -> Result<Definition> {
    Ok(Definition {
        name: text(row, 0)?,
        version: narrow(row, 1)?,
        hash: DefinitionHash(array(row, 2)?),
        canonical: text(row, 3)?,
    })
}
