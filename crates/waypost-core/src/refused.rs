//! Pre-flight checks: would this request be rejected in the current state? Used by `decide`, and by the
//! API for executions that are not in memory, so that a doomed request does not wake a parked execution
//! only to record the rejection. (A quarantined execution would not wake at all.)

use std::sync::Arc;

use crate::command::{Outcome, Refusal, Report, Tuning};
use crate::event::{CancelReason, PauseReason, Wait};
use crate::id::NodeIx;
use crate::kind::Behaviour;
use crate::path::{At, ScopeNo, segments};
use crate::plan::{OnError, Plan};
use crate::planted::{Bug, is_planted};
use crate::state::{Body, MapState, State};
use crate::status::{NodeStatus, Status};

/// Is an accepted report new?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmittedReport {
    New,
    Repeated,
}

impl State {
    /// Whether a report is new, or why it is rejected. A token that is not recorded yet has no
    /// counterpart here: the caller verifies it before.
    pub fn admit_report(&self, plan: &Plan, report: &Report) -> Result<AdmittedReport, Refusal> {
        let found = self.find_reported(plan, &report.node);
        let at = found.ok_or_else(|| self.refuses_node(plan, &report.node))?;
        let node = self.node(at);
        let again = node.ended.iter().any(|ended| ended.is_repeated_by(report));
        if again && !is_planted(Bug::RepeatRefused) {
            return Ok(AdmittedReport::Repeated);
        }
        if self.status.is_end() {
            return Err(Refusal::Ended(self.status));
        }
        let (status, attempt) = (node.status, node.attempt);
        let stale = Refusal::Stale { node: report.node.clone(), status, attempt };
        if attempt != report.attempt {
            return Err(stale);
        }
        // It was given to no worker: it has reserved nothing of the budget yet.
        if self.spending.waiting.contains(&at) {
            return Err(stale);
        }
        let is_task = matches!(plan.node(at.node).behaviour, Behaviour::Task { .. });
        if status == NodeStatus::Queued && report.worker.is_some() && is_task {
            // Nothing starts while it is held. But an end that comes before any start is taken as
            // both, even if the execution was paused meanwhile: the work is done.
            let done = matches!(report.outcome, Outcome::Completed(_) | Outcome::Failed(_))
                && self.status != Status::Ending;
            return if self.acts() || done {
                Ok(AdmittedReport::New)
            } else {
                Err(Refusal::Paused)
            };
        }
        if status != NodeStatus::Running {
            return Err(stale);
        }
        // A slot's token is in the log, where many may read it: it is of no use outside of the
        // process.
        let remote = node.remote.is_some() || report.worker.is_none();
        let holds = node.token == Some(report.token) && remote;
        let misled = (is_planted(Bug::ClosedScopeHears) || is_planted(Bug::ClosedItemHears))
            && self.find(plan, &report.node).is_none();
        if !holds && !misled && !is_planted(Bug::ForeignToken) {
            return Err(Refusal::ForeignToken { node: report.node.clone(), attempt });
        }
        let known = match &report.outcome {
            Outcome::Started => true,
            Outcome::Checkpoint(mark) if mark.number > 0 => {
                mark.number <= node.marks && !is_planted(Bug::LateMark)
            }
            Outcome::Checkpoint(mark) => node.checkpoint.as_ref() == Some(&mark.data),
            Outcome::Completed(_)
            | Outcome::Failed(_)
            | Outcome::Cancelled
            | Outcome::Lost(_)
            | Outcome::Blocked(_) => false,
        };
        Ok(if known { AdmittedReport::Repeated } else { AdmittedReport::New })
    }

