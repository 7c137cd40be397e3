//! Frames that this process committed and has not projected yet.
//!
//! Appends never wait for projections: an append leaves a copy of its frames here. When there are too
//! many, it leaves only the numbers of their executions, and the projector reads the frames from the log.
//!
//! The queue also counts the appends in progress. A place in the log is finished when every append that
//! might have committed before it has returned, and its frames are projected: an append that has
//! committed and whose answer is still on its way has left nothing here yet.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use waypost_core::time::Timestamp;
use waypost_ports::store::{Append, Appended};

/// Bytes of frames that are kept.
const BYTES_MAX: usize = 64 << 20;

/// What a frame costs beside its body.
const FRAME_BYTES: usize = 64;

/// Bytes of frames that are shown without waiting for more.
const PROMPT_BYTES: usize = 4 << 20;

/// A frame to show.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) execution: i64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    pub(super) decided_at: Timestamp,
    /// Nothing where the bytes are not those that were written.
    pub(super) body: Option<Vec<u8>>,
}

/// What is to be shown next.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) frames: Vec<Frame>,
    /// Executions whose frames have to be read from the log.
    pub(super) behind: BTreeSet<i64>,
    /// Every append before this one was heard of, and what it left is in this work or in an earlier one.
    pub(super) heard_before: u64,
}

/// See above.
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
    /// Appends are numbered in the order in which they began.
    next_append: u64,
    under_way: BTreeSet<u64>,
    /// Rounds that were asked for, begun and ended, in which everything of their time was shown.
    asked: u64,
    begun: u64,
    ended: u64,
    stop: bool,
}

impl Queue {
    /// An append begins.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        let number = state.next_append;
        state.next_append += 1;
        state.under_way.insert(number);
        number
    }

    /// An append was answered.
    pub(super) fn answered(&self, number: u64, batch: &[Append], outcomes: &[Appended]) {
        let mut state = self.state.lock();
        for (append, outcome) in batch.iter().zip(outcomes) {
            if let Appended::Committed { .. } = outcome {
                state.push(append);
            }
        }
        state.under_way.remove(&number);
        self.wake.notify_one();
    }

    /// An append failed: nobody knows what became of it. Whatever there is will be read from the log.
    pub(super) fn unknown(&self, number: u64, batch: &[Append]) {
        let mut state = self.state.lock();
        state.behind.extend(batch.iter().map(|append| append.header.execution.0));
        state.under_way.remove(&number);
        self.wake.notify_one();
    }

    /// Executions whose frames have to be read from the log.
    pub(super) fn owe(&self, executions: impl IntoIterator<Item = i64>) {
        self.state.lock().behind.extend(executions);
        self.wake.notify_one();
    }

    /// The number that the next append gets.
    pub(super) fn next_append(&self) -> u64 {
        self.state.lock().next_append
    }

    /// Waits for something to do, for at most `patience`; lets more of it come for `gather`, unless
    /// somebody waits for it. Nothing when it is time to stop.
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

    /// What is left when it is time to stop.
    pub(super) fn rest(&self) -> Work {
        self.state.lock().take()
    }

    /// What was taken last is shown, and so is everything before it.
    pub(super) fn shown(&self) {
        let mut state = self.state.lock();
        state.ended = state.begun;
        self.done.notify_all();
    }

    /// Blocks until everything that was committed before is shown, or it is time to stop.
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
            self.behind.insert(header.execution.0);
            return;
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

    fn is_idle(&self) -> bool {
        self.frames.is_empty() && self.behind.is_empty() && self.asked == self.begun && !self.stop
    }

    fn is_urgent(&self) -> bool {
        self.asked > self.begun || self.stop || self.bytes >= PROMPT_BYTES
    }

    fn take(&mut self) -> Work {
        self.begun = self.asked;
        self.bytes = 0;
        Work {
            frames: std::mem::take(&mut self.frames),
            behind: std::mem::take(&mut self.behind),
            heard_before: self.under_way.first().copied().unwrap_or(self.next_append),
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
    fn only_what_was_committed_is_shown() {
        let queue = Queue::default();
        let batch = [append(1, 10), append(2, 10), append(3, 10)];
        let number = queue.begin();
        queue.answered(number, &batch, &[COMMITTED, Appended::Fenced, COMMITTED]);
        let work = queue.take(Duration::ZERO, Duration::ZERO).unwrap();
        let executions: Vec<_> = work.frames.iter().map(|frame| frame.execution).collect();
        assert_eq!((executions, work.behind.len()), (vec![1, 3], 0));
    }

    #[test]
    fn what_does_not_fit_is_read_from_the_log() {
        let queue = Queue::default();
        let batch = [append(1, 100), append(2, BYTES_MAX - 300), append(3, 500), append(4, 1)];
        let number = queue.begin();
        queue.answered(number, &batch, &[COMMITTED, COMMITTED, COMMITTED, COMMITTED]);
        let work = queue.take(Duration::ZERO, Duration::ZERO).unwrap();
        assert_eq!(work.behind, BTreeSet::from([3]));
        let kept: Vec<_> = work.frames.iter().map(|frame| frame.execution).collect();
        assert_eq!(kept, [1, 2, 4]);
    }

    #[test]
    fn an_append_that_was_not_heard_of_holds_the_mark_back() {
        let queue = Queue::default();
        let (first, second) = (queue.begin(), queue.begin());
        queue.answered(second, &[append(1, 1)], &[COMMITTED]);
        let heard = || queue.take(Duration::ZERO, Duration::ZERO).unwrap().heard_before;
        assert_eq!(heard(), first);
        queue.unknown(first, &[append(9, 1)]);
        assert_eq!(heard(), queue.next_append());
    }

    #[test]
    fn an_append_without_an_answer_is_looked_up() {
        let queue = Queue::default();
        queue.unknown(queue.begin(), &[append(9, 1)]);
        let work = queue.take(Duration::ZERO, Duration::ZERO).unwrap();
        assert_eq!(work.behind, BTreeSet::from([9]));
    }
}
