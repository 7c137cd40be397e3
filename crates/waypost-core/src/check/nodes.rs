//! The nodes of an execution: what the execution, the graph and the limits allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attempts::{End, Phase, Seen};
use super::graph::{self, Turn};
use super::invariant::Invariant::{
    AttemptsInOrder, AttemptsOnce, CauseDecides, Justified, Limits, PermitsHold, SettlesOnce,
};
use super::run::RunCheck;
use super::scopes::{BodySeen, ScopeSeen};
use super::{EventAt, Verdict, broken, position, require, require_with, spans};
use crate::event::{CancelReason, Event, FailureEnd, NodeEvent, RunEvent};
use crate::failure::Failure;
use crate::id::{NodeIx, Token};
use crate::kind::Behaviour;
use crate::limits::ABANDONED_MAX;
use crate::path::{At, ScopeNo};
use crate::plan::{FailurePolicy, OnError, Plan};
use crate::time::Timestamp;

/// The nodes of an execution: those of its plan, or, without one, those that its log names.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) plan: Option<Arc<Plan>>,
    pub(super) named: BTreeMap<Arc<str>, NodeIx>,
    /// The scopes that are open; without a plan, one for all nodes.
    pub(super) scopes: BTreeMap<ScopeNo, ScopeSeen>,
    /// The bodies among them, by the paths of their nodes up to the ids.
    pub(super) by_prefix: BTreeMap<Arc<str>, ScopeNo>,
    pub(super) scopes_opened: u64,
    /// How often nodes have settled.
    pub(super) settled: u64,
    pub(super) running: usize,
    /// The tokens of all attempts so far.
    tokens: BTreeSet<Token>,
    /// Has a node failed that nothing handles, in this generation?
    unhandled: bool,
    /// The join that fired last, if it cancels what leads only there.
    fired: Option<At>,
    /// The node of the trigger that the execution began with.
    pub(super) began_at: Option<Arc<str>>,
}

impl Nodes {
    pub(super) fn new(plan: Option<Arc<Plan>>) -> Self {
        let root = plan.as_ref().map_or_else(ScopeSeen::default, |plan| ScopeSeen::of(plan));
        Self { plan, scopes: [(ScopeNo::ROOT, root)].into(), ..Self::default() }
    }

    /// How many of the definition's own nodes have not settled; unknown without a plan.
    pub(super) fn unsettled(&self) -> Option<usize> {
        self.plan.is_some().then(|| self.unsettled_in_root())
    }

    /// Has a node failed without a handler while the others continued? Unknown without a plan.
    pub(super) fn has_unhandled_failure(&self) -> Option<bool> {
        self.plan.is_some().then_some(self.unhandled)
    }

    /// How often the event's node was lost since a person last looked; unknown without a plan.
    pub(super) fn losses(&self, event: &NodeEvent) -> Option<u32> {
        let at = self.find(event.node()).filter(|_| self.plan.is_some())?;
        Some(self.seen(at)?.abandoned)
    }

    pub(super) fn seen(&self, at: At) -> Option<&Seen> {
        self.scopes.get(&at.scope)?.get(at.node)
    }

    pub(super) fn seen_mut(&mut self, at: At) -> Option<&mut Seen> {
        self.scopes.get_mut(&at.scope)?.get_mut(at.node)
    }

    /// Is this the first report of the event's node?
    pub(super) fn is_news(&mut self, event: &Event) -> bool {
        let node = event.node().and_then(|path| self.find(path));
        let seen = node.and_then(|at| self.seen_mut(at));
        seen.is_none_or(|seen| !std::mem::replace(&mut seen.known, true))
    }

