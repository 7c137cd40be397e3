//! Waits for signals: how they begin, with what came before, and how they end without one.

use std::sync::Arc;

use serde_json::json;

use super::Decider;
use super::evaluate::{duration, invalid, missed, text_of};
use super::signals::{FILTERS_WORK_MAX, Taker, too_much_filtering};
use crate::command::Refusal;
use crate::event::{MessageId, NodeEvent, Origin, Wait};
use crate::event_wait::event_name;
use crate::expr::{Expression, Scope};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, DurationTemplate, NotifySpec, SignalName, SignalsSpec};
use crate::outbox::delivery_signal;
use crate::path::At;
use crate::published::{key_of, keyed_name, refuse_long};
use crate::reserved::refuse_reserved;
use crate::status::NodeStatus;

impl Decider<'_> {
    pub(super) fn await_signal(
        &mut self,
        at: At,
        name: &SignalName,
        filter: Option<&Expression>,
        timeout: Option<&DurationTemplate>,
    ) -> Result<(), Failure> {
        let scope = self.scope(at);
        let name = name_of(name, &scope)?;
        let span = timeout.map(|timeout| duration(timeout, &scope)).transpose()?;
        let due = span.map(|span| self.env.now_max.plus(span));
        let early = self.find_early_signal(at, &name, filter)?;
        let body = early.as_ref().map(|(_, body)| body);
        if body.is_some_and(|body| !self.has_variables_of(at, Some(body))) {
            return Err(missed());
        }
        self.wait(at, Wait::Signal { name, due }, span);
        if let Some((message, body)) = early {
            self.arrives(Taker { at, which: None }, &message, &body, false);
        }
        Ok(())
    }

    /// The oldest signal that came before a node began to wait for it and passes the filter. All
    /// evaluations of the filter together are bounded: one decision must not take seconds.
    fn find_early_signal(
        &self,
        at: At,
        name: &str,
        filter: Option<&Expression>,
    ) -> Result<Option<(MessageId, Json)>, Failure> {
        let mut work_left = FILTERS_WORK_MAX;
        let kept = self.state.early.iter().filter(|early| early.spread_since == 0);
        for early in kept.filter(|early| *early.name == *name) {
            let passes = self.accepts(at, filter, &early.body, &mut work_left);
            if self.env.contents.has_missed() {
                return Err(missed());
            }
            if passes.ok_or_else(too_much_filtering)? {
                return Ok(Some((Arc::clone(&early.message), early.body.clone())));
            }
        }
        Ok(None)
    }

    /// Sends a message, and waits for the signal with which the store says what became of it.
    pub(super) fn await_delivery(&mut self, at: At, spec: &NotifySpec) -> Result<(), Failure> {
        let scope = self.scope(at);
        let message = spec.message.render(&scope)?;
        let timeout = spec.timeout.as_ref();
        let span = timeout.map(|timeout| duration(timeout, &scope)).transpose()?;
        let due = span.map(|span| self.env.now_max.plus(span));
        // The seq of the event that opens the wait: no other wait has it.
        let name = delivery_signal(self.state.seq + 1);
        self.wait_with(at, Wait::Signal { name, due }, span, Some(message));
        Ok(())
    }

    /// The store says what became of a message. A result of a wait that is over is of no use to any other.
    pub(super) fn message_settled(
        &mut self,
        wait: u64,
        (delivered, failed): (u64, u64),
        origin: Origin,
    ) -> Result<(), Refusal> {
        self.refuse_ended()?;
        let name = delivery_signal(wait);
        let awaited = self.state.waiting_since(wait).is_some_and(|at| {
            let behaviour = &self.plan_node(at).behaviour;
            let wait = &self.node(at).wait;
            matches!((wait, behaviour), (Some(Wait::Signal { name: of, .. }), Behaviour::Notify(_)) if *of == name)
        });
        if !awaited {
            return self.ignore(origin, Refusal::NoSuchWait(wait));
        }
        if self.state.early.iter().any(|early| early.name == name) {
            return self.ignore(origin, Refusal::ResultReceived(wait));
        }
        let body = json!({ "delivered": delivered, "failed": failed });
        self.receive(&name, &Json::from_value(&body), origin)
    }

    pub(super) fn await_signals(&mut self, at: At, spec: &SignalsSpec) -> Result<(), Failure> {
        let scope = self.scope(at);
        let mut names = Vec::with_capacity(spec.signals.len());
        for signal in &spec.signals {
            names.push(name_of(&signal.name, &scope)?);
        }
        let span = spec.timeout.as_ref().map(|timeout| duration(timeout, &scope)).transpose()?;
        let due = span.map(|span| self.env.now_max.plus(span));
        let need = spec.need;
        self.wait(at, Wait::Signals { names, need, due }, span);
        // A later attempt has what came for the ones before.
        match self.has_enough(at) {
            true => self.signals_came(at),
            false => return self.take_early_signals(at, spec),
        }
        Ok(())
    }

    /// The signals that came before a node began to wait for them, oldest first.
    fn take_early_signals(&mut self, at: At, spec: &SignalsSpec) -> Result<(), Failure> {
        let mut work_left = FILTERS_WORK_MAX;
        for early in self.state.early.clone() {
            if !self.is_in(at, NodeStatus::Waiting) {
                break;
            }
            if early.spread_since > 0 {
                continue;
            }
            let named = (&*early.name, &early.body);
            let which = self.place_of((at, self.node(at)), spec, named, &mut work_left);
            let Some(which) = which else {
                self.resume_node(at, Origin::default());
                return Err(too_much_filtering());
            };
            let taker = Taker { at, which };
            // What misses a content stays kept, and is delivered when it is at hand.
            if which.is_some() && self.is_ready(taker, &early.body) {
                self.arrives(taker, &early.message, &early.body, false);
            }
        }
        Ok(())
    }

    /// A wait took too long, and the node completes on its branch for that.
    pub(super) fn timed_out(&mut self, at: At, output: Option<Json>, branch: &str) {
        self.resumed(at, |node, attempt| {
            let (message, origin, timed_out, more) = (None, Origin::default(), true, false);
            NodeEvent::Resumed { node, attempt, message, origin, timed_out, more }
        });
        if let Err(failure) = self.complete(at, output, Some(branch.into())) {
            self.attempt_failed(at, failure);
        }
    }

    /// A wait for signals takes too long: it fails, or selects its branch for that.
    pub(super) fn signals_late(&mut self, at: At) {
        if let Some(branch) = self.plan_node(at).behaviour.on_timeout() {
            let output = self.arrived_at(at);
            return self.timed_out(at, output, branch);
        }
        let node = self.node(at);
        let message = match &node.wait {
            Some(Wait::Signals { names, need, .. }) => {
                let open = names.iter().zip(&node.arrived).filter(|(_, came)| came.is_none());
                let open: Vec<String> = open.map(|(name, _)| format!("{name:?}")).collect();
                let came = node.arrived.iter().flatten().count();
                format!("{came} of {need} signals came in time; open are {}", open.join(", "))
            }
            Some(Wait::Signal { .. })
                if matches!(self.plan_node(at).behaviour, Behaviour::Notify(_)) =>
            {
                "the message was neither delivered nor given up in time".to_owned()
            }
            Some(Wait::Signal { name, .. }) => format!("signal {name:?} did not come in time"),
            Some(Wait::Callback { .. }) => "the operation did not call back in time".to_owned(),
            Some(
                Wait::Approval(_)
                | Wait::Delay { .. }
                | Wait::Retry { .. }
                | Wait::Body
                | Wait::Child { .. }
                | Wait::Breaker(_),
            )
            | None => {
                return;
            }
        };
        self.attempt_failed(at, Failure::permanent(kind::TIMEOUT, message));
    }
}

/// The name of a signal that a node waits for, with its key.
fn name_of(wanted: &SignalName, scope: &Scope) -> Result<Arc<str>, Failure> {
    let name = text_of(&wanted.name.render(scope)?, "a signal's name")?;
    if let Some(wanted) = &wanted.event {
        let wanted = wanted.render(scope)?.to_value()?;
        let fields = wanted.as_object().cloned().unwrap_or_default();
        return event_name(&name, &fields).map_err(invalid);
    }
    let Some(key) = &wanted.key else {
        refuse_reserved(&name).and_then(|()| refuse_long(&name)).map_err(invalid)?;
        return Ok(name.into());
    };
    let key = key_of(&key.render(scope)?.to_value()?).map_err(invalid)?;
    keyed_name(&name, &key).map_err(invalid)
}
