//! Blobs of a server, streamed in both directions.

use std::io::Read;

use anyhow::{Context as _, Result};
use reqwest::{Body, Response};
use tokio::sync::mpsc;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_server::wire;

use super::{Ask, Client, Unreachable};

/// Bytes that are read and sent at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks that wait to be sent.
const CHUNKS: usize = 4;

impl Client {
    /// Sends content as it is read, on a thread of its own.
    pub(crate) async fn put_blob(&self, content: impl Read + Send + 'static) -> Result<BlobRef> {
        Ok(self.put_blob_for(content, None).await?.0)
    }

    /// Sends content that is the output of the task with this token. Returns the receipt, too.
    pub(crate) async fn put_blob_for(
        &self,
        content: impl Read + Send + 'static,
        task: Option<&str>,
    ) -> Result<(BlobRef, Option<String>)> {
        let (sender, receiver) = mpsc::channel(CHUNKS);
        tokio::task::spawn_blocking(move || read(content, &sender));
        let chunks = futures_util::stream::unfold(receiver, async |mut receiver| {
            Some((receiver.recv().await?, receiver))
        });
        let ask = Ask::put(&["blobs"]).query("task", task);
        let ask = ask.stream(Body::wrap_stream(chunks)).endless();
        let wire::Blob { digest, bytes, receipt } = self.ask(ask).await?.body;
        let digest = digest.parse().context("the server's answer has no digest")?;
        Ok((BlobRef { digest, bytes }, receipt))
    }

    /// The head of a blob; its content follows.
    pub(crate) async fn get_blob(&self, digest: &BlobDigest) -> Result<Response> {
        self.send(Ask::get(&["blobs", &digest.to_string()]).endless()).await
    }

    /// The next piece of a blob.
    pub(crate) async fn next_piece(&self, response: &mut Response) -> Result<Option<Vec<u8>>> {
        let piece = response.chunk().await;
        let piece = piece.map_err(|error| Unreachable::new(self.address(), &error))?;
        Ok(piece.map(Into::into))
    }

    pub(crate) async fn stat_blob(&self, digest: &BlobDigest) -> Result<BlobRef> {
        let response = self.get_blob(digest).await?;
        let bytes = response.content_length().context("the server does not say how long it is")?;
        Ok(BlobRef { digest: *digest, bytes })
    }
}

/// Reads content until it ends, fails, or is not wanted any more.
fn read(mut content: impl Read, chunks: &mpsc::Sender<std::io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = content.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        let over = read.as_ref().is_ok_and(|bytes| *bytes == 0);
        if over || chunks.blocking_send(read.map(|_| chunk)).is_err() {
            return;
        }
    }
}
