//! Did the execution end as its nodes and its cause require?

use serde_json::{Map, Value as Json};
use waypost_core::status::{NodeStatus, Status};

use super::Judge;
use crate::model::{Cause, End, SLACK_MS};
use crate::program::graph::successors;
use crate::program::{FailurePolicy, Kind, Program, span_of};

impl Judge<'_> {
    pub(super) fn end(&mut self, program: &Program) {
        let status = match self.ran.end {
            End::Ended(status) => status,
            End::Waiting => return self.waiting(program),
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
        self.cause(program);
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

    /// Was what fixed the end there to do it?
    fn cause(&mut self, program: &Program) {
        let Some((_, cause)) = &self.ran.cause else { return };
        let world = &self.ran.world;
        let there = match cause {
            Cause::Cancel => world.cancel_requested,
            Cause::Failure(id) => {
                let unhandled = program.find(id).is_some_and(|at| self.is_unhandled(at));
                unhandled && self.scope.policy == FailurePolicy::FailFast
            }
            Cause::Deadline => {
                let spans = span_of(&program.nodes);
                let needed = spans.map_or(u64::MAX, |spans| spans + SLACK_MS);
                program.timeout_ms.is_some_and(|ms| world.is_disturbed() || ms < needed)
            }
        };
        self.expect(there, || format!("the execution: {cause:?} could not end it"));
    }

    /// Failing fast means at once: the first unhandled failure ends the execution, unless its end
    /// was decided before.
    fn failures_in_time(&mut self) {
        if self.scope.policy == FailurePolicy::Partial {
            return;
        }
        let ending = self.ending().unwrap_or(u64::MAX);
        for at in 0..self.nodes.len() {
            let id = &self.scope.nodes[at].id;
            let is_cause = matches!(&self.ran.cause, Some((_, Cause::Failure(of))) if of == id);
            let overlooked = self.is_unhandled(at) && self.settled_by(at, ending) && !is_cause;
            self.expect(!overlooked, || format!("{id}: its failure did not end the execution"));
        }
    }

    /// The value of a scope. That of a body without `output` nodes is what its exits give.
    pub(super) fn expected_output(&self) -> Json {
        let nodes = self.scope.nodes;
        let is_output = |at: &usize| matches!(nodes[*at].kind, Kind::Output(_));
        let mut outputs: Vec<usize> = (0..nodes.len()).filter(is_output).collect();
        if outputs.is_empty() && self.body.is_some() {
            outputs =
                (0..nodes.len()).filter(|at| successors(nodes, *at).next().is_none()).collect();
        }
        let completed =
            outputs.iter().filter(|at| self.nodes[**at].status == NodeStatus::Completed);
        let value = |at: &usize| self.nodes[*at].output.clone().unwrap_or_default();
        match &outputs[..] {
            [] => Json::Null,
            [_] => completed.map(value).next().unwrap_or_default(),
            _ => {
                let fields = completed.map(|at| (nodes[*at].id.clone(), value(at)));
                Json::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Where nothing will happen by itself, all that is under way waits for a signal, for ever.
    fn waiting(&mut self, program: &Program) {
        let cause = self.ran.cause.clone();
        self.expect(cause.is_none(), || format!("the execution: {cause:?} did not end it"));
        let waits = self.waits_for_ever();
        self.expect(waits, || "the execution: stuck, it waits for nothing".into());
        let timed = program.timeout_ms.is_some();
        self.expect(!timed, || "the execution: its timeout never strikes".into());
    }

    /// Does a node of this scope wait for ever? Complains of those that should not.
    pub(super) fn waits_for_ever(&mut self) -> bool {
        let mut waits = false;
        for at in 0..self.nodes.len() {
            let (node, ran) = self.node(at);
            let under_way = matches!(
                ran.status,
                NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting
            );
            if !under_way {
                continue;
            }
            let mut inside = false;
            for body in &ran.bodies {
                let mut scope = self.inside(at, body, node.body().unwrap_or_default());
                inside |= scope.waits_for_ever();
                let complaints = scope.complaints;
                self.complaints.extend(complaints);
            }
            if let Kind::Map(each) = &node.kind {
                let full = self.is_full(at, each, &ran);
                let path = self.path(at);
                self.expect(full, || format!("{path}: there is room for an item"));
            }
            let for_ever = inside
                || matches!(
                    node.kind,
                    Kind::Wait { .. } | Kind::Signals(_) | Kind::Child(_) | Kind::Operation(_)
                );
            let for_ever = for_ever && node.span_ms_max().is_none();
            let right = ran.status == NodeStatus::Waiting && for_ever;
            let path = self.path(at);
            self.expect(right, || format!("{path}: {} for ever", ran.status));
            waits |= right;
        }
        waits
    }
}
