//! Uploads: content is sent in chunks as it comes, and becomes a blob when its digest is known.

use std::io::Read;

use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload};
use waypost_core::blob::BlobRef;
use waypost_ports::blobs::BlobError;
use waypost_ports::blobs::format::{self, Index};

use super::{CHUNK_BYTES, S3Blobs, unavailable};

/// An upload in progress.
pub(super) struct Sending {
    /// Of the copy that it becomes.
    pub(super) id: String,
    /// What is not sent yet.
    pub(super) buffer: Vec<u8>,
    /// Begun when there is more than a chunk.
    pub(super) upload: Option<Box<dyn MultipartUpload>>,
}

impl S3Blobs {
    /// Sends the parts of the content as they come.
    pub(super) fn upload(
        &self,
        sending: &mut Sending,
        content: &mut dyn Read,
        limit: u64,
    ) -> Result<(BlobRef, Index), BlobError> {
        format::encode(content, limit, |part| {
            sending.buffer.extend_from_slice(part);
            while sending.buffer.len() >= CHUNK_BYTES {
                let rest = sending.buffer.split_off(CHUNK_BYTES);
                self.send_chunk(sending, rest)?;
            }
            Ok(())
        })
    }

    /// Sends the buffer, and leaves `rest` in it.
    pub(super) fn send_chunk(&self, sending: &mut Sending, rest: Vec<u8>) -> Result<(), BlobError> {
        if sending.upload.is_none() {
            let path = self.content(&sending.id);
            let begun = self.with_store(|store| async move { store.put_multipart(&path).await });
            sending.upload = Some(begun.map_err(|error| unavailable(&error))?);
        }
        let chunk = std::mem::replace(&mut sending.buffer, rest);
        let Some(upload) = &mut sending.upload else { return Ok(()) };
        let sent = upload.put_part(PutPayload::from(chunk));
        self.run(sent).map_err(|error| unavailable(&error))
    }

    /// Makes what was sent a blob, unless there is a young copy already.
    pub(super) fn finish(
        &self,
        sending: &mut Sending,
        blob: &BlobRef,
        index: &Index,
    ) -> Result<(), BlobError> {
        if self.copies(&blob.digest)?.first().is_some_and(|copy| self.is_fresh(copy)) {
            self.abort(sending);
            return Ok(());
        }
        let is_whole = sending.upload.is_none();
        if !is_whole {
            if !sending.buffer.is_empty() {
                self.send_chunk(sending, Vec::new())?;
            }
            if let Some(mut upload) = sending.upload.take() {
                let completed = self.run(async move { upload.complete().await });
                completed.map_err(|error| unavailable(&error))?;
            }
        }
        let mut body = std::mem::take(&mut sending.buffer);
        body.extend(index.encode());
        let path = self.copy_path(&blob.digest, &sending.id, is_whole);
        let put = self.with_store(|store| async move { store.put(&path, body.into()).await });
        put.map(drop).map_err(|error| unavailable(&error))
    }

    /// Gives up an upload: the parts that were sent are deleted.
    pub(super) fn abort(&self, sending: &mut Sending) {
        let Some(mut upload) = sending.upload.take() else { return };
        if let Err(error) = self.run(async move { upload.abort().await }) {
            tracing::warn!(%error, "could not abort an upload; the bucket's lifecycle rule has to");
        }
    }
}
