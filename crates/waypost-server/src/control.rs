//! Control requests to an execution: one implementation for the server and for a folder without one.
//!
//! 1. A request that cannot succeed is refused, and a request whose message id is in the log gets the
//!    answer of the first one.
//! 2. The [`Channel`] sends the request: to an engine in this process, or into the inbox.
//! 3. While it is in the inbox, the channel waits until an owner takes it.
//! 4. The log has a request that was taken and changed nothing as `MessageIgnored`: it was refused. A signal
//!    for which there was no room is repeatable: its sender may send it again under the same id.

use waypost_core::budget::SpendingLimits;
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{MessageId, Origin};
use waypost_core::id::ExecutionNo;
use waypost_core::reserved::is_reserved;
use waypost_core::status::Status;
use waypost_engine::{ControlRequest, Receipt};

use crate::problem::Problem;
use crate::reader::{Found, Reader};
use crate::wire::ControlResult;
use crate::wire::payload::ExecutionStatus;

/// How requests reach the owner of an execution, and how its log is read.
pub trait Channel: Sync {
    /// Reads the execution from its log.
    fn load(&self, execution: ExecutionNo) -> impl Future<Output = Result<Found, Problem>> + Send;

    /// Calls the reader, which blocks.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, Problem> + Send + 'static,
    ) -> impl Future<Output = Result<T, Problem>> + Send;

    fn send(&self, request: ControlRequest) -> impl Future<Output = Result<Sent, Problem>> + Send;

    /// Waits until the execution is as wanted, for a few seconds at most. Returns it as it is then.
    fn until(
        &self,
        execution: ExecutionNo,
        wanted: impl Fn(&Found) -> bool + Send + Sync,
    ) -> impl Future<Output = Result<Found, Problem>> + Send;
}

/// The result of sending a request through a channel.
#[derive(Debug)]
pub enum Sent {
    /// The owner is in this process and has committed it.
    Done {
        status: Status,
        /// Do attempts run that the pause waits for?
        pausing: bool,
    },
    /// It is in the inbox, or was when the execution ended.
    Mailed {
        message: MessageId,
        /// Was a message of this id sent before?
        duplicate: bool,
    },
    /// It changed nothing.
    Refused(Refusal),
}

/// The outcome of a request.
pub struct ControlOutcome {
    pub result: ControlResult,
    /// [`Receipt::Taken`] where it was done. [`Receipt::Ended`] and [`Receipt::Refused`] are problems instead.
    pub receipt: Receipt,
}

/// Sends a request to an execution and waits until it is taken.
pub async fn control(
    channel: &impl Channel,
    (id, execution): (&str, ExecutionNo),
    request: Request,
    origin: Origin,
) -> Result<ControlOutcome, Problem> {
    let message = origin.message.clone();
    if let Some(first) = early(channel, execution, &request, message.as_ref()).await? {
        return Ok(first);
    }
    let is_signal = matches!(request, Request::Signal { .. });
    match channel.send(ControlRequest { execution, request, origin }).await? {
        // Nothing is read back for this: that would cost more with each signal that is kept.
        Sent::Done { status, pausing } => {
            let message_id = message.map(|message| message.to_string());
            let done = ControlResult::of(id, ExecutionStatus(status));
            let result = ControlResult { pausing, message_id, ..done };
            Ok(ControlOutcome { result, receipt: Receipt::Taken })
        }
        Sent::Mailed { message, duplicate } => {
            settle(channel, execution, is_signal, (message, duplicate)).await
        }
        Sent::Refused(refusal) => {
            // The sender of a repeated request gets the answer of the first, also after the end.
            let Some(message) = message else { return Err(refusal.into()) };
            let found = channel.load(execution).await?;
            match found.receipt(&message) {
                Receipt::Taken => taken(channel, execution, &found, (message, true)).await,
                _ => Err(refusal.into()),
            }
        }
    }
}

