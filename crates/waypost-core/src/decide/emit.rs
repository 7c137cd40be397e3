//! Signals that `emit` nodes send to other executions.

use std::sync::Arc;

use serde_json::json;

use super::Decider;
use crate::child::{Launch, SentBody, SentMessage, SentSignal, SignalTo};
use crate::command::Request;
use crate::event::{MessageId, NodeEvent};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::EmitSpec;
use crate::path::At;
use crate::published::{EMITTED, PublishedSignal, split_name};

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

    fn send_signal(&mut self, at: At, SentSignal { to, name, body }: SentSignal) {
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let message: MessageId =
            format!("{EMITTED}{}-{}", self.state.created.key, self.state.seq).into();
        let (execution, receiver, output) = match &to {
            SignalTo::Execution { number, id } => {
                let output = json!({ "delivered": true, "execution": id });
                (Some(*number), Some(id.clone()), output)
            }
            SignalTo::Waiting { .. } => {
                let (signal, key) = split_name(&name);
                (None, None, json!({ "published": true, "signal": signal, "key": key }))
            }
        };
        let (signal, sent) = (Arc::clone(&name), Arc::clone(&message));
        self.emit_at(
            at,
            NodeEvent::SignalSent { node, attempt, execution, receiver, signal, message: sent },
        );
        match to {
            SignalTo::Execution { number, .. } => {
                let body = SentBody::Request(Request::Signal { name, body });
                self.decision.sent.push(SentMessage { to: number, message, body });
            }
            SignalTo::Waiting { keep } => {
                self.decision.published.push(PublishedSignal { name, message, body, keep });
            }
        }
        self.complete_or_fail(at, Some(Json::from_value(&output)));
    }
}