    /// Is the event possible here? Returns the broken rule and changes nothing.
    pub(super) fn judge(&self, place: EventAt, event: &Event, run: &RunCheck) -> Verdict {
        let event = match event {
            Event::Node(event) => event,
            Event::Run(event) => {
                if let RunEvent::Reopened { nodes, .. } = event {
                    self.may_be_reset(nodes)?;
                }
                if let RunEvent::Created(created) = event {
                    self.may_begin_with(created)?;
                }
                return spans::judge_run(place, event, self.plan.as_deref());
            }
        };
        let unseen = Seen::default();
        let at = self.find(event.node());
        let what = "the definition has no such node, or its body is not open";
        require(at.is_some() || self.plan.is_none(), Justified, what)?;
        let seen = at.and_then(|at| self.seen(at)).unwrap_or(&unseen);
        run.may_happen_now(event)?;
        self.may_begin_in(at, event)?;
        self.has_a_slot(event, run)?;
        spans::judge(place, event, self.plan.as_deref(), seen)?;
        self.judge_event(place, event, (at, seen), run)
    }

    /// Applies the event, whatever the verdict was.
    pub(super) fn advance(&mut self, place: EventAt, event: &Event, run: &RunCheck) {
        let event = match event {
            Event::Run(RunEvent::Created(created)) => {
                self.began_at = created.trigger.as_ref().and_then(|fired| fired.node.clone());
                return;
            }
            Event::Run(RunEvent::Ending { .. }) => return self.cancel_pending(place),
            Event::Run(RunEvent::Reopened { nodes, .. }) => return self.reset(nodes),
            // A person looked: losses are counted anew.
            Event::Run(RunEvent::Resumed { .. }) if run.held => {
                let seen = self.scopes.values_mut().flat_map(|scope| &mut scope.seen);
                return seen.for_each(|seen| seen.abandoned = 0);
            }
            Event::Run(_) => return,
            Event::Node(event) => event,
        };
        let Some(at) = self.find_or_add(event.node()) else { return };
        if let NodeEvent::Scheduled { attempt, deadline, .. } = event {
            self.scheduled(place, at, *attempt, *deadline);
        }
        if let NodeEvent::Failed { failure, .. } = event {
            self.note_late(place, at, failure);
        }
        let Some(seen) = self.seen_mut(at) else { return };
        let (ran, was_settled) = (seen.phase == Phase::Running, seen.is_settled());
        seen.advance(place, event);
        let (runs, settles) = (seen.phase == Phase::Running, seen.is_settled() && !was_settled);
        self.running += usize::from(runs);
        self.running = self.running.saturating_sub(usize::from(ran));
        match event {
            NodeEvent::BodyOpened { node, index, .. } => self.body_opened(at, node, *index),
            NodeEvent::MapOpened { count, tolerated, .. } => {
                self.mapped(at, *count, *tolerated);
            }
            NodeEvent::ItemsOpened { node, from, count, .. } => {
                self.items_opened(at, node, *from, *count);
            }
            NodeEvent::BodyEnding { node, index, .. } => self.body_ending(place, node, *index),
            NodeEvent::Tuned { held, concurrency, .. } => self.tuned(at, *held, *concurrency),
            NodeEvent::Failed { .. } | NodeEvent::Cancelled { .. } => self.drop_body(at),
            NodeEvent::Scheduled { .. }
            | NodeEvent::Reserved(_)
            | NodeEvent::Used(_)
            | NodeEvent::Started { .. }
            | NodeEvent::Checkpointed { .. }
            | NodeEvent::Completed { .. }
            | NodeEvent::Waiting { .. }
            | NodeEvent::Signalled { .. }
            | NodeEvent::Reminded { .. }
            | NodeEvent::Resumed { .. }
            | NodeEvent::Requeued { .. }
            | NodeEvent::ChildStarted { .. }
            | NodeEvent::ChildReopened { .. }
            | NodeEvent::ChildEnded { .. }
            | NodeEvent::SignalSent { .. }
            | NodeEvent::Skipped { .. } => {}
        }
        if let NodeEvent::Started { token: Some(token), .. } = event {
            self.tokens.insert(*token);
        }
        if settles {
            self.note_unhandled(at);
            self.settled_in(at);
        }
    }

