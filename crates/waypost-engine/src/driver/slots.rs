//! Slots: how many attempts may run here at once, which attempts wait for one, and whether any may begin.
//!
//! No attempt begins once two thirds of the lease have passed without a confirmed renewal: when the lease
//! ends, another instance may take the execution over, and an attempt that began shortly before would run
//! twice. An attempt that is recorded as started and may not begin waits: a renewal releases it, and
//! losing the execution drops it.
//!
//! A taken slot is a [`SlotGrant`], which frees it when it is dropped. It belongs to the occupant
//! of the slot: the frame in flight that starts the attempt, the attempt that waits for the lease,
//! or the running attempt. A promised slot belongs to its [`Promise`] in the same way.

mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use waypost_core::id::{ExecutionNo, Token};
use waypost_core::path::At;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};

use self::turns::Turns;
use super::io::TaskOrder;
use crate::room::shrink;

#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) execution: ExecutionNo,
    pub(super) node: At,
    pub(super) attempt: u32,
    pub(super) since: Timestamp,
}

/// Slots that are taken, or promised; dropping it frees them.
pub(super) struct SlotGrant {
    count: u32,
    /// How many all grants of this kind have.
    of: Arc<AtomicU32>,
}

impl SlotGrant {
    fn new(of: &Arc<AtomicU32>, count: u32) -> Self {
        of.fetch_add(count, Ordering::Relaxed);
        Self { count, of: Arc::clone(of) }
    }

    pub(super) fn split_one(&mut self) -> Self {
        debug_assert!(self.count > 0, "an attempt starts without a slot");
        let count = self.count.min(1);
        self.count -= count;
        Self { count, of: Arc::clone(&self.of) }
    }
}

impl Drop for SlotGrant {
    fn drop(&mut self) {
        self.of.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// A slot that is promised to an attempt whose start is not decided yet.
pub(super) struct Promise {
    pub(super) offer: Offer,
    _slot: SlotGrant,
}

pub(super) struct Slots {
    total: u32,
    taken: Arc<AtomicU32>,
    promised: Arc<AtomicU32>,
    running: HashMap<Token, SlotGrant>,
    offers: Turns,
    /// The last part of a lease, in which nothing begins.
    margin: Millis,
    /// Until when attempts may start; for ever if there are no leases.
    safe_until: Timestamp,
    renewing: bool,
    kept_back: Vec<(TaskOrder, SlotGrant)>,
}

impl Slots {
    pub(super) fn new(total: u32, lease: Millis) -> Self {
        Self {
            total,
            taken: Arc::default(),
            promised: Arc::default(),
            running: HashMap::new(),
            offers: Turns::default(),
            margin: Millis(lease.0 / 3),
            safe_until: Timestamp(i64::MAX),
            renewing: false,
            kept_back: Vec::new(),
        }
    }

    pub(super) fn shrink(&mut self) {
        self.offers.shrink();
        shrink!(self.kept_back, self.running);
    }

    pub(super) fn are_idle(&self) -> bool {
        self.busy() == 0
    }

    /// May attempts begin?
    pub(super) fn are_safe(&self, now: Timestamp) -> bool {
        now < self.safe_until
    }

    /// Slots that a decision may take.
    pub(super) fn available(&self, now: Timestamp) -> u32 {
        let promised = self.promised.load(Ordering::Relaxed);
        if self.are_safe(now) { self.total.saturating_sub(self.busy() + promised) } else { 0 }
    }

    pub(super) fn take(&self, count: u32) -> SlotGrant {
        SlotGrant::new(&self.taken, count)
    }

    pub(super) fn busy(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// An attempt runs, until [`ended`](Self::ended).
    pub(super) fn began(&mut self, token: Token, slot: SlotGrant) {
        self.running.insert(token, slot);
    }

    pub(super) fn ended(&mut self, token: Token) {
        if !is_planted(Bug::SlotLeaked) {
            self.running.remove(&token);
        }
    }

    pub(super) fn offer(&mut self, offer: Offer) {
        self.offers.push(offer);
    }

    /// Drops the offers of an execution that leaves memory.
    pub(super) fn forget(&mut self, execution: ExecutionNo) {
        self.offers.forget(execution);
    }

    /// Since when the offer that has waited longest waits.
    pub(super) fn oldest_offer(&self) -> Option<Timestamp> {
        self.offers.oldest()
    }

    /// Everything that was offered and not handed out; some of it may mean nothing any more, because
    /// its node was cancelled.
    pub(super) fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter()
    }

    pub(super) fn next_offer(&mut self, now: Timestamp) -> Option<Offer> {
        if self.available(now) > 0 { self.offers.pop() } else { None }
    }

    pub(super) fn promise(&self, offer: Offer) -> Promise {
        Promise { offer, _slot: SlotGrant::new(&self.promised, 1) }
    }

    pub(super) fn keep_back(&mut self, order: TaskOrder, slot: SlotGrant) {
        self.kept_back.push((order, slot));
    }

    /// The lease is valid until then; returns the attempts that waited for it.
    pub(super) fn renewed(
        &mut self,
        now: Timestamp,
        until: Timestamp,
    ) -> Vec<(TaskOrder, SlotGrant)> {
        self.safe_until = until.minus(self.margin);
        // A renewal that does not help is not requested again: the next heartbeat comes by itself.
        self.renewing = !self.are_safe(now);
        std::mem::take(&mut self.kept_back)
    }

    pub(super) fn lapsed(&mut self) {
        self.safe_until = Timestamp(i64::MIN);
    }

    /// Drops the attempts that wait for the lease: another instance will run them.
    pub(super) fn drop_kept(&mut self) {
        self.kept_back.clear();
    }

    /// Is something about to wait for the next heartbeat? A machine that slept should not.
    pub(super) fn wants_renewal(&mut self, now: Timestamp) -> bool {
        let waits = !self.kept_back.is_empty() || !self.offers.is_empty();
        waits && !self.are_safe(now) && !std::mem::replace(&mut self.renewing, true)
    }

    /// Removes an attempt that waits for the lease; its slot is free.
    pub(super) fn take_kept(&mut self, token: Token) -> Option<TaskOrder> {
        let at = self.kept_back.iter().position(|(order, _)| order.task.token == token)?;
        Some(self.kept_back.swap_remove(at).0)
    }
}
