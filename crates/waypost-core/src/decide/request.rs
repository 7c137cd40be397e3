//! Requests to an execution: pause, resume, cancel, retry, signals, completing a wait; and to one map
//! of it: cancel an item, hold, release, tune. People pause first and look then, so those are done in
//! a pause, too.
//!
//! A request with a message id must be consumed by an event even if it changes nothing: as mail it
//! would stay in the inbox for ever, and a repeat must be answered as received. A request without
//! an id is only answered. A signal that is refused for want of room is the exception: the event that
//! takes it out of the inbox does not use up its id.

use std::sync::Arc;

use super::Decider;
use crate::budget::SpendingLimits;
use crate::command::{Refusal, Request, Tuning};
use crate::event::{EndCause, MessageId, NodeEvent, Origin, RunEvent, Wait};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::plan::Delivery;
use crate::planted::{Bug, is_planted};
use crate::status::Status;

impl Decider<'_> {
    pub(super) fn request(&mut self, request: Request, origin: Origin) -> Result<(), Refusal> {
        if origin.message.as_ref().is_some_and(|message| self.state.messages.contains(message)) {
            return Err(Refusal::Duplicate);
        }
        match request {
            Request::Signal { name, body } => self.signal(&name, &body, origin),
            Request::Callback(callback) => self.callback(&callback, origin),
            Request::MessageSettled { wait, delivered, failed } => {
                self.message_settled(wait, (delivered, failed), origin)
            }
            Request::Cancel { reason } => self.cancel(reason, origin),
            Request::ForceCancel { reason } => self.force_cancel(reason, origin),
            Request::Pause { now, reason } => self.pause(now, reason, origin),
            Request::Resume { reason } => self.resume(reason, origin),
            Request::CompleteWait { wait, body } => self.complete_wait(wait, body, origin),
            Request::Decide { wait, decision } => self.decide_approval(wait, &decision, origin),
            Request::Retry { reason, budget } => self.retry(reason, budget, origin),
            Request::Budget { limits, reason } => self.set_budget(limits, reason, origin),
            Request::CancelItem { node, reason } => self.cancel_item(&node, reason, origin),
            Request::Tune { node, tuning, reason } => self.tune(&node, tuning, reason, origin),
        }
    }

    fn cancel(&mut self, reason: Option<String>, origin: Origin) -> Result<(), Refusal> {
        self.refuse_ended()?;
        if self.state.status == Status::Ending {
            return self.ignore(origin, Refusal::Ending);
        }
        self.end_for(EndCause::Cancel { reason, origin });
        Ok(())
    }

    /// Ends the execution without waiting for those that it started: they were cancelled, and end later.
    fn force_cancel(&mut self, reason: Option<String>, origin: Origin) -> Result<(), Refusal> {
        self.refuse_ended()?;
        if self.state.status != Status::Ending {
            self.end_for(EndCause::Cancel { reason, origin });
            self.leave_children();
            return Ok(());
        }
        if self.state.children_open == 0 {
            return self.ignore(origin, Refusal::Ending);
        }
        self.leave_children();
        match origin.message {
            Some(message) => {
                self.ignore_message(message, "it ends without its children".to_owned(), false)
            }
            None => Ok(()),
        }
    }

    fn pause(&mut self, now: bool, reason: Option<String>, origin: Origin) -> Result<(), Refusal> {
        if let Some(refusal) = self.state.refuses_pause() {
            return self.ignore(origin, refusal);
        }
        if self.plan.concurrency.is_some() && self.state.place.is_none() {
            return self.ignore(origin, Refusal::Queued);
        }
        self.emit(RunEvent::PauseRequested { now, reason, origin });
        if now {
            self.interrupt_tasks();
        }
        Ok(())
    }

    /// Cancels the running tasks; they will be tried again. One that may be started only once is
    /// awaited instead: cancelling it would fail it. So is one in a body that is ending: it was
    /// cancelled with it, and is not tried again.
    fn interrupt_tasks(&mut self) {
        for at in self.state.positions() {
            let again =
                self.plan_node(at).delivery == Delivery::AtLeastOnce && !self.state.is_ending(at);
            if self.node(at).token.is_some() && again {
                self.tell_to_stop(at);
                self.interrupt(at, "the execution was paused");
            }
        }
    }

    fn resume(&mut self, reason: Option<String>, origin: Origin) -> Result<(), Refusal> {
        if let Some(refusal) = self.state.refuses_resume() {
            return self.ignore(origin, refusal);
        }
        self.emit(RunEvent::Resumed { reason, origin });
        self.go_on();
        Ok(())
    }

    /// Completes one wait on request, regardless of its filter and its due time.
    fn complete_wait(&mut self, wait: u64, body: Json, origin: Origin) -> Result<(), Refusal> {
        if let Some(refusal) = self.state.refuses_complete_wait(wait) {
            return self.ignore(origin, refusal);
        }
        let (true, Some(at)) = (self.state.acts(), self.state.waiting_since(wait)) else {
            return self.ignore(origin, Refusal::Paused);
        };
        let answered = self.node(at).wait.as_ref().is_some_and(Wait::is_answered);
        let output = Some(&body).filter(|_| answered);
        if !self.has_variables_of(at, output) {
            return Ok(());
        }
        let origin = self.identified(origin);
        match self.node(at).wait {
            Some(Wait::Delay { .. }) => self.delay_passed(at, origin),
            Some(Wait::Signal { .. } | Wait::Signals { .. } | Wait::Callback { .. }) => {
                self.resume_node(at, origin);
                self.complete_or_fail(at, Some(body));
            }
            Some(Wait::Retry { .. }) => {
                self.resume_node(at, origin);
                self.schedule(at);
            }
            Some(Wait::Breaker(_)) => self.ask_breaker_again(at, origin),
            Some(Wait::Approval(_) | Wait::Body | Wait::Child { .. }) | None => {
                unreachable!("a wait's position goes with the wait, and an approval is refused")
            }
        }
        Ok(())
    }

    /// Gives a request without a message id one: new for each decision.
    pub(super) fn identified(&self, origin: Origin) -> Origin {
        let message = origin.message.unwrap_or_else(|| {
            let digest = blake3::hash(&self.env.entropy.to_le_bytes());
            format!("msg_{}", digest.to_hex().get(..24).unwrap_or_default()).into()
        });
        Origin { message: Some(message), ..origin }
    }

    /// Ends one item as a failure in it would: what runs in it is cancelled and awaited.
    fn cancel_item(
        &mut self,
        path: &Arc<str>,
        reason: Option<String>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        let scope = match self.state.item_to_cancel(self.plan, path) {
            Ok(scope) if self.state.is_awake() => scope,
            Ok(_) => return self.ignore(origin, Refusal::JustPaused),
            Err(refusal) => return self.ignore(origin, refusal),
        };
        let by = origin.actor.as_ref().map_or_else(String::new, |actor| format!(" by {actor}"));
        let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let failure =
            Failure::permanent(kind::CANCELLED, format!("the item was cancelled{by}{why}"));
        // The message names the request in the log: it is what justifies the end.
        let origin = self.identified(origin);
        self.end_scope(scope, failure, false, origin);
        Ok(())
    }

    fn tune(
        &mut self,
        path: &Arc<str>,
        tuning: Tuning,
        reason: Option<String>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        let at = match self.state.map_to_tune(self.plan, path, tuning) {
            Ok(at) if self.state.is_awake() => at,
            Ok(_) => return self.ignore(origin, Refusal::JustPaused),
            Err(refusal) => return self.ignore(origin, refusal),
        };
        let (node, attempt) = (Arc::clone(path), self.node(at).attempt);
        let Tuning { held, concurrency } = tuning;
        self.emit_at(at, NodeEvent::Tuned { node, attempt, held, concurrency, reason, origin });
        Ok(())
    }

    /// Opens the next generation; see [`State::retries`](crate::state::State::retries).
    fn retry(
        &mut self,
        reason: Option<String>,
        budget: Option<SpendingLimits>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        let nodes = match self.state.retries_with(self.plan, budget) {
            Ok(nodes) => nodes.into_iter().map(|node| self.path(node.into())).collect(),
            Err(refusal) if self.state.status.is_end() => return Err(refusal),
            Err(refusal) => return self.ignore(origin, refusal),
        };
        if !self.has_concurrency_key() {
            return Ok(());
        }
        let message = origin.message.filter(|_| !is_planted(Bug::RetryUnnamed));
        let actor = origin.actor.clone();
        self.reopen(nodes, reason.clone(), Origin { message, ..origin });
        let epoch = self.state.epoch + 1;
        self.emit(RunEvent::Owned { instance: self.env.instance, epoch });
        if let Some(limits) = budget {
            // The event before has the message, which is consumed once.
            let origin = Origin { message: None, actor };
            self.emit(RunEvent::BudgetSet { limits, reason, origin });
        }
        self.begin();
        Ok(())
    }

    /// Opens the next generation, in which these nodes run again.
    pub(super) fn reopen(&mut self, nodes: Vec<Arc<str>>, reason: Option<String>, origin: Origin) {
        let generation = self.state.generation + 1;
        let deadline = self.plan.timeout.map(|span| self.env.now_max.plus(span));
        self.emit(RunEvent::Reopened { generation, nodes, deadline, reason, origin });
    }

    /// Notes that a message changed nothing, once.
    pub(super) fn ignore_message(
        &mut self,
        message: MessageId,
        reason: String,
        repeatable: bool,
    ) -> Result<(), Refusal> {
        self.refuse_ended()?;
        if !self.state.messages.contains(&message) {
            self.emit(RunEvent::MessageIgnored { message, reason, repeatable });
        }
        Ok(())
    }

    /// Answers a request that changes nothing. After the end there is no inbox to clear, and the log
    /// is closed.
    pub(super) fn ignore(&mut self, origin: Origin, refusal: Refusal) -> Result<(), Refusal> {
        let ended = matches!(refusal, Refusal::Ended(_) | Refusal::RaisedWithRetry(_));
        match origin.message {
            Some(message) if !ended && !self.state.messages.contains(&message) => {
                let reason = refusal.to_string();
                self.emit(RunEvent::MessageIgnored { message, reason, repeatable: false });
                self.decision.refusal = Some(refusal);
                Ok(())
            }
            _ => Err(refusal),
        }
    }
}
