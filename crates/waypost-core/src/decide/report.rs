//! Reports of workers on their attempts.

use super::Decider;
use crate::command::{Mark, Outcome, Refusal, Report};
use crate::event::{CancelReason, FailureEnd, NodeEvent, PauseReason, RunEvent};
use crate::failure::{Failure, kind};
use crate::limits::{ABANDONED_MAX, BLOB_STORE_WAIT_MAX};
use crate::path::At;
use crate::plan::Delivery;
use crate::planted::{Bug, is_planted};
use crate::refused::AdmittedReport;
use crate::retry::RetryPolicy;
use crate::status::{NodeStatus, Status};
use crate::time::{Millis, Timestamp};

impl Decider<'_> {
    /// Records a report as a fact, if its sender holds the attempt.
    pub(super) fn report(&mut self, report: Report) -> Result<(), Refusal> {
        if self.state.admit_report(self.plan, &report)? == AdmittedReport::Repeated {
            return Ok(());
        }
        if let Outcome::Completed(output) = &report.outcome
            && let Some(at) = self.state.find_reported(self.plan, &report.node)
            && !self.has_variables_of(at, Some(output))
        {
            return Ok(());
        }
        if let Some(at) = self.state.find_reported(self.plan, &report.node)
            && !self.has_usage_of(at, &report.outcome)
        {
            return Ok(());
        }
        if !self.state.status.is_parked() {
            return self.take(report);
        }
        // The pause that this very frame completed came first, but the end is a fact: the execution
        // is taken over for as long as it takes to record it, and parked again.
        self.take_over()?;
        self.take(report)?;
        self.park_again();
        Ok(())
    }

    /// Parks an execution that was taken over only to record a fact.
    pub(super) fn park_again(&mut self) {
        if self.state.status == Status::Resuming {
            self.settle_in_ending_bodies();
            self.emit(RunEvent::Paused { reason: PauseReason::User });
        }
    }

    fn take(&mut self, report: Report) -> Result<(), Refusal> {
        let Report { node: path, attempt, token, worker, outcome } = report;
        let at = self.state.find_reported(self.plan, &path).ok_or(Refusal::UnknownNode(path))?;
        if self.node(at).status == NodeStatus::Queued {
            // An end that comes before any start is taken as both.
            self.started(at, None, worker, Some(token));
        }
        self.count_usage(at, &outcome);
        match outcome {
            Outcome::Started => {}
            Outcome::Completed(output) => self.complete_or_fail(at, Some(output)),
            Outcome::Failed(failure) if self.leaves_doubt(at, &failure) => {
                self.outcome_is_unknown(at, &failure.message);
            }
            Outcome::Failed(failure) if self.waits_for_blob_store(at, &failure) => {
                self.attempt_lost(at, failure);
            }
            Outcome::Failed(failure) => self.attempt_failed(at, failure),
            Outcome::Lost(failure) => self.attempt_lost(at, failure),
            // Unless the execution is ending, the log has no cancellation of it: it is abandoned.
            Outcome::Cancelled => self.attempt_lost(at, stopped_by_worker()),
            Outcome::Blocked(hold) => self.blocked(at, *hold),
            Outcome::Checkpoint(Mark { data, number }) => {
                self.emit_at(
                    at,
                    NodeEvent::Checkpointed { node: self.path(at), attempt, data, number },
                );
            }
        }
        Ok(())
    }

    /// May an attempt that must not run twice have had its effect, although it failed? It was not
    /// answered, so that is unknown.
    fn leaves_doubt(&self, at: At, failure: &Failure) -> bool {
        self.plan_node(at).delivery == Delivery::AtMostOnce
            && !failure.unsent
            && [kind::TIMEOUT, kind::CONNECTION].contains(&&*failure.kind)
    }

    /// Is the attempt made again when the blob store works again, whatever the retry policy says? One
    /// that must not run twice is not, if it may have had its effect.
    fn waits_for_blob_store(&self, at: At, failure: &Failure) -> bool {
        let may_repeat = self.plan_node(at).delivery == Delivery::AtLeastOnce || failure.unsent;
        failure.is_blob_store() && may_repeat
    }

    /// An attempt failed: the retry policy decides whether the node did.
    pub(super) fn attempt_failed(&mut self, at: At, failure: Failure) {
        match self.retry_after(at, &failure) {
            Some((due, wait)) => {
                self.try_again(at, failure, FailureEnd::RetryAt(due), Some(wait));
            }
            None if failure.kind == kind::TIMEOUT => {
                self.fail_for_good(at, failure, FailureEnd::TimedOut);
            }
            None => self.fail_for_good(at, failure, FailureEnd::Final),
        }
    }

    /// When the next try begins, and how long that is from now.
    fn retry_after(&self, at: At, failure: &Failure) -> Option<(Timestamp, Millis)> {
        let node = self.node(at);
        let policy = self.plan_node(at).retry.as_ref()?;
        let tries = if is_planted(Bug::RetryForgets) { 1 } else { node.tries + 1 };
        let again =
            !self.state.is_ending(at) && tries < policy.max_attempts && policy.covers(failure);
        if !again {
            return None;
        }
        let wait = policy.wait_after(tries, failure, self.jitter(at, tries));
        let due = self.env.now_max.plus(wait);
        // A retry that would begin after the node's deadline is none.
        node.deadline.is_none_or(|deadline| due < deadline).then_some((due, wait))
    }

    pub(super) fn jitter(&self, at: At, tries: u32) -> u64 {
        let execution = self.state.execution.0.unsigned_abs();
        let place = (u64::from(at.node.0) << 32) ^ at.scope.0.wrapping_mul(0xd6e8_feb8_6659_fd93);
        execution.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place ^ u64::from(tries)
    }

    /// An attempt was abandoned through no fault of the node. It does not count as a try, but a
    /// node is not retried for ever: after a few times the execution is quarantined. An attempt
    /// that was handed over in order is no evidence against its node: it runs again at once, and
    /// does not count. Neither does one that could not use the blob store, which waits.
    pub(super) fn attempt_lost(&mut self, at: At, failure: Failure) {
        if self.state.status == Status::Ending {
            return self.cancel_node(at, CancelReason::Ending);
        }
        if self.state.is_ending(at) {
            return self.cancel_node(at, CancelReason::Body);
        }
        if self.plan_node(at).delivery == Delivery::AtMostOnce && !failure.unsent {
            return self.outcome_is_unknown(at, &failure.message);
        }
        if failure.is_handed_over() {
            return self.try_again(at, failure, FailureEnd::Abandoned(self.env.now), None);
        }
        if failure.is_blob_store() {
            let wait = self.wait_for_blob_store(at, &failure);
            let due = self.env.now_max.plus(wait);
            return self.try_again(at, failure, FailureEnd::Abandoned(due), Some(wait));
        }
        let lost = self.node(at).abandoned + 1;
        let path = self.path(at);
        let reason = format!(
            "node {path} was lost {lost} times without an outcome, last: {}",
            failure.message
        );
        // The first loss is retried at once (a crashed process is the usual reason); later ones
        // wait, so that a handler that kills its process does not do so in a tight loop.
        let policy = RetryPolicy::default();
        let wait = (lost > 1).then(|| policy.wait_after(lost - 1, &failure, self.jitter(at, lost)));
        let due = wait.map_or(self.env.now, |wait| self.env.now_max.plus(wait));
        self.try_again(at, failure, FailureEnd::Abandoned(due), wait);
        if lost >= ABANDONED_MAX {
            self.quarantine(reason);
        }
    }

    /// How long a node waits for the blob store: the longer, the more of its attempts were uncounted.
    fn wait_for_blob_store(&self, at: At, failure: &Failure) -> Millis {
        let node = self.node(at);
        let uncounted = node.attempt.saturating_sub(node.tries + node.abandoned).max(1);
        let policy = RetryPolicy { wait_max: BLOB_STORE_WAIT_MAX, ..RetryPolicy::default() };
        policy.wait_after(uncounted, failure, self.jitter(at, node.attempt))
    }

    /// Fails a node whose attempt may have had its effect and must not be made twice.
    pub(super) fn outcome_is_unknown(&mut self, at: At, why: &str) {
        self.fail_for_good(at, outcome_unknown(why), FailureEnd::Final);
    }

    /// Closes an attempt; another follows.
    fn try_again(&mut self, at: At, failure: Failure, end: FailureEnd, wait: Option<Millis>) {
        let attempt = self.node(at).attempt;
        self.emit_at(at, NodeEvent::Failed { node: self.path(at), attempt, failure, end, wait });
    }

    /// Quarantines the execution. Running attempts are cancelled and closed as abandoned, so that
    /// nothing is left to wait for.
    fn quarantine(&mut self, reason: String) {
        let not_handed_off = self.withdraw(|_| true);
        for at in self.state.positions() {
            // Checked one by one: the failure of one may have ended the execution, or its scope.
            let ending = self.state.status == Status::Ending;
            if ending || !self.is_in(at, NodeStatus::Running) {
                continue;
            }
            let why = "the execution was quarantined";
            let begun = self.node(at).token.is_some() && !not_handed_off.contains(&at);
            if begun {
                self.tell_to_stop(at);
            }
            if begun && self.plan_node(at).delivery == Delivery::AtMostOnce {
                // Successors of the failed node are opened when the execution continues.
                self.node_failed(at, outcome_unknown(why), FailureEnd::Final);
            } else {
                self.interrupt(at, why);
            }
        }
        if self.state.status != Status::Ending {
            self.settle_in_ending_bodies();
            self.emit(RunEvent::Quarantined { reason });
        }
    }

    /// Closes a RUNNING attempt that was cancelled; its node will be tried again, unless the body that it
    /// is in is ending.
    pub(super) fn interrupt(&mut self, at: At, why: &str) {
        if self.state.is_ending(at) {
            return self.cancel_node(at, CancelReason::Body);
        }
        let failure = Failure::transient(kind::ABANDONED, why);
        self.try_again(at, failure, FailureEnd::Abandoned(self.env.now), None);
    }
}

/// The end of an attempt that its worker stopped without a cancellation.
pub(crate) fn stopped_by_worker() -> Failure {
    Failure::transient(kind::ABANDONED, "the worker stopped the attempt")
}

/// The end of an attempt that may have had its effect and must not be made twice.
pub(crate) fn outcome_unknown(why: &str) -> Failure {
    let message = format!("it is unknown whether the attempt had its effect: {why}");
    Failure::permanent(kind::OUTCOME_UNKNOWN, message)
}
