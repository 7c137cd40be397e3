//! Blobs in the database: rows of parts of at most 1 MiB, so that neither side holds more in memory.
//!
//! ```text
//!   put: upload row ─▶ one statement per part ─▶ finish: the blob's row, and the upload's goes
//!                                  │
//!                       any failure or crash: the upload's row stays, and its parts are discarded
//! ```
//!
//! A discarded upload is marked first, and every statement of a writer requires an unmarked one, so that a
//! writer that was slow adds nothing to it.

use std::io::Read;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::time::Timestamp;
use waypost_ports::blobs::format::{self, Index};
use waypost_ports::blobs::{BlobError, BlobReader, BlobStat, Blobs, ListedBlob};
use waypost_ports::store::StoreError;

use crate::connection::{Connection, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{array, get, limit};

/// Parts that are deleted by one statement.
const DISCARDED_AT_ONCE: i32 = 63;

/// Blobs in the database of a store.
#[derive(Clone, Debug)]
pub struct PostgresBlobs(Arc<PostgresStore>);

/// The row of a blob.
struct BlobRow {
    upload: Uuid,
    stat: BlobStat,
    index: Vec<u8>,
}

impl PostgresBlobs {
    /// In the database of this store.
    pub fn new(store: Arc<PostgresStore>) -> Self {
        Self(store)
    }

    fn run<T>(
        &self,
        action: impl AsyncFnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T, StoreError> {
        self.0.run(Role::Api, action)
    }

    fn find(&self, digest: &BlobDigest) -> Result<BlobRow, BlobError> {
        let row = self.run(async |db| {
            let rows = db.query(sql!("blob_find"), &[&digest.0.as_slice()]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let blob = BlobRef { digest: *digest, bytes: unsigned(get(row, 1)?) };
            let (stored_bytes, touched_at) = (unsigned(get(row, 2)?), Timestamp(get(row, 3)?));
            let stat = BlobStat { blob, stored_bytes, touched_at };
            Ok(Some(BlobRow { upload: get(row, 0)?, stat, index: get(row, 4)? }))
        })?;
        row.ok_or(BlobError::NotFound(*digest))
    }

    /// Stores the parts, and then the blob.
    fn upload(
        &self,
        upload: Uuid,
        content: &mut dyn Read,
        most: u64,
    ) -> Result<(BlobRef, Index), BlobError> {
        self.run(async |db| db.execute(sql!("blob_upload_begin"), &[&upload]).await)?;
        let mut number = 0_i32;
        format::encode(content, most, |part| {
            let added = self.run(async |db| {
                db.execute(sql!("blob_part_insert"), &[&upload, &number, &part]).await
            })?;
            number += 1;
            if added == 1 { Ok(()) } else { Err(discarded()) }
        })
    }

    fn finish(&self, upload: Uuid, blob: &BlobRef, index: &Index) -> Result<(), BlobError> {
        let parts = index.encode();
        let (bytes, stored) =
            (signed(blob.bytes), signed(index.stored_bytes() + parts.len() as u64));
        let digest = blob.digest.0.as_slice();
        let kept = self.run(async |db| {
            let params: crate::connection::Params<'_> =
                &[&digest, &upload, &bytes, &stored, &parts];
            let rows = db.query(sql!("blob_finish"), params).await?;
            rows.first().map(|row| get::<Uuid>(row, 0)).transpose()
        })?;
        match kept {
            None => Err(discarded()),
            Some(kept) if kept == upload => Ok(()),
            Some(_) => self.discard(upload),
        }
    }

    /// Deletes an upload that is not a blob.
    fn discard(&self, upload: Uuid) -> Result<(), BlobError> {
        self.run(async |db| db.execute(sql!("blob_upload_stop"), &[&upload, &i64::MAX]).await)?;
        self.delete_parts(upload)
    }

    fn delete_parts(&self, upload: Uuid) -> Result<(), BlobError> {
        let some = async |db: &mut Connection| {
            db.execute(sql!("blob_parts_discard"), &[&upload, &DISCARDED_AT_ONCE]).await
        };
        while self.run(some)? > 0 {}
        self.run(async |db| db.execute(sql!("blob_upload_forget"), &[&upload]).await)?;
        Ok(())
    }
}

impl Blobs for PostgresBlobs {
    fn put(&self, content: &mut dyn Read, limit: u64) -> Result<BlobRef, BlobError> {
        let upload = Uuid::new_v4();
        match self.upload(upload, content, limit) {
            Ok((blob, index)) => {
                // If its outcome is unknown, the upload stays for `discard_uploads`.
                self.finish(upload, &blob, &index)?;
                Ok(blob)
            }
            Err(error) => {
                if let Err(error) = self.discard(upload) {
                    tracing::debug!(%error, "an upload is left to the next sweep");
                }
                Err(error)
            }
        }
    }

    fn open(&self, digest: &BlobDigest) -> Result<BlobReader, BlobError> {
        let row = self.find(digest)?;
        let index = Index::decode(digest, &row.index)?;
        let (blobs, digest, upload) = (self.clone(), *digest, row.upload);
        let read = move |number: usize, _| {
            let n = i32::try_from(number).unwrap_or(i32::MAX);
            let part: Option<Vec<u8>> = blobs.run(async |db| {
                let rows = db.query(sql!("blob_part"), &[&upload, &n]).await?;
                rows.first().map(|row| get(row, 0)).transpose()
            })?;
            let Some(part) = part else {
                // Not there any more, or not whole.
                blobs.find(&digest)?;
                let reason = format!("part {} is missing", number + 1);
                return Err(BlobError::Corrupt { digest, reason });
            };
            Ok(part)
        };
        Ok(BlobReader::new(digest, index, Box::new(read)))
    }

    fn stat(&self, digest: &BlobDigest) -> Result<BlobStat, BlobError> {
        Ok(self.find(digest)?.stat)
    }

    fn touch(&self, digest: &BlobDigest) -> Result<(), BlobError> {
        let digest_bytes = digest.0.as_slice();
        match self.run(async |db| db.execute(sql!("blob_touch"), &[&digest_bytes]).await)? {
            0 => Err(BlobError::NotFound(*digest)),
            _ => Ok(()),
        }
    }

    fn list(&self, after: Option<&BlobDigest>, most: usize) -> Result<Vec<ListedBlob>, BlobError> {
        let after = after.map_or(&[][..], |after| &after.0);
        Ok(self.run(async |db| {
            let read = |row: &_| {
                let (digest, stored_bytes) = (BlobDigest(array(row, 0)?), unsigned(get(row, 1)?));
                Ok(ListedBlob { digest, stored_bytes, touched_at: Timestamp(get(row, 2)?) })
            };
            db.query_map(sql!("blobs_list"), &[&after, &limit(most)], read).await
        })?)
    }

    fn delete(&self, digest: &BlobDigest, before: Timestamp) -> Result<bool, BlobError> {
        let digest = digest.0.as_slice();
        let upload: Option<Uuid> = self.run(async |db| {
            let rows = db.query(sql!("blob_delete"), &[&digest, &before.0]).await?;
            rows.first().map(|row| get(row, 0)).transpose()
        })?;
        let Some(upload) = upload else { return Ok(false) };
        self.delete_parts(upload)?;
        Ok(true)
    }

    fn discard_uploads(&self, before: Timestamp) -> Result<u64, BlobError> {
        let uploads: Vec<Uuid> = self.run(async |db| {
            db.query_map(sql!("blob_uploads_old"), &[&before.0], |row| get(row, 0)).await
        })?;
        let mut discarded = 0;
        for upload in uploads {
            let stopped = self.run(async |db| {
                db.execute(sql!("blob_upload_stop"), &[&upload, &before.0]).await
            })?;
            if stopped > 0 {
                self.delete_parts(upload)?;
                discarded += 1;
            }
        }
        Ok(discarded)
    }

    fn now(&self) -> Result<Timestamp, BlobError> {
        Ok(self.run(async |db| {
            Ok(Timestamp(get(&db.query_one(sql!("store_time"), &[]).await?, 0)?))
        })?)
    }
}

fn discarded() -> BlobError {
    BlobError::Interrupted("the upload made no progress for too long and was discarded".to_owned())
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn unsigned(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}
