//! Is each output what follows from what its node could see?

use serde_json::{Map, Value as Json, json};
use waypost_core::status::NodeStatus;

use super::maps::is_map_output;
use super::{Judge, has_failed};
use crate::model::CONTRADICTION;
use crate::model::graph::handling;
use crate::model::values::plain;
use crate::program::{Kind, Notify, OnError, Signal, Value};

impl Judge<'_> {
    pub(super) fn output(&mut self, at: usize) {
        let (node, ran) = self.node(at);
        let id = &self.path(at);
        let output = ran.output.clone().unwrap_or_default();
        if ran.status != NodeStatus::Completed {
            self.expect(ran.output.is_none(), || format!("{id}: {} with an output", ran.status));
            return;
        }
        let settled = ran.settled.unwrap_or_default();
        let right = match &node.kind {
            Kind::Noop | Kind::Delay(_) => output.is_null(),
            Kind::Notify(notify) if notify.wait => match ran.resumed.last() {
                Some(wait) => self.ran.world.was_to_end(*wait, Some(&output)),
                // The auditor compares it with the outbox.
                None => output["delivered"].is_u64() && output["failed"].is_u64(),
            },
            Kind::Emit(_) => output["delivered"] == json!(true),
            Kind::Transform(values)
            | Kind::Output(values)
            | Kind::Notify(Notify { values, .. }) => output.as_array().is_some_and(|found| {
                found.len() == values.len()
                    && found.iter().zip(values).all(|(found, v)| self.shows(found, *v, settled))
            }),
            Kind::Condition(_) => {
                ran.branch.as_deref().is_some_and(|branch| output == json!(branch == "true"))
            }
            Kind::Switch { .. } => output == json!(ran.branch),
            Kind::Fail => false,
            Kind::Join => {
                let taken = self.taken_at(at, ran.scheduled.unwrap_or_default());
                output.as_object().is_some_and(|found| self.is_gathered(found, &taken))
            }
            Kind::Wait { signal, .. } => match ran.resumed.last() {
                Some(wait) => self.ran.world.was_to_end(*wait, Some(&output)),
                None => self.was_sent(*signal, &output),
            },
            Kind::Signals(signals) => match ran.resumed.last() {
                Some(wait) => self.ran.world.was_to_end(*wait, Some(&output)),
                None => output.as_array().is_some_and(|found| {
                    let places = found.iter().zip(&signals.wanted).enumerate();
                    let right = |(at, (body, signal)): (usize, (&Json, &Signal))| match ran
                        .came
                        .contains(&at)
                    {
                        true => self.was_sent(*signal, body),
                        false => body.is_null(),
                    };
                    found.len() == signals.wanted.len() && places.into_iter().all(right)
                }),
            },
            Kind::Approval(_) => self.is_decision(&ran, &output),
            Kind::Task(script) => {
                let keys = self.ran.sink.get(id).into_iter().flat_map(|calls| calls.keys());
                let body = output.get("body");
                let script = script.in_iteration(self.facts.iteration);
                let bodies = keys.map(|key| script.body(key)).any(|sent| body == Some(&sent));
                let contradicts = self.ran.world.contradicted && output == json!(CONTRADICTION);
                contradicts || bodies && output.get("status") == Some(&json!(200))
            }
            Kind::Operation(operation) if !operation.polls() => {
                self.is_operation_output(&ran, &output)
            }
            Kind::Group(_) | Kind::Loop(_) | Kind::Operation(_) => {
                output == self.container_output(at)
            }
            Kind::Child(call) => self.is_child_output(*call, &ran, &output),
            Kind::Map(_) => is_map_output(output.clone(), &self.container_output(at)),
        };
        self.expect(right, || format!("{id}: the output cannot be {output}"));
    }

    /// Does an output show what a value gave, evaluated by this event?
    pub(super) fn shows(&self, found: &Json, value: Value, seq: u64) -> bool {
        let unsettled =
            [NodeStatus::Pending, NodeStatus::Queued, NodeStatus::Running, NodeStatus::Waiting];
        match value {
            Value::StatusOf(of) if self.settled_by(of, seq) => {
                *found == json!(self.nodes[of].status.name())
            }
            Value::StatusOf(_) => unsettled.iter().any(|status| *found == json!(status.name())),
            Value::OutputOf(of) if self.settled_by(of, seq) => self.is_output_of(found, of),
            Value::OutputOf(_) => found.is_null(),
            Value::ResultsOf(of) => self.results_of(of, seq) == Some(found),
            Value::Before => match self.outer {
                Some((outer, container)) => match outer.scope.nodes[container].needs.first() {
                    Some(need) => outer.shows(found, Value::OutputOf(need.source), seq),
                    None => found.is_null(),
                },
                None => found.is_null(),
            },
            Value::Previous => *found == self.previous,
            Value::Item => *found == self.item,
            Value::Variable => *found == json!(self.variable(seq)),
            _ => plain(value, self.facts).as_ref() == Some(found),
        }
    }

    /// Is this the visible output of a settled node? An ignored failure is its output.
    fn is_output_of(&self, found: &Json, of: usize) -> bool {
        let ran = &self.nodes[of];
        let passed_over = |end| *handling(&self.scope.nodes[of], &end) == OnError::Continue;
        if has_failed(ran) && self.outcome_of(of).is_some_and(passed_over) {
            return found["failure"]["kind"] == json!(ran.failure);
        }
        *found == ran.output.clone().unwrap_or_default()
    }

    fn is_gathered(&self, found: &Map<String, Json>, taken: &[usize]) -> bool {
        found.len() == taken.len()
            && taken.iter().all(|source| {
                let id = &self.scope.nodes[*source].id;
                found.get(id).is_some_and(|found| self.is_output_of(found, *source))
            })
    }

    fn was_sent(&self, signal: Signal, body: &Json) -> bool {
        let sent = self.ran.world.signals.iter();
        sent.filter(|sent| sent.name == signal.name())
            .any(|sent| sent.body == *body && signal.accepts(body))
    }
}
