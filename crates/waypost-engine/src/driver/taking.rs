//! Executions that were claimed: taken over at once, or when they are due.

use waypost_core::command::Command;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use super::io::Loaded;
use super::live::{Arrival, Letter, Live, LivePhase};
use super::{Driver, requests};

impl Driver {
    /// A claimed execution: the take-over is a frame of its own kind, decided together with its
    /// mail and its due timers. `at` is the store's time of the claim.
    pub(super) fn claimed(&mut self, mut loaded: Loaded, at: Option<Timestamp>) {
        if self.draining {
            return; // others claim it as soon as this instance has left
        }
        let execution = loaded.state.execution;
        // Only the log as it was read after the rejection: a later claim asks for its place anew.
        let rejected = self.rejected.remove(&execution).filter(|_| at.is_none());
        requests::signals_first(&mut loaded);
        if loaded.mail_waits {
            self.claims.more_mail(self.now);
        }
        let taken_over = |live: &&mut Live| !matches!(live.phase, LivePhase::Early);
        if let Some(live) = self.live.get_mut(&execution).filter(taken_over) {
            // Ownership was lost and regained without this instance noticing. If no other instance
            // appended meanwhile, the state in memory is current and its attempts are not
            // abandoned. If a frame is in flight, its result decides: it may be the one that parked
            // the execution.
            live.claimed_again |= live.is_in_flight();
            if live.is_in_flight() || live.is_as_new_as(&loaded.parent) {
                live.suspicion = loaded.suspicion;
                live.mail_waits |= loaded.mail_waits;
                let admits = admits(&loaded) && !live.is_in_flight();
                loaded.mail.into_iter().for_each(|mail| self.mail(mail));
                if admits {
                    self.post(execution, Letter::command(Command::Admit));
                }
                return;
            }
        }
        if self.live.contains_key(&execution) {
            self.drop_live(execution);
        }
        let early = self.early_due(&loaded);
        let mail = std::mem::take(&mut loaded.mail);
        let admits = admits(&loaded);
        if let Some(due) = loaded.state.next_due().filter(|due| *due <= self.now) {
            self.measures.timer(due, self.now);
        }
        let mail_waits = loaded.mail_waits;
        let mut live = Live::loaded(loaded);
        live.mail_waits = mail_waits;
        if live.suspicion.is_alone() {
            self.suspects.took(execution);
        }
        if live.state.owner.is_some_and(|owner| owner != self.instance) {
            live.arrival = Arrival::Orphaned;
        }
        if early.is_some() {
            live.phase = LivePhase::Early;
        }
        live.due_until = at.map(|at| at.plus(self.config.claim_ahead));
        self.live.insert(execution, live);
        self.find_held(execution);
        if early.is_some() {
            return self.wheel.arm(execution, early);
        }
        self.adopt_children(execution);
        self.post(execution, Letter::command(Command::TakeOver));
        mail.into_iter().for_each(|mail| self.mail(mail));
        if let Some(holding) = rejected {
            self.post(execution, Letter::command(Command::Reject { holding }));
        }
        self.post(execution, Letter::command(Command::Recover));
        // After all mail: an execution that was cancelled in the queue never begins.
        if admits {
            self.post(execution, Letter::command(Command::Admit));
        }
    }

    /// The due time of a parked execution that was claimed ahead of it, if there is nothing else to
    /// do. One that was in hand at a death is decided at once, so that it is in doubt for a short
    /// time only.
    fn early_due(&self, loaded: &Loaded) -> Option<Timestamp> {
        let parked = loaded.state.status.is_parked() && loaded.mail.is_empty();
        let soon = self.now_max.plus(self.config.claim_ahead);
        let due = loaded.state.next_due().filter(|due| *due > self.now && *due <= soon);
        due.filter(|_| parked && !loaded.suspicion.is_some())
    }
}

/// May it begin? It was queued for its concurrency key, and holds a permit.
fn admits(loaded: &Loaded) -> bool {
    loaded.state.status == Status::Scheduling
        && (loaded.holds_permit || is_planted(Bug::AdmittedWithoutPermit))
}
