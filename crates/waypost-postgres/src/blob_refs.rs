//! Which executions name a blob.

use waypost_core::blob::BlobDigest;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::Millis;
use waypost_ports::blobs::BlobRefs;
use waypost_ports::store::StoreError;

use crate::connection::{Connection, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;
use crate::text::{array, get, limit};

/// Writes that executions name blobs, inside of the transaction that names them.
pub(crate) async fn insert<'a>(
    db: &mut Connection,
    named: impl Iterator<Item = (ExecutionNo, &'a [BlobDigest])>,
) -> Result<()> {
    let (mut digests, mut executions): (Vec<&[u8]>, Vec<i64>) = (Vec::new(), Vec::new());
    for (execution, blobs) in named {
        digests.extend(blobs.iter().map(|digest| digest.0.as_slice()));
        executions.resize(digests.len(), execution.0);
    }
    if !digests.is_empty() {
        db.execute(sql!("blob_refs_insert"), &[&digests, &executions]).await?;
    }
    Ok(())
}

impl PostgresStore {
    /// For each of these blobs that an execution names, one such execution.
    fn find_named(
        &self,
        digests: &[BlobDigest],
    ) -> Result<Vec<(BlobDigest, ExecutionNo)>, StoreError> {
        let wanted: Vec<&[u8]> = digests.iter().map(|digest| digest.0.as_slice()).collect();
        let found = self.run(Role::Api, async |db| {
            let read = |row: &_| Ok((BlobDigest(array(row, 0)?), get::<Option<i64>>(row, 1)?));
            db.query_map::<_, Vec<_>>(sql!("blob_refs_find"), &[&wanted], read).await
        })?;
        let named = |(digest, by): (_, Option<i64>)| Some((digest, ExecutionNo(by?)));
        Ok(found.into_iter().filter_map(named).collect())
    }
}

impl BlobRefs for PostgresStore {
    fn referenced(&self, digests: &[BlobDigest]) -> Result<Vec<BlobDigest>, StoreError> {
        Ok(self.find_named(digests)?.into_iter().map(|(digest, _)| digest).collect())
    }

    fn named_blobs(
        &self,
        after: Option<&BlobDigest>,
        most: usize,
    ) -> Result<Vec<BlobDigest>, StoreError> {
        let after = after.map_or(&[][..], |after| &after.0);
        self.run(Role::Api, async |db| {
            let read = |row: &_| Ok(BlobDigest(array(row, 0)?));
            db.query_map(sql!("blobs_named"), &[&after, &limit(most)], read).await
        })
    }

    fn named_by(&self, digest: &BlobDigest) -> Result<Option<ExecutionNo>, StoreError> {
        Ok(self.find_named(&[*digest])?.pop().map(|(_, execution)| execution))
    }

    fn take_blob_sweep(&self, instance: InstanceId, lease: Millis) -> Result<bool, StoreError> {
        let lease = i64::try_from(lease.0).unwrap_or(i64::MAX);
        self.run(Role::Api, async |db| {
            Ok(db.execute(sql!("blob_sweep_take"), &[&instance.0, &lease]).await? > 0)
        })
    }
}
