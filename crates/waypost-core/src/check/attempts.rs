//! One node: its attempts and waits, and what may happen to it after what.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::Turn;
use super::invariant::Invariant::{
    AttemptsInOrder, AttemptsOnce, JoinsInTime, Justified, Limits, SettlesOnce, WaitsEndInTime,
};
use super::nodes::Nodes;
use super::run::RunCheck;
use super::scopes::BodySeen;
use super::{EventAt, Verdict, broken, require, require_with};
use crate::event::{AttemptReserved, AttemptUsed, FailureEnd, NodeEvent, Wait};
use crate::failure::{Failure, kind};
use crate::id::ExecutionNo;
use crate::json::Json;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::path::At;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) phase: Phase,
    /// The event that settled it; 0 before.
    pub(super) settled_seq: u64,
    pub(super) attempt: u32,
    pub(super) tries: u32,
    pub(super) abandoned: u32,
    /// The number of its attempt's last mark.
    pub(super) marks: u32,
    /// When all its attempts must have ended.
    pub(super) deadline: Option<Timestamp>,
    /// Its join cannot be met: it was scheduled only to fail.
    pub(super) doomed: bool,
    /// It was reported.
    pub(super) known: bool,
    /// Of a container.
    pub(super) body: BodySeen,
    /// The execution that it started, and the last generation whose end it took.
    pub(super) child: Option<(ExecutionNo, u32)>,
    /// The signals that came, of several that it waits for, with their names.
    pub(super) came: BTreeMap<u32, Arc<str>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) enum Phase {
    #[default]
    Pending,
    Queued,
    Running,
    Waiting {
        wait: Wait,
        /// The event that opened it.
        opened: u64,
        /// It was due when it began, by the clock of the instance that decided so.
        at_once: bool,
    },
    Settled(End),
}

/// The end of a node, as far as it matters for edges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    Completed { branch: Option<Arc<str>> },
    Failed { past_on_error: bool },
    Skipped,
    Cancelled,
}

impl Nodes {
    /// Is the event possible, as far as its node, its attempt and the graph go?
    pub(super) fn judge_event(
        &self,
        place: EventAt,
        event: &NodeEvent,
        (at, seen): (Option<At>, &Seen),
        run: &RunCheck,
    ) -> Verdict {
        match event {
            NodeEvent::Scheduled { attempt, cause, .. } => {
                seen.may_be_scheduled(place, *attempt)?;
                self.is_justified(at, seen, cause, |turn| matches!(turn, Turn::Run | Turn::Fail))
            }
            NodeEvent::Reserved(AttemptReserved { attempt, .. }) => seen.may_start(*attempt),
            NodeEvent::Used(AttemptUsed { attempt, .. }) => seen.is_running(*attempt),
            NodeEvent::Started { attempt, .. } => {
                seen.may_start(*attempt)?;
                self.is_made_by_one(at, event)
            }
            NodeEvent::Checkpointed { attempt, number, .. } => {
                seen.may_be_marked(*attempt, *number)
            }
            NodeEvent::Completed { attempt, output, .. } => {
                seen.may_complete(*attempt, output.as_ref())?;
                self.may_leave_body(seen, event)?;
                self.may_complete_body(at, seen)
            }
            NodeEvent::Failed { attempt, failure, end, .. } => {
                seen.may_fail(place, *attempt, failure, *end)?;
                self.may_leave_body(seen, event)?;
                self.may_skip_on_error(at, failure)?;
                self.may_be_tried_again(at, seen, failure, *end)
            }
            NodeEvent::Waiting { .. }
            | NodeEvent::Signalled { .. }
            | NodeEvent::Reminded { .. }
            | NodeEvent::Resumed { .. }
            | NodeEvent::Requeued { .. } => self.judge_wait(place, event, (at, seen), run),
            NodeEvent::Skipped { cause, .. } => {
                seen.is_pending()?;
                self.is_justified(at, seen, cause, |turn| turn == Turn::Skip)
            }
            NodeEvent::BodyOpened { attempt, index, .. } => {
                seen.is_at(*attempt)?;
                self.may_open(at, seen, *index)
            }
            NodeEvent::MapOpened { attempt, count, tolerated, results_max, .. } => {
                seen.is_running(*attempt)?;
                self.may_map(at, (*count, *tolerated), *results_max)
            }
            NodeEvent::ItemsOpened { attempt, from, count, failed, .. } => {
                seen.is_at(*attempt)?;
                self.may_open_items(at, seen, *from, *count)?;
                seen.has_failures(*failed)
            }
            NodeEvent::BodyEnding { node, attempt, index, whole, origin, .. } => {
                seen.is_at(*attempt)?;
                let asked = origin.message.is_some() && !whole;
                self.may_end(place, (at, seen), (node, *index), asked)
            }
            NodeEvent::Tuned { attempt, held, concurrency, .. } => {
                seen.is_at(*attempt)?;
                self.may_tune(at, seen, *held, *concurrency)
            }
            NodeEvent::ChildStarted { .. }
            | NodeEvent::ChildReopened { .. }
            | NodeEvent::ChildEnded { .. }
            | NodeEvent::SignalSent { .. } => self.judge_call(event, (at, seen)),
            NodeEvent::Cancelled { reason, .. } => {
                seen.is_open()?;
                self.may_leave_body(seen, event)?;
                self.may_be_cancelled(at, *reason, run)
            }
        }
    }
}

