//! Leaving: executions that leave memory for a queue, memory after a burst, and running attempts at the
//! end of a drain.

use waypost_core::command::Command;
use waypost_core::id::ExecutionNo;
use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::state::State;
use waypost_core::status::Status;

use super::Driver;
use super::io::Answer;
use super::live::{Letter, Live};
use crate::room::shrink;

impl Driver {
    /// Is it stopping?
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Is everything handed over that `Input::HandOver` found?
    pub fn is_handed_over(&self) -> bool {
        self.handing_over.is_empty()
    }

    /// Starts nothing new: attempts that have not begun are dropped, submissions are refused.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.slots.drop_kept();
        let tickets = self.admission.close();
        self.answer_all(tickets, &Answer::Draining);
    }

    /// Has every execution with an attempt in a slot close it as handed over, and leave memory.
    pub(super) fn hand_over(&mut self) {
        let runs = |(id, live): (&ExecutionNo, &Live)| live.running_tokens().next().map(|_| *id);
        let mut running: Vec<_> = self.live.iter().filter_map(runs).collect();
        running.sort_unstable();
        for execution in running {
            self.handing_over.insert(execution);
            self.post(execution, Letter::command(Command::HandOver));
        }
    }

    /// Is nothing running here and nothing on its way to the store?
    pub fn is_quiet(&self) -> bool {
        let committing = self.live.values().any(|live| !live.may_decide());
        self.slots.are_idle() && self.delivering == 0 && !committing
    }

    /// Releases the memory of a burst of executions. To be called now and then.
    pub fn shrink(&mut self) {
        shrink!(self.live, self.ready, self.adopted, self.staying);
        self.admission.shrink();
        self.ends.shrink();
        self.wheel.shrink();
        self.slots.shrink();
    }

    /// An execution left memory for the queue of its concurrency key. A permit may be free for it;
    /// or an execution here has to be cancelled for it.
    pub(super) fn is_queued(&mut self, state: &State) {
        let Some(place) = state.place.as_ref().filter(|_| state.status == Status::Scheduling)
        else {
            return;
        };
        self.claims.nudge(self.now);
        self.sibling.may_claim();
        if place.policy == ConcurrencyPolicy::CancelOldest {
            self.claims.look_for_mail(self.now);
            self.sibling.has_mail();
        }
    }
}
