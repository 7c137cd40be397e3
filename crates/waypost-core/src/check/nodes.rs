//! Attempts and waits: what may happen to a node after what.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::{self, Turn};
use super::run::RunCheck;
use super::{Invariant, Place, Verdict, broken, position};
use crate::event::{CancelReason, Event, FailureEnd, MessageId, Wait};
use crate::failure::{Failure, kind};
use crate::id::NodeIx;
use crate::limits::{ABANDONED_MAX, PAYLOAD_BYTES_MAX};
use crate::plan::{FailurePolicy, OnError, Plan};
use crate::time::Timestamp;

/// The nodes of an execution: those of its plan, or, without one, those that its log names.
#[derive(Debug)]
pub(super) struct Nodes {
    plan: Option<Arc<Plan>>,
    named: BTreeMap<Arc<str>, NodeIx>,
    seen: Vec<Seen>,
    settled: u64,
    unsettled: usize,
    /// Has a node failed that nothing handles, in this generation?
    unhandled: bool,
    /// The join that fired last, if it cancels what leads only there.
    fired: Option<NodeIx>,
}

/// Where a node stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) phase: Phase,
    /// The event that settled it; 0 before.
    pub(super) settled_seq: u64,
    attempt: u32,
    tries: u32,
    abandoned: u32,
    /// When all its attempts must have ended.
    deadline: Option<Timestamp>,
    /// Its join cannot be met: it was scheduled only to fail.
    doomed: bool,
    /// It was reported.
    known: bool,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) enum Phase {
    #[default]
    Pending,
    Queued,
    Running,
    Waiting {
        wait: Wait,
        /// It was due when it began, by the clock of whoever decided so.
        at_once: bool,
    },
    Settled(End),
}

/// What a node came to, as far as edges care.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    Completed { branch: Option<Arc<str>> },
    Failed,
    Skipped,
    Cancelled,
}

impl Nodes {
    pub(super) fn new(plan: Option<Arc<Plan>>) -> Self {
        let count = plan.as_ref().map_or(0, |plan| plan.nodes.len());
        Self {
            plan,
            named: BTreeMap::new(),
            seen: vec![Seen::default(); count],
            settled: 0,
            unsettled: count,
            unhandled: false,
            fired: None,
        }
    }

    /// How often nodes have settled.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// How many nodes have not settled; unknown without a plan.
    pub(super) fn unsettled(&self) -> Option<usize> {
        self.plan.is_some().then_some(self.unsettled)
    }

    /// Has a node failed with nothing to handle it, and the others went on? Unknown without a plan.
    pub(super) fn has_unhandled_failure(&self) -> Option<bool> {
        self.plan.is_some().then_some(self.unhandled)
    }

    /// Where a node stands.
    pub(super) fn seen(&self, at: NodeIx) -> Option<&Seen> {
        self.seen.get(at.at())
    }

    /// Is this the first report of the event's node?
    pub(super) fn is_news(&mut self, event: &Event) -> bool {
        let node = event.node().and_then(|path| self.find(path));
        let seen = node.and_then(|at| self.seen.get_mut(at.at()));
        seen.is_none_or(|seen| !std::mem::replace(&mut seen.known, true))
    }

