//! Waits for signals: each takes what came for it, once, and none is passed over.

use std::sync::Arc;

use super::attempts::{Phase, Seen, not_early};
use super::invariant::Invariant::{Justified, MessagesOnce, PausesHold, WaitsEndInTime};
use super::nodes::Nodes;
use super::run::RunCheck;
use super::{EventAt, Verdict, broken, require, require_with};
use crate::callback::CallbackOutcome;
use crate::event::{MessageId, NodeEvent, Wait};
use crate::kind::Behaviour;
use crate::path::At;

impl Nodes {
    /// Is the event possible, as far as the wait of its node goes?
    pub(super) fn judge_wait(
        &self,
        place: EventAt,
        event: &NodeEvent,
        (at, seen): (Option<At>, &Seen),
        run: &RunCheck,
    ) -> Verdict {
        match event {
            NodeEvent::Waiting { attempt, wait, .. } => {
                self.may_wait_for_breaker(at, wait)?;
                seen.may_wait(*attempt, wait)
            }
            NodeEvent::Requeued { attempt, origin, .. } => {
                let asked = origin.message.is_some();
                let what = "a wait was completed while the execution was paused";
                require(!asked || !run.held, PausesHold, what)?;
                seen.may_be_requeued(place, *attempt, asked)
            }
            NodeEvent::Signalled { attempt, which, message, .. } => {
                seen.may_be_signalled(*attempt, *which, message, run)
            }
            NodeEvent::Reminded { attempt, escalated, .. } => {
                seen.may_be_reminded(place, *attempt, *escalated)
            }
            NodeEvent::Resumed { attempt, timed_out: true, .. } => {
                self.has_branch_for_timeout(at)?;
                seen.may_time_out(place, *attempt)
            }
            NodeEvent::Resumed { attempt, origin, .. } if origin.message.is_some() => {
                let what = "a wait was completed while the execution was paused";
                require(!run.held, PausesHold, what)?;
                seen.may_be_resumed_by_hand(*attempt)
            }
            NodeEvent::Resumed { attempt, message, .. } => {
                seen.may_resume(place, *attempt, message.as_ref(), run)
            }
            NodeEvent::Scheduled { .. }
            | NodeEvent::Started { .. }
            | NodeEvent::Reserved(_)
            | NodeEvent::Used(_)
            | NodeEvent::Checkpointed { .. }
            | NodeEvent::Completed { .. }
            | NodeEvent::Failed { .. }
            | NodeEvent::BodyOpened { .. }
            | NodeEvent::MapOpened { .. }
            | NodeEvent::ItemsOpened { .. }
            | NodeEvent::BodyEnding { .. }
            | NodeEvent::Tuned { .. }
            | NodeEvent::ChildStarted { .. }
            | NodeEvent::ChildReopened { .. }
            | NodeEvent::ChildEnded { .. }
            | NodeEvent::SignalSent { .. }
            | NodeEvent::Skipped { .. }
            | NodeEvent::Cancelled { .. } => Ok(()),
        }
    }

    /// A node that has waited for this signal since before an event, and has no filter that it may not
    /// have passed. Unknown without a plan.
    pub(super) fn waits_for(&self, name: &str, before: u64) -> Option<String> {
        let plan = self.plan.as_ref()?;
        let all = self.scopes.values().flat_map(|scope| scope.iter());
        let waits = |node: &crate::id::NodeIx, seen: &Seen| {
            let Phase::Waiting { wait, opened, .. } = &seen.phase else { return false };
            if *opened >= before {
                return false;
            }
            match (wait, &plan.node(*node).behaviour) {
                (Wait::Signal { name: wanted, .. }, Behaviour::Signal { filter: None, .. }) => {
                    **wanted == *name
                }
                (Wait::Signals { names, .. }, Behaviour::Signals(spec)) => {
                    let all = (0_u32..).zip(names.iter().zip(&spec.signals));
                    all.into_iter().any(|(which, (wanted, signal))| {
                        **wanted == *name
                            && signal.filter.is_none()
                            && !seen.came.contains_key(&which)
                            && !seen.came.values().any(|came| **came == *name)
                    })
                }
                _ => false,
            }
        };
        let mut passed_over = all.filter(|(node, seen)| waits(node, seen));
        passed_over.next().map(|(node, _)| plan.node(node).id.to_string())
    }

    /// Only a definition that says so goes on after a timeout.
    pub(super) fn has_branch_for_timeout(&self, at: Option<At>) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        let has = plan.node(at.node).behaviour.on_timeout().is_some();
        require(has, Justified, "its definition has no branch for a timeout")
    }
}

