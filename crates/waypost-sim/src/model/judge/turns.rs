//! Did each node get its turn when the graph gave it one?

use waypost_core::event::CancelReason;
use waypost_core::status::NodeStatus;

use super::{Judge, is_unmet};
use crate::model::End;
use crate::model::graph::{Edge, Turn, conditions, edge, turn};
use crate::program::Join;
use crate::program::graph::leads_only_to;

impl Judge<'_> {
    pub(super) fn turn(&mut self, at: usize) {
        let (_, ran) = self.node(at);
        let id = &self.path(at);
        self.expect(ran.settlements <= 1, || format!("{id}: settled {} times", ran.settlements));
        let ending = self.ending().unwrap_or(u64::MAX);
        if let Some(seq) = ran.scheduled {
            self.expect(seq < ending, || format!("{id}: scheduled after the end was fixed"));
            let expected = if is_unmet(&ran) { Turn::Unsatisfiable } else { Turn::Run };
            let turn = self.turn_at(at, seq);
            self.expect(turn == expected, || {
                format!("{id}: scheduled when its turn was {turn:?}, not {expected:?}")
            });
            self.fires_at_once(at, seq);
        }
        match ran.status {
            NodeStatus::Skipped => {
                let seq = ran.settled.unwrap_or_default();
                let turn = self.turn_at(at, seq);
                self.expect(turn == Turn::Skip, || {
                    format!("{id}: skipped when its turn was {turn:?}")
                });
                self.expect(seq < ending, || format!("{id}: skipped after the end was fixed"));
                self.expect(ran.scheduled.is_none(), || format!("{id}: skipped, but scheduled"));
            }
            NodeStatus::Cancelled => self.cancelled(at),
            NodeStatus::Pending => {
                let turn = self.turn_at(at, u64::MAX);
                let overlooked =
                    turn != Turn::NotYet && self.ran.end == End::Waiting && !self.dropped;
                self.expect(!overlooked, || format!("{id}: PENDING, but its turn is {turn:?}"));
            }
            NodeStatus::Completed | NodeStatus::Failed | NodeStatus::TimedOut => {
                self.expect(ran.scheduled.is_some(), || {
                    format!("{id}: {} without being scheduled", ran.status)
                });
            }
            NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting => {}
        }
    }

    /// A node's turn as of an event.
    fn turn_at(&self, at: usize, seq: u64) -> Turn {
        turn(self.scope.nodes[at].join, &self.edges_at(at, seq))
    }

    fn edges_at(&self, at: usize, seq: u64) -> Vec<Edge> {
        conditions(&self.scope.nodes[at])
            .iter()
            .map(|condition| {
                let settled = self.settled_by(condition.source, seq);
                let outcome = self.outcome_of(condition.source).filter(|_| settled);
                outcome.map_or(Edge::Open, |outcome| edge(self.scope, condition, &outcome))
            })
            .collect()
    }

    /// The sources that were taken when a node was scheduled, in the order of their positions.
    pub(super) fn taken_at(&self, at: usize, seq: u64) -> Vec<usize> {
        let edges = self.edges_at(at, seq);
        let sources = self.scope.nodes[at].sources();
        let taken = sources.into_iter().zip(edges).filter(|(_, edge)| *edge == Edge::Taken);
        taken.map(|(source, _)| source).collect()
    }

    /// A join takes the first sources that come, and does not wait for more. (Sources that settle
    /// together with another one are seen together: joins that cannot be met, and those that
    /// settled while the execution was held.)
    fn fires_at_once(&mut self, at: usize, seq: u64) {
        let (node, ran) = self.node(at);
        let Join::Count { count, .. } = node.join else { return };
        let path = self.path(at);
        let taken = self.taken_at(at, seq);
        let together = taken.iter().any(|source| is_unmet(&self.nodes[*source]));
        if self.ran.world.is_disturbed() || together || is_unmet(&ran) {
            return;
        }
        self.expect(taken.len() <= count, || {
            format!("{path}: fired with {} sources, not with the first {count}", taken.len())
        });
    }

    fn cancelled(&mut self, at: usize) {
        let (_, ran) = self.node(at);
        let id = &self.path(at);
        match ran.cancelled {
            Some(CancelReason::Join) => {
                let settled = ran.settled.unwrap_or_default();
                let lost = (at + 1..self.scope.nodes.len()).any(|join| {
                    self.cancels_rest(join, settled)
                        && leads_only_to(self.scope.nodes, join).contains(&at)
                });
                self.expect(lost, || format!("{id}: cancelled, but no join fired without it"));
            }
            Some(reason @ (CancelReason::Ending | CancelReason::Grace | CancelReason::Body)) => {
                let run = self.ran.cause.as_ref().map(|(seq, _)| *seq);
                let ending = match reason {
                    CancelReason::Ending => run,
                    CancelReason::Body => self.body_ending(),
                    _ => self.ending(),
                };
                let after = ending.is_some_and(|ending| ran.settled >= Some(ending));
                self.expect(after, || format!("{id}: cancelled, but nothing fixed the end before"));
            }
            None => self.complaints.push(format!("{id}: cancelled for no reason")),
        }
    }

    /// Had this join fired by an event, and does it cancel the sources that it does not need?
    fn cancels_rest(&self, join: usize, seq: u64) -> bool {
        let cancels = matches!(self.scope.nodes[join].join, Join::Count { cancel_rest: true, .. });
        let ran = &self.nodes[join];
        cancels && !is_unmet(ran) && ran.scheduled.is_some_and(|scheduled| scheduled < seq)
    }
}
