//! One task as an entry of a stream: a name that identifies repeats, and a sealed body. Neither
//! reveals what the task is about.

use serde::{Deserialize, Serialize};
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::tasks::{Offer, OfferId};

use crate::seal::{Purpose, Sealer};

/// What precedes the task itself.
#[derive(Serialize, Deserialize)]
struct TaskHead {
    execution: ExecutionNo,
    path: String,
    attempt: u32,
    owner: InstanceId,
}

/// The name of an offer, equal on all instances of the cluster.
pub(super) fn name(sealer: &Sealer, id: &OfferId) -> String {
    let (execution, attempt) = (id.execution.0.to_le_bytes(), id.attempt.to_le_bytes());
    sealer.digest(&[&execution, id.path.as_bytes(), &attempt])
}

/// Seals an offer for its stream.
pub(super) fn seal(sealer: &Sealer, stream: &str, offer: &Offer) -> Vec<u8> {
    let head = TaskHead {
        execution: offer.id.execution,
        path: offer.id.path.as_ref().to_owned(),
        attempt: offer.id.attempt,
        owner: offer.owner,
    };
    let head = serde_json::to_vec(&head).expect("numbers and text are JSON");
    let length = u32::try_from(head.len()).expect("a path is shorter than 4 GiB");
    let plain = [&length.to_le_bytes(), head.as_slice(), &offer.body].concat();
    sealer.seal(Purpose::Task, stream.as_bytes(), &plain)
}

/// Opens an entry of a stream. `None` if it was not sealed by this cluster for this stream under
/// this name.
pub(super) fn open(
    sealer: &Sealer,
    (stream, handler): (&str, &std::sync::Arc<str>),
    entry_name: &str,
    sealed: &[u8],
) -> Option<Offer> {
    let plain = sealer.open(Purpose::Task, stream.as_bytes(), sealed)?;
    let (length, rest) = plain.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (head, body) = rest.split_at_checked(length)?;
    let head: TaskHead = serde_json::from_slice(head).ok()?;
    let id = OfferId { execution: head.execution, path: head.path.into(), attempt: head.attempt };
    if name(sealer, &id) != entry_name {
        return None;
    }
    Some(Offer { id, handler: handler.clone(), owner: head.owner, body: body.to_vec() })
}
