//! Frames as they were read back.

use uuid::Uuid;
use waypost_core::frame::FrameHeader;
use waypost_core::id::{AppendId, ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;

/// A frame as it was read back.
#[derive(Clone, Debug)]
pub struct StoredFrame {
    pub header: FrameHeader,
    /// The store's time when it was committed.
    pub at: Timestamp,
    /// The events, encoded; `Err` where the bytes are not those that were written.
    pub body: Result<Vec<u8>, String>,
}

impl StoredFrame {
    /// The frame for a row that cannot be read.
    pub fn unreadable(execution: ExecutionNo, reason: String) -> Self {
        let header = FrameHeader {
            execution,
            first_seq: 1,
            last_seq: 1,
            append_id: AppendId(Uuid::nil()),
            parent: None,
            instance: InstanceId(Uuid::nil()),
            epoch: 0,
            decided_at: Timestamp(0),
            requires: 0,
        };
        Self { header, at: Timestamp(0), body: Err(reason) }
    }

    /// Is not even its header known?
    pub fn is_unreadable(&self) -> bool {
        self.body.is_err() && self.header.append_id.0.is_nil()
    }
}
