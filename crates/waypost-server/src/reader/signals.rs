//! Signals by key, into the store.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;
use waypost_core::blob::BlobRef;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::{Claim, Json};
use waypost_core::limits::{PUBLISHED_BYTES_MAX, PUBLISHED_PER_KEY_MAX};
use waypost_core::published::{EMITTED, PublishedSignal, keep_of, keyed_name};
use waypost_ports::store::{Publication, Published};

use super::Reader;
use crate::problem::{Code, Problem};
use crate::wire;

/// A signal that was published.
pub struct PublishedTo {
    pub result: wire::PublishResult,
    /// Who got it, and who owns them.
    pub receivers: Vec<(ExecutionNo, Option<InstanceId>)>,
}

impl Reader {
    /// Publishes a signal by its key.
    pub fn publish(
        &self,
        asked: wire::Publish,
        actor: Option<Arc<str>>,
    ) -> Result<PublishedTo, Problem> {
        let invalid = |fault: String| Problem::new(Code::InvalidInput, fault);
        let wire::Publish { name, key, body, keep, message_id } = asked;
        let name = keyed_name(&name.0, &key.0).map_err(invalid)?;
        let keep = keep.map_or(Value::Null, |keep| Value::String(keep.0));
        let keep = keep_of(&keep).map_err(invalid)?;
        if message_id.as_ref().is_some_and(|id| id.0.starts_with(EMITTED)) {
            let detail =
                format!("message ids that begin with `{EMITTED}` are those of `emit` nodes");
            return Err(invalid(detail));
        }
        let body = without_blobs(&body.0, "a published signal")?;
        let bytes = body.bytes();
        if bytes > PUBLISHED_BYTES_MAX {
            let most = PUBLISHED_BYTES_MAX;
            let detail =
                format!("the body has {bytes} bytes; a published signal has at most {most}");
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        let id = message_id.map_or_else(|| format!("msg_{}", Uuid::new_v4().simple()), |id| id.0);
        let signal = PublishedSignal { name, message: id.as_str().into(), body, keep };
        let published = self.backend.publish(&Publication { signal, actor })?;
        let (receivers, repeated) = match published {
            Published::Accepted { receivers } => (receivers, false),
            Published::Duplicate => (Vec::new(), true),
            Published::Full => return Err(full()),
        };
        let executions = u64::try_from(receivers.len()).unwrap_or(u64::MAX);
        let result = wire::PublishResult { message_id: id, executions, repeated };
        Ok(PublishedTo { result, receivers })
    }
}

/// A payload of what has no right to blobs, or no execution to keep them for.
pub(crate) fn without_blobs(payload: &Json, of: &str) -> Result<Json, Problem> {
    payload.adopt(|_: &Claim| -> Result<BlobRef, Problem> {
        Err(Problem::new(Code::BadBody, format!("{of} cannot name blobs")))
    })
}

fn full() -> Problem {
    let most = PUBLISHED_PER_KEY_MAX;
    let detail = format!("{most} signals of this name and key wait to be taken");
    Problem::new(Code::RateLimited, detail)
        .hint(
            "publish it again when executions have taken some of them, or they are kept no longer",
        )
        .retry_after(60)
}