    /// If a definition has a concurrency key, nothing starts without a permit. Without a plan, only
    /// the log is used.
    fn has_a_slot(&self, event: &NodeEvent, run: &RunCheck) -> Verdict {
        let starts = matches!(event, NodeEvent::Scheduled { .. } | NodeEvent::Skipped { .. });
        let keyed = self.plan.as_ref().is_some_and(|plan| plan.concurrency.is_some());
        let waits = run.is_queued() || (keyed && !run.is_admitted());
        require(!(starts && waits), PermitsHold, "before it had a permit of its concurrency key")
    }

    fn find_or_add(&mut self, path: &Arc<str>) -> Option<At> {
        if self.plan.is_some() {
            return self.find(path);
        }
        let all = &mut self.scopes.entry(ScopeNo::ROOT).or_default().seen;
        let next = position(all.len());
        let at = *self.named.entry(Arc::clone(path)).or_insert(next);
        if at == next {
            all.push(Seen::default());
        }
        Some(at.into())
    }

    fn scheduled(&mut self, place: EventAt, at: At, attempt: u32, deadline: Option<Timestamp>) {
        let Some(plan) = self.plan.clone() else { return };
        let first = self.seen(at).is_some_and(|seen| seen.phase == Phase::Pending);
        let doomed = first && graph::turn(&plan, self, at) == Turn::Fail;
        let node = plan.node(at.node);
        self.fired = (!node.only_here.is_empty()).then_some(at);
        let Some(seen) = self.seen_mut(at) else { return };
        seen.body = BodySeen::default();
        seen.doomed = doomed;
        seen.attempt = attempt;
        if first {
            let counted = || node.deadline.map(|span| place.decided_at.plus(span));
            seen.deadline = deadline.or_else(counted);
        }
    }

    fn cancel_pending(&mut self, place: EventAt) {
        for scope in self.scopes.values_mut() {
            self.settled += scope.cancel_pending(place.seq);
        }
        self.close_settled();
    }

    fn reset(&mut self, nodes: &[Arc<str>]) {
        self.unhandled = false;
        for path in nodes {
            let at = self.find(path);
            let Some(seen) = at.and_then(|at| self.seen_mut(at)) else { continue };
            // A completed node does not run again.
            if matches!(seen.phase, Phase::Settled(End::Completed { .. })) {
                continue;
            }
            let (settled, ran) = (seen.is_settled(), usize::from(seen.phase == Phase::Running));
            // Attempt numbers continue: a report of an earlier generation must never fit a later
            // one.
            let (attempt, known, child) = (seen.attempt, seen.known, seen.child);
            *seen = Seen { attempt, known, child, ..Seen::default() };
            self.running = self.running.saturating_sub(ran);
            if settled {
                self.reopen_in_root();
            }
        }
    }

    fn note_unhandled(&mut self, at: At) {
        let phase = self.seen(at).map(|seen| &seen.phase);
        if let (Some(plan), Some(Phase::Settled(End::Failed { past_on_error }))) =
            (&self.plan, phase)
        {
            self.unhandled |= plan.failure_policy == FailurePolicy::Partial
                && at.scope == ScopeNo::ROOT
                && (*past_on_error || plan.node(at.node).on_error == OnError::Fail);
        }
    }

    /// `onError` is skipped only for mistakes of the definition, if the node does not handle them.
    /// Older logs never skip it, which is valid.
    pub(super) fn may_skip_on_error(&self, at: Option<At>, failure: &Failure) -> Verdict {
        let node = self.plan.as_ref().zip(at).map(|(plan, at)| plan.node(at.node));
        let may = !failure.on_error_skipped || node.is_none_or(|node| node.skips_on_error(failure));
        require_with(may, Justified, || {
            format!("its failure `{}` passes `onError` by", failure.kind)
        })
    }

    fn may_be_reset(&self, nodes: &[Arc<str>]) -> Verdict {
        for path in nodes {
            let seen = self.find(path).and_then(|at| self.seen(at));
            let completed =
                |seen: &Seen| matches!(seen.phase, Phase::Settled(End::Completed { .. }));
            require_with(!seen.is_some_and(completed), SettlesOnce, || {
                format!("node {path:?} has completed and is to run again")
            })?;
        }
        Ok(())
    }

