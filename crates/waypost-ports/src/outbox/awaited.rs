//! Messages that nodes wait for.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;

use crate::outbox::MessageName;
use crate::store::Mail;

/// What became of a message that a node waits for: all its deliveries are settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AwaitedResult {
    pub execution: ExecutionNo,
    pub seq: u64,
    pub mark: u32,
    /// Endpoints that accepted it, and those for which it was given up or that were deleted before they did.
    pub delivered: u64,
    pub failed: u64,
}

impl AwaitedResult {
    /// Is it about this message?
    pub(crate) fn is_of(&self, name: &MessageName) -> bool {
        (name.execution, name.seq) == (self.execution, self.seq)
    }

    /// The mail that says so to the execution. It is put into the inbox in the transaction that settles the
    /// last delivery, or in that of the frame, where no endpoint gets the message.
    pub fn mail(&self) -> Mail {
        let Self { execution, seq, mark, delivered, failed } = *self;
        let body = Request::MessageSettled { wait: seq, delivered, failed };
        let message = format!("delivery_{seq}_{mark:08x}").into();
        Mail { execution, message, actor: None, body: body.into(), blobs: Vec::new() }
    }
}
