//! Signals by key, into the store.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::limits::PUBLISHED_BYTES_MAX;
use waypost_core::published::{PublishedSignal, keep_of, keyed_name};
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
        let bytes = body.0.bytes();
        if bytes > PUBLISHED_BYTES_MAX {
            let most = PUBLISHED_BYTES_MAX;
            let detail =
                format!("the body has {bytes} bytes; a published signal has at most {most}");
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        let id = message_id.map_or_else(|| format!("msg_{}", Uuid::new_v4().simple()), |id| id.0);
        let signal = PublishedSignal { name, message: id.as_str().into(), body: body.0, keep };
        let published = self.backend.publish(&Publication { signal, actor })?;
        let (receivers, repeated) = match published {
            Published::Accepted { receivers } => (receivers, false),
            Published::Duplicate => (Vec::new(), true),
        };
        let executions = u64::try_from(receivers.len()).unwrap_or(u64::MAX);
        let result = wire::PublishResult { message_id: id, executions, repeated };
        Ok(PublishedTo { result, receivers })
    }
}
