//! Continuing after a take-over, a pause or a restart. There is no second scheduler: these are the
//! ordinary steps, from a loaded state.

use super::Decider;
use crate::command::{Effect, Refusal};
use crate::event::{Origin, PauseReason, RunEvent};
use crate::failure::{Failure, kind};
use crate::kind::Behaviour;
use crate::plan::Delivery;
use crate::planted::{Bug, is_planted};
use crate::status::{NodeStatus, Status};

impl Decider<'_> {
    /// Makes this instance the owner. The event is the fence: a former owner can not append after
    /// it.
    pub(super) fn take_over(&mut self) -> Result<(), Refusal> {
        self.refuse_ended()?;
        let epoch = self.state.epoch + 1;
        self.emit(RunEvent::Owned { instance: self.env.instance, epoch });
        Ok(())
    }

    /// Continues from where the last owner stopped. Attempts that ran in its own process are
    /// abandoned; those that mail has started since the take-over are not, and neither are those of
    /// remote workers, which continue and report to the current owner.
    pub(super) fn recover(&mut self) {
        if self.state.status.is_end() || self.state.status.is_parked() {
            return;
        }
        self.close_lost_attempts();
        if self.state.status == Status::Resuming
            && self.state.paused == Some(PauseReason::Waits)
            && self.state.moves()
        {
            self.emit(RunEvent::Resumed { reason: None, origin: Origin::default() });
        }
        // It began with another one's frame, and has not come to the queue of its key.
        let queues = self.plan.concurrency.is_some() && self.state.place.is_none();
        if queues && self.state.acts() && self.state.status == Status::Scheduled {
            self.begin();
        } else {
            self.go_on();
        }
        self.tick();
    }

    /// Closes the attempts that run in this process, which stops in order. An attempt that must not be
    /// made twice is left to the next owner, and so is an execution that is ending.
    pub(super) fn hand_over(&mut self) {
        if self.state.status == Status::Ending {
            return;
        }
        for at in self.state.positions() {
            let Some(node) = self.state.get(at) else { continue };
            let here = node.token.is_some() && node.remote.is_none();
            if here && self.plan_node(at).delivery == Delivery::AtLeastOnce {
                self.tell_to_stop(at);
                let message = "the instance that ran the attempt was stopped in order";
                self.attempt_lost(at, Failure::handed_over(message));
            }
        }
    }

    fn close_lost_attempts(&mut self) {
        for at in self.state.positions() {
            // One that fails may close its scope.
            let Some(node) = self.state.get(at) else { continue };
            let here = node.remote.is_none() || is_planted(Bug::RemoteLostAtTakeOver);
            if node.token.is_some() && here && node.started_epoch < self.state.epoch {
                let message = "the instance that ran the attempt is gone";
                self.attempt_lost(at, Failure::transient(kind::ABANDONED, message));
            }
        }
    }

    /// Starts everything that may continue: control nodes whose evaluation was not recorded (they
    /// are pure, the same attempt is evaluated again), queued nodes, signals that came meanwhile,
    /// nodes whose turn has come.
    pub(super) fn go_on(&mut self) {
        for at in self.state.positions() {
            let node = self.node(at);
            let attempt = node.attempt;
            match node.status {
                NodeStatus::Running if node.token.is_none() => {
                    let calls = self.plan_node(at).behaviour.call_config().is_some();
                    self.effect(match calls {
                        true => Effect::Launch { node: at, attempt },
                        false => Effect::Evaluate { node: at, attempt },
                    });
                }
                NodeStatus::Queued if self.state.acts() => self.start(at),
                NodeStatus::Completed if is_planted(Bug::RecoveryRunsCompleted) => {
                    if matches!(self.plan_node(at).behaviour, Behaviour::Task { .. }) {
                        let token = self.token(at, attempt);
                        self.effect(Effect::Run { node: at, attempt, token });
                    }
                }
                NodeStatus::Pending
                | NodeStatus::Queued
                | NodeStatus::Running
                | NodeStatus::Waiting
                | NodeStatus::Completed
                | NodeStatus::Failed
                | NodeStatus::TimedOut
                | NodeStatus::Skipped
                | NodeStatus::Cancelled => {}
            }
        }
        if self.state.acts() {
            self.deliver_kept_signals();
            self.open_all();
        }
    }
}