    /// The node that a report is about, if its scope is open.
    pub(crate) fn find_reported(&self, plan: &Plan, path: &str) -> Option<At> {
        let found = self.find(plan, path);
        if found.is_none() && is_planted(Bug::ClosedScopeHears) {
            let node = plan.locate(path)?;
            return self.nodes().map(|(at, _)| at).find(|at| at.node == node);
        }
        if found.is_none() && is_planted(Bug::ClosedItemHears) {
            let node = plan.locate(path)?;
            let is_of_map = |at: &At| {
                let container = self.scope(at.scope).and_then(|scope| scope.container);
                let body =
                    container.and_then(|at| self.get(at)).and_then(|node| node.body.as_ref());
                body.is_some_and(|body| body.map.is_some())
            };
            return self.nodes().map(|(at, _)| at).find(|at| at.node == node && is_of_map(at));
        }
        found
    }

    /// Why no node of this path is open: the definition has none, or its scope has closed.
    fn refuses_node(&self, plan: &Plan, path: &Arc<str>) -> Refusal {
        if self.status.is_end() {
            return Refusal::Ended(self.status);
        }
        match plan.locate(path) {
            Some(_) => Refusal::Closed(Arc::clone(path)),
            None => Refusal::UnknownNode(Arc::clone(path)),
        }
    }

    /// Why it would not be paused.
    pub fn refuses_pause(&self) -> Option<Refusal> {
        let queued = self.status == Status::Scheduling;
        self.refusal_if_ended()
            .or(queued.then_some(Refusal::Queued))
            .or(self.is_stopped().then_some(Refusal::AlreadyPaused))
    }

    /// Why it would not be resumed.
    pub fn refuses_resume(&self) -> Option<Refusal> {
        let needless = match self.paused {
            Some(_) => Refusal::Waits,
            None => Refusal::NotPaused,
        };
        self.refusal_if_ended().or((!self.is_stopped()).then_some(needless))
    }

    /// Why this wait would not be ended by hand.
    pub fn refuses_complete_wait(&self, wait: u64) -> Option<Refusal> {
        if let Some(over) = self.refusal_if_ended() {
            return Some(over);
        }
        let Some(at) = self.waiting_since(wait) else { return Some(Refusal::NoSuchWait(wait)) };
        if let Some(Wait::Child { child }) = &self.node(at).wait {
            return Some(Refusal::WaitsForChild(child.clone()));
        }
        if matches!(self.open_wait(wait), Some(Wait::Approval(_))) {
            return Some(Refusal::NeedsDecision(wait));
        }
        (!self.moves()).then_some(Refusal::Paused)
    }

    /// The open wait that this event opened.
    pub fn open_wait(&self, wait: u64) -> Option<&Wait> {
        self.waiting_since(wait).and_then(|at| self.node(at).wait.as_ref())
    }

    /// Why this person would not decide this approval.
    pub fn refuses_decision(&self, wait: u64, approver: &Arc<str>) -> Option<Refusal> {
        if let Some(over) = self.refusal_if_ended() {
            return Some(over);
        }
        match self.open_wait(wait) {
            None => Some(Refusal::NoSuchWait(wait)),
            Some(Wait::Approval(approval)) => {
                if !approval.is_for(approver) {
                    let (by, approvers) = (Arc::clone(approver), approval.approvers.join(", "));
                    return Some(Refusal::NotAnApprover { by, approvers });
                }
                (!self.moves()).then_some(Refusal::Paused)
            }
            Some(_) => Some(Refusal::NotAnApproval(wait)),
        }
    }

    /// The open scope of an item of a map, or why it would not be cancelled.
    pub fn item_to_cancel(&self, plan: &Plan, path: &Arc<str>) -> Result<ScopeNo, Refusal> {
        let (map, index) = match path.strip_suffix(']').and_then(|path| path.rsplit_once('[')) {
            Some((map, _)) => (map, segments(path).last().and_then(|step| step.index)),
            None => (&**path, None),
        };
        let map: Arc<str> = map.into();
        let (_, body, items) = match self.map_to_steer(plan, &map) {
            Err(Refusal::NoSuchNode(_)) => return Err(Refusal::NoSuchNode(Arc::clone(path))),
            found => found?,
        };
        let index = index.ok_or_else(|| Refusal::NotAnItem(Arc::clone(path)))?;
        if index >= items.count {
            return Err(Refusal::NoSuchItem { node: map, index, count: items.count });
        }
        match body.scope(Some(index)) {
            Some(scope) if self.is_scope_ending(scope) => {
                Err(Refusal::ItemEnding(Arc::clone(path)))
            }
            Some(scope) => Ok(scope),
            None if index >= items.next => Err(Refusal::ItemPending(Arc::clone(path))),
            None => Err(Refusal::ItemEnded(Arc::clone(path))),
        }
    }

