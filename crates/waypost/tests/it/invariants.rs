//! What must be true of any log, checked from the log alone.

use std::collections::{BTreeMap, BTreeSet};

use waypost_core::event::{Event, FailureEnd, Wait};
use waypost_core::frame::decode;
use waypost_core::id::{AppendId, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::store::History;

/// Everything that is wrong with a log; empty when nothing is.
pub(crate) fn violations(history: &History) -> Vec<String> {
    let mut checker = Checker::default();
    for frame in &history.frames {
        let body = match &frame.body {
            Ok(body) => body,
            Err(reason) => {
                checker.wrong(&format!("unreadable frame: {reason}"));
                continue;
            }
        };
        let header = &frame.header;
        checker.expect(header.first_seq == checker.seq + 1, "I1: the sequence has a gap");
        let new = checker.appends.insert(header.append_id);
        checker.expect(new, "I17: an append is there twice");
        checker.expect(header.epoch >= checker.epoch, "I3: a stale owner appended");
        checker.epoch = header.epoch;
        let writer = *checker.writers.entry(header.epoch).or_insert(header.instance);
        checker.expect(writer == header.instance, "I3: an epoch has two writers");
        match decode(body) {
            Ok(events) => events.iter().for_each(|event| checker.event(event, frame.at)),
            Err(error) => checker.wrong(&error.to_string()),
        }
        checker.expect(checker.seq == header.last_seq, "I1: a frame holds other seqs than it says");
    }
    checker.wrong
}

#[derive(Default)]
struct Checker {
    seq: u64,
    epoch: u32,
    ended: bool,
    paused: bool,
    ending: bool,
    writers: BTreeMap<u32, InstanceId>,
    appends: BTreeSet<AppendId>,
    nodes: BTreeMap<String, NodeCheck>,
    messages: BTreeSet<String>,
    wrong: Vec<String>,
}

#[derive(Default)]
struct NodeCheck {
    attempt: u32,
    started: bool,
    completed: bool,
    settled: bool,
    due: Option<Timestamp>,
}

impl Checker {
    fn wrong(&mut self, what: &str) {
        self.wrong.push(format!("seq {}: {what}", self.seq));
    }

    fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.wrong(what);
        }
    }

    fn event(&mut self, event: &Event, at: Timestamp) {
        self.seq += 1;
        let first = self.seq == 1;
        self.expect(first == matches!(event, Event::RunCreated(_)), "I2: created once, first");
        self.expect(!self.ended, "I4: an event after the end");
        match event {
            Event::RunPaused { .. } | Event::RunQuarantined { .. } => {
                self.expect(!self.paused, "I12: paused twice");
                self.paused = true;
            }
            Event::RunResumed { .. } => {
                self.expect(self.paused, "I12: resumed without a pause");
                self.paused = false;
            }
            Event::RunEnding { .. } => {
                self.ending = true;
                self.paused = false;
            }
            Event::SignalReceived { origin, .. } => {
                let message = origin.message.as_ref().map(ToString::to_string).unwrap_or_default();
                let new = self.messages.insert(message);
                self.expect(new, "I11: a message was consumed twice");
            }
            event if event.is_end() => self.ended = true,
            _ => {}
        }
        if let Some(path) = event.node() {
            self.node(path, event, at);
        }
    }

    fn node(&mut self, path: &str, event: &Event, at: Timestamp) {
        let mut node = self.nodes.remove(path).unwrap_or_default();
        match event {
            Event::NodeScheduled { attempt, .. } => {
                self.expect(*attempt == node.attempt + 1, "I6: attempts are consecutive");
                self.expect(!node.completed, "I7: a completed node runs again");
                self.expect(!self.paused && !self.ending, "I12/I13: nothing starts now");
                let early = node.due.is_some_and(|due| at < due);
                self.expect(!early, "I10: a retry began early");
                node.attempt = *attempt;
                node.started = false;
                node.due = None;
            }
            Event::NodeStarted { attempt, .. } => {
                self.expect(*attempt == node.attempt && !node.started, "I5: one start an attempt");
                self.expect(!node.completed, "I7: a completed node runs again");
                node.started = true;
            }
            Event::NodeCompleted { attempt, .. } => {
                self.expect(*attempt == node.attempt && node.started, "I5: an end after its start");
                self.expect(!node.settled, "a node settles once");
                node.completed = true;
                node.settled = true;
            }
            Event::NodeFailed { end, .. } => match end {
                FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => node.due = Some(*due),
                FailureEnd::Final | FailureEnd::TimedOut => {
                    self.expect(!node.settled, "a node settles once");
                    node.settled = true;
                }
            },
            Event::NodeWaiting { wait: Wait::Delay { due }, .. } => node.due = Some(*due),
            Event::NodeResumed { message: None, .. } => {
                let early = node.due.take().is_none_or(|due| at < due);
                self.expect(!early, "I10: a wait ended early or twice");
            }
            Event::NodeSkipped { .. } | Event::NodeCancelled { .. } => {
                self.expect(!node.settled, "a node settles once");
                node.settled = true;
            }
            _ => {}
        }
        self.nodes.insert(path.to_owned(), node);
    }
}

/// How often each node was started.
pub(crate) fn starts(history: &History) -> BTreeMap<String, u64> {
    let mut starts = BTreeMap::new();
    for frame in &history.frames {
        let events = frame.body.as_ref().ok().and_then(|body| decode(body).ok());
        for event in events.into_iter().flatten() {
            if let Event::NodeStarted { node, .. } = event {
                *starts.entry(node.to_string()).or_default() += 1;
            }
        }
    }
    starts
}
