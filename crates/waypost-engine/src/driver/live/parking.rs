//! When an execution leaves memory: it parks in the frame after which nothing is left to do for a while.

use waypost_core::command::{Command, Decision, Effect};
use waypost_core::decide::decide;
use waypost_core::event::{Event, NodeEvent, RunEvent};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use super::{Live, Round};

/// Bytes of stored signals from which on an execution stays in memory for a while after a signal.
const STAYS_BYTES_MIN: usize = 64 * 1024;

impl Live {
    /// Parks it in the frame of these decisions if nothing is left to do for a while.
    pub(super) fn park_if_idle(
        &mut self,
        round: &Round<'_>,
        decided: &Decision,
    ) -> Option<Decision> {
        let (env, config) = (&round.env, round.config);
        if round.draining {
            // A drain parks nothing: a time that has passed would be due again after every decision.
            let ahead = |until: &Timestamp| env.now < *until;
            self.stays_until = self.stays_until.filter(ahead);
            self.lingers_until = self.lingers_until.filter(ahead);
        }
        let far = |due: Timestamp| due > env.now.plus(config.park_after);
        let rests = self.state.next_due().is_none_or(far);
        // An execution queued for a permit parks even if its deadline is near; only the store knows
        // when its turn comes. One that was claimed because of that deadline stays until it fires.
        let in_queue =
            self.state.status == Status::Scheduling && !decided.events.iter().all(is_take_over);
        let idle = self.mailbox.is_empty()
            && !self.fetches.is_waiting()
            && !round.draining
            // Both are asked, because each forgets a time that has passed.
            && !(self.stays(round, &decided.events) | self.lingers(round, &decided.events))
            && decided.effects.iter().all(|effect| matches!(effect, Effect::Cancel { .. }))
            && self.state.is_idle()
            && (rests || in_queue)
            && !self.woke_for_nothing(&decided.events);
        idle.then(|| decide(&self.plan, &mut self.state, Command::Park, env).ok()).flatten()
    }

    /// Does it stay in memory for the signals that may follow a stored one? Loading it costs as
    /// much as it has stored, for each of them.
    fn stays(&mut self, round: &Round<'_>, events: &[Event]) -> bool {
        let now = round.env.now;
        let received =
            events.iter().any(|event| matches!(event, Event::Run(RunEvent::SignalReceived { .. })));
        if received && round.may_stay {
            let kept: usize = self.state.early.iter().map(|signal| signal.body.bytes()).sum();
            self.stays_until = (kept >= STAYS_BYTES_MIN).then(|| now.plus(round.config.park_after));
        }
        self.stays_until = self.stays_until.filter(|until| now < *until && self.state.acts());
        self.stays_until.is_some()
    }

    /// Does it stay in memory for the next end of an execution that it started? Parked after each of them,
    /// it would be claimed and loaded for each.
    fn lingers(&mut self, round: &Round<'_>, events: &[Event]) -> bool {
        let now = round.env.now;
        let about_child = |event: &Event| {
            use NodeEvent::{ChildEnded, ChildReopened, ChildStarted};
            matches!(
                event,
                Event::Node(ChildStarted { .. } | ChildReopened { .. } | ChildEnded { .. })
            )
        };
        if events.iter().any(about_child) {
            self.lingers_until = Some(now.plus(round.config.park_after));
        }
        let waits = self.state.children_open > 0;
        self.lingers_until = self.lingers_until.filter(|until| now < *until && waits);
        self.lingers_until.is_some()
    }

    /// The store's time never goes back and may be ahead of ours: an execution that is due there
    /// and not yet due here waits for its time in memory. Parked, it would be claimed again at
    /// once, and so on. Only a parked execution can have been woken so. All others park:
    /// - an orphan, whose owner died while it waited in memory: it is taken over without being resumed;
    /// - an execution that a person resumed;
    /// - one that was not due in the store either: it was woken for mail that another instance had
    ///   taken.
    fn woke_for_nothing(&self, events: &[Event]) -> bool {
        let resumed = |event: &Event| matches!(event, Event::Run(RunEvent::Resumed { origin, .. }) if origin.message.is_none());
        let woke = |event: &Event| resumed(event) || is_take_over(event);
        let due = self.state.next_due();
        let was_due = due.is_some_and(|due| self.due_until.is_none_or(|until| due <= until));
        was_due && events.iter().any(resumed) && events.iter().all(woke)
    }
}

fn is_take_over(event: &Event) -> bool {
    matches!(event, Event::Run(RunEvent::Owned { .. }))
}
