//! Did each operation end once: by a callback of the service, by a person, or by its time?

use serde_json::Value as Json;
use waypost_core::callback::CallbackOutcome;
use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::bodies::{Unhandled, covers};
use super::outcomes::expect;
use super::{Judge, has_failed};
use crate::model::{BodyRan, NodeRan, OperationRan};
use crate::program::{LATE, Node, Operation};

impl Judge<'_> {
    /// May an operation that is called back have ended like this?
    pub(super) fn is_operation_allowed(
        &self,
        at: usize,
        (node, operation): (&Node, &Operation),
        ran: &NodeRan,
    ) -> Result<(), String> {
        let timed_out = ran.failure.as_deref() == Some(kind::TIMEOUT);
        if has_failed(ran) {
            expect(timed_out == (ran.status == NodeStatus::TimedOut), "a timeout is TIMED_OUT")?;
        }
        let struck = has_failed(ran) && timed_out && self.may_strike(node);
        let count = u32::try_from(ran.bodies.len()).unwrap_or(u32::MAX);
        expect(ran.tries == count || struck && ran.tries == count + 1, "each try starts it")?;
        for (place, body) in (1..).zip(&ran.bodies) {
            let last = place == count;
            let failure = match self.failure_of(at, body) {
                Some(failure) => failure,
                None => match self.waited(operation, body, ran, last && struck)? {
                    Some(failure) => failure,
                    None => {
                        expect(last, "it was done, and started again")?;
                        return expect(
                            ran.status == NodeStatus::Completed || struck,
                            "it was done",
                        );
                    }
                },
            };
            let again = place < node.tries_max() && node.retry.is_some_and(|r| covers(r, &failure));
            if !last {
                expect(again, "it is not tried again")?;
                continue;
            }
            expect(ran.status != NodeStatus::Completed, "it failed")?;
            if struck {
                return Ok(());
            }
            let same = ran.failure.as_ref() == Some(&failure.kind);
            expect(same, &format!("it failed with {}", failure.kind))?;
            // A retry that would begin after the deadline is none.
            let spared = self.is_cut_short(ran) || self.may_strike(node);
            expect(!again || spared, "it is tried again")?;
        }
        expect(count > 0 || struck, "it is started")
    }

    /// How the wait of a try that was started ended: the failure, if it was one.
    fn waited(
        &self,
        operation: &Operation,
        body: &BodyRan,
        ran: &NodeRan,
        struck: bool,
    ) -> Result<Option<Unhandled>, String> {
        let next = ran.bodies.iter().map(|body| body.opened).find(|next| *next > body.opened);
        let mut waits = ran
            .operations
            .iter()
            .filter(|wait| wait.opened > body.opened && next.is_none_or(|next| wait.opened < next));
        let Some(wait) = waits.next() else {
            expect(struck, "it was started, and did not wait")?;
            return Ok(None);
        };
        expect(waits.next().is_none(), "it waits once")?;
        expect(!wait.late || operation.late, "its timeout is no branch")?;
        let Some((kind, retryable)) = &wait.failure else { return Ok(None) };
        match &**kind {
            kind::OPERATION_FAILED => {
                let failed = wait.called_back.is_some() && self.was_called_back(wait, true, None);
                expect(failed, "no callback failed it")?;
            }
            kind::TIMEOUT => {
                let expires = operation.timeout_ms.is_some() && !operation.late;
                expect(wait.called_back.is_none(), "it was called back")?;
                expect(expires || struck, "it does not expire")?;
            }
            _ => return Err("nothing else fails it".into()),
        }
        Ok(Some(Unhandled { kind: kind.clone(), status: None, retryable: *retryable }))
    }

    /// Did the service call back like this?
    fn was_called_back(&self, wait: &OperationRan, failed: bool, body: Option<&Json>) -> bool {
        let outcome = if failed { CallbackOutcome::Failed } else { CallbackOutcome::Completed };
        let signal = outcome.signal(&wait.operation);
        self.ran.world.callbacks.iter().any(|sent| {
            *sent.signal == *signal
                && sent.failed == failed
                && body.is_none_or(|body| *body == sent.body)
        })
    }

    /// Is this the output of an operation that is called back?
    pub(super) fn is_operation_output(&self, ran: &NodeRan, output: &Json) -> bool {
        let Some(wait) = ran.operations.last() else { return false };
        if wait.by_hand {
            return self.ran.world.was_to_end(wait.opened, Some(output));
        }
        if wait.late || ran.branch.is_some() {
            return wait.late && ran.branch.as_deref() == Some(LATE) && output.is_null();
        }
        wait.called_back.is_some() && self.was_called_back(wait, false, Some(output))
    }
}
