//! Claiming, in its three statements: the sweep, the list, the taking.

use std::sync::Arc;

use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::Tables;
use super::tables::ControlRow;
use crate::store::{
    ClaimRequest, Claims, Control, History, SUSPECT_FROM, Urgency, crashes_after_death,
};

/// Claimable executions, as a statement saw them.
#[derive(Clone, Debug, Default)]
pub struct Claimable {
    /// In the order in which they are to be taken.
    pub executions: Vec<ExecutionNo>,
    pub more: bool,
    /// The earliest due time among those that could be claimed later.
    pub next_due: Option<Timestamp>,
    /// See [`Claims::lapsed`].
    pub lapsed: bool,
}

/// Why an execution can be claimed.
enum ClaimReason {
    /// It is ready, its owner is dead, or its owner has forgotten it.
    Now,
    /// It has come due, or does so soon enough.
    Due(Timestamp),
    /// Not yet: it comes due.
    Later(Timestamp),
}

impl Tables {
    /// A whole claim, with nothing in between.
    pub fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Claims {
        self.sweep(now);
        let listed = self.list_claimable(request, now);
        self.take_listed(listed, request, now)
    }

    /// Takes what a claim has listed.
    pub fn take_listed(
        &mut self,
        listed: Claimable,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Claims {
        let Claimable { executions, more, next_due, lapsed } = listed;
        let claimed = self.take(&executions, request, now);
        Claims { claimed, copied: 0, more, next_due, lapsed, at: now }
    }

    /// Looks for mail whose addressee was not woken, because its sender died between the two; for free
    /// permits; and for signals by key that wait for a wait that is there.
    pub fn sweep(&mut self, now: Timestamp) {
        if is_planted(Bug::LookBeforeCommit) {
            return;
        }
        let addressees: Vec<_> = self.inbox.iter().map(|mail| mail.execution).collect();
        addressees.into_iter().for_each(|execution| self.make_ready(execution));
        self.promote_all();
        self.route_all(now);
    }

    /// The executions that could be taken now.
    pub fn list_claimable(&self, request: &ClaimRequest, now: Timestamp) -> Claimable {
        if !self.is_alive(request.instance, now) {
            return Claimable { lapsed: true, ..Claimable::default() };
        }
        let (mut found, mut suspects) = (Vec::new(), Vec::new());
        let mut next_due = None::<Timestamp>;
        for (execution, row) in &self.control {
            let reason = self.reason(*execution, row, request, now);
            let crashes = self.crashes_if_taken(row, request, now);
            let claimable = matches!(reason, Some(ClaimReason::Now | ClaimReason::Due(_)));
            let own = row.control.owner == Some(request.instance);
            if claimable && !own && crashes >= SUSPECT_FROM {
                suspects.push((crashes, *execution));
                continue;
            }
            match reason {
                Some(ClaimReason::Now) => found.push((None, *execution)),
                Some(ClaimReason::Due(due)) => found.push((Some(due), *execution)),
                Some(ClaimReason::Later(due)) => {
                    next_due = Some(next_due.map_or(due, |earliest| earliest.min(due)));
                }
                None => {}
            }
        }
        found.sort_unstable();
        suspects.sort_unstable();
        let alone = usize::from(request.suspects);
        let more = found.len() > request.limit || suspects.len() > alone;
        found.truncate(request.limit);
        let suspects = suspects.into_iter().take(alone).map(|(_, execution)| execution);
        let executions =
            found.into_iter().map(|(_, execution)| execution).chain(suspects).collect();
        Claimable { executions, more, next_due, lapsed: false }
    }

    /// Takes those of a list that can still be taken: another claimer may have been faster.
    fn take(
        &mut self,
        executions: &[ExecutionNo],
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Vec<History> {
        let mut taken = Vec::new();
        for execution in executions {
            let Some(row) = self.control.get(execution) else { continue };
            let reason = self.reason(*execution, row, request, now);
            let still = matches!(reason, Some(ClaimReason::Now | ClaimReason::Due(_)));
            if !still && !is_planted(Bug::SweepByIdAlone) {
                continue;
            }
            let crashes = self.crashes_if_taken(row, request, now);
            if let Some(row) = self.control.get_mut(execution) {
                (row.control.crashes, row.control.doubt) = (crashes, crashes > 0);
                let owner = row.control.owner.replace(request.instance);
                row.control.epoch += u32::from(owner != Some(request.instance));
                row.control.ready = false;
            }
            taken.extend(self.load(*execution));
        }
        taken
    }

    /// The deaths that its row will show once it is taken.
    fn crashes_if_taken(&self, row: &ControlRow, request: &ClaimRequest, now: Timestamp) -> u32 {
        let Control { owner, crashes, doubt, .. } = row.control;
        let died = |owner: InstanceId| {
            owner != request.instance && !self.is_alive(owner, now) && !self.has_left(owner)
        };
        match owner.is_some_and(died) {
            true => crashes_after_death(crashes, doubt),
            false => crashes,
        }
    }

    fn reason(
        &self,
        execution: ExecutionNo,
        row: &ControlRow,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Option<ClaimReason> {
        let control = &row.control;
        let readable = row.requires <= request.fold || is_planted(Bug::VersionIgnored);
        let wanted = request.share.has(execution)
            && request.only.as_ref().is_none_or(|only| only.contains(&execution));
        if !readable || !wanted {
            return None;
        }
        match control.owner {
            // A reconciliation: the claimer owns it and does not have it in memory.
            Some(owner) if owner == request.instance => {
                let forgotten = request.held.as_ref()?.binary_search(&execution).is_err();
                forgotten.then_some(ClaimReason::Now)
            }
            Some(owner) => {
                let dead = !self.is_alive(owner, now) && !is_planted(Bug::OrphansIgnored);
                dead.then_some(ClaimReason::Now)
            }
            None if control.ready => Some(ClaimReason::Now),
            None => control.next_due.map(|due| match due <= now.plus(request.ahead) {
                true => ClaimReason::Due(due),
                false => ClaimReason::Later(due),
            }),
        }
    }

    /// Has an instance left in order?
    pub fn has_left(&self, instance: InstanceId) -> bool {
        self.leases.get(&instance).is_some_and(|lease| lease.until.is_none())
    }

    /// Marks executions that this owner is about to decide.
    pub fn doubt(&mut self, owner: InstanceId, executions: &[ExecutionNo]) -> Vec<ExecutionNo> {
        let mut owned = Vec::new();
        for execution in executions {
            if let Some(row) = self.control.get_mut(execution)
                && row.control.owner == Some(owner)
            {
                row.control.doubt = row.control.crashes > 0;
                owned.push(*execution);
            }
        }
        owned
    }

    /// Sets an execution of this owner aside.
    pub fn hold(&mut self, execution: ExecutionNo, owner: InstanceId, reason: &str) {
        if let Some(row) = self.control.get_mut(&execution)
            && (row.control.owner == Some(owner) || is_planted(Bug::HoldByIdAlone))
        {
            let there = self.inbox.iter().filter(|mail| mail.execution == execution);
            row.deaf_to = there.map(|mail| Arc::clone(&mail.message)).collect();
            row.wakes_from = Urgency::Resume;
            row.control.owner = None;
            row.control.ready = false;
            row.control.next_due = None;
            row.control.held = Some(reason.to_owned());
            (row.control.crashes, row.control.doubt) = (0, false);
        }
    }
}
