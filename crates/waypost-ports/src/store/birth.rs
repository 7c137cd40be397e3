//! Executions that another one's frame brings into being, or opens again.

use waypost_core::blob::BlobDigest;
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionId;
use waypost_core::time::Millis;

use super::{Append, ControlChange, Side, Submission};

/// How long the count of a tree is kept that has not grown and whose root has ended. A tree that grows more
/// slowly than by one block of places in that time does not come near its limit.
pub const TREE_KEPT: Millis = Millis::from_secs(7 * 24 * 3_600);
/// Counts of trees that are deleted at once.
pub const TREES_FORGOTTEN_MAX: usize = 100;

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
            submission: Some(Submission { key, idempotency: None, fire: None }),
            blobs,
            ..Side::default()
        };
        Self { header, body, side }
    }
}
