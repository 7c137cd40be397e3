//! The queues of concurrency keys in memory: who waits, who holds a permit, who comes next.

use std::sync::Arc;

use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};

use super::Tables;
use super::tables::PermitRow;
use crate::inspect::{DerivedPermit, PermitQueue};
use crate::store::{Append, Permit, PermitPolicy, PermitRequest, Urgency, cancel_message};

impl Tables {
    /// How many hold the permits of its key, where a frame must not go in for that.
    pub(super) fn rejects(&self, append: &Append) -> Option<u64> {
        let request = append.side.permit.as_ref()?;
        let known = self.permits.iter().any(|row| row.execution == append.header.execution);
        let waiting = self.queue(&request.key).any(|row| !row.holding);
        let holding = self.holding(&request.key);
        let room = !waiting && holding < u64::from(request.limit);
        (request.policy == PermitPolicy::Reject && !known && !room).then_some(holding)
    }

    /// An execution goes to the end of the queue, or back to its place in it.
    pub(super) fn queue_up(&mut self, header: &FrameHeader, request: &PermitRequest) {
        let execution = header.execution;
        let found = self.permits.iter().find(|row| row.execution == execution);
        if let Some(row) = found {
            // It may have come to hold a permit while somebody owned it.
            if row.holding {
                self.admit(execution);
            }
            return;
        }
        let (request, superseded) = (request.clone(), false);
        let key = Arc::clone(&request.key);
        let cancels = request.policy == PermitPolicy::CancelOldest;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        self.permits.push(PermitRow { execution, request, holding: false, superseded });
        self.promote_key(&key);
        let placed = self.permits.iter().any(|row| row.execution == execution && row.holding);
        if cancels && !placed {
            self.cancel_oldest(header, &key, limit);
        }
    }

    fn cancel_oldest(&mut self, newcomer: &FrameHeader, key: &str, limit: usize) {
        let candidates: Vec<ExecutionNo> = self
            .queue(key)
            .filter(|row| row.execution != newcomer.execution && !row.superseded)
            .map(|row| row.execution)
            .collect();
        let Some(oldest) = candidates.first().filter(|_| candidates.len() >= limit) else { return };
        if let Some(row) = self.permits.iter_mut().find(|row| row.execution == *oldest) {
            row.superseded = true;
        }
        self.deliver(&cancel_message(newcomer, key, *oldest));
    }

    /// An execution ended: its place is free.
    pub(super) fn release(&mut self, execution: ExecutionNo) {
        let Some(at) = self.permits.iter().position(|row| row.execution == execution) else {
            return;
        };
        let row = self.permits.remove(at);
        if is_planted(Bug::PromotionLost) {
            return;
        }
        let key = row.request.key;
        if is_planted(Bug::PermitReleasedTwice)
            && let Some(next) = self.first_waiting(&key)
        {
            self.give(next);
        }
        self.promote_key(&key);
    }

    /// Gives every free permit to who waits for it.
    pub fn promote_all(&mut self) {
        let mut keys: Vec<_> =
            self.permits.iter().map(|row| Arc::clone(&row.request.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.iter().for_each(|key| self.promote_key(key));
    }

    fn promote_key(&mut self, key: &str) {
        while let Some(next) = self.first_waiting(key) {
            let limit = self.permits.get(next).map_or(0, |row| row.request.limit);
            if self.holding(key) >= u64::from(limit) {
                return;
            }
            self.give(next);
        }
    }

    fn first_waiting(&self, key: &str) -> Option<usize> {
        let waits = |row: &PermitRow| *row.request.key == *key && !row.holding;
        match is_planted(Bug::LastComesFirst) {
            true => self.permits.iter().rposition(waits),
            false => self.permits.iter().position(waits),
        }
    }

    fn give(&mut self, at: usize) {
        let Some(row) = self.permits.get_mut(at) else { return };
        row.holding = true;
        let execution = row.execution;
        self.admit(execution);
    }

    /// Whoever holds a permit has something to do.
    fn admit(&mut self, execution: ExecutionNo) {
        if let Some(row) = self.control.get_mut(&execution)
            && row.control.owner.is_none()
        {
            row.control.ready = true;
            row.control.held = None;
            row.wakes_from = Urgency::Ordinary;
        }
    }

    fn queue(&self, key: &str) -> impl Iterator<Item = &PermitRow> {
        self.permits.iter().filter(move |row| *row.request.key == *key)
    }

    fn holding(&self, key: &str) -> u64 {
        self.queue(key).filter(|row| row.holding).count() as u64
    }

    /// Where an execution stands.
    pub fn permit(&self, execution: ExecutionNo) -> Option<Permit> {
        let row = self.permits.iter().find(|row| row.execution == execution)?;
        let key = &row.request.key;
        let before = self.queue(key).take_while(|other| other.execution != execution).count();
        Some(Permit { key: Arc::clone(key), holding: row.holding, before: before as u64 })
    }

    /// The permit_queues of all keys, by key.
    pub fn permit_queues(&self) -> Vec<PermitQueue> {
        let mut keys: Vec<_> = self.permits.iter().map(|row| &row.request.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let queue = |key: &Arc<str>| {
            let holders: Vec<_> = self.queue(key).filter(|row| row.holding).collect();
            let waiting = self.queue(key).find(|row| !row.holding);
            PermitQueue {
                key: Arc::clone(key),
                holding: holders.len() as u64,
                limit_max: holders.iter().map(|row| row.request.limit).max().unwrap_or(0),
                last_holding: holders.last().map(|row| row.execution),
                first_waiting: waiting.map(|row| (row.execution, row.request.limit)),
            }
        };
        keys.into_iter().map(queue).collect()
    }

    /// Makes the place of an execution what its log says, and gives away what comes free by that.
    pub(super) fn repair_permit(
        &mut self,
        execution: ExecutionNo,
        derived: Option<&DerivedPermit>,
    ) {
        let keeps = |row: &PermitRow| derived.is_some_and(|of| of.request.key == row.request.key);
        self.permits.retain(|row| row.execution != execution || keeps(row));
        if let Some(DerivedPermit { request, admitted }) = derived {
            match self.permits.iter_mut().find(|row| row.execution == execution) {
                Some(row) => row.holding |= admitted,
                None => {
                    let (request, holding) = (request.clone(), *admitted);
                    self.permits.push(PermitRow { execution, request, holding, superseded: false });
                }
            }
            let holds = self.permits.iter().any(|row| row.execution == execution && row.holding);
            if holds && !admitted {
                self.admit(execution);
            }
        }
        self.promote_all();
    }
}
