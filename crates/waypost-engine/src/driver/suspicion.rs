//! Executions that were in hand when a process died. Those that may have killed it are decided one
//! at a time; see `ports/store/suspicion.rs`.
//!
//! Before such an execution is decided, the store has marked it as in doubt, at its claim or by
//! [`StoreWork::Doubt`]. A process that dies of the decision leaves the mark behind.

use std::collections::HashSet;

use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_ports::store::SUSPECT_FROM;

use super::Driver;
use super::io::{Loaded, Output, StoreWork};
use super::live::{Live, LivePhase};

/// The deaths in a control row: those with the execution in hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspicion {
    pub crashes: u32,
    /// Has it not been decided since it was taken?
    pub doubt: bool,
}

impl Suspicion {
    /// Was it in hand at a death, without progress since?
    pub fn is_some(self) -> bool {
        self.crashes > 0
    }

    /// Is it to be decided while no other suspect is?
    pub fn is_alone(self) -> bool {
        self.doubt && self.is_suspect()
    }

    fn is_suspect(self) -> bool {
        self.crashes >= SUSPECT_FROM
    }
}

/// Executions in memory that may have killed a process.
#[derive(Default)]
pub(super) struct Suspects {
    /// Those that are in doubt: one, as a rule.
    doubted: HashSet<ExecutionNo>,
    /// Those with something to decide, while another one is in doubt.
    undecided: Vec<ExecutionNo>,
    /// What the store is to mark as in doubt after this step.
    doubting: Vec<ExecutionNo>,
}

impl Suspects {
    /// May another one be claimed? Not while one is in doubt.
    pub(super) fn may_take_one(&self) -> bool {
        self.doubted.is_empty()
    }

    pub(super) fn took(&mut self, execution: ExecutionNo) {
        self.doubted.insert(execution);
    }
}

impl Driver {
    /// An execution is not in doubt any more: the next suspect may be taken.
    pub(super) fn settled(&mut self, execution: ExecutionNo) {
        if self.suspects.doubted.remove(&execution) {
            self.claims.nudge(self.now);
            self.decide_undecided();
        }
    }

    /// May a suspect be claimed after these?
    pub(super) fn may_take_suspect_besides(&self, claimed: &[Loaded]) -> bool {
        let alone = claimed.iter().any(|one| one.suspicion.is_alone());
        !alone && self.suspects.may_take_one() && self.sibling.may_take_turn()
    }

    /// Tries again to decide suspects that had to wait.
    pub(super) fn decide_undecided(&mut self) {
        for next in std::mem::take(&mut self.suspects.undecided) {
            self.enqueue(next);
        }
    }

    /// Must it be marked as in doubt before it is decided? Then it is marked, and decided when the
    /// store has answered: at once, or when no other suspect is in doubt.
    pub(super) fn is_put_in_doubt(&mut self, execution: ExecutionNo) -> bool {
        let Some(live) = self.live.get_mut(&execution) else { return false };
        let Suspicion { crashes, doubt } = live.suspicion;
        if crashes == 0 || doubt || is_planted(Bug::SuspectUnmarked) {
            return false;
        }
        if live.suspicion.is_suspect() {
            if !self.suspects.may_take_one() || !self.sibling.await_turn() {
                self.suspects.undecided.push(execution);
                return true;
            }
            self.suspects.took(execution);
        }
        live.phase = LivePhase::Doubting;
        self.suspects.doubting.push(execution);
        true
    }

    /// Requests the marks for executions that this step found to be decided.
    pub(super) fn ask_to_doubt(&mut self) {
        let doubting = std::mem::take(&mut self.suspects.doubting);
        if !doubting.is_empty() {
            self.outputs.push(Output::Store(StoreWork::Doubt(doubting)));
        }
    }

    /// Executions are marked; those that are not among `owned` were lost without this instance
    /// noticing.
    pub(super) fn marked(&mut self, executions: &[ExecutionNo], owned: &[ExecutionNo]) {
        for execution in executions {
            let asked = |live: &&mut Live| matches!(live.phase, LivePhase::Doubting);
            let Some(live) = self.live.get_mut(execution).filter(asked) else { continue };
            live.phase = LivePhase::Idle;
            if owned.contains(execution) {
                live.suspicion.doubt = true;
                self.enqueue(*execution);
            } else {
                self.measures.lost.push(live.state.created.key.clone());
                self.drop_live(*execution);
                self.claims.nudge(self.now);
            }
        }
    }
}
