//! Requests to an execution: pause, resume, cancel, retry, signals, completing a wait; and to one map
//! of it: cancel an item, hold, release, tune. People pause first and look then, so those are done in
//! a pause, too.
//!
//! A request with a message id must be consumed by an event even if it changes nothing: as mail it
//! would stay in the inbox for ever, and a repeat must be answered as received. A request without
//! an id is only answered.

use std::sync::Arc;

use super::Decider;
use crate::command::{Refusal, Request, Tuning};
use crate::event::{EndCause, MessageId, NodeEvent, Origin, RunEvent, Wait};
use crate::expr::WORK_MAX;
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::Behaviour;
use crate::limits::{EARLY_SIGNALS_BYTES_MAX, EARLY_SIGNALS_MAX};
use crate::path::At;
use crate::plan::Delivery;
use crate::planted::{Bug, is_planted};
use crate::state::NodeState;
use crate::status::{NodeStatus, Status};

/// Units of work that the filters of one decision may do over all signals: as many as ten
/// evaluations.
pub(super) const FILTERS_WORK_MAX: u64 = 10 * WORK_MAX;

impl Decider<'_> {
    pub(super) fn request(&mut self, request: Request, origin: Origin) -> Result<(), Refusal> {
        if origin.message.as_ref().is_some_and(|message| self.state.messages.contains(message)) {
            return Err(Refusal::Duplicate);
        }
        match request {
            Request::Signal { name, body } => self.signal(&name, &body, origin),
            Request::Cancel { reason } => self.cancel(reason, origin),
            Request::ForceCancel { reason } => self.force_cancel(reason, origin),
            Request::Pause { now, reason } => self.pause(now, reason, origin),
            Request::Resume { reason } => self.resume(reason, origin),
            Request::CompleteWait { wait, body } => self.complete_wait(wait, body, origin),
            Request::Retry { reason } => self.retry(reason, origin),
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
                self.ignore_message(message, "it ends without its children".to_owned())
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
        let output =
            Some(&body).filter(|_| matches!(self.node(at).wait, Some(Wait::Signal { .. })));
        if !self.has_variables_of(at, output) {
            return Ok(());
        }
        let origin = self.identified(origin);
        match self.node(at).wait {
            Some(Wait::Delay { .. }) => self.delay_passed(at, origin),
            Some(Wait::Signal { .. }) => {
                self.resume_node(at, None, origin);
                self.complete_or_fail(at, Some(body));
            }
            Some(Wait::Retry { .. }) => {
                self.resume_node(at, None, origin);
                self.schedule(at);
            }
            Some(Wait::Body | Wait::Child { .. }) | None => {
                unreachable!("a wait's position goes with the wait")
            }
        }
        Ok(())
    }

    fn signal(&mut self, name: &Arc<str>, body: &Json, origin: Origin) -> Result<(), Refusal> {
        self.refuse_ended()?;
        if self.state.status == Status::Ending {
            return self.ignore(origin, Refusal::Ending);
        }
        let mut work_left = FILTERS_WORK_MAX;
        let acts = self.state.acts();
        let takers = if acts { self.takers(name, body, &mut work_left).0 } else { Vec::new() };
        let ready = takers.iter().all(|at| self.has_variables_of(*at, Some(body)));
        if !ready || self.env.contents.has_missed() {
            return Ok(());
        }
        // The limits are for signals that would have to be stored: a flood of signals that no node
        // waits for must not keep out one that a node waits for.
        if takers.is_empty()
            && let Some(refusal) = self.refuses_to_keep(body)
        {
            return self.ignore(origin, refusal);
        }
        let origin = self.identified(origin);
        let message = origin.message.clone();
        self.emit(RunEvent::SignalReceived { name: Arc::clone(name), body: body.clone(), origin });
        if let Some(message) = message {
            self.deliver(&takers, &message, body);
        }
        Ok(())
    }

    /// Why a signal that no node waits for is not stored until one does.
    fn refuses_to_keep(&self, body: &Json) -> Option<Refusal> {
        let kept = &self.state.early;
        if kept.len() >= EARLY_SIGNALS_MAX {
            return Some(Refusal::TooManySignals(EARLY_SIGNALS_MAX));
        }
        let bytes: usize = kept.iter().map(|signal| signal.body.bytes()).sum();
        let too_large = bytes.saturating_add(body.bytes()) > EARLY_SIGNALS_BYTES_MAX;
        too_large.then_some(Refusal::SignalsTooLarge(EARLY_SIGNALS_BYTES_MAX))
    }

    /// Signals that came while nothing could happen go to every wait that was open then, the
    /// oldest first, as they would have at the time. All filters together are bounded: one decision
    /// must not take seconds. A wait that cannot be judged any more fails, as it would if it had begun
    /// after the signals.
    pub(super) fn deliver_kept_signals(&mut self) {
        let awaits = |node: &NodeState| matches!(node.wait, Some(Wait::Signal { .. }));
        if !self.state.nodes().any(|(_, node)| awaits(node)) {
            return;
        }
        let mut work_left = FILTERS_WORK_MAX;
        for kept in self.state.early.clone() {
            let (takers, unjudged) = self.takers(&kept.name, &kept.body, &mut work_left);
            self.deliver(&takers, &kept.message, &kept.body);
            for at in unjudged {
                if self.state.acts() && self.is_in(at, NodeStatus::Waiting) {
                    self.resume_node(at, None, Origin::default());
                    self.attempt_failed(at, too_much_filtering());
                }
            }
        }
    }

    fn deliver(&mut self, takers: &[At], message: &MessageId, body: &Json) {
        for at in takers {
            // The consequences for one taker may have ended another's wait, or everything.
            let waits = self.state.acts() && self.is_in(*at, NodeStatus::Waiting);
            if waits && self.has_variables_of(*at, Some(body)) {
                self.signal_arrived(*at, Arc::clone(message), body.clone());
            }
        }
    }

    /// Gives a request without a message id one: new for each decision.
    fn identified(&self, origin: Origin) -> Origin {
        let message = origin.message.unwrap_or_else(|| {
            let digest = blake3::hash(&self.env.entropy.to_le_bytes());
            format!("msg_{}", digest.to_hex().get(..24).unwrap_or_default()).into()
        });
        Origin { message: Some(message), ..origin }
    }

    /// The nodes whose wait this signal ends, and those for which no work was left to find out.
    fn takers(&self, name: &str, body: &Json, work_left: &mut u64) -> (Vec<At>, Vec<At>) {
        let (mut takers, mut unjudged) = (Vec::new(), Vec::new());
        for (at, node) in self.state.nodes() {
            let (Some(Wait::Signal { name: wanted, .. }), Behaviour::Signal { filter, .. }) =
                (&node.wait, &self.plan_node(at).behaviour)
            else {
                continue;
            };
            if **wanted != *name {
                continue;
            }
            match self.accepts(at, filter.as_ref(), body, work_left) {
                Some(true) => takers.push(at),
                Some(false) => {}
                None => unjudged.push(at),
            }
        }
        (takers, unjudged)
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
    fn retry(&mut self, reason: Option<String>, origin: Origin) -> Result<(), Refusal> {
        let nodes = match self.state.retries(self.plan) {
            Ok(nodes) => nodes.into_iter().map(|node| self.path(node.into())).collect(),
            Err(refusal) if self.state.status.is_end() => return Err(refusal),
            Err(refusal) => return self.ignore(origin, refusal),
        };
        if !self.has_concurrency_key() {
            return Ok(());
        }
        let message = origin.message.filter(|_| !is_planted(Bug::RetryUnnamed));
        self.reopen(nodes, reason, Origin { message, ..origin });
        let epoch = self.state.epoch + 1;
        self.emit(RunEvent::Owned { instance: self.env.instance, epoch });
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
    ) -> Result<(), Refusal> {
        self.refuse_ended()?;
        if !self.state.messages.contains(&message) {
            self.emit(RunEvent::MessageIgnored { message, reason });
        }
        Ok(())
    }

    /// Answers a request that changes nothing. After the end there is no inbox to clear, and the log
    /// is closed.
    fn ignore(&mut self, origin: Origin, refusal: Refusal) -> Result<(), Refusal> {
        let ended = matches!(refusal, Refusal::Ended(_));
        match origin.message {
            Some(message) if !ended && !self.state.messages.contains(&message) => {
                let reason = refusal.to_string();
                self.emit(RunEvent::MessageIgnored { message, reason });
                self.decision.refusal = Some(refusal);
                Ok(())
            }
            _ => Err(refusal),
        }
    }
}

/// Why a wait ends whose filter is too dear.
pub(super) fn too_much_filtering() -> Failure {
    let message = "the filter takes too much work for all signals that came early";
    Failure::permanent(kind::EXPRESSION_LIMIT, message)
}
