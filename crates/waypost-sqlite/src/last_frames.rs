//! The last frames that this process appended, so that most appends need not look their parent up.
//!
//! An entry says that a committed frame is in the log, which stays true: frames are neither changed
//! nor deleted, and whether another owner has appended after it, the key of the next frame decides. A
//! frame without an entry, or with another parent than its entry has, is looked up.

use foldhash::{HashMap, HashMapExt};
use waypost_core::frame::FrameHeader;
use waypost_core::id::AppendId;
use waypost_ports::store::{Append, Appended, ControlChange};

/// Executions with an entry; more than an engine has in memory. Beyond it, all are dropped.
const ENTRIES_MAX: usize = 20_000;

/// See the module.
#[derive(Default)]
pub(crate) struct LastFrames(HashMap<i64, LastFrame>);

struct LastFrame {
    first_seq: u64,
    last_seq: u64,
    append_id: AppendId,
}

impl LastFrames {
    /// Is the parent of this frame known to be where it should be?
    pub(crate) fn has_parent_of(&self, header: &FrameHeader) -> bool {
        self.0.get(&header.execution.0).zip(header.parent).is_some_and(|(last, parent)| {
            last.first_seq == parent.first_seq
                && last.append_id == parent.append_id
                && last.last_seq + 1 == header.first_seq
        })
    }

    /// A batch is committed.
    pub(crate) fn committed(&mut self, batch: &[Append], outcomes: &[Appended]) {
        for (append, outcome) in batch.iter().zip(outcomes) {
            let header = &append.header;
            if !matches!(outcome, Appended::Committed { .. }) {
                continue;
            }
            if matches!(append.side.control, None | Some(ControlChange::Owned)) {
                if self.0.len() >= ENTRIES_MAX {
                    self.0.clear();
                }
                let FrameHeader { first_seq, last_seq, append_id, .. } = *header;
                self.0.insert(header.execution.0, LastFrame { first_seq, last_seq, append_id });
            } else {
                // It leaves memory.
                self.0.remove(&header.execution.0);
            }
        }
    }

    /// Drops all entries, and their memory.
    pub(crate) fn release(&mut self) {
        self.0 = HashMap::new();
    }
}
