//! Which executions name a blob.

use rusqlite::{Connection, params};
use waypost_core::blob::BlobDigest;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::Millis;
use waypost_ports::blobs::BlobRefs;
use waypost_ports::store::StoreError;

use crate::connection::{all, first, run};
use crate::queries;
use crate::store::{SqliteStore, Write};

/// Writes that an execution names these blobs.
pub(crate) fn insert(
    write: &Write<'_>,
    execution: ExecutionNo,
    digests: &[BlobDigest],
) -> rusqlite::Result<()> {
    for digest in digests {
        run(&write.tx, queries::BLOB_REF_INSERT, params![digest.0.as_slice(), execution.0])?;
    }
    Ok(())
}

fn named_by(connection: &Connection, digest: &BlobDigest) -> rusqlite::Result<Option<ExecutionNo>> {
    let digest = [digest.0.as_slice()];
    first(connection, queries::BLOB_NAMED_BY, digest, |row| row.get(0).map(ExecutionNo))
}

impl BlobRefs for SqliteStore {
    fn referenced(&self, digests: &[BlobDigest]) -> Result<Vec<BlobDigest>, StoreError> {
        self.readers.read(|connection| {
            let mut found = Vec::new();
            for digest in digests {
                if named_by(connection, digest)?.is_some() {
                    found.push(*digest);
                }
            }
            Ok(found)
        })
    }

    fn named_blobs(
        &self,
        after: Option<&BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, StoreError> {
        let after = after.map_or(&[][..], |after| &after.0);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers.read(|connection| {
            let read = |row: &rusqlite::Row<'_>| row.get(0).map(BlobDigest);
            all(connection, queries::BLOBS_NAMED, params![after, limit], read)
        })
    }

    fn named_by(&self, digest: &BlobDigest) -> Result<Option<ExecutionNo>, StoreError> {
        self.readers.read(|connection| named_by(connection, digest))
    }

    fn take_blob_sweep(&self, instance: InstanceId, lease: Millis) -> Result<bool, StoreError> {
        self.write(|write| {
            let holder = instance.0.as_bytes().as_slice();
            let row = params![holder, write.now.plus(lease).0, write.now.0];
            Ok(run(&write.tx, queries::BLOB_SWEEP_TAKE, row)? > 0)
        })
    }
}
