//! Slots: how many attempts may run here at once, which attempts wait for one, and whether any may begin.
//! Each [`SlotClass`] has a number of slots and a queue of its own.
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
use waypost_core::slot::{SlotClass, SlotCounts};
use waypost_core::time::{Millis, Timestamp};

use self::turns::Turns;
use super::io::TaskOrder;
use crate::config::Config;
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

/// The slots of a frame, of each class.
pub(super) struct FrameSlots {
    work: SlotGrant,
    io: SlotGrant,
}

impl FrameSlots {
    pub(super) fn split_one(&mut self, class: SlotClass) -> SlotGrant {
        match class {
            SlotClass::Work => self.work.split_one(),
            SlotClass::Io => self.io.split_one(),
        }
    }
}

/// A slot that is promised to an attempt whose start is not decided yet.
pub(super) struct Promise {
    pub(super) class: SlotClass,
    pub(super) offer: Offer,
    _slot: SlotGrant,
}

/// The slots of one class.
struct Pool {
    total: u32,
    taken: Arc<AtomicU32>,
    promised: Arc<AtomicU32>,
    offers: Turns,
}

impl Pool {
    fn new(total: u32) -> Self {
        Self { total, taken: Arc::default(), promised: Arc::default(), offers: Turns::default() }
    }

    fn busy(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Free slots for an execution to which `own` of the promised ones are promised.
    fn free(&self, own: u32) -> u32 {
        let promised = self.promised.load(Ordering::Relaxed).saturating_sub(own);
        self.total.saturating_sub(self.busy() + promised)
    }

    fn next_offer(&mut self) -> Option<Offer> {
        if self.free(0) > 0 { self.offers.pop() } else { None }
    }
}

pub(super) struct Slots {
    work: Pool,
    io: Pool,
    running: HashMap<Token, SlotGrant>,
    /// The last part of a lease, in which nothing begins.
    margin: Millis,
    /// Until when attempts may start; for ever if there are no leases.
    safe_until: Timestamp,
    renewing: bool,
    kept_back: Vec<(TaskOrder, SlotGrant)>,
}

impl Slots {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            work: Pool::new(config.slots),
            io: Pool::new(config.io_slots),
            running: HashMap::new(),
            margin: Millis(config.lease.0 / 3),
            safe_until: Timestamp(i64::MAX),
            renewing: false,
            kept_back: Vec::new(),
        }
    }

    pub(super) fn shrink(&mut self) {
        self.work.offers.shrink();
        self.io.offers.shrink();
        shrink!(self.kept_back, self.running);
    }

    pub(super) fn are_idle(&self) -> bool {
        self.busy() == SlotCounts::default()
    }

    fn pool(&mut self, class: SlotClass) -> &mut Pool {
        match class {
            SlotClass::Work => &mut self.work,
            SlotClass::Io => &mut self.io,
        }
    }

    /// More slots, from those of all drivers of this instance.
    pub(super) fn borrow(&mut self, class: SlotClass, more: u32) {
        self.pool(class).total += more;
    }

    /// Gives up all slots that are neither taken nor promised; returns how many.
    pub(super) fn give_back(&mut self, class: SlotClass) -> u32 {
        let pool = self.pool(class);
        let free = pool.free(0);
        pool.total -= free;
        free
    }

    /// Do attempts wait for a slot that could begin, if there were one?
    pub(super) fn lacks_some(&mut self, class: SlotClass, now: Timestamp) -> bool {
        let pool = self.pool(class);
        let lacks = pool.offers.oldest().is_some() && pool.free(0) == 0;
        lacks && self.are_safe(now)
    }

    /// May attempts begin?
    pub(super) fn are_safe(&self, now: Timestamp) -> bool {
        now < self.safe_until
    }

    /// Slots that a decision may take.
    pub(super) fn available(&self, now: Timestamp) -> SlotCounts {
        self.available_to(SlotCounts::default(), now)
    }

    /// The same, for an execution to which `own` slots are promised.
    pub(super) fn available_to(&self, own: SlotCounts, now: Timestamp) -> SlotCounts {
        match self.are_safe(now) {
            true => SlotCounts { work: self.work.free(own.work), io: self.io.free(own.io) },
            false => SlotCounts::default(),
        }
    }

    pub(super) fn take(&self, counts: SlotCounts) -> FrameSlots {
        FrameSlots {
            work: SlotGrant::new(&self.work.taken, counts.work),
            io: SlotGrant::new(&self.io.taken, counts.io),
        }
    }

    pub(super) fn busy(&self) -> SlotCounts {
        SlotCounts { work: self.work.busy(), io: self.io.busy() }
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

    pub(super) fn offer(&mut self, class: SlotClass, offer: Offer) {
        match class {
            SlotClass::Work => self.work.offers.push(offer),
            SlotClass::Io => self.io.offers.push(offer),
        }
    }

    /// Drops the offers of an execution that leaves memory.
    pub(super) fn forget(&mut self, execution: ExecutionNo) {
        self.work.offers.forget(execution);
        self.io.offers.forget(execution);
    }

    /// Since when the offer that has waited longest waits.
    pub(super) fn oldest_offer(&self) -> Option<Timestamp> {
        self.work.offers.oldest().into_iter().chain(self.io.offers.oldest()).min()
    }

    /// Everything that was offered and not handed out; some of it may mean nothing any more, because
    /// its node was cancelled.
    pub(super) fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.work.offers.offers().chain(self.io.offers.offers())
    }

    /// Promises a free slot to the next offer in turn.
    pub(super) fn next_promise(&mut self, now: Timestamp) -> Option<Promise> {
        if !self.are_safe(now) {
            return None;
        }
        let work = self.work.next_offer().map(|offer| (SlotClass::Work, offer, &self.work));
        let next =
            work.or_else(|| self.io.next_offer().map(|offer| (SlotClass::Io, offer, &self.io)));
        let (class, offer, pool) = next?;
        Some(Promise { class, offer, _slot: SlotGrant::new(&pool.promised, 1) })
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
        let waits = !self.kept_back.is_empty() || self.oldest_offer().is_some();
        waits && !self.are_safe(now) && !std::mem::replace(&mut self.renewing, true)
    }

    /// Removes an attempt that waits for the lease; its slot is free.
    pub(super) fn take_kept(&mut self, token: Token) -> Option<TaskOrder> {
        let at = self.kept_back.iter().position(|(order, _)| order.task.token == token)?;
        Some(self.kept_back.swap_remove(at).0)
    }
}