    /// Is the event possible here? Says what is wrong and changes nothing.
    pub(super) fn judge(&self, place: Place, event: &Event, run: &RunCheck) -> Verdict {
        if let Event::RunReopened { nodes, .. } = event {
            return self.may_be_reset(nodes);
        }
        let Some(path) = event.node() else { return Ok(()) };
        let unseen = Seen::default();
        let at = self.find(path);
        if at.is_none() && self.plan.is_some() {
            return broken(Invariant::Justified, "the definition has no such node");
        }
        let seen = at.and_then(|at| self.seen(at)).unwrap_or(&unseen);
        may_happen_now(event, run)?;
        match event {
            Event::NodeScheduled { attempt, cause, .. } => {
                seen.may_be_scheduled(place, *attempt)?;
                self.is_justified(at, seen, cause, |turn| matches!(turn, Turn::Run | Turn::Fail))
            }
            Event::NodeStarted { attempt, .. } => seen.may_start(*attempt),
            Event::NodeCheckpointed { attempt, .. } => seen.is_running(*attempt),
            Event::NodeCompleted { attempt, output, .. } => {
                seen.is_running(*attempt)?;
                match output {
                    Some(output) if output.bytes() > PAYLOAD_BYTES_MAX => {
                        let what = format!("its output has {} bytes", output.bytes());
                        broken(Invariant::Limits, what)
                    }
                    _ => Ok(()),
                }
            }
            Event::NodeFailed { attempt, failure, end, .. } => {
                seen.may_fail(place, *attempt, failure, *end)?;
                self.may_be_tried_again(at, seen, *end)
            }
            Event::NodeWaiting { attempt, wait, .. } => {
                seen.is_running(*attempt)?;
                match wait {
                    Wait::Retry { .. } => {
                        broken(Invariant::WaitsEndInTime, "it waits for a retry without a failure")
                    }
                    Wait::Delay { .. } | Wait::Signal { .. } => Ok(()),
                }
            }
            Event::NodeResumed { attempt, message, .. } => {
                seen.may_resume(place, *attempt, message.as_ref(), run)
            }
            Event::NodeSkipped { cause, .. } => {
                seen.is_pending()?;
                self.is_justified(at, seen, cause, |turn| turn == Turn::Skip)
            }
            Event::NodeCancelled { reason, .. } => {
                seen.is_open()?;
                self.may_be_cancelled(at, *reason, run)
            }
            _ => Ok(()),
        }
    }

    /// Takes the event in, whatever was said of it.
    pub(super) fn advance(&mut self, place: Place, event: &Event, run: &RunCheck) {
        match event {
            Event::RunEnding { .. } => self.cancel_pending(place),
            Event::RunReopened { nodes, .. } => self.reset(nodes),
            // A person looked: losses are counted anew.
            Event::RunResumed { .. } if run.is_held() => {
                self.seen.iter_mut().for_each(|seen| seen.abandoned = 0);
            }
            _ => {}
        }
        let Some(at) = event.node().and_then(|path| self.find_or_add(path)) else { return };
        if let Event::NodeScheduled { attempt, .. } = event {
            self.scheduled(place, at, *attempt);
        }
        let Some(seen) = self.seen.get_mut(at.at()) else { return };
        let before = matches!(seen.phase, Phase::Settled(_));
        seen.advance(place, event);
        if matches!(seen.phase, Phase::Settled(_)) && !before {
            self.settled += 1;
            self.unsettled = self.unsettled.saturating_sub(1);
            self.note_unhandled(at);
        }
    }

    fn find(&self, path: &str) -> Option<NodeIx> {
        match &self.plan {
            Some(plan) => plan.find(path),
            None => self.named.get(path).copied(),
        }
    }

    fn find_or_add(&mut self, path: &Arc<str>) -> Option<NodeIx> {
        if let Some(plan) = &self.plan {
            return plan.find(path);
        }
        let next = position(self.seen.len());
        let at = *self.named.entry(Arc::clone(path)).or_insert(next);
        if at == next {
            self.seen.push(Seen::default());
        }
        Some(at)
    }

    fn scheduled(&mut self, place: Place, at: NodeIx, attempt: u32) {
        let Some(plan) = self.plan.clone() else { return };
        let first = self.seen(at).is_some_and(|seen| seen.phase == Phase::Pending);
        let doomed = first && graph::turn(&plan, self, at) == Turn::Fail;
        let node = plan.node(at);
        self.fired = (!node.only_here.is_empty()).then_some(at);
        let Some(seen) = self.seen.get_mut(at.at()) else { return };
        seen.doomed = doomed;
        seen.attempt = attempt;
        if first {
            seen.deadline = node.deadline.map(|span| place.decided_at.plus(span));
        }
    }

