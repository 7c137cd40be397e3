//! Frames that this process committed and has not projected yet.
//!
//! Appends never wait for projections: an append leaves a copy of its frames here. Beyond a limit
//! it leaves only the numbers of their executions, and the projector reads the frames from the log.
//! Nothing here has to survive: the sweeper finds frames that the queue drops or a dead process
//! leaves.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use waypost_core::time::Timestamp;
use waypost_ports::store::{Append, Appended};

/// Bytes of frames that are kept.
const BYTES_MAX: usize = 64 << 20;

/// Executions whose frames have to be read from the log. More are left to the sweeper.
const BEHIND_MAX: usize = 100_000;

/// Bytes of a frame beside its body.
const FRAME_BYTES: usize = 64;

/// Bytes of frames that are projected without waiting for more.
const PROMPT_BYTES: usize = 4 << 20;

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) execution: i64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    pub(super) decided_at: Timestamp,
    /// Nothing where the bytes are not those that were written.
    pub(super) body: Option<Vec<u8>>,
}

/// The work to project next.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) frames: Vec<Frame>,
    /// Executions whose frames have to be read from the log.
    pub(super) behind: BTreeSet<i64>,
    /// Does a caller wait until the whole log is projected?
    pub(super) awaited: bool,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to do.
    wake: Condvar,
    /// Something was done, or will not be any more.
    done: Condvar,
}

#[derive(Default)]
struct State {
    frames: Vec<Frame>,
    bytes: usize,
    behind: BTreeSet<i64>,
    /// Calls of [`Queue::wait`]: all of them, those before the last round began, and those answered.
    asked: u64,
    begun: u64,
    ended: u64,
    stop: bool,
}

impl Queue {
    /// An append has returned.
    pub(super) fn appended(&self, batch: &[Append], outcomes: &[Appended]) {
        let mut state = self.state.lock();
        for (append, outcome) in batch.iter().zip(outcomes) {
            if let Appended::Committed { .. } = outcome {
                state.push(append);
                append.side.births.iter().for_each(|birth| state.push(birth));
            }
        }
        self.wake.notify_one();
    }

    /// The frames of these executions have to be read from the log.
    pub(super) fn owe(&self, executions: impl IntoIterator<Item = i64>) {
        self.state.lock().owe(executions);
        self.wake.notify_one();
    }

    /// Waits for something to do, for at most `patience`, and then lets more come for `gather`, unless a
    /// caller waits for it. `None` when it is time to stop.
    pub(super) fn take(&self, patience: Duration, gather: Duration) -> Option<Work> {
        let mut state = self.state.lock();
        if state.is_idle() {
            self.wake.wait_while_for(&mut state, |state| state.is_idle(), patience);
        }
        if !state.is_idle() && !state.is_urgent() {
            self.wake.wait_while_for(&mut state, |state| !state.is_urgent(), gather);
        }
        (!state.stop).then(|| state.take())
    }

    /// The remaining work when it is time to stop.
    pub(super) fn rest(&self) -> Work {
        self.state.lock().take()
    }

    /// The work that was taken last is projected, and everything before it.
    pub(super) fn done(&self) {
        let mut state = self.state.lock();
        state.ended = state.begun;
        self.done.notify_all();
    }

    /// Blocks until everything that was committed before is projected, or it is time to stop.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        state.asked += 1;
        let asked = state.asked;
        self.wake.notify_one();
        while state.ended < asked && !state.stop {
            self.done.wait(&mut state);
        }
    }

    /// No more work is given out.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
        self.done.notify_all();
    }

    /// Waits for a while, or until it is time to stop.
    pub(super) fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        self.wake.wait_while_for(&mut state, |state| !state.stop, time);
    }
}

impl State {
    fn push(&mut self, append: &Append) {
        let header = &append.header;
        let cost = append.body.len() + FRAME_BYTES;
        if self.bytes + cost > BYTES_MAX {
            return self.owe([header.execution.0]);
        }
        self.bytes += cost;
        self.frames.push(Frame {
            execution: header.execution.0,
            first_seq: header.first_seq,
            last_seq: header.last_seq,
            decided_at: header.decided_at,
            body: Some(append.body.clone()),
        });
    }

    fn owe(&mut self, executions: impl IntoIterator<Item = i64>) {
        let room = BEHIND_MAX.saturating_sub(self.behind.len());
        self.behind.extend(executions.into_iter().take(room));
    }

    fn is_idle(&self) -> bool {
        self.frames.is_empty() && self.behind.is_empty() && !self.is_awaited() && !self.stop
    }

    fn is_urgent(&self) -> bool {
        self.is_awaited() || self.stop || self.bytes >= PROMPT_BYTES
    }

    fn is_awaited(&self) -> bool {
        self.ended < self.asked
    }

    fn take(&mut self) -> Work {
        self.begun = self.asked;
        self.bytes = 0;
        Work {
            frames: std::mem::take(&mut self.frames),
            behind: std::mem::take(&mut self.behind),
            awaited: self.is_awaited(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;
    use waypost_core::frame::FrameHeader;
    use waypost_core::id::{AppendId, ExecutionNo, InstanceId};
    use waypost_ports::store::Side;

    use super::*;

    fn append(execution: i64, bytes: usize) -> Append {
        let header = FrameHeader {
            execution: ExecutionNo(execution),
            first_seq: 1,
            last_seq: 2,
            append_id: AppendId(Uuid::nil()),
            parent: None,
            instance: InstanceId(Uuid::nil()),
            epoch: 1,
            decided_at: Timestamp(0),
            requires: 1,
        };
        Append { header, body: vec![b' '; bytes], side: Side::default() }
    }

    const COMMITTED: Appended = Appended::Committed { at: Timestamp(7) };

    #[test]
    fn queue_takes_committed_frames_only() {
        let queue = Queue::default();
        let batch = [append(1, 10), append(2, 10), append(3, 10)];
        queue.appended(&batch, &[COMMITTED, Appended::Fenced, COMMITTED]);
        let work = queue.take(Duration::ZERO, Duration::ZERO).unwrap();
        let executions: Vec<_> = work.frames.iter().map(|frame| frame.execution).collect();
        assert_eq!((executions, work.behind.len()), (vec![1, 3], 0));
    }

    #[test]
    fn queue_that_is_full_keeps_only_the_execution() {
        let queue = Queue::default();
        let batch = [append(1, 100), append(2, BYTES_MAX - 300), append(3, 500), append(4, 1)];
        queue.appended(&batch, &[COMMITTED, COMMITTED, COMMITTED, COMMITTED]);
        let work = queue.take(Duration::ZERO, Duration::ZERO).unwrap();
        assert_eq!(work.behind, BTreeSet::from([3]));
        let kept: Vec<_> = work.frames.iter().map(|frame| frame.execution).collect();
        assert_eq!(kept, [1, 2, 4]);
    }

    #[test]
    fn queue_leaves_executions_beyond_its_limit_to_the_sweeper() {
        let queue = Queue::default();
        queue.owe(0..150_000);
        queue.owe([200_000]);
        assert_eq!(queue.rest().behind.len(), BEHIND_MAX);
    }
}
