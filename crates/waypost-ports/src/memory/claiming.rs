//! Claiming, in its three statements: the sweep, the list, the taking.

use waypost_core::id::ExecutionId;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::Tables;
use super::tables::ControlRow;
use crate::store::{ClaimRequest, Claims, History};

/// What can be claimed, as a statement saw it.
#[derive(Clone, Debug, Default)]
pub struct Claimable {
    /// In the order in which they are to be taken.
    pub executions: Vec<ExecutionId>,
    /// Are there more?
    pub more: bool,
    /// The earliest due time among those that could be claimed later.
    pub next_due: Option<Timestamp>,
}

/// Why an execution can be claimed.
enum Reason {
    /// It is ready, its owner is dead, or its owner has forgotten it.
    Now,
    /// It has come due.
    Due(Timestamp),
    /// Not yet: it comes due.
    Later(Timestamp),
}

impl Tables {
    /// A whole claim, with nothing in between.
    pub fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Claims {
        self.sweep();
        let Claimable { executions, more, next_due } = self.list_claimable(request, now);
        Claims { claimed: self.take(&executions, request, now), copied: 0, more, next_due }
    }

    /// Looks for mail that nobody was woken for, because somebody died between putting it there
    /// and waking the addressee; and for slots that nobody was given.
    pub fn sweep(&mut self) {
        if is_planted(Bug::LookBeforeCommit) {
            return;
        }
        let addressees: Vec<_> = self.inbox.iter().map(|mail| mail.execution).collect();
        addressees.into_iter().for_each(|execution| self.make_ready(execution));
        if !is_planted(Bug::PromotionLost) {
            self.promote_all();
        }
    }

    /// What could be taken now.
    pub fn list_claimable(&self, request: &ClaimRequest, now: Timestamp) -> Claimable {
        let mut found = Vec::new();
        let mut next_due = None::<Timestamp>;
        for (execution, row) in &self.control {
            match self.reason(*execution, row, request, now) {
                Some(Reason::Now) => found.push((None, *execution)),
                Some(Reason::Due(due)) => found.push((Some(due), *execution)),
                Some(Reason::Later(due)) => {
                    next_due = Some(next_due.map_or(due, |earliest| earliest.min(due)));
                }
                None => {}
            }
        }
        found.sort_unstable();
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let executions = found.into_iter().map(|(_, execution)| execution).collect();
        Claimable { executions, more, next_due }
    }

    /// Takes those of a list that can still be taken: somebody else may have been faster.
    pub fn take(
        &mut self,
        executions: &[ExecutionId],
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Vec<History> {
        let mut taken = Vec::new();
        for execution in executions {
            let Some(row) = self.control.get(execution) else { continue };
            let reason = self.reason(*execution, row, request, now);
            let still = matches!(reason, Some(Reason::Now | Reason::Due(_)));
            if !still && !is_planted(Bug::SweepByIdAlone) {
                continue;
            }
            if let Some(row) = self.control.get_mut(execution) {
                let owner = row.control.owner.replace(request.instance);
                row.control.epoch += u32::from(owner != Some(request.instance));
                row.control.ready = false;
            }
            taken.extend(self.load(*execution));
        }
        taken
    }

    fn reason(
        &self,
        execution: ExecutionId,
        row: &ControlRow,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Option<Reason> {
        let control = &row.control;
        let readable = row.requires <= request.fold || is_planted(Bug::VersionIgnored);
        if !readable || request.only.as_ref().is_some_and(|only| !only.contains(&execution)) {
            return None;
        }
        match control.owner {
            // A roll call: what the claimer owns and does not have in memory.
            Some(owner) if owner == request.instance => {
                let forgotten = request.held.as_ref()?.binary_search(&execution).is_err();
                forgotten.then_some(Reason::Now)
            }
            Some(owner) => {
                let dead = !self.is_alive(owner, now) && !is_planted(Bug::OrphansIgnored);
                dead.then_some(Reason::Now)
            }
            None if control.ready => Some(Reason::Now),
            None => control.next_due.map(|due| match due <= now {
                true => Reason::Due(due),
                false => Reason::Later(due),
            }),
        }
    }
}