    fn cancel_pending(&mut self, place: Place) {
        for seen in self.seen.iter_mut().filter(|seen| seen.phase == Phase::Pending) {
            seen.phase = Phase::Settled(End::Cancelled);
            seen.settled_seq = place.seq;
            self.settled += 1;
            self.unsettled = self.unsettled.saturating_sub(1);
        }
    }

    fn reset(&mut self, nodes: &[Arc<str>]) {
        self.unhandled = false;
        for path in nodes {
            let at = self.find(path);
            let Some(seen) = at.and_then(|at| self.seen.get_mut(at.at())) else { continue };
            match seen.phase {
                // What may not run again does not.
                Phase::Settled(End::Completed { .. }) => continue,
                Phase::Settled(_) => self.unsettled += 1,
                _ => {}
            }
            // Attempt numbers go on: a report of an earlier generation must never fit a later one.
            *seen = Seen { attempt: seen.attempt, known: seen.known, ..Seen::default() };
        }
    }

    fn note_unhandled(&mut self, at: NodeIx) {
        let failed = self.seen(at).is_some_and(|seen| seen.phase == Phase::Settled(End::Failed));
        if let Some(plan) = self.plan.as_ref().filter(|_| failed) {
            self.unhandled |= plan.failure_policy == FailurePolicy::Partial
                && plan.node(at).on_error == OnError::Fail;
        }
    }

    fn may_be_reset(&self, nodes: &[Arc<str>]) -> Verdict {
        for path in nodes {
            let seen = self.find(path).and_then(|at| self.seen(at));
            if seen.is_some_and(|seen| matches!(seen.phase, Phase::Settled(End::Completed { .. })))
            {
                let what = format!("node {path:?} has completed and is to run again");
                return broken(Invariant::SettlesOnce, what);
            }
        }
        Ok(())
    }

    /// Does the graph allow a PENDING node's turn, and do the causes name what settled its sources?
    fn is_justified(
        &self,
        at: Option<NodeIx>,
        seen: &Seen,
        cause: &[u64],
        allows: impl Fn(Turn) -> bool,
    ) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        if seen.phase != Phase::Pending {
            return Ok(());
        }
        let turn = graph::turn(plan, self, at);
        if !allows(turn) {
            return broken(turn.breaks(plan.node(at)), turn.describe());
        }
        if !graph::are_causes(plan, self, at, cause) {
            return broken(Invariant::Justified, "its causes are not what settled its sources");
        }
        Ok(())
    }

    fn may_be_tried_again(&self, at: Option<NodeIx>, seen: &Seen, end: FailureEnd) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        match end {
            FailureEnd::RetryAt(_) => {
                let most = plan.node(at).retry.as_ref().map_or(1, |policy| policy.max_attempts);
                if seen.tries.saturating_add(1) < most {
                    return Ok(());
                }
                let what = format!("to be tried again, although {most} tries are allowed");
                broken(Invariant::AttemptsInOrder, what)
            }
            FailureEnd::Abandoned(_) if seen.abandoned >= ABANDONED_MAX => {
                let what = format!("lost more than {ABANDONED_MAX} times, and nobody looked");
                broken(Invariant::Limits, what)
            }
            FailureEnd::Abandoned(_) | FailureEnd::Final | FailureEnd::TimedOut => Ok(()),
        }
    }

    fn may_be_cancelled(
        &self,
        at: Option<NodeIx>,
        reason: CancelReason,
        run: &RunCheck,
    ) -> Verdict {
        match (reason, &self.plan, at) {
            (CancelReason::Ending | CancelReason::Grace, ..) if !run.is_ending() => {
                broken(Invariant::CauseDecides, "cancelled for an end that is not fixed")
            }
            (CancelReason::Join, Some(plan), Some(at)) => {
                let rest = self.fired.map(|join| plan.node(join).only_here.as_slice());
                match rest.unwrap_or_default().binary_search(&at) {
                    Ok(_) => Ok(()),
                    Err(_) => {
                        broken(Invariant::Justified, "no join that fired leaves it without use")
                    }
                }
            }
            _ => Ok(()),
        }
    }
}

