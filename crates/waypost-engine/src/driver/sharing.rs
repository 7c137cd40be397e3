//! What the drivers of one instance have in common: the free slots, and the turn to have a suspect in
//! doubt. A driver that is alone has neither.
//!
//! A driver that lacks one of them says that it waits, and looks once more; a driver that gives one
//! back does so before it looks who waits. So one of the two always sees the other, whatever the
//! order, and no wake-up is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use waypost_core::slot::{SlotClass, SlotCounts};
use waypost_ports::store::Share;

use super::Driver;
use super::io::{Input, Output};

/// The most drivers of an instance: they are bits of a number.
pub(crate) const DRIVERS_MAX: u32 = 64;

const CLASSES: [SlotClass; 2] = [SlotClass::Work, SlotClass::Io];

/// See the module.
#[derive(Default)]
struct Common {
    work: FreeSlots,
    io: FreeSlots,
    /// The driver that has the turn, counted from 1; 0 if it is free.
    turn: AtomicU32,
    for_turn: Waiters,
}

/// The free slots of one class, and the drivers that wait for some.
#[derive(Default)]
struct FreeSlots {
    count: AtomicU32,
    waiters: Waiters,
}

/// Drivers that wait for something, as bits.
#[derive(Default)]
struct Waiters {
    waiting: AtomicU64,
    /// Those of them that were woken and have not made a step since.
    woken: AtomicU64,
}

impl Waiters {
    fn enter(&self, me: u64) {
        self.waiting.fetch_or(me, Ordering::SeqCst);
    }

    fn leave(&self, me: u64) {
        if self.waiting.load(Ordering::SeqCst) & me != 0 {
            self.waiting.fetch_and(!me, Ordering::SeqCst);
            self.woken.fetch_and(!me, Ordering::SeqCst);
        }
    }

    fn has_others(&self, me: u64) -> bool {
        self.waiting.load(Ordering::SeqCst) & !me != 0
    }

    /// Those to wake now: each once.
    fn wake(&self, me: u64) -> u64 {
        let waiting = self.waiting.load(Ordering::SeqCst) & !me;
        if waiting == 0 { 0 } else { waiting & !self.woken.fetch_or(waiting, Ordering::SeqCst) }
    }
}

/// A driver, among those of its instance.
pub(super) struct Sibling {
    pub(super) share: Share,
    /// Absent for a driver that is alone.
    common: Option<Arc<Common>>,
    /// Was it woken for this step? Then it does not leave slots to others that wait.
    woken: bool,
    /// What the others have to do after this step: claim, and look for mail.
    claim: bool,
    mail: bool,
}

impl Sibling {
    /// The only driver of its instance.
    pub(super) fn alone() -> Self {
        Self::new(Share::ALL, None)
    }

    fn new(share: Share, common: Option<Arc<Common>>) -> Self {
        Self { share, common, woken: false, claim: false, mail: false }
    }

    /// The drivers of one instance, which have so many slots together.
    pub(super) fn all(count: u32, slots: SlotCounts) -> impl Iterator<Item = Self> {
        let (work, io) = (FreeSlots::new(slots.work), FreeSlots::new(slots.io));
        let common = Common { work, io, ..Common::default() };
        let common = (count > 1).then(|| Arc::new(common));
        (0..count).map(move |at| Self::new(Share { at, of: count }, common.clone()))
    }

    pub(super) fn is_alone(&self) -> bool {
        self.common.is_none()
    }

    fn bit(&self) -> u64 {
        1 << self.share.at
    }

    fn others(&self) -> u64 {
        (u64::MAX >> (u64::BITS - self.share.of)) & !self.bit()
    }

    /// Takes the turn to have a suspect in doubt, if it is free.
    pub(super) fn take_turn(&self) -> bool {
        let Some(common) = &self.common else { return true };
        let (me, order) = (self.share.at + 1, Ordering::SeqCst);
        let taken = match common.turn.compare_exchange(0, me, order, order) {
            Ok(_) => true,
            Err(holder) => holder == me,
        };
        if taken {
            common.for_turn.leave(self.bit());
        }
        taken
    }

    /// As [`take_turn`](Self::take_turn); it is woken later if the turn is not free.
    pub(super) fn await_turn(&self) -> bool {
        let Some(common) = &self.common else { return true };
        self.take_turn() || {
            common.for_turn.enter(self.bit());
            self.take_turn()
        }
    }

    /// Could it take the turn? It is woken later if not.
    pub(super) fn may_take_turn(&self) -> bool {
        let Some(common) = &self.common else { return true };
        let free = || [0, self.share.at + 1].contains(&common.turn.load(Ordering::SeqCst));
        if free() {
            return true;
        }
        common.for_turn.enter(self.bit());
        let freed = free();
        if freed {
            common.for_turn.leave(self.bit());
        }
        freed
    }