impl Seen {
    pub(super) fn advance(&mut self, place: EventAt, event: &NodeEvent) {
        let waiting = |wait: Wait| {
            let at_once = wait.due().is_some_and(|due| due <= place.decided_at);
            Phase::Waiting { wait, at_once, opened: place.seq }
        };
        self.note_signals(event);
        let next = match event {
            NodeEvent::Signalled { .. }
            | NodeEvent::Reminded { .. }
            | NodeEvent::SignalSent { .. }
            | NodeEvent::Reserved(_)
            | NodeEvent::Used(_) => return,
            NodeEvent::Scheduled { attempt, .. } => {
                self.attempt = *attempt;
                self.marks = 0;
                Phase::Queued
            }
            NodeEvent::Started { .. } => Phase::Running,
            NodeEvent::Requeued { .. } => Phase::Queued,
            NodeEvent::Checkpointed { number, .. } => {
                self.marks = self.marks.max(*number);
                Phase::Running
            }
            // The retry is started by hand.
            NodeEvent::Resumed { .. } if self.waits_for_retry() => {
                waiting(Wait::Retry { due: place.decided_at })
            }
            NodeEvent::Resumed { .. } => Phase::Running,
            NodeEvent::Waiting { wait, .. } => waiting(wait.clone()),
            NodeEvent::Completed { branch, .. } => {
                Phase::Settled(End::Completed { branch: branch.clone() })
            }
            NodeEvent::Failed { end: FailureEnd::RetryAt(due), .. } => {
                self.tries = self.tries.saturating_add(1);
                waiting(Wait::Retry { due: *due })
            }
            NodeEvent::Failed { failure, end: FailureEnd::Abandoned(due), .. } => {
                let lost = u32::from(!failure.is_uncounted());
                self.abandoned = self.abandoned.saturating_add(lost);
                waiting(Wait::Retry { due: *due })
            }
            NodeEvent::Failed { failure, .. } => {
                Phase::Settled(End::Failed { past_on_error: failure.on_error_skipped })
            }
            NodeEvent::BodyOpened { .. }
            | NodeEvent::MapOpened { .. }
            | NodeEvent::ItemsOpened { .. }
            | NodeEvent::BodyEnding { .. }
            | NodeEvent::Tuned { .. } => waiting(Wait::Body),
            NodeEvent::ChildStarted { detached: true, .. } => Phase::Running,
            NodeEvent::ChildStarted { execution, child, .. } => {
                self.child = Some((*execution, 0));
                waiting(Wait::Child { child: child.clone() })
            }
            NodeEvent::ChildReopened { child, .. } => waiting(Wait::Child { child: child.clone() }),
            NodeEvent::ChildEnded { execution, generation, .. } => {
                self.child = Some((*execution, *generation));
                Phase::Running
            }
            NodeEvent::Skipped { .. } => Phase::Settled(End::Skipped),
            NodeEvent::Cancelled { .. } => Phase::Settled(End::Cancelled),
        };
        self.phase = next;
        self.body.whole |= matches!(event, NodeEvent::BodyEnding { whole: true, .. });
        if self.is_settled() && self.settled_seq == 0 {
            self.settled_seq = place.seq;
        }
    }

    fn may_be_scheduled(&self, place: EventAt, attempt: u32) -> Verdict {
        self.is_open()?;
        let last = self.attempt;
        if let Phase::Waiting { wait: Wait::Retry { due }, at_once, .. } = &self.phase {
            not_early(place, *due, *at_once)?;
        } else {
            require_with(self.phase == Phase::Pending, AttemptsInOrder, || {
                format!("attempt {last} has not ended")
            })?;
        }
        require_with(last.checked_add(1) == Some(attempt), AttemptsInOrder, || {
            format!("attempt {attempt} follows {last}")
        })
    }

    fn may_start(&self, attempt: u32) -> Verdict {
        self.is_open()?;
        let scheduled = self.phase == Phase::Queued;
        require(scheduled, AttemptsOnce, "an attempt starts once, when it was scheduled")?;
        require(!self.doomed, JoinsInTime, "its join cannot be met: it can only fail")?;
        self.is_at(attempt)
    }

