//! The invariants that every log must satisfy, checked on what is stored.
//!
//! I1 gapless and linked; I2 created once, first; I3 one writer an epoch, epochs grow; I4 the end
//! is final; I5, I6 attempts are consecutive, start once and end once; I7 a completed node never
//! runs again; I10 waits end once and never early; I11 messages are consumed once; I12 nothing
//! starts while paused. And: the log folds, and the control row agrees with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::event::{Event, FailureEnd, PauseReason, Wait};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::time::Timestamp;
use waypost_engine::fold;
use waypost_ports::store::{Store, StoredFrame};

use super::World;

/// Where a node's last attempt stands.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Attempt {
    Scheduled,
    Started,
    Waiting(Option<Timestamp>),
    /// Failed, to be tried again at this time.
    Retry(Timestamp),
    Completed,
    Settled,
}

#[derive(Default)]
struct Audit {
    seq: u64,
    ended: bool,
    epoch: u32,
    writers: BTreeMap<u32, InstanceId>,
    nodes: BTreeMap<Arc<str>, (u32, Option<Attempt>)>,
    messages: BTreeSet<Arc<str>>,
    held_by_user: bool,
    parked: bool,
}

/// Checks the log of one execution and what stands beside it.
pub(crate) fn check(world: &World, execution: ExecutionId) {
    let history = world.store.load_all(execution).unwrap().unwrap();
    let mut audit = Audit::default();
    let mut parent = None;
    let mut last_at = Timestamp(0);
    for frame in &history.frames {
        let header = &frame.header;
        let what = format!("{execution}, frame at {}", header.first_seq);
        assert_eq!(header.first_seq, audit.seq + 1, "I1: {what} leaves a gap or overlaps");
        assert_eq!(header.parent, parent, "I1: {what} does not follow the one before");
        assert!(frame.at >= last_at, "{what} lies before an earlier one");
        for event in decode(frame.body.as_ref().unwrap()).unwrap() {
            audit.event(&event, frame, &what);
        }
        assert_eq!(header.last_seq, audit.seq, "I1: {what} does not hold what its header says");
        // A frame may hold a take-over: its epoch is the one after it.
        assert_eq!(header.epoch, audit.epoch, "I3: {what}");
        let writer = *audit.writers.entry(header.epoch).or_insert(header.instance);
        assert_eq!(writer, header.instance, "I3: {what}: two writers in one epoch");
        (parent, last_at) = (Some(header.as_parent()), frame.at);
    }
    let control = history.control.clone();
    let state = fold(history, &world.plans, &world.store).unwrap().state;
    assert_eq!(state.status.is_end(), control.is_none(), "{execution}: {control:?}");
    assert_eq!(state.status.is_end(), audit.ended);
    if let Some(control) = control {
        assert!(control.epoch >= state.epoch, "the control row of {execution} is behind its log");
    }
}

impl Audit {
    fn event(&mut self, event: &Event, frame: &StoredFrame, what: &str) {
        self.seq += 1;
        assert!(!self.ended, "I4: {what}: {} after the end", event.name());
        assert_eq!(self.seq == 1, matches!(event, Event::RunCreated(_)), "I2: {what}");
        self.message(event, what);
        match event {
            Event::RunOwned { epoch, instance } => {
                assert_eq!(*epoch, self.epoch + 1, "I3: {what}");
                assert_eq!(*instance, frame.header.instance, "I3: {what}");
                self.epoch = *epoch;
                self.parked = false;
            }
            Event::RunPauseRequested { .. } => self.held_by_user = true,
            Event::RunPaused { reason } => {
                assert!(!self.parked, "I12: {what}: paused twice");
                assert_eq!(*reason == PauseReason::User, self.held_by_user, "I12: {what}");
                self.parked = true;
            }
            Event::RunQuarantined { .. } => (self.held_by_user, self.parked) = (true, true),
            Event::RunResumed { .. } | Event::RunEnding { .. } => {
                (self.held_by_user, self.parked) = (false, false);
            }
            event if event.is_end() => self.ended = true,
            event => self.node_event(event, frame, what),
        }
    }

