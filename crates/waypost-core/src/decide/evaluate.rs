//! Control nodes, which the engine decides by itself once a node's start is durable. And the config
//! of tasks, which is rendered by the same rules when a task is offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Decider;
use super::scope::scope;
use crate::event::{FailureEnd, NodeEvent, Origin, Wait};
use crate::expr::{Scope, Template};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, Delay, DurationTemplate, Fail};
use crate::limits::{FAILURE_DETAILS_BYTES_MAX, FAILURE_MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::path::At;
use crate::status::{NodeStatus, Status};
use crate::time::{BadDuration, Millis, Timestamp};

impl Decider<'_> {
    /// Evaluates a control node that is RUNNING. Anything else is an echo from before a pause, a
    /// cancel or a take-over, and means nothing.
    pub(super) fn evaluate(&mut self, at: At, attempt: u32) {
        if !self.is_at(at, NodeStatus::Running, attempt) || self.state.status == Status::Ending {
            return;
        }
        match self.evaluate_behaviour(at) {
            Err(_) if self.env.contents.has_missed() => {}
            Err(failure) => self.attempt_failed(at, failure),
            Ok(()) => {}
        }
    }

    fn evaluate_behaviour(&mut self, at: At) -> Result<(), Failure> {
        let plan_node = self.plan_node(at);
        match &plan_node.behaviour {
            Behaviour::Pass => self.complete(at, None, None),
            Behaviour::Input | Behaviour::Trigger { .. } => {
                let input = self.state.created.input.clone();
                self.complete(at, Some(input), None)
            }
            Behaviour::Gather => self.complete(at, Some(self.input_of(at)?), None),
            Behaviour::Value { template, .. } => {
                let value = template.render(&self.scope(at))?;
                self.complete(at, Some(value), None)
            }
            Behaviour::Condition(expression) => {
                let holds = expression.eval_bool(&self.scope(at))?;
                let text = if holds { "true" } else { "false" };
                self.complete(at, Json::parse(text).ok(), Some(text.into()))
            }
            Behaviour::Switch { cases, default } => {
                let scope = self.scope(at);
                let mut selected = default.as_deref();
                for case in cases {
                    if case.when.eval_bool(&scope)? {
                        selected = Some(&case.branch);
                        break;
                    }
                }
                let Some(branch) = selected else {
                    let message = "no case of the switch holds and it has no default";
                    return Err(Failure::permanent(kind::NO_CASE, message));
                };
                let output = Some(Json::from_value(&branch.into()));
                self.complete(at, output, Some(branch.into()))
            }
            Behaviour::Fail(fail) => {
                // Final regardless of `retry`: the next attempt would fail in the same way.
                let failure = failure_of(fail, &self.scope(at))?;
                self.fail_for_good(at, failure, FailureEnd::Final);
                Ok(())
            }
            Behaviour::Delay(delay) => {
                let (due, span) = match delay {
                    Delay::For(span) => {
                        let span = duration(span, &self.scope(at))?;
                        (self.env.now_max.plus(span), Some(span))
                    }
                    Delay::Until(time) => (time_of(time, &self.scope(at))?, None),
                };
                if due <= self.env.now || span == Some(Millis(0)) {
                    return self.complete(at, None, None);
                }
                self.wait(at, Wait::Delay { due }, span);
                Ok(())
            }
            Behaviour::Signal { name, filter, timeout, .. } => {
                self.await_signal(at, name, filter.as_ref(), timeout.as_ref())
            }
            Behaviour::Signals(spec) => self.await_signals(at, spec),
            Behaviour::Approval(spec) => self.await_approval(at, spec),
            Behaviour::Notify(spec) => self.await_delivery(at, spec),
            Behaviour::Task { .. } | Behaviour::Workflow(_) | Behaviour::Emit(_) => Ok(()),
            Behaviour::Group
            | Behaviour::Polled(_)
            | Behaviour::Operation(_)
            | Behaviour::Loop(_)
            | Behaviour::Map(_) => self.open_container(at),
        }
    }

    pub(super) fn wait(&mut self, at: At, wait: Wait, span: Option<Millis>) {
        self.wait_with(at, wait, span, None);
    }

    /// The same, with what is sent in the commit.
    pub(super) fn wait_with(
        &mut self,
        at: At,
        wait: Wait,
        span: Option<Millis>,
        message: Option<Json>,
    ) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        self.emit_at(at, NodeEvent::Waiting { node, attempt, wait, span, message });
    }

    /// A delay is over: the node's own, or the one between two iterations of a loop.
    pub(super) fn delay_passed(&mut self, at: At, origin: Origin) {
        self.resume_node(at, origin);
        match self.plan_node(at).behaviour.container() {
            Some(_) => self.open_body(at),
            None => self.complete_or_fail(at, None),
        }
    }

    /// Records that a wait is over, by time or by a person.
    pub(super) fn resume_node(&mut self, at: At, origin: Origin) {
        self.resumed(at, |node, attempt| {
            let (message, timed_out, more) = (None, false, false);
            NodeEvent::Resumed { node, attempt, message, origin, timed_out, more }
        });
    }

    pub(super) fn resumed(&mut self, at: At, event: impl FnOnce(Arc<str>, u32) -> NodeEvent) {
        let event = event(self.path(at), self.node(at).attempt);
        self.emit_at(at, event);
    }

    /// Is everything at hand that the variables of a node need, if it completes with this output?
    /// Asked before the first event of what leads to that.
    pub(super) fn has_variables_of(&self, at: At, output: Option<&Json>) -> bool {
        if self.env.contents.has_references() {
            // Failures come up when the node completes.
            self.variables_of(at, output).ok();
        }
        !self.env.contents.has_missed()
    }

    pub(super) fn complete_or_fail(&mut self, at: At, output: Option<Json>) {
        if let Err(failure) = self.complete(at, output, None) {
            self.attempt_failed(at, failure);
        }
    }

    /// Completes a RUNNING node, sets its variables, and opens what follows.
    pub(super) fn complete(
        &mut self,
        at: At,
        output: Option<Json>,
        branch: Option<Arc<str>>,
    ) -> Result<(), Failure> {
        let output = output.filter(|output| !output.is_null());
        if let Some(output) = &output
            && output.bytes() > PAYLOAD_BYTES_MAX
        {
            let message = format!(
                "the output has {} bytes; at most {PAYLOAD_BYTES_MAX} are kept",
                output.bytes()
            );
            return Err(Failure::permanent(kind::TOO_LARGE, message));
        }
        let variables = self.variables_of(at, output.as_ref())?;
        let attempt = self.node(at).attempt;
        let node = self.path(at);
        self.emit_at(at, NodeEvent::Completed { node, attempt, output, branch, variables });
        self.follow(at);
        Ok(())
    }

    fn variables_of(
        &self,
        at: At,
        output: Option<&Json>,
    ) -> Result<BTreeMap<Arc<str>, Json>, Failure> {
        let templates = &self.plan_node(at).variables;
        if templates.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut scope = self.scope(at);
        scope.json("output", &output.cloned().unwrap_or_else(Json::null));
        let render = |(name, template): &(Arc<str>, crate::expr::Template)| {
            Ok((Arc::clone(name), template.render(&scope)?))
        };
        templates.iter().map(render).collect()
    }

    pub(super) fn scope(&self, at: At) -> Scope {
        let moment = (self.env.now, self.state.variables(at.scope));
        scope(self.plan, self.state, at, moment, &[], &self.env.contents)
    }
}

