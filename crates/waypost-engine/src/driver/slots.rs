//! Slots: how many attempts may run here at once, which attempts wait for one, and whether any may begin.
//!
//! No attempt begins once two thirds of the lease have passed without a confirmed renewal: when the lease
//! ends, another instance may take the execution over, and an attempt that began shortly before would run
//! twice. An attempt that is recorded as started and may not begin waits: a renewal releases it, and
//! losing the execution drops it.

use std::collections::VecDeque;

use waypost_core::id::{ExecutionNo, NodeIx, Token};
use waypost_core::time::{Millis, Timestamp};

use super::io::TaskOrder;
use crate::room::shrink;

/// A queued attempt that waits for a slot.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) execution: ExecutionNo,
    pub(super) node: NodeIx,
    pub(super) attempt: u32,
    /// Since when.
    pub(super) since: Timestamp,
}

pub(super) struct Slots {
    total: u32,
    free: u32,
    /// Promised to attempts whose start is not decided yet.
    promised: u32,
    /// Queued attempts that wait for a slot.
    offers: VecDeque<Offer>,
    /// The last part of a lease, in which nothing begins.
    caution: Millis,
    /// Until when attempts may begin; for ever, as long as nobody speaks of leases.
    safe_until: Timestamp,
    /// Was a renewal asked for?
    renewing: bool,
    kept_back: Vec<TaskOrder>,
}

impl Slots {
    pub(super) fn new(total: u32, lease: Millis) -> Self {
        Self {
            total,
            free: total,
            promised: 0,
            offers: VecDeque::new(),
            caution: Millis(lease.0 / 3),
            safe_until: Timestamp(i64::MAX),
            renewing: false,
            kept_back: Vec::new(),
        }
    }

    /// Gives back the room of a line that is gone.
    pub(super) fn shrink(&mut self) {
        shrink!(self.offers, self.kept_back);
    }

    /// Is every slot free?
    pub(super) fn are_idle(&self) -> bool {
        self.free == self.total
    }

    /// May attempts begin?
    pub(super) fn are_safe(&self, now: Timestamp) -> bool {
        now < self.safe_until
    }

    /// Slots that a decision may take.
    pub(super) fn available(&self, now: Timestamp) -> u32 {
        if self.are_safe(now) { self.free.saturating_sub(self.promised) } else { 0 }
    }

    pub(super) fn take(&mut self, count: u32) {
        self.free = self.free.saturating_sub(count);
    }

    pub(super) fn give_back(&mut self, count: u32) {
        self.free += count;
    }

    pub(super) fn withdraw_promises(&mut self, count: usize) {
        self.promised -= u32::try_from(count).unwrap_or(u32::MAX);
    }

    /// Slots that are taken.
    pub(super) fn busy(&self) -> u32 {
        self.total.saturating_sub(self.free)
    }

    pub(super) fn offer(&mut self, offer: Offer) {
        self.offers.push_back(offer);
    }

    /// Everything that was offered and not handed out; some of it may mean nothing any more.
    pub(super) fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter()
    }

    /// The next attempt that a slot is free for. Its slot is promised once [`promise`](Self::promise)
    /// is called.
    pub(super) fn next_offer(&mut self, now: Timestamp) -> Option<Offer> {
        if self.available(now) > 0 { self.offers.pop_front() } else { None }
    }

    pub(super) fn promise(&mut self) {
        self.promised += 1;
    }

    /// Keeps an attempt back that may not begin now.
    pub(super) fn keep_back(&mut self, order: TaskOrder) {
        self.kept_back.push(order);
    }

    /// The lease is good until then; gives what was kept back.
    pub(super) fn renewed(&mut self, now: Timestamp, until: Timestamp) -> Vec<TaskOrder> {
        let caution = i64::try_from(self.caution.0).unwrap_or(i64::MAX);
        self.safe_until = Timestamp(until.0.saturating_sub(caution));
        // One that does not help is not asked for again: the next heartbeat comes by itself.
        self.renewing = !self.are_safe(now);
        std::mem::take(&mut self.kept_back)
    }

    /// The lease cannot be trusted any more.
    pub(super) fn lapsed(&mut self) {
        self.safe_until = Timestamp(i64::MIN);
    }

    /// Drops what was kept back: somebody else will make it.
    pub(super) fn drop_kept(&mut self) {
        let dropped = self.kept_back.drain(..).count();
        self.give_back(u32::try_from(dropped).unwrap_or(u32::MAX));
    }

    /// Is something about to wait for the next heartbeat? A machine that slept should not.
    pub(super) fn wants_renewal(&mut self, now: Timestamp) -> bool {
        let waits = !self.kept_back.is_empty() || !self.offers.is_empty();
        waits && !self.are_safe(now) && !std::mem::replace(&mut self.renewing, true)
    }

    /// Takes back an attempt that was kept back.
    pub(super) fn take_kept(&mut self, token: Token) -> Option<TaskOrder> {
        let at = self.kept_back.iter().position(|order| order.task.token == token)?;
        Some(self.kept_back.swap_remove(at))
    }
}
