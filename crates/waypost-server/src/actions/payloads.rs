//! Payloads of requests: what they may refer to, and how large they may be.

use std::sync::Arc;

use waypost_core::id::Token;
use waypost_core::json::{BadJson, Claim, Json};
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_ports::blobs::BlobError;

use crate::problem::{Code, Problem};
use crate::server::Server;

/// Who names blobs in a payload.
#[derive(Clone, Copy)]
pub(super) enum Claimant {
    /// One who may upload and read blobs.
    Caller,
    /// The worker that holds this token. It may name only what was uploaded for its task.
    Worker(Token),
    /// One who has a link to an approval, and may neither upload nor read blobs.
    Approver,
}

/// The payload with references where it names blobs: `{"$blob": "<digest>"}`. Each must be there, and
/// is made young, so that it is not swept before the execution names it.
pub(super) async fn adopt(
    server: &Arc<Server>,
    payload: Json,
    claimant: Claimant,
) -> Result<Json, Problem> {
    if !payload.text().contains("\"$blob\"") {
        return Ok(payload);
    }
    let adopt = move |server: &Server| payload.adopt(|claim| claimed(server, claim, claimant));
    server.blocking(adopt).await
}

fn claimed(
    server: &Server,
    claim: &Claim,
    claimant: Claimant,
) -> Result<waypost_core::blob::BlobRef, Problem> {
    let digest = claim.digest;
    if matches!(claimant, Claimant::Approver) {
        let detail = "a form that comes by a link cannot name blobs";
        return Err(Problem::new(Code::BadBody, detail));
    }
    if let Claimant::Worker(token) = claimant {
        let expected = server.engine.upload_receipt(token, &digest);
        if claim.receipt.as_deref() != Some(&*expected) {
            let detail = format!("blob {digest} was not uploaded for this task");
            return Err(Problem::new(Code::BadBody, detail).hint(
                "upload it with PUT /v1/blobs?task=<token>, and report it with the `receipt` of the answer",
            ));
        }
    }
    let touched = server.blobs.touch(&digest).and_then(|()| server.blobs.stat(&digest));
    match touched {
        Ok(stat) => Ok(stat.blob),
        Err(BlobError::NotFound(_)) => {
            let detail = format!("the body names blob {digest}, and there is none");
            Err(Problem::new(Code::BadBody, detail).hint("upload it first: PUT /v1/blobs"))
        }
        Err(error) => Err(error.into()),
    }
}

impl From<BadJson> for Problem {
    fn from(error: BadJson) -> Self {
        Self::new(Code::BadBody, error.to_string())
    }
}

/// A payload that the log would not hold, where it cannot be kept as a blob.
pub(super) fn refuse_large(payload: &Json) -> Result<(), Problem> {
    let bytes = payload.bytes();
    if bytes <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("the payload has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are kept");
    Err(Problem::new(Code::BodyTooLarge, detail)
        .hint("upload large data with PUT /v1/blobs and pass its digest"))
}