    /// I11, as far as the log alone can tell.
    fn message(&mut self, event: &Event, what: &str) {
        let message = match event {
            Event::RunPauseRequested { origin, .. }
            | Event::RunResumed { origin }
            | Event::SignalReceived { origin, .. } => origin.message.as_ref(),
            Event::RunEnding { cause: waypost_core::event::EndCause::Cancel { origin, .. } } => {
                origin.message.as_ref()
            }
            Event::MessageIgnored { message, .. } => Some(message),
            _ => None,
        };
        if let Some(message) = message {
            assert!(self.messages.insert(Arc::clone(message)), "I11: {what}: {message} came twice");
        }
    }

    fn node_event(&mut self, event: &Event, frame: &StoredFrame, what: &str) {
        let Some(node) = event.node().cloned() else { return };
        let (attempt, before) = self.nodes.get(&node).copied().unwrap_or_default();
        let what = format!("{what}: {} of {node}, attempt {attempt}, {before:?}", event.name());
        let moves = !self.held_by_user && !self.parked;
        let same = |of: &u32| assert_eq!(*of, attempt, "I5: {what}");
        let not_early = |due: Timestamp| assert!(frame.at >= due, "I10: {what} comes before {due}");
        let (attempt, after) = match event {
            Event::NodeScheduled { attempt: next, .. } => {
                assert!(moves, "I12: {what}");
                assert_eq!(*next, attempt + 1, "I6: {what}");
                match before {
                    None => {}
                    Some(Attempt::Retry(due)) => not_early(due),
                    Some(_) => panic!("I6, I7: {what}"),
                }
                (*next, Attempt::Scheduled)
            }
            Event::NodeStarted { attempt: of, .. } => {
                assert!(moves, "I12: {what}");
                same(of);
                assert_eq!(before, Some(Attempt::Scheduled), "I5, I7: {what}");
                (*of, Attempt::Started)
            }
            Event::NodeCheckpointed { .. } => (attempt, Attempt::Started),
            Event::NodeWaiting { attempt: of, wait, .. } => {
                same(of);
                assert_eq!(before, Some(Attempt::Started), "I10: {what}");
                let due = match wait {
                    Wait::Delay { due } => Some(*due),
                    Wait::Signal { .. } | Wait::Retry { .. } => None,
                };
                (*of, Attempt::Waiting(due))
            }
            Event::NodeResumed { attempt: of, message, .. } => {
                same(of);
                match (before, message) {
                    (Some(Attempt::Waiting(Some(due))), None) => not_early(due),
                    (Some(Attempt::Waiting(None)), Some(_)) => {}
                    _ => panic!("I10: {what}"),
                }
                (*of, Attempt::Started)
            }
            Event::NodeCompleted { attempt: of, .. } => {
                same(of);
                assert_eq!(before, Some(Attempt::Started), "I5, I7: {what}");
                (*of, Attempt::Completed)
            }
            Event::NodeFailed { attempt: of, end, .. } => {
                same(of);
                let open = matches!(before, Some(Attempt::Started | Attempt::Waiting(_)));
                assert!(open, "I5: {what}");
                match end {
                    FailureEnd::RetryAt(due) | FailureEnd::Abandoned(due) => {
                        (*of, Attempt::Retry(*due))
                    }
                    FailureEnd::Final | FailureEnd::TimedOut => (*of, Attempt::Settled),
                }
            }
            Event::NodeSkipped { .. } => {
                assert_eq!(before, None, "{what}");
                (attempt, Attempt::Settled)
            }
            Event::NodeCancelled { .. } => {
                let settled = matches!(before, Some(Attempt::Completed | Attempt::Settled));
                assert!(!settled, "I4: {what}");
                (attempt, Attempt::Settled)
            }
            _ => unreachable!("it has a node"),
        };
        self.nodes.insert(node, (attempt, Some(after)));
    }
}