    /// The open map of a path, or why it would not be tuned.
    pub fn map_to_tune(&self, plan: &Plan, path: &Arc<str>, tuning: Tuning) -> Result<At, Refusal> {
        let (at, ..) = self.map_to_steer(plan, path)?;
        if tuning.is_valid() { Ok(at) } else { Err(Refusal::BadTuning) }
    }

    /// A map that has opened its items and has not ended.
    fn map_to_steer(
        &self,
        plan: &Plan,
        path: &Arc<str>,
    ) -> Result<(At, &Body, &MapState), Refusal> {
        if let Some(over) = self.refusal_if_ended() {
            return Err(over);
        }
        let node = plan.locate(path).ok_or_else(|| Refusal::NoSuchNode(Arc::clone(path)))?;
        if !matches!(plan.node(node).behaviour, Behaviour::Map(_)) {
            return Err(Refusal::NotAMap(Arc::clone(path)));
        }
        let at = self.find(plan, path).filter(|at| !self.is_scope_ending(at.scope));
        let node = at.and_then(|at| self.get(at)).filter(|node| !node.status.is_settled());
        let body = node.and_then(|node| node.body.as_deref());
        let map = body.and_then(|body| body.map.as_deref());
        let (Some(at), Some(body), Some(map)) = (at, body, map) else {
            return Err(Refusal::MapNotOpen(Arc::clone(path)));
        };
        Ok((at, body, map))
    }

    /// The nodes that a retry runs again: those that failed unhandled or were cancelled, with
    /// everything after them that has not completed. Completed nodes keep their outputs, and
    /// sources that a join did not need are still not needed.
    pub fn retries(&self, plan: &Plan) -> Result<Vec<NodeIx>, Refusal> {
        if !matches!(self.status, Status::Failed | Status::Cancelled | Status::TimedOut) {
            return Err(Refusal::NotReopenable(self.shown_status()));
        }
        let may_run_again = |at: NodeIx| {
            let node = self.node(at);
            node.status != NodeStatus::Completed && node.cancelled != Some(CancelReason::Join)
        };
        let failed = |at: &NodeIx| match self.node(*at).status {
            NodeStatus::Cancelled => may_run_again(*at),
            NodeStatus::Failed | NodeStatus::TimedOut => {
                let failure = self.node(*at).failure.as_deref();
                *plan.node(*at).error_handling(failure) == OnError::Fail
            }
            NodeStatus::Pending
            | NodeStatus::Queued
            | NodeStatus::Running
            | NodeStatus::Waiting
            | NodeStatus::Skipped => false,
            NodeStatus::Completed => is_planted(Bug::RetryRunsCompleted),
        };
        let mut again = vec![false; plan.nodes.len()];
        let mut next: Vec<NodeIx> = plan.positions().filter(failed).collect();
        while let Some(at) = next.pop() {
            let seen = again.get_mut(at.at()).is_none_or(|seen| std::mem::replace(seen, true));
            if !seen {
                let after = plan.node(at).successors.iter().map(|outgoing| outgoing.node);
                next.extend(after.filter(|after| may_run_again(*after)));
            }
        }
        Ok(plan.positions().filter(|at| again.get(at.at()) == Some(&true)).collect())
    }

    /// Its end has come, or is fixed.
    pub(crate) fn refusal_if_ended(&self) -> Option<Refusal> {
        if self.status.is_end() {
            return Some(Refusal::Ended(self.status));
        }
        (self.status == Status::Ending).then_some(Refusal::Ending)
    }

    /// Is it paused by a user, or quarantined?
    fn is_stopped(&self) -> bool {
        self.pausing || self.paused == Some(PauseReason::User) || self.quarantine.is_some()
    }
}