/// Does the execution allow events of this kind about its nodes right now?
fn may_happen_now(event: &Event, run: &RunCheck) -> Verdict {
    let starts = matches!(
        event,
        Event::NodeScheduled { .. } | Event::NodeStarted { .. } | Event::NodeSkipped { .. }
    );
    let goes_on = matches!(event, Event::NodeWaiting { .. } | Event::NodeResumed { .. });
    if run.is_ending() && (starts || goes_on) {
        return broken(Invariant::CauseDecides, "after the end was fixed");
    }
    if (starts && run.is_paused()) || run.is_parked() {
        return broken(Invariant::PausesHold, "while the execution was paused");
    }
    Ok(())
}

impl Seen {
    fn advance(&mut self, place: Place, event: &Event) {
        let waiting = |wait: Wait| {
            let at_once = wait.due().is_some_and(|due| due <= place.decided_at);
            Phase::Waiting { wait, at_once }
        };
        let next = match event {
            Event::NodeScheduled { attempt, .. } => {
                self.attempt = *attempt;
                Phase::Queued
            }
            Event::NodeStarted { .. } | Event::NodeCheckpointed { .. } => Phase::Running,
            Event::NodeResumed { .. } => Phase::Running,
            Event::NodeWaiting { wait, .. } => waiting(wait.clone()),
            Event::NodeCompleted { branch, .. } => {
                Phase::Settled(End::Completed { branch: branch.clone() })
            }
            Event::NodeFailed { end: FailureEnd::RetryAt(due), .. } => {
                self.tries = self.tries.saturating_add(1);
                waiting(Wait::Retry { due: *due })
            }
            Event::NodeFailed { end: FailureEnd::Abandoned(due), .. } => {
                self.abandoned = self.abandoned.saturating_add(1);
                waiting(Wait::Retry { due: *due })
            }
            Event::NodeFailed { .. } => Phase::Settled(End::Failed),
            Event::NodeSkipped { .. } => Phase::Settled(End::Skipped),
            Event::NodeCancelled { .. } => Phase::Settled(End::Cancelled),
            _ => return,
        };
        if matches!(next, Phase::Settled(_)) && self.settled_seq == 0 {
            self.settled_seq = place.seq;
        }
        self.phase = next;
    }

    fn may_be_scheduled(&self, place: Place, attempt: u32) -> Verdict {
        match &self.phase {
            Phase::Pending => {}
            Phase::Waiting { wait: Wait::Retry { due }, at_once } => {
                not_early(place, *due, *at_once)?;
            }
            Phase::Settled(_) => return broken(Invariant::SettlesOnce, "it has settled"),
            Phase::Queued | Phase::Running | Phase::Waiting { .. } => {
                let what = format!("attempt {} has not ended", self.attempt);
                return broken(Invariant::AttemptsInOrder, what);
            }
        }
        if self.attempt.checked_add(1) == Some(attempt) {
            return Ok(());
        }
        let what = format!("attempt {attempt} follows {}", self.attempt);
        broken(Invariant::AttemptsInOrder, what)
    }

    fn may_start(&self, attempt: u32) -> Verdict {
        match self.phase {
            Phase::Queued if self.doomed => {
                broken(Invariant::JoinsInTime, "its join cannot be met: it can only fail")
            }
            Phase::Queued => self.is_at(attempt),
            Phase::Settled(_) => broken(Invariant::SettlesOnce, "it has settled"),
            Phase::Pending | Phase::Running | Phase::Waiting { .. } => {
                broken(Invariant::AttemptsOnce, "an attempt starts once, when it was scheduled")
            }
        }
    }