    /// Does the graph allow a PENDING node's turn, and do the causes name what settled its sources?
    pub(super) fn is_justified(
        &self,
        at: Option<At>,
        seen: &Seen,
        cause: &[u64],
        allows: impl Fn(Turn) -> bool,
    ) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        if seen.phase != Phase::Pending {
            return Ok(());
        }
        let turn = graph::turn(plan, self, at);
        require(allows(turn), turn.breaks(plan.node(at.node)), turn.describe())?;
        let are_causes = graph::are_causes(plan, self, at, cause);
        require(are_causes, Justified, "its causes are not what settled its sources")
    }

    /// A remote attempt is a task of one worker, which has a token for it; a node whose handler is
    /// only remote does not run in a slot.
    pub(super) fn is_made_by_one(&self, at: Option<At>, started: &NodeEvent) -> Verdict {
        let NodeEvent::Started { worker, remote, token, .. } = started else {
            return Ok(());
        };
        let behaviour = self.plan.as_ref().zip(at).map(|(plan, at)| &plan.node(at.node).behaviour);
        match (remote, token, behaviour) {
            (_, Some(token), _) if self.tokens.contains(token) => {
                broken(AttemptsOnce, "an earlier attempt has the same token")
            }
            (Some(_), None, _) => broken(AttemptsOnce, "it runs remotely, and has no token"),
            (Some(_), ..) if worker.is_some() => broken(AttemptsOnce, "it is made in two places"),
            (Some(_), _, Some(behaviour)) if !matches!(behaviour, Behaviour::Task { .. }) => {
                broken(Justified, "it is no task, and is made remotely")
            }
            (None, Some(_), Some(behaviour)) if behaviour.is_remote() => {
                broken(Justified, "its handler is remote, and it runs in a local slot")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn may_be_tried_again(
        &self,
        at: Option<At>,
        seen: &Seen,
        failure: &Failure,
        end: FailureEnd,
    ) -> Verdict {
        let (Some(plan), Some(at)) = (&self.plan, at) else { return Ok(()) };
        match end {
            FailureEnd::RetryAt(_) => {
                let most =
                    plan.node(at.node).retry.as_ref().map_or(1, |policy| policy.max_attempts);
                require_with(seen.tries.saturating_add(1) < most, AttemptsInOrder, || {
                    format!("to be tried again, although {most} tries are allowed")
                })
            }
            FailureEnd::Abandoned(_) => {
                let few = failure.is_uncounted() || seen.abandoned < ABANDONED_MAX;
                require_with(few, Limits, || {
                    format!("lost more than {ABANDONED_MAX} times, and was not resumed by a person")
                })
            }
            FailureEnd::Final | FailureEnd::TimedOut => Ok(()),
        }
    }

    pub(super) fn may_be_cancelled(
        &self,
        at: Option<At>,
        reason: CancelReason,
        run: &RunCheck,
    ) -> Verdict {
        match (reason, &self.plan, at) {
            (CancelReason::Ending, ..) if !run.is_ending() => {
                broken(CauseDecides, "cancelled for an end that is not fixed")
            }
            (CancelReason::Grace, ..) if !run.is_ending() && !self.is_ending_scope(at) => {
                broken(CauseDecides, "given up for an end that is not fixed")
            }
            (CancelReason::Body, Some(_), Some(_)) if !self.is_ending_scope(at) => {
                broken(CauseDecides, "cancelled for the end of a body that is not fixed")
            }
            (CancelReason::Join, Some(plan), Some(at)) => {
                let join = self.fired.filter(|join| join.scope == at.scope);
                let rest = join.map(|join| plan.node(join.node).only_here.as_slice());
                let is_rest = rest.unwrap_or_default().binary_search(&at.node).is_ok();
                require(is_rest, Justified, "no join that fired leaves it without use")
            }
            _ => Ok(()),
        }
    }
}
