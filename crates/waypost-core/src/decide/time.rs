//! Due timers: waits end, retries begin, silent attempts are given up, deadlines strike.

use super::Decider;
use super::body::deadline_passed;
use crate::event::{CancelReason, EndCause, FailureEnd, Origin, Wait};
use crate::failure::{Failure, kind};
use crate::path::At;
use crate::plan::Delivery;
use crate::planted::{Bug, is_planted};
use crate::state::Timer;
use crate::status::NodeStatus;
use crate::time::Millis;

impl Decider<'_> {
    /// Fires everything that is due. Each step's events remove its timer (or, for the grace time,
    /// its reason), so this ends.
    pub(super) fn tick(&mut self) {
        while let Some(timer) = self.due_timer() {
            match timer {
                Timer::Deadline => self.end_for(EndCause::Deadline),
                Timer::Grace => self.give_up_on_cancelled(),
                Timer::Wait(at) if !self.may_end(at) => self.put_off.push(at),
                Timer::Wait(at) => self.wait_ended(at),
                Timer::Attempt(at) => self.attempt_is_silent(at),
                Timer::Node(at) => self.node_deadline(at),
                Timer::Reminder(at) => self.remind(at),
                Timer::Body(scope) => self.give_up_on_body(scope),
            }
        }
    }

    fn due_timer(&self) -> Option<Timer> {
        let may_act = |timer: &Timer| match timer {
            Timer::Wait(at) => {
                self.state.acts() && self.state.may_fire(*timer) && !self.put_off.contains(at)
            }
            Timer::Node(_) | Timer::Reminder(_) => self.state.acts() && self.state.may_fire(*timer),
            Timer::Deadline | Timer::Grace | Timer::Attempt(_) | Timer::Body(_) => {
                self.state.may_fire(*timer)
            }
        };
        let early = if is_planted(Bug::TooEarly) { Millis(100) } else { Millis(0) };
        self.state
            .timers
            .iter()
            .take_while(|(due, _)| *due <= self.env.now.plus(early))
            .map(|(_, timer)| *timer)
            .find(may_act)
    }

    /// Is everything at hand that the end of this wait needs?
    fn may_end(&self, at: At) -> bool {
        let completes = match &self.node(at).wait {
            Some(Wait::Delay { .. }) => true,
            Some(Wait::Signal { .. } | Wait::Signals { .. } | Wait::Callback { .. }) => {
                self.plan_node(at).behaviour.on_timeout().is_some()
            }
            Some(Wait::Approval(_)) => {
                return self.has_variables_of(at, Some(&self.expired_output()));
            }
            Some(Wait::Retry { .. } | Wait::Body | Wait::Child { .. } | Wait::Breaker(_))
            | None => false,
        };
        !completes || self.has_variables_of(at, self.arrived_at(at).as_ref())
    }

    fn wait_ended(&mut self, at: At) {
        match self.node(at).wait.clone() {
            Some(Wait::Delay { .. }) => self.delay_passed(at, Origin::default()),
            Some(Wait::Retry { .. }) => self.schedule(at),
            Some(Wait::Breaker(_)) => self.ask_breaker_again(at, Origin::default()),
            Some(Wait::Signal { .. } | Wait::Signals { .. } | Wait::Callback { .. }) => {
                self.signals_late(at);
            }
            Some(Wait::Approval(_)) => self.approval_expired(at),
            Some(Wait::Body | Wait::Child { .. }) | None => {
                unreachable!("a wait's timer is removed with the wait")
            }
        }
    }

    fn attempt_is_silent(&mut self, at: At) {
        self.tell_to_stop(at);
        let message = "the worker was silent beyond the attempt's timeout";
        match self.plan_node(at).delivery {
            Delivery::AtMostOnce => self.outcome_is_unknown(at, message),
            Delivery::AtLeastOnce => {
                self.attempt_failed(at, Failure::transient(kind::TIMEOUT, message));
            }
        }
    }

    fn node_deadline(&mut self, at: At) {
        if self.deadline_of_body(at) {
            return;
        }
        if !self.withdraw(|node| node == at).contains(&at) {
            self.tell_to_stop(at);
        }
        self.fail_for_good(at, deadline_passed(), FailureEnd::TimedOut);
    }

    fn give_up_on_cancelled(&mut self) {
        for at in self.state.positions() {
            if self.is_in(at, NodeStatus::Running) {
                self.cancel_node(at, CancelReason::Grace);
            }
        }
    }
}
