//! Blobs of a task: those that its config refers to, and its output if it is too large for a report.

use std::io::Cursor;

use anyhow::Result;
use serde_json::json;
use waypost_core::blob::BlobRef;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::{BadJson, Json};
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_ports::blobs::{INLINE_BYTES_MAX, NotInlined};

use super::delivery::{Outcome, TaskDelivery};

impl TaskDelivery<'_> {
    /// The config with the content of each blob in place of its reference. Asks until a server
    /// answers, or the attempt is cancelled.
    pub(super) async fn inline(&self, config: &Json) -> Result<Json, Outcome> {
        let failed = |error: NotInlined| Outcome::Failed(error.into());
        let blobs: Vec<BlobRef> = config.references().collect();
        let bytes: u64 = blobs.iter().map(|blob| blob.bytes).sum();
        if bytes > INLINE_BYTES_MAX {
            return Err(failed(NotInlined::TooLarge(bytes)));
        }
        let mut contents = Vec::with_capacity(blobs.len());
        for blob in blobs {
            let content = self.content(blob).await?;
            let parsed = Json::parse_bytes(&content);
            let digest = blob.digest;
            contents.push(parsed.map_err(|error| failed(NotInlined::NotJson { digest, error }))?);
        }
        let mut contents = contents.into_iter();
        let next = |_| contents.next().ok_or_else(|| BadJson::from("a reference too many"));
        config.resolve(next).map_err(|error| failed(error.into()))
    }

    async fn content(&self, blob: BlobRef) -> Result<Vec<u8>, Outcome> {
        loop {
            let read = self.worker.servers.ask(|client| async move {
                let mut response = client.get_blob(&blob.digest).await?;
                let mut content = Vec::new();
                while let Some(piece) = client.next_piece(&mut response).await? {
                    content.extend(piece);
                }
                Ok(content)
            });
            match read.await {
                // A server that cannot read it to its end breaks off.
                Ok(content) if content.len() as u64 == blob.bytes => return Ok(content),
                Ok(_) => {
                    let message = format!("blob {} could not be read to its end", blob.digest);
                    let failure = Failure::transient(kind::BLOB, message);
                    return Err(Outcome::Failed(Failure { unsent: true, ..failure }));
                }
                Err(error) if super::servers::is_gone(&error) => {
                    let failure = Failure::permanent(kind::BLOB, error.to_string());
                    return Err(Outcome::Failed(Failure { unsent: true, ..failure }));
                }
                Err(_) if self.cancel.is_cancelled() => return Err(Outcome::Cancelled),
                Err(error) => self.keep(&error, "a blob is not answered; asked again").await,
            }
        }
    }

    /// The output as a report has it: uploaded first, and named with the receipt, if it is large.
    pub(super) async fn reported(&self, output: &Json) -> Json {
        if output.bytes() <= PAYLOAD_BYTES_MAX {
            return output.clone();
        }
        loop {
            let put = self.worker.servers.ask(|client| async move {
                let content = Cursor::new(output.text().as_bytes().to_vec());
                client.put_blob_for(content, Some(&self.task.token)).await
            });
            match put.await {
                Ok((blob, receipt)) => {
                    let digest = blob.digest.to_string();
                    return Json::from_value(&json!({ "$blob": digest, "receipt": receipt }));
                }
                Err(error) => self.keep(&error, "an upload is not answered; repeated").await,
            }
        }
    }
}