impl Seen {
    /// Notes which of several signals have come. A later attempt has those of the ones before.
    pub(super) fn note_signals(&mut self, event: &NodeEvent) {
        if let NodeEvent::Waiting { wait: Wait::Signals { names, .. }, .. } = event {
            let wanted = |which: &u32| names.get(*which as usize);
            self.came.retain(|which, name| wanted(which) == Some(&*name));
        }
        if let NodeEvent::Reminded { escalated, .. } = event
            && let Phase::Waiting { wait: Wait::Approval(approval), .. } = &mut self.phase
        {
            approval.reminded(*escalated);
        }
        if let NodeEvent::Signalled { which, .. } = event
            && let Phase::Waiting { wait: Wait::Signals { names, .. }, .. } = &self.phase
            && let Some(name) = names.get(*which as usize)
        {
            self.came.insert(*which, Arc::clone(name));
        }
    }

    /// A wait ends by its message, or when it is due and not before.
    pub(super) fn may_resume(
        &self,
        place: EventAt,
        attempt: u32,
        message: Option<&MessageId>,
        run: &RunCheck,
    ) -> Verdict {
        match (&self.phase, message) {
            (Phase::Waiting { wait: Wait::Delay { due }, at_once, .. }, None) => {
                not_early(place, *due, *at_once)?;
            }
            (Phase::Waiting { wait: Wait::Signals { need, .. }, .. }, None) => {
                let came = self.came.len();
                require_with(came >= *need as usize, WaitsEndInTime, || {
                    format!("{came} of {need} signals have come")
                })?;
            }
            (Phase::Waiting { wait: Wait::Signal { name, .. }, opened, .. }, Some(message)) => {
                require_with(run.has_signal(message, name, *opened), WaitsEndInTime, || {
                    format!("signal {name:?} never came with message {message:?}")
                })?;
            }
            (
                Phase::Waiting { wait: Wait::Callback { operation, .. }, opened, .. },
                Some(message),
            ) => {
                let came = |outcome: CallbackOutcome| {
                    run.has_signal(message, &outcome.signal(operation), *opened)
                };
                let outcomes = [CallbackOutcome::Completed, CallbackOutcome::Failed];
                require_with(outcomes.into_iter().any(came), WaitsEndInTime, || {
                    format!("no callback for {operation:?} came with message {message:?}")
                })?;
            }
            (Phase::Waiting { .. }, _) => {
                return broken(WaitsEndInTime, "that is not what it waited for");
            }
            _ => return broken(WaitsEndInTime, "it has no wait that is open"),
        }
        self.is_at(attempt)
    }

    /// A person may end any wait, at any time.
    pub(super) fn may_be_resumed_by_hand(&self, attempt: u32) -> Verdict {
        let waits = matches!(self.phase, Phase::Waiting { .. });
        require(waits, WaitsEndInTime, "it has no wait that is open")?;
        self.is_at(attempt)
    }

    /// One of several signals came: one that the node waits for, and that had not come.
    pub(super) fn may_be_signalled(
        &self,
        attempt: u32,
        which: u32,
        message: &MessageId,
        run: &RunCheck,
    ) -> Verdict {
        let Phase::Waiting { wait: Wait::Signals { names, .. }, opened, .. } = &self.phase else {
            return broken(WaitsEndInTime, "it does not wait for several signals");
        };
        let Some(name) = names.get(which as usize) else {
            return broken(WaitsEndInTime, "it waits for fewer signals");
        };
        require(!self.came.contains_key(&which), MessagesOnce, "the signal has come before")?;
        require_with(run.has_signal(message, name, *opened), WaitsEndInTime, || {
            format!("signal {name:?} never came with message {message:?}")
        })?;
        self.is_at(attempt)
    }

    /// People are reminded once, and others are asked once, not before their time.
    pub(super) fn may_be_reminded(&self, place: EventAt, attempt: u32, escalated: bool) -> Verdict {
        let Phase::Waiting { wait: Wait::Approval(approval), at_once, .. } = &self.phase else {
            return broken(WaitsEndInTime, "it does not wait for an approval");
        };
        let due = if escalated { approval.escalate } else { approval.remind };
        let Some(due) = due else { return broken(WaitsEndInTime, "there is nothing to remind of") };
        not_early(place, due, *at_once)?;
        self.is_at(attempt)
    }

    /// A wait that took too long continues on a branch.
    pub(super) fn may_time_out(&self, place: EventAt, attempt: u32) -> Verdict {
        let mut due = None;
        if let Phase::Waiting { wait, at_once, .. } = &self.phase
            && wait.is_answered()
        {
            due = wait.due().map(|due| (due, *at_once));
        }
        let Some((due, at_once)) = due else {
            return broken(WaitsEndInTime, "it has no wait that takes too long");
        };
        not_early(place, due, at_once)?;
        self.is_at(attempt)
    }
}