    /// Gives the turn back, if it has it; returns the drivers to wake.
    fn end_turn(&self) -> u64 {
        let Some(common) = &self.common else { return 0 };
        if common.turn.load(Ordering::SeqCst) == self.share.at + 1 {
            common.turn.store(0, Ordering::SeqCst);
            return common.for_turn.wake(self.bit());
        }
        0
    }

    /// An execution that another driver may claim is ready.
    pub(super) fn may_claim(&mut self) {
        self.claim = true;
    }

    /// There is mail for an execution that another driver may have.
    pub(super) fn has_mail(&mut self) {
        self.mail = true;
    }
}

impl Common {
    fn of(&self, class: SlotClass) -> &FreeSlots {
        match class {
            SlotClass::Work => &self.work,
            SlotClass::Io => &self.io,
        }
    }
}

impl FreeSlots {
    fn new(count: u32) -> Self {
        Self { count: AtomicU32::new(count), waiters: Waiters::default() }
    }

    /// Half of the free slots; where others wait, at least as many are left.
    fn borrow(&self, leave_more: bool) -> u32 {
        let half = |free: u32| if leave_more { free / 2 } else { free.div_ceil(2) };
        let update = |free| Some(free - half(free));
        let before = self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update);
        before.map_or(0, half)
    }

    fn give_back(&self, count: u32) {
        self.count.fetch_add(count, Ordering::SeqCst);
    }
}

impl Driver {
    /// Something that it may have waited for is free.
    pub(super) fn woken(&mut self) {
        self.sibling.woken = true;
        let Some(common) = &self.sibling.common else { return };
        let me = self.sibling.bit();
        CLASSES.into_iter().for_each(|class| common.of(class).waiters.leave(me));
        if common.for_turn.waiting.load(Ordering::SeqCst) & me != 0 {
            common.for_turn.leave(me);
            self.claims.nudge(self.now);
            self.decide_undecided();
        }
    }

    /// Before a step's decisions: borrows slots; where another driver waits for some, it gets those
    /// that this driver has just freed.
    pub(super) fn begin_sharing(&mut self) {
        let Some(common) = &self.sibling.common else { return };
        let me = self.sibling.bit();
        for class in CLASSES {
            let free = common.of(class);
            let leave_more = !self.sibling.woken && free.waiters.has_others(me);
            if leave_more {
                free.give_back(self.slots.give_back(class));
            }
            self.slots.borrow(class, free.borrow(leave_more));
        }
    }

    /// Borrows slots for attempts that wait for one, if there are none left here.
    pub(super) fn borrow_for_offers(&mut self) {
        let Some(common) = &self.sibling.common else { return };
        let me = self.sibling.bit();
        for class in CLASSES {
            if !self.slots.lacks_some(class, self.now) {
                continue;
            }
            let free = common.of(class);
            let leave_more = !self.sibling.woken && free.waiters.has_others(me);
            let mut more = free.borrow(leave_more);
            if more == 0 {
                free.waiters.enter(me);
                more = free.borrow(leave_more);
            }
            self.slots.borrow(class, more);
        }
    }

    /// After a step: gives back what it does not use, and wakes the drivers that wait for it.
    pub(super) fn end_sharing(&mut self) {
        let Some(common) = &self.sibling.common else { return };
        let me = self.sibling.bit();
        let mut wake = 0;
        for class in CLASSES {
            let free = common.of(class);
            free.give_back(self.slots.give_back(class));
            if self.draining || !self.slots.lacks_some(class, self.now) {
                free.waiters.leave(me);
            }
            if free.count.load(Ordering::SeqCst) > 0 {
                wake |= free.waiters.wake(me);
            }
        }
        if self.suspects.may_take_one() && !self.claims.may_bring_a_suspect() {
            wake |= self.sibling.end_turn();
        }
        let others = self.sibling.others();
        let sibling = &mut self.sibling;
        sibling.woken = false;
        let nudge = std::mem::take(&mut sibling.claim);
        let mail = std::mem::take(&mut sibling.mail);
        for (to, input) in [
            (wake, Input::Wake),
            (if nudge { others } else { 0 }, Input::Nudge),
            (if mail { others } else { 0 }, Input::MailWaits),
        ] {
            if to != 0 {
                self.outputs.push(Output::Forward { to, input });
            }
        }
    }
}

/// The part of a limit that is for this share.
pub(super) fn part(whole: usize, share: Share) -> usize {
    let (at, of) = (usize::try_from(share.at), usize::try_from(share.of));
    match (at, of) {
        (Ok(at), Ok(of)) if of > 0 => whole / of + usize::from(at < whole % of),
        _ => whole,
    }
}