/// Stands for a failure that means nothing, because a content was missed.
pub(super) fn missed() -> Failure {
    Failure::transient(kind::BLOB, "the content of a blob is not at hand")
}

/// The failure that a `fail` node makes.
fn failure_of(fail: &Fail, scope: &Scope) -> Result<Failure, Failure> {
    let message = fail.message.render(scope)?.to_value()?;
    let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    let details = fail.details.as_ref().map(|details| details.render(scope)).transpose()?;
    let sizes = [
        ("message", message.len(), FAILURE_MESSAGE_BYTES_MAX),
        ("details", details.as_ref().map_or(0, Json::bytes), FAILURE_DETAILS_BYTES_MAX),
    ];
    if let Some((field, bytes, most)) = sizes.into_iter().find(|(_, bytes, most)| bytes > most) {
        let what = format!("`{field}` of the failure has {bytes} bytes; at most {most} are kept");
        return Err(Failure::permanent(kind::TOO_LARGE, what));
    }
    Ok(Failure { details, ..Failure::permanent(fail.kind.clone(), message) })
}

/// A time that may be computed.
fn time_of(template: &Template, scope: &Scope) -> Result<Timestamp, Failure> {
    let value = template.render(scope)?;
    let found = value.to_value()?;
    let time = match found.as_str() {
        Some(text) => Timestamp::parse(text),
        None => found.as_i64().and_then(Timestamp::from_ms),
    };
    time.ok_or_else(|| {
        invalid(format!(
            "`until` gave {value}, which is not a time: RFC 3339 with a zone, or \
             milliseconds since 1970, up to {}",
            Timestamp::LAST
        ))
    })
}

/// A duration that may be computed. A computed one below zero counts as zero; a value that is no
/// duration is a failure.
pub(super) fn duration(template: &DurationTemplate, scope: &Scope) -> Result<Millis, Failure> {
    let (template, unit_ms) = match template {
        DurationTemplate::Fixed(span) => return Ok(*span),
        DurationTemplate::Computed { template, unit_ms } => (template, f64::from(*unit_ms)),
    };
    let value = template.render(scope)?;
    let found = value.to_value()?;
    let parsed = match found.as_str().map(|text| (text, text.trim().parse::<f64>())) {
        Some((_, Ok(number))) => Millis::from_f64(number, unit_ms),
        Some((text, Err(_))) => Millis::parse(text),
        None if found.is_number() => Millis::from_f64(found.as_f64().unwrap_or(f64::NAN), unit_ms),
        None => Err(BadDuration::Syntax),
    };
    match parsed {
        Ok(span) => Ok(span),
        Err(BadDuration::Negative) => Ok(Millis(0)),
        Err(error) => Err(invalid(format!("the duration {value} cannot be used: {error}"))),
    }
}

pub(super) fn text_of(value: &Json, what: &str) -> Result<String, Failure> {
    let found = value.to_value()?;
    let text = found.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    text.ok_or_else(|| invalid(format!("{what} must be a text, not {value}")))
}

pub(super) fn invalid(message: String) -> Failure {
    Failure::permanent(kind::INVALID_CONFIG, message)
}
