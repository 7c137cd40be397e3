//! The queue for slots: execution by execution in turn, first in, first out within one. An execution
//! that queues ten thousand attempts delays the attempt of another one by a single turn.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;

use super::Offer;
use crate::room::shrink;

/// See the module. All operations take logarithmic time, except for [`offers`](Self::offers).
#[derive(Default)]
pub(super) struct Turns {
    queues: HashMap<ExecutionNo, Offers>,
    /// Which execution has which turn; the lowest is next.
    turns: BTreeMap<u64, ExecutionNo>,
    /// Since when the first offer of each queue waits.
    fronts: BTreeSet<(Timestamp, ExecutionNo)>,
    last_turn: u64,
}

/// The offers of one execution; never empty.
struct Offers {
    turn: u64,
    front: Offer,
    rest: VecDeque<Offer>,
}

impl Turns {
    pub(super) fn push(&mut self, offer: Offer) {
        match self.queues.get_mut(&offer.execution) {
            Some(queue) => queue.rest.push_back(offer),
            None => self.line_up(offer, VecDeque::new()),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Offer> {
        let (_, execution) = self.turns.first_key_value()?;
        let Offers { front, mut rest, .. } = self.remove(*execution)?;
        if let Some(next) = rest.pop_front() {
            self.line_up(next, rest);
        }
        Some(front)
    }

    pub(super) fn forget(&mut self, execution: ExecutionNo) {
        self.remove(execution);
    }

    /// All offers, in no order that matters, but always in the same one.
    pub(super) fn offers(&self) -> impl Iterator<Item = &Offer> {
        let queues = self.turns.values().filter_map(|execution| self.queues.get(execution));
        queues.flat_map(|queue| std::iter::once(&queue.front).chain(&queue.rest))
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.fronts.first().map(|(since, _)| *since)
    }

    pub(super) fn shrink(&mut self) {
        shrink!(self.queues);
    }

    /// Gives an execution the last turn.
    fn line_up(&mut self, front: Offer, rest: VecDeque<Offer>) {
        self.last_turn += 1;
        let turn = self.last_turn;
        self.turns.insert(turn, front.execution);
        self.fronts.insert((front.since, front.execution));
        self.queues.insert(front.execution, Offers { turn, front, rest });
    }

    fn remove(&mut self, execution: ExecutionNo) -> Option<Offers> {
        let queue = self.queues.remove(&execution)?;
        self.turns.remove(&queue.turn);
        self.fronts.remove(&(queue.front.since, execution));
        Some(queue)
    }
}