    fn is_running(&self, attempt: u32) -> Verdict {
        match self.phase {
            Phase::Running => self.is_at(attempt),
            Phase::Settled(_) => broken(Invariant::AttemptsOnce, "the attempt has ended"),
            Phase::Pending | Phase::Queued | Phase::Waiting { .. } => {
                broken(Invariant::AttemptsOnce, "the attempt does not run")
            }
        }
    }

    fn is_at(&self, attempt: u32) -> Verdict {
        if attempt == self.attempt {
            return Ok(());
        }
        let what = format!("attempt {attempt} is not the current one, {}", self.attempt);
        broken(Invariant::AttemptsOnce, what)
    }

    fn is_pending(&self) -> Verdict {
        match self.phase {
            Phase::Pending => Ok(()),
            Phase::Settled(_) => broken(Invariant::SettlesOnce, "it has settled"),
            Phase::Queued | Phase::Running | Phase::Waiting { .. } => {
                broken(Invariant::Justified, "it is under way")
            }
        }
    }

    fn is_open(&self) -> Verdict {
        match self.phase {
            Phase::Settled(_) => broken(Invariant::SettlesOnce, "it has settled"),
            _ => Ok(()),
        }
    }

    /// An attempt that waits fails only by time, one that was never started only for good.
    fn may_fail(&self, place: Place, attempt: u32, failure: &Failure, end: FailureEnd) -> Verdict {
        match (&self.phase, end) {
            (Phase::Running, _) | (Phase::Queued, FailureEnd::TimedOut) => {}
            (Phase::Queued, FailureEnd::Final) if self.doomed => {}
            (Phase::Waiting { wait, at_once }, FailureEnd::TimedOut) => {
                let due = match wait {
                    Wait::Signal { due, .. } => *due,
                    Wait::Delay { .. } | Wait::Retry { .. } => None,
                };
                let due = [due, self.deadline].into_iter().flatten().min();
                if let Some(due) = due {
                    not_early(place, due, *at_once)?;
                }
            }
            (
                Phase::Waiting { wait: Wait::Signal { due, .. }, at_once },
                FailureEnd::RetryAt(_),
            ) => match due {
                Some(due) if failure.kind == kind::TIMEOUT => {
                    not_early(place, *due, *at_once)?;
                }
                _ => return broken(Invariant::WaitsEndInTime, "its wait was not over"),
            },
            (Phase::Waiting { .. }, _) => {
                return broken(Invariant::AttemptsOnce, "the attempt has ended or waits");
            }
            (Phase::Settled(_), _) => {
                return broken(Invariant::AttemptsOnce, "the attempt has ended");
            }
            (Phase::Pending | Phase::Queued, _) => {
                return broken(Invariant::AttemptsOnce, "the attempt was not started");
            }
        }
        self.is_at(attempt)
    }

    /// A wait ends by its message, or when it is due and not before.
    fn may_resume(
        &self,
        place: Place,
        attempt: u32,
        message: Option<&MessageId>,
        run: &RunCheck,
    ) -> Verdict {
        match (&self.phase, message) {
            (Phase::Waiting { wait: Wait::Delay { due }, at_once }, None) => {
                not_early(place, *due, *at_once)?;
            }
            (Phase::Waiting { wait: Wait::Signal { name, .. }, .. }, Some(message)) => {
                if !run.has_signal(message, name) {
                    let what = format!("signal {name:?} never came with message {message:?}");
                    return broken(Invariant::WaitsEndInTime, what);
                }
            }
            (Phase::Waiting { .. }, _) => {
                return broken(Invariant::WaitsEndInTime, "that is not what it waited for");
            }
            _ => return broken(Invariant::WaitsEndInTime, "it has no wait that is open"),
        }
        self.is_at(attempt)
    }
}

/// By the store's time, which all instances share. A wait that was due when it began is no wait.
fn not_early(place: Place, due: Timestamp, at_once: bool) -> Verdict {
    if at_once || place.at >= due {
        return Ok(());
    }
    broken(Invariant::WaitsEndInTime, format!("at {}, before {due}", place.at))
}
