//! Places in the queues of concurrency keys, as stores return them. The rule of the queue is
//! [`waypost_core::permits`].

use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;

use super::Mail;

/// The message with which the frame of a newcomer cancels the execution that it supersedes. It is the same
/// when the append is repeated.
pub fn cancel_message(newcomer: &FrameHeader, key: &str, superseded: ExecutionNo) -> Mail {
    let message = format!("permit-{}-{}", newcomer.execution.0, newcomer.first_seq);
    let reason = format!("a newer execution of concurrency key {key:?} took its place");
    let body = Request::Cancel { reason: Some(reason) }.into();
    Mail { execution: superseded, message: message.into(), actor: None, body, blobs: Vec::new() }
}

/// The place of an execution in the queue of its concurrency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit {
    pub key: Arc<str>,
    pub holding: bool,
    /// How many executions are ahead of it in the queue, permit holders included.
    pub before: u64,
}