    /// A mark that was counted comes after those before it.
    fn may_be_marked(&self, attempt: u32, number: u32) -> Verdict {
        self.is_running(attempt)?;
        require_with(number == 0 || number > self.marks, AttemptsInOrder, || {
            format!("mark {number} comes after mark {}", self.marks)
        })
    }

    /// An output must be small enough for the log.
    fn may_complete(&self, attempt: u32, output: Option<&Json>) -> Verdict {
        self.is_evaluated(attempt)?;
        let bytes = output.map_or(0, Json::bytes);
        require_with(bytes <= PAYLOAD_BYTES_MAX, Limits, || format!("its output has {bytes} bytes"))
    }

    /// A wait for a retry comes with the failure that is retried, never by itself.
    pub(super) fn may_wait(&self, attempt: u32, wait: &Wait) -> Verdict {
        self.is_evaluated(attempt)?;
        self.may_wait_after_body()?;
        let others = matches!(wait, Wait::Retry { .. } | Wait::Body | Wait::Child { .. });
        require(!others, WaitsEndInTime, "another event opens such a wait")
    }

    /// Does the attempt run, or has the body of a container come to an end?
    fn is_evaluated(&self, attempt: u32) -> Verdict {
        if self.waits_for_body() { self.is_at(attempt) } else { self.is_running(attempt) }
    }

    pub(super) fn is_running(&self, attempt: u32) -> Verdict {
        require(!self.is_settled(), AttemptsOnce, "the attempt has ended")?;
        require(self.phase == Phase::Running, AttemptsOnce, "the attempt does not run")?;
        self.is_at(attempt)
    }

    pub(super) fn is_at(&self, attempt: u32) -> Verdict {
        require_with(attempt == self.attempt, AttemptsOnce, || {
            format!("attempt {attempt} is not the current one, {}", self.attempt)
        })
    }

    fn is_pending(&self) -> Verdict {
        self.is_open()?;
        require(self.phase == Phase::Pending, Justified, "it is under way")
    }

    fn is_open(&self) -> Verdict {
        require(!self.is_settled(), SettlesOnce, "it has settled")
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled(_))
    }

    /// An attempt that waits fails only by time, one that was never started only for good.
    fn may_fail(
        &self,
        place: EventAt,
        attempt: u32,
        failure: &Failure,
        end: FailureEnd,
    ) -> Verdict {
        let fits = !self.doomed || failure.kind == kind::JOIN_UNSATISFIABLE;
        require_with(fits, JoinsInTime, || {
            format!("its join cannot be met, and its failure is `{}`", failure.kind)
        })?;
        match (&self.phase, end) {
            (Phase::Running, _) | (Phase::Queued, FailureEnd::TimedOut) => {}
            (Phase::Waiting { wait: Wait::Body, .. }, end) => {
                let lost = matches!(end, FailureEnd::Abandoned(_));
                require(!lost, AttemptsOnce, "a container has no attempt that could be lost")?;
            }
            (Phase::Queued, FailureEnd::Final)
                if self.doomed || failure.kind == kind::BUDGET_EXHAUSTED => {}
            (Phase::Waiting { wait, at_once, .. }, FailureEnd::TimedOut) => {
                let due = if wait.is_answered() { wait.due() } else { None };
                if let Some(due) = [due, self.deadline].into_iter().flatten().min() {
                    not_early(place, due, *at_once)?;
                }
            }
            (
                Phase::Waiting {
                    wait:
                        Wait::Signal { due, .. }
                        | Wait::Signals { due, .. }
                        | Wait::Callback { due, .. },
                    at_once,
                    ..
                },
                FailureEnd::RetryAt(_),
            ) => match due {
                Some(due) if failure.kind == kind::TIMEOUT => {
                    not_early(place, *due, *at_once)?;
                }
                _ => return broken(WaitsEndInTime, "its wait was not over"),
            },
            (Phase::Waiting { .. }, _) => {
                return broken(AttemptsOnce, "the attempt has ended or waits");
            }
            (Phase::Settled(_), _) => return broken(AttemptsOnce, "the attempt has ended"),
            (Phase::Pending | Phase::Queued, _) => {
                return broken(AttemptsOnce, "the attempt was not started");
            }
        }
        self.is_at(attempt)
    }

    fn waits_for_retry(&self) -> bool {
        matches!(self.phase, Phase::Waiting { wait: Wait::Retry { .. }, .. })
    }
}

/// By the store's time, which all instances share. A wait that was due when it began is no wait.
pub(super) fn not_early(place: EventAt, due: Timestamp, at_once: bool) -> Verdict {
    require_with(at_once || place.at >= due, WaitsEndInTime, || {
        format!("at {}, before {due}", place.at)
    })
}
