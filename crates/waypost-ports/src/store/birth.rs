//! Executions that another one's frame brings into being, or opens again.

use waypost_core::blob::BlobDigest;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionId;

use super::{Append, ControlChange, Side, Submission};

impl Append {
    /// The frame that opens an execution which had ended again, with another one's frame. As a birth, it is
    /// unowned and due at once; where another frame has come after its end, the other one's frame is
    /// refused with it.
    pub fn reopening(header: FrameHeader, body: Vec<u8>) -> Self {
        let control = Some(ControlChange::Parked { next_due: Some(header.decided_at) });
        Self { header, body, side: Side { control, ..Side::default() } }
    }

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
