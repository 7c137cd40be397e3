//! The lines of concurrency keys in memory: who waits, who holds a slot, who comes next.

use std::sync::Arc;

use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionId;
use waypost_core::planted::{Bug, is_planted};

use super::Tables;
use super::tables::SlotRow;
use crate::audit::{DerivedSlot, Line};
use crate::store::{Append, Slot, SlotPolicy, SlotRequest, Urgency, cancel_message};

impl Tables {
    /// How many hold the slots of its key, where a frame must not go in for that.
    pub(super) fn rejects(&self, append: &Append) -> Option<u64> {
        let request = append.side.slot.as_ref()?;
        let known = self.slots.iter().any(|row| row.execution == append.header.execution);
        let waiting = self.line(&request.key).any(|row| !row.holding);
        let holding = self.holding(&request.key);
        let room = !waiting && holding < u64::from(request.limit);
        (request.policy == SlotPolicy::Reject && !known && !room).then_some(holding)
    }

    /// An execution goes to the end of the line, or back to its place in it.
    pub(super) fn stand_in_line(&mut self, header: &FrameHeader, request: &SlotRequest) {
        let execution = header.execution;
        let found = self.slots.iter().find(|row| row.execution == execution);
        if let Some(row) = found {
            // It may have come to hold a slot while somebody owned it.
            if row.holding {
                self.admit(execution);
            }
            return;
        }
        let (request, superseded) = (request.clone(), false);
        let key = Arc::clone(&request.key);
        let cancels = request.policy == SlotPolicy::CancelOldest;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        self.slots.push(SlotRow { execution, request, holding: false, superseded });
        self.promote_key(&key);
        let placed = self.slots.iter().any(|row| row.execution == execution && row.holding);
        if cancels && !placed {
            self.cancel_oldest(header, &key, limit);
        }
    }

    fn cancel_oldest(&mut self, newcomer: &FrameHeader, key: &str, limit: usize) {
        let candidates: Vec<ExecutionId> = self
            .line(key)
            .filter(|row| row.execution != newcomer.execution && !row.superseded)
            .map(|row| row.execution)
            .collect();
        let Some(oldest) = candidates.first().filter(|_| candidates.len() >= limit) else { return };
        if let Some(row) = self.slots.iter_mut().find(|row| row.execution == *oldest) {
            row.superseded = true;
        }
        self.deliver(&cancel_message(newcomer, key, *oldest));
    }

    /// An execution ended: its place is free.
    pub(super) fn release(&mut self, execution: ExecutionId) {
        let Some(at) = self.slots.iter().position(|row| row.execution == execution) else { return };
        let row = self.slots.remove(at);
        if is_planted(Bug::PromotionLost) {
            return;
        }
        let key = row.request.key;
        if is_planted(Bug::SlotReleasedTwice)
            && let Some(next) = self.first_waiting(&key)
        {
            self.give(next);
        }
        self.promote_key(&key);
    }

    /// Gives every free slot to who waits for it.
    pub fn promote_all(&mut self) {
        let mut keys: Vec<_> = self.slots.iter().map(|row| Arc::clone(&row.request.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.iter().for_each(|key| self.promote_key(key));
    }

    fn promote_key(&mut self, key: &str) {
        while let Some(next) = self.first_waiting(key) {
            let limit = self.slots.get(next).map_or(0, |row| row.request.limit);
            if self.holding(key) >= u64::from(limit) {
                return;
            }
            self.give(next);
        }
    }

    fn first_waiting(&self, key: &str) -> Option<usize> {
        let waits = |row: &SlotRow| *row.request.key == *key && !row.holding;
        match is_planted(Bug::LastComesFirst) {
            true => self.slots.iter().rposition(waits),
            false => self.slots.iter().position(waits),
        }
    }

    fn give(&mut self, at: usize) {
        let Some(row) = self.slots.get_mut(at) else { return };
        row.holding = true;
        let execution = row.execution;
        self.admit(execution);
    }

    /// Whoever holds a slot has something to do.
    fn admit(&mut self, execution: ExecutionId) {
        if let Some(row) = self.control.get_mut(&execution)
            && row.control.owner.is_none()
        {
            row.control.ready = true;
            row.control.held = None;
            row.wakes_from = Urgency::Ordinary;
        }
    }

    fn line(&self, key: &str) -> impl Iterator<Item = &SlotRow> {
        self.slots.iter().filter(move |row| *row.request.key == *key)
    }

    fn holding(&self, key: &str) -> u64 {
        self.line(key).filter(|row| row.holding).count() as u64
    }

    /// Where an execution stands.
    pub fn slot(&self, execution: ExecutionId) -> Option<Slot> {
        let row = self.slots.iter().find(|row| row.execution == execution)?;
        let key = &row.request.key;
        let before = self.line(key).take_while(|other| other.execution != execution).count();
        Some(Slot { key: Arc::clone(key), holding: row.holding, before: before as u64 })
    }

    /// The lines of all keys, by key.
    pub fn lines(&self) -> Vec<Line> {
        let mut keys: Vec<_> = self.slots.iter().map(|row| &row.request.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let line = |key: &Arc<str>| {
            let holders: Vec<_> = self.line(key).filter(|row| row.holding).collect();
            let waiting = self.line(key).find(|row| !row.holding);
            Line {
                key: Arc::clone(key),
                holding: holders.len() as u64,
                limit_max: holders.iter().map(|row| row.request.limit).max().unwrap_or(0),
                last_holding: holders.last().map(|row| row.execution),
                first_waiting: waiting.map(|row| (row.execution, row.request.limit)),
            }
        };
        keys.into_iter().map(line).collect()
    }

    /// Makes the place of an execution what its log says, and gives away what comes free by that.
    pub(super) fn mend_slot(&mut self, execution: ExecutionId, derived: Option<&DerivedSlot>) {
        let keeps = |row: &SlotRow| derived.is_some_and(|of| of.request.key == row.request.key);
        self.slots.retain(|row| row.execution != execution || keeps(row));
        if let Some(DerivedSlot { request, admitted }) = derived {
            match self.slots.iter_mut().find(|row| row.execution == execution) {
                Some(row) => row.holding |= admitted,
                None => {
                    let (request, holding) = (request.clone(), *admitted);
                    self.slots.push(SlotRow { execution, request, holding, superseded: false });
                }
            }
            let holds = self.slots.iter().any(|row| row.execution == execution && row.holding);
            if holds && !admitted {
                self.admit(execution);
            }
        }
        self.promote_all();
    }
}
