//! Remote workers poll: they send signs of life and the tasks they have, and take waiting tasks.
//! Some polls arrive late, some tasks are forgotten.

use waypost_core::id::{Token, WorkerId};
use waypost_core::time::Millis;
use waypost_engine::WorkerPoll;
use waypost_ports::tasks::WORKER_LEASE;

use super::{FarEvent, short};
use crate::fault::Fault;
use crate::program::HANDLER;
use crate::simulation::{Simulation, WorldEvent};

/// Tasks that a worker takes at once.
const CAPACITY: usize = 3;

impl Simulation {
    pub(super) fn far_poll(&mut self, at: usize) {
        let next = self.far.random.between(300, 4_000);
        self.after(next, WorldEvent::Far(FarEvent::Poll(at)));
        let now = self.ms();
        let life = self.any_process();
        let worker = &self.far.workers[at];
        if worker.dead_until.max(worker.silent_until) > now {
            return;
        }
        let Some(remote_tasks) = life.and_then(|life| self.remote_tasks(life)) else { return };
        if self.store.strikes(Fault::TasksFail) {
            return;
        }
        let poll = self.sign_of(at);
        let id = poll.worker;
        // No longer than a lease, as the protocol requires: an older poll is not under way any
        // more.
        if self.store.strikes(Fault::LatePoll) {
            for _ in 0..self.far.random.between(1, 3) {
                let later = self.far.random.between(4_000, WORKER_LEASE.0);
                self.after(later, WorldEvent::Far(FarEvent::LatePoll(poll.clone())));
            }
            return;
        }
        let cancels = remote_tasks.record_presence(&poll, Millis(0), false).unwrap_or_default();
        let taken =
            remote_tasks.take(&poll.handlers, poll.max).map(|(taken, _)| taken).unwrap_or_default();
        for token in cancels {
            self.far_cancel(id, token);
        }
        for taken in taken {
            let random = self.far.random.next();
            let task = remote_tasks.hand_over(taken, random);
            if !self.store.strikes(Fault::OfferLost) {
                self.far_begin(id, task);
            }
        }
    }

    fn sign_of(&self, at: usize) -> WorkerPoll {
        let worker = &self.far.workers[at];
        let running = worker.tasks.len();
        WorkerPoll {
            worker: worker.id,
            name: "far".into(),
            handlers: vec![HANDLER.into(), "api-call".into()],
            capacity: u32::try_from(CAPACITY).unwrap_or(u32::MAX),
            running: u32::try_from(running).unwrap_or(u32::MAX),
            max: CAPACITY.saturating_sub(running),
            leaving: false,
            tasks: Some(worker.tasks.keys().copied().collect()),
            public_key: None,
            key: None,
        }
    }

    /// The poll is outdated, and its worker does not wait for the response any more.
    pub(super) fn far_heard_late(&mut self, poll: &WorkerPoll) {
        if let Some(remote_tasks) = self.any_process().and_then(|life| self.remote_tasks(life)) {
            drop(remote_tasks.record_presence(poll, Millis(0), false));
        }
    }

    /// Does a worker forget this task? Then it does not report on it any more, and does not have
    /// it.
    pub(super) fn far_forgets(&mut self, id: WorkerId, token: Token) -> bool {
        if !self.store.strikes(Fault::FarForgets) {
            return false;
        }
        self.note("forget", &[], || format!("{} forgets {token}", short(id)));
        self.far.drop_task(id, token);
        true
    }
}
