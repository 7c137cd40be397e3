//! Operations that an outside system completes: the wait for its callback, and the callback.

use std::sync::Arc;

use super::Decider;
use super::evaluate::{duration, missed};
use super::signals::Taker;
use crate::callback::{Callback, CallbackOutcome, operation_of};
use crate::command::Refusal;
use crate::event::{MessageId, Origin, Wait};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::OperationSpec;
use crate::limits::{FAILURE_DETAILS_BYTES_MAX, FAILURE_MESSAGE_BYTES_MAX};
use crate::path::At;
use crate::planted::{Bug, is_planted};
use crate::state::State;

impl Decider<'_> {
    /// The operation is started: waits for its callback, which may have come already.
    pub(super) fn await_callback(&mut self, at: At, spec: &OperationSpec) -> Result<(), Failure> {
        let Some(of) = operation_of(self.plan, self.state, at) else { return Ok(()) };
        let span = spec.timeout.as_ref().map(|span| duration(span, &self.scope(at))).transpose()?;
        let due = span.map(|span| self.env.now_max.plus(span));
        let kept = self.state.early.iter();
        let kept = kept.filter(|early| CallbackOutcome::of(&early.name, &of.operation).is_some());
        let mut kept = kept.map(|early| (Arc::clone(&early.message), early.body.clone()));
        let early = match is_planted(Bug::SecondCallbackWins) {
            true => kept.next_back(),
            false => kept.next(),
        };
        if early.as_ref().is_some_and(|(_, body)| !self.has_variables_of(at, Some(body))) {
            return Err(missed());
        }
        self.wait(at, Wait::Callback { operation: of.operation, due }, span);
        if let Some((message, body)) = early {
            self.arrives(Taker { at, which: None }, &message, &body, false);
        }
        Ok(())
    }

    /// A callback comes. The first one for an operation counts.
    pub(super) fn callback(&mut self, callback: &Callback, origin: Origin) -> Result<(), Refusal> {
        if let Some(refusal) = self.state.refuses_callback(self.plan, callback) {
            return self.ignore(origin, refusal);
        }
        let at = self.state.find(self.plan, &callback.of.node);
        let waits = at.is_some_and(|at| matches!(self.node(at).wait, Some(Wait::Callback { .. })));
        if is_planted(Bug::EarlyCallbackForgotten) && !waits {
            return Ok(());
        }
        let current = at.and_then(|at| operation_of(self.plan, self.state, at));
        let current = current.filter(|_| is_planted(Bug::FormerCallbackTaken));
        let operation =
            current.map_or_else(|| Arc::clone(&callback.of.operation), |of| of.operation);
        self.receive(&callback.outcome.signal(&operation), &callback.body, origin)
    }

    /// The failure that a callback reports, if it reports one.
    pub(super) fn failed_callback(
        &self,
        at: At,
        message: &MessageId,
        body: &Json,
    ) -> Option<Failure> {
        let Some(Wait::Callback { operation, .. }) = &self.node(at).wait else { return None };
        let kept = self.state.early.iter().find(|early| early.message == *message)?;
        let outcome = CallbackOutcome::of(&kept.name, operation)?;
        (outcome == CallbackOutcome::Failed).then(|| operation_failed(body))
    }
}

/// What an operation says about its failure: a text, or an object with a `message`.
fn operation_failed(body: &Json) -> Failure {
    let said = body.to_value().ok();
    let said = said.as_ref().and_then(|said| said.get("message").unwrap_or(said).as_str());
    let said = said.filter(|said| !said.is_empty() && said.len() <= FAILURE_MESSAGE_BYTES_MAX);
    let message = said.unwrap_or("the operation called back as failed");
    let details = Some(body).filter(|body| !body.is_null());
    let details = details.filter(|body| body.bytes() <= FAILURE_DETAILS_BYTES_MAX).cloned();
    Failure { details, ..Failure::transient(kind::OPERATION_FAILED, message) }
}

impl State {
    /// Why a callback would change nothing.
    pub fn refuses_callback(
        &self,
        plan: &crate::plan::Plan,
        callback: &Callback,
    ) -> Option<Refusal> {
        if let Some(over) = self.refusal_if_ended() {
            return Some(over);
        }
        let of = &callback.of;
        let over = || Some(Refusal::OperationOver(Arc::clone(&of.operation)));
        let Some(at) = self.find(plan, &of.node) else { return over() };
        let current = operation_of(plan, self, at);
        let settled = self.get(at).is_none_or(|node| node.status.is_settled());
        let retries =
            matches!(self.get(at).and_then(|node| node.wait.as_ref()), Some(Wait::Retry { .. }));
        let is_current = match is_planted(Bug::FormerCallbackTaken) {
            true => current.is_some(),
            false => current.as_ref() == Some(of),
        };
        if settled || retries || !is_current {
            return over();
        }
        let is_kept = self
            .early
            .iter()
            .any(|early| CallbackOutcome::of(&early.name, &of.operation).is_some());
        let is_kept = is_kept && !is_planted(Bug::SecondCallbackWins);
        is_kept.then(|| Refusal::CallbackReceived(Arc::clone(&of.operation)))
    }
}
