//! Signals that `emit` nodes send to other executions.

use std::sync::Arc;

use serde_json::json;

use super::Decider;
use crate::child::{Launch, SentBody, SentMessage, SentSignal};
use crate::command::Request;
use crate::event::NodeEvent;
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::EmitSpec;
use crate::path::At;

impl Decider<'_> {
    /// The receiver of a signal was found, or there is none.
    pub(super) fn emit_signal(&mut self, at: At, spec: &EmitSpec, found: Result<Launch, Failure>) {
        match found {
            Ok(Launch::Signal(signal)) => self.send_signal(at, *signal),
            Err(failure) if spec.optional && failure.kind == kind::NO_RECEIVER => {
                let output = json!({ "delivered": false, "reason": failure.message });
                self.complete_or_fail(at, Some(Json::from_value(&output)));
            }
            Err(failure) => self.attempt_failed(at, failure),
            Ok(Launch::New(_) | Launch::Again | Launch::Ended(_)) => {}
        }
    }

    fn send_signal(&mut self, at: At, signal: SentSignal) {
        let SentSignal { execution, receiver, name, body } = signal;
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let message = format!("emit-{}-{}", self.state.created.key, self.state.seq).into();
        let output = json!({ "delivered": true, "execution": receiver });
        self.emit_at(
            at,
            NodeEvent::SignalSent {
                node,
                attempt,
                execution,
                receiver,
                signal: Arc::clone(&name),
                message: Arc::clone(&message),
            },
        );
        let body = SentBody::Request(Request::Signal { name, body });
        self.decision.sent.push(SentMessage { to: execution, message, body });
        self.complete_or_fail(at, Some(Json::from_value(&output)));
    }
}
