//! The copies of a blob: how they are named, found, read and deleted.

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use waypost_core::blob::BlobDigest;
use waypost_core::time::Timestamp;
use waypost_ports::blobs::BlobError;
use waypost_ports::blobs::format::{FOOTER_BYTES, Index};

use super::{FRESH, INDEX_BYTES_MAX, S3Blobs, failed, unavailable};

/// A stored copy of a blob.
#[derive(Clone)]
pub(super) struct BlobCopy {
    pub(super) digest: BlobDigest,
    pub(super) id: String,
    pub(super) is_whole: bool,
    pub(super) object: ObjectMeta,
}

impl BlobCopy {
    pub(super) fn touched_at(&self) -> Timestamp {
        Timestamp(self.object.last_modified.timestamp_millis())
    }
}

impl S3Blobs {
    pub(super) fn content(&self, id: &str) -> Path {
        self.path(&format!("content/{id}"))
    }

    pub(super) fn copy_path(&self, digest: &BlobDigest, id: &str, is_whole: bool) -> Path {
        let kind = if is_whole { "whole" } else { "index" };
        self.path(&format!("blobs/{digest}/{id}.{kind}"))
    }

    /// What a key of `blobs/` names.
    pub(super) fn read_copy(&self, object: ObjectMeta) -> Option<BlobCopy> {
        let rest = object.location.as_ref().strip_prefix(&format!("{}blobs/", self.0.prefix))?;
        let (digest, name) = rest.split_once('/')?;
        let (id, kind) = name.split_once('.')?;
        let is_whole = match kind {
            "whole" => true,
            "index" => false,
            _ => return None,
        };
        Some(BlobCopy { digest: digest.parse().ok()?, id: id.to_owned(), is_whole, object })
    }

    /// The copies of a blob, the youngest first.
    pub(super) fn copies(&self, digest: &BlobDigest) -> Result<Vec<BlobCopy>, BlobError> {
        let under = self.path(&format!("blobs/{digest}"));
        let objects = self.with_store(|store| async move {
            let listed: Vec<_> = store.list(Some(&under)).collect().await;
            listed.into_iter().collect::<object_store::Result<Vec<_>>>()
        });
        let objects = objects.map_err(|error| failed(&error, digest))?;
        let mut copies: Vec<_> =
            objects.into_iter().filter_map(|object| self.read_copy(object)).collect();
        copies.sort_by_key(|copy| std::cmp::Reverse(copy.touched_at()));
        Ok(copies)
    }

    pub(super) fn newest(&self, digest: &BlobDigest) -> Result<BlobCopy, BlobError> {
        self.copies(digest)?.into_iter().next().ok_or(BlobError::NotFound(*digest))
    }

    pub(super) fn is_fresh(&self, copy: &BlobCopy) -> bool {
        self.0.clock.now().since(copy.touched_at()) < FRESH
    }

    pub(super) fn read_index(&self, copy: &BlobCopy) -> Result<Index, BlobError> {
        let size = copy.object.size;
        let start = size.saturating_sub(INDEX_BYTES_MAX);
        let end = self.read(copy.object.location.clone(), start..size, &copy.digest)?;
        let footer = end.len().saturating_sub(FOOTER_BYTES);
        let length = Index::length(end.get(footer..).unwrap_or_default()).unwrap_or(0);
        let index = end.get(end.len().saturating_sub(length)..).unwrap_or_default();
        Index::decode(&copy.digest, index)
    }

    pub(super) fn delete_object(&self, path: Path) -> Result<(), BlobError> {
        match self.with_store(|store| async move { store.delete(&path).await }) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// The blob goes first, and then its content: what is left if this fails is swept.
    pub(super) fn delete_copy(&self, copy: &BlobCopy) -> Result<(), BlobError> {
        self.delete_object(copy.object.location.clone())?;
        if copy.is_whole { Ok(()) } else { self.delete_object(self.content(&copy.id)) }
    }

    pub(super) fn copy_object(
        &self,
        from: Path,
        to: Path,
        digest: &BlobDigest,
    ) -> Result<(), BlobError> {
        self.with_store(|store| async move { store.copy(&from, &to).await })
            .map_err(|error| failed(&error, digest))
    }
}
