//! Executions that another one's frame brings into being.

use waypost_core::blob::BlobDigest;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionId;

use super::{Append, ControlChange, Side, Submission};

impl Append {
    /// The first frame of an execution that begins with another one's frame. It is unowned and due at
    /// once, so that any instance may claim it.
    pub fn birth(
        header: FrameHeader,
        body: Vec<u8>,
        key: ExecutionId,
        blobs: Vec<BlobDigest>,
    ) -> Self {
        let side = Side {
            control: Some(ControlChange::Parked { next_due: Some(header.decided_at) }),
            submission: Some(Submission { key, idempotency: None }),
            blobs,
            ..Side::default()
        };
        Self { header, body, side }
    }
}