/// Answers a request that need not be sent: it would be refused, or was made before.
pub async fn early(
    channel: &impl Channel,
    execution: ExecutionNo,
    request: &Request,
    message: Option<&MessageId>,
) -> Result<Option<ControlOutcome>, Problem> {
    match request {
        Request::Cancel { .. } | Request::ForceCancel { .. } => return Ok(None),
        // The log is not read for a signal: that would cost more with each signal that is kept.
        Request::Signal { name, .. } if is_reserved(name) => {
            return Err(Refusal::ReservedSignal.into());
        }
        Request::Signal { body, .. } => {
            let bytes = body.bytes();
            channel.read(move |reader| reader.refuse_full(execution, bytes)).await?;
            return Ok(None);
        }
        _ => {}
    }
    let needs = request.requires();
    if needs > 1 {
        channel.read(move |reader| reader.refuse_unreadable(needs)).await?;
    }
    let found = channel.load(execution).await?;
    if let Some(message) = message.filter(|message| found.state.messages.contains(message)) {
        return taken(channel, execution, &found, (message.clone(), true)).await.map(Some);
    }
    // A paused execution would not wake for some of these, and the caller would get no answer.
    let refusal = match request {
        Request::Pause { .. } => found.refuses_pause(),
        Request::Resume { .. } => found.refuses_resume(),
        Request::CompleteWait { wait, .. } => found.state.refuses_complete_wait(*wait),
        Request::Decide { wait, decision } => {
            found.state.refuses_decision(*wait, &decision.approver)
        }
        Request::Retry { budget, .. } => found.retries_with(*budget).err(),
        Request::CancelItem { node, .. } => found.state.item_to_cancel(&found.plan, node).err(),
        Request::Tune { node, tuning, .. } => {
            found.state.map_to_tune(&found.plan, node, *tuning).err()
        }
        Request::Callback(callback) => found.state.refuses_callback(&found.plan, callback),
        Request::Budget { limits, .. } => found.state.refuses_budget(&found.plan, *limits),
        Request::Signal { .. }
        | Request::MessageSettled { .. }
        | Request::Cancel { .. }
        | Request::ForceCancel { .. } => None,
    };
    refusal.map_or(Ok(None), |refusal| Err(refusal.into()))
}

/// Lists the nodes that a retry with these limits of the budget would run again.
pub async fn dry_retry(
    channel: &impl Channel,
    execution: ExecutionNo,
    budget: Option<SpendingLimits>,
) -> Result<ControlResult, Problem> {
    let found = channel.load(execution).await?;
    let nodes = found.retries_with(budget)?;
    Ok(ControlResult { nodes, ..result(&found) })
}

/// Waits until a message is taken. A signal that the next owner appends to the log need not be.
async fn settle(
    channel: &impl Channel,
    execution: ExecutionNo,
    is_signal: bool,
    (message, duplicate): (MessageId, bool),
) -> Result<ControlOutcome, Problem> {
    let settled = |found: &Found| match found.receipt(&message) {
        Receipt::Open => false,
        Receipt::Kept => is_signal,
        Receipt::Taken | Receipt::Refused | Receipt::Ended(_) => true,
    };
    let found = channel.until(execution, settled).await?;
    answer(channel, execution, &found, (message, duplicate)).await
}

/// The answer to a message that the store has accepted.
pub async fn answer(
    channel: &impl Channel,
    execution: ExecutionNo,
    found: &Found,
    (message, duplicate): (MessageId, bool),
) -> Result<ControlOutcome, Problem> {
    let message_id = Some(message.to_string());
    let receipt = match found.receipt(&message) {
        Receipt::Taken => return taken(channel, execution, found, (message, duplicate)).await,
        Receipt::Ended(status) => return Err(Refusal::Ended(status).into()),
        Receipt::Refused => {
            let why = move |reader: &Reader| reader.ignored(execution, &message, true);
            if let Some(problem) = channel.read(why).await? {
                return Err(problem);
            }
            // It is too long ago for the execution to remember it.
            Receipt::Open
        }
        receipt @ (Receipt::Kept | Receipt::Open) => receipt,
    };
    let result = ControlResult { message_id, duplicate, ..result(found) };
    Ok(ControlOutcome { result, receipt })
}

/// The answer to a message that the log has: with its effect, or as one that changed nothing.
async fn taken(
    channel: &impl Channel,
    execution: ExecutionNo,
    found: &Found,
    (message, duplicate): (MessageId, bool),
) -> Result<ControlOutcome, Problem> {
    let message_id = Some(message.to_string());
    let why = move |reader: &Reader| reader.ignored(execution, &message, false);
    if let Some(problem) = channel.read(why).await? {
        return Err(problem);
    }
    let result = ControlResult { message_id, duplicate, ..result(found) };
    Ok(ControlOutcome { result, receipt: Receipt::Taken })
}

fn result(found: &Found) -> ControlResult {
    let id = found.state.created.key.as_str();
    let pausing = found.state.pausing;
    ControlResult { pausing, ..ControlResult::of(id, ExecutionStatus(found.status())) }
}
