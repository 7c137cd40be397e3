//! Did the execution end as its nodes and its cause require?

use serde_json::{Map, Value as Json};
use waypost_core::status::{NodeStatus, Status};

use super::{Judge, has_failed};
use crate::model::graph::handling;
use crate::model::{Cause, End, SLACK_MS};
use crate::program::{FailurePolicy, Kind, Node, OnError};

impl Judge<'_> {
    pub(super) fn end(&mut self) {
        let status = match self.ran.end {
            End::Ended(status) => status,
            End::Waiting => return self.waiting(),
            End::Held => return,
        };
        let ends = self.ran.ends;
        self.expect(ends == 1, || format!("the execution: ended {ends} times"));
        for at in 0..self.nodes.len() {
            let (node, ran) = self.node(at);
            self.expect(ran.status.is_settled(), || {
                format!("{}: {} in an execution that is {status}", node.id, ran.status)
            });
        }
        let expected = self.expected_end();
        self.expect(status == expected, || {
            format!("the execution: {status}, but its nodes say {expected}")
        });
        self.cause();
        self.failures_in_time();
        let output = self.ran.cause.is_none().then(|| self.expected_output());
        let found = &self.ran.output;
        self.expect(*found == output, || {
            format!("the execution: its output is {found:?} and should be {output:?}")
        });
    }

    fn expected_end(&self) -> Status {
        match &self.ran.cause {
            Some((_, Cause::Cancel)) => Status::Cancelled,
            Some((_, Cause::Failure(_))) => Status::Failed,
            Some((_, Cause::Deadline)) => Status::TimedOut,
            None if (0..self.nodes.len()).any(|at| self.is_unhandled(at)) => Status::Failed,
            None => Status::Completed,
        }
    }

    /// Did a node fail without a handler for the failure?
    fn is_unhandled(&self, at: usize) -> bool {
        let unhandled = |end| *handling(&self.program.nodes[at], &end) == OnError::Fail;
        has_failed(&self.nodes[at]) && self.outcome_of(at).is_some_and(unhandled)
    }

    /// Was what fixed the end there to do it?
    fn cause(&mut self) {
        let Some((_, cause)) = &self.ran.cause else { return };
        let world = &self.ran.world;
        let there = match cause {
            Cause::Cancel => world.cancel_requested,
            Cause::Failure(id) => {
                let unhandled = self.program.find(id).is_some_and(|at| self.is_unhandled(at));
                unhandled && self.program.failure_policy == FailurePolicy::FailFast
            }
            Cause::Deadline => {
                let spans = self.program.nodes.iter().map(Node::span_ms_max).sum::<Option<u64>>();
                let needed = spans.map_or(u64::MAX, |spans| spans + SLACK_MS);
                self.program.timeout_ms.is_some_and(|ms| world.is_disturbed() || ms < needed)
            }
        };
        self.expect(there, || format!("the execution: {cause:?} could not end it"));
    }

    /// Failing fast means at once: the first unhandled failure ends the execution, unless its end
    /// was decided before.
    fn failures_in_time(&mut self) {
        if self.program.failure_policy == FailurePolicy::Partial {
            return;
        }
        let ending = self.ending().unwrap_or(u64::MAX);
        for at in 0..self.nodes.len() {
            let id = &self.program.nodes[at].id;
            let is_cause = matches!(&self.ran.cause, Some((_, Cause::Failure(of))) if of == id);
            let overlooked = self.is_unhandled(at) && self.settled_by(at, ending) && !is_cause;
            self.expect(!overlooked, || format!("{id}: its failure did not end the execution"));
        }
    }

    fn expected_output(&self) -> Json {
        let is_output = |at: &usize| matches!(self.program.nodes[*at].kind, Kind::Output(_));
        let outputs: Vec<usize> = (0..self.nodes.len()).filter(is_output).collect();
        let completed =
            outputs.iter().filter(|at| self.nodes[**at].status == NodeStatus::Completed);
        let value = |at: &usize| self.nodes[*at].output.clone().unwrap_or_default();
        match &outputs[..] {
            [] => Json::Null,
            [_] => completed.map(value).next().unwrap_or_default(),
            _ => {
                let fields = completed.map(|at| (self.program.nodes[*at].id.clone(), value(at)));
                Json::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Where nothing will happen by itself, all that is under way waits for a signal, for ever.
    fn waiting(&mut self) {
        let cause = self.ran.cause.clone();
        self.expect(cause.is_none(), || format!("the execution: {cause:?} did not end it"));
        let mut waits = false;
        for at in 0..self.nodes.len() {
            let (node, ran) = self.node(at);
            let for_ever = matches!(node.kind, Kind::Wait { .. }) && node.span_ms_max().is_none();
            let under_way = matches!(
                ran.status,
                NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting
            );
            let right = ran.status == NodeStatus::Waiting && for_ever;
            self.expect(!under_way || right, || format!("{}: {} for ever", node.id, ran.status));
            waits |= under_way && right;
        }
        self.expect(waits, || "the execution: stuck, it waits for nothing".into());
        let timed = self.program.timeout_ms.is_some();
        self.expect(!timed, || "the execution: its timeout never strikes".into());
    }
}
