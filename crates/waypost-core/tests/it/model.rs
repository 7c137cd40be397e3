//! The rules, written a second time and simply: a checker that reads nothing but a plan and a log,
//! and panics at the first event that it cannot justify.

use std::collections::BTreeSet;
use std::sync::Arc;

use waypost_core::event::{EndCause, Event, FailureEnd, MessageId, Wait};
use waypost_core::failure::kind;
use waypost_core::id::Token;
use waypost_core::plan::{Condition, FailurePolicy, Join, OnError, Plan};
use waypost_core::time::Timestamp;

/// What a node came to, as far as edges care.
#[derive(Clone, PartialEq, Debug)]
enum End {
    Completed { branch: Option<String> },
    Failed { past_on_error: bool },
    Skipped,
    Cancelled,
}

#[derive(Clone, PartialEq, Debug)]
enum Phase {
    Pending,
    Queued,
    Running,
    Waiting(Wait),
    Ended(End),
}

#[derive(Clone, Debug)]
struct Seen {
    phase: Phase,
    attempt: u32,
    tries: u32,
    /// Its join cannot be met: it was scheduled only to fail.
    doomed: bool,
}

/// What the rules say of a PENDING node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    NotYet,
    Run,
    Skip,
    Fail,
}

/// What is known of an execution from its log.
pub(crate) struct Model<'a> {
    plan: &'a Plan,
    nodes: Vec<Seen>,
    seq: u64,
    epoch: u32,
    generation: u32,
    owned: bool,
    in_line: bool,
    admitted: bool,
    held: bool,
    cause: Option<EndCause>,
    over: bool,
    unhandled: bool,
    messages: BTreeSet<MessageId>,
    signals: Vec<(MessageId, String)>,
    tokens: BTreeSet<Token>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let seen = Seen { phase: Phase::Pending, attempt: 0, tries: 0, doomed: false };
        Self {
            plan,
            nodes: vec![seen; plan.nodes.len()],
            seq: 0,
            epoch: 0,
            generation: 1,
            owned: false,
            in_line: false,
            admitted: false,
            held: false,
            cause: None,
            over: false,
            unhandled: false,
            messages: BTreeSet::new(),
            signals: Vec::new(),
            tokens: BTreeSet::new(),
        }
    }

    /// Reads one event; panics if nothing justifies it.
    pub(crate) fn read(&mut self, at: Timestamp, event: &Event) {
        self.seq += 1;
        if self.over {
            assert!(matches!(event, Event::RunReopened { .. }), "after the end: {event:?}");
        }
        match event.node() {
            Some(path) => {
                let node = self.plan.find(path).expect("a node of the plan").at();
                self.read_node(node, at, event);
            }
            None => self.read_run(event),
        }
    }

    /// What the rules say of a node's turn; nothing where it is not PENDING.
    pub(crate) fn turn(&self, node: usize) -> Option<Turn> {
        if self.nodes[node].phase != Phase::Pending {
            return None;
        }
        let plan_node = &self.plan.nodes[node];
        let edges: Vec<_> = plan_node.needs.iter().map(|condition| self.edge(condition)).collect();
        let count = |edge: Edge| u32::try_from(edges.iter().filter(|e| **e == edge).count());
        let [open, taken, dead] =
            [Edge::Open, Edge::Taken, Edge::Dead].map(|edge| count(edge).expect("few"));
        Some(match plan_node.join {
            _ if edges.is_empty() => Turn::Run,
            Join::All if open > 0 => Turn::NotYet,
            Join::All if taken > 0 && dead == 0 => Turn::Run,
            Join::All => Turn::Skip,
            Join::Count { count, .. } if taken >= count => Turn::Run,
            Join::Count { count, .. } if taken + open >= count => Turn::NotYet,
            Join::Count { .. } if taken == 0 => Turn::Skip,
            Join::Count { .. } => Turn::Fail,
        })
    }

    fn edge(&self, condition: &Condition) -> Edge {
        let source = &self.plan.nodes[condition.source.at()];
        let on = |name: &str| condition.branches.iter().any(|branch| **branch == *name);
        let taken = match &self.nodes[condition.source.at()].phase {
            Phase::Ended(End::Completed { branch }) => {
                condition.unlabelled || branch.as_deref().is_some_and(on)
            }
            Phase::Ended(End::Failed { past_on_error: true }) => false,
            Phase::Ended(End::Failed { past_on_error: false }) => match &source.on_error {
                OnError::Fail => false,
                OnError::Continue => condition.unlabelled,
                OnError::Branch(branch) => on(branch),
            },
            Phase::Ended(End::Skipped | End::Cancelled) => return Edge::Neutral,
            _ => return Edge::Open,
        };
        if taken { Edge::Taken } else { Edge::Dead }
    }

    fn consume(&mut self, message: Option<&MessageId>) {
        if let Some(message) = message {
            assert!(self.messages.insert(message.clone()), "{message} was consumed twice");
        }
    }

    fn read_run(&mut self, event: &Event) {
        match event {
            Event::RunCreated(_) => assert_eq!(self.seq, 1, "created once, first"),
            Event::RunOwned { epoch, .. } => {
                assert_eq!(*epoch, self.epoch + 1, "ownership grows by one");
                self.epoch = *epoch;
                self.owned = true;
            }
            Event::RunQueued { .. } => {
                assert!(self.owned && !self.admitted, "it goes into the line before it begins");
                self.nothing_runs();
                (self.owned, self.in_line) = (false, true);
            }
            Event::RunAdmitted {} => {
                assert!(self.in_line, "it stood in the line");
                (self.in_line, self.admitted) = (false, true);
            }
            Event::RunPauseRequested { origin, .. } => {
                assert!(!self.in_line, "there is nothing to pause");
                assert!(!self.held, "pause and resume alternate");
                self.held = true;
                self.consume(origin.message.as_ref());
            }
            Event::RunPaused { .. } => {
                self.nothing_runs();
                self.owned = false;
            }
            Event::RunQuarantined { .. } => {
                self.nothing_runs();
                (self.owned, self.held) = (false, true);
            }
            Event::RunResumed { origin } => {
                (self.owned, self.held) = (true, false);
                self.consume(origin.message.as_ref());
            }
            Event::RunEnding { cause, .. } => {
                assert_eq!(self.cause, None, "one cause");
                if let EndCause::Cancel { origin, .. } = cause {
                    self.consume(origin.message.as_ref());
                }
                self.cause = Some(cause.clone());
                for seen in &mut self.nodes {
                    if seen.phase == Phase::Pending {
                        seen.phase = Phase::Ended(End::Cancelled);
                    }
                }
            }
            Event::RunCompleted { .. } => {
                assert!(self.cause.is_none() && !self.unhandled, "nothing went wrong");
                self.ends();
            }
            Event::RunFailed { .. } => {
                let failed = matches!(
                    self.cause,
                    Some(EndCause::Failure { .. } | EndCause::NotQueued { .. })
                );
                assert!(failed || self.cause.is_none() && self.unhandled, "something failed");
                self.ends();
            }
            Event::RunCancelled { .. } => {
                assert!(matches!(self.cause, Some(EndCause::Cancel { .. })), "it was cancelled");
                self.ends();
            }
            Event::RunTimedOut {} => {
                assert_eq!(self.cause, Some(EndCause::Deadline));
                self.ends();
            }
            Event::RunReopened { generation, nodes, origin, .. } => {
                self.consume(origin.message.as_ref());
                self.reopen(*generation, nodes);
            }
            Event::SignalReceived { name, origin, .. } => {
                self.consume(origin.message.as_ref());
                let message = origin.message.clone().expect("a signal has an id");
                self.signals.push((message, name.to_string()));
            }
            Event::MessageIgnored { message, .. } => self.consume(Some(message)),
            other => unreachable!("{other:?} is about a node"),
        }
    }

    fn reopen(&mut self, generation: u32, nodes: &[Arc<str>]) {
        assert!(self.over, "only what is over is reopened");
        assert_eq!(generation, self.generation + 1);
        self.generation = generation;
        (self.over, self.owned, self.held) = (false, false, false);
        (self.cause, self.unhandled) = (None, false);
        (self.in_line, self.admitted) = (false, false);
        for path in nodes {
            let seen = &mut self.nodes[self.plan.find(path).expect("a node").at()];
            let completed = matches!(seen.phase, Phase::Ended(End::Completed { .. }));
            assert!(!completed, "{path} has completed");
            *seen = Seen { phase: Phase::Pending, tries: 0, doomed: false, ..*seen };
        }
    }

    fn nothing_runs(&self) {
        let running = |seen: &Seen| seen.phase == Phase::Running;
        assert!(!self.nodes.iter().any(running), "something runs");
    }

    fn ends(&mut self) {
        for (seen, node) in self.nodes.iter().zip(&self.plan.nodes) {
            assert!(matches!(seen.phase, Phase::Ended(_)), "{} is not settled", node.id);
        }
        self.over = true;
    }

    fn read_node(&mut self, node: usize, at: Timestamp, event: &Event) {
        let id = &self.plan.nodes[node].id;
        let has_slot = self.admitted || self.plan.concurrency.is_none();
        let may_start = self.owned && !self.held && self.cause.is_none() && has_slot;
        let turn = self.turn(node);
        let seen = self.nodes[node].clone();
        assert!(!matches!(seen.phase, Phase::Ended(_)), "{id} has settled: {event:?}");
        assert!(self.owned || self.cause.is_some(), "nobody owns it: {event:?}");
        let next = match event {
            Event::NodeScheduled { attempt, .. } => {
                assert!(may_start, "{id} may not be scheduled now");
                assert_eq!(*attempt, seen.attempt + 1, "attempts of {id} are consecutive");
                match &seen.phase {
                    Phase::Waiting(Wait::Retry { due }) => assert!(*due <= at, "{id}: too early"),
                    phase => assert_eq!(*phase, Phase::Pending),
                }
                if let Some(turn) = turn {
                    assert!(matches!(turn, Turn::Run | Turn::Fail), "{id} was scheduled: {turn:?}");
                }
                self.nodes[node].attempt = *attempt;
                self.nodes[node].doomed = turn == Some(Turn::Fail);
                Phase::Queued
            }
            Event::NodeStarted { attempt, token, remote, .. } => {
                let done_elsewhere = remote.is_some() && self.owned && self.cause.is_none();
                assert!(may_start || done_elsewhere, "{id} may not start now");
                assert!(!seen.doomed, "{id} can only fail");
                assert_eq!((&seen.phase, *attempt), (&Phase::Queued, seen.attempt), "{id}");
                if let Some(token) = token {
                    assert!(self.tokens.insert(*token), "{id} shares a token");
                }
                Phase::Running
            }
            Event::NodeCheckpointed { .. } => Phase::Running,
            Event::NodeWaiting { wait, .. } => Phase::Waiting(wait.clone()),
            Event::NodeResumed { origin, .. } if origin.message.is_some() => {
                assert!(may_start, "{id}: nobody ends its wait now");
                match seen.phase {
                    Phase::Waiting(Wait::Retry { .. }) => Phase::Waiting(Wait::Retry { due: at }),
                    Phase::Waiting(_) => Phase::Running,
                    phase => panic!("{id} does not wait: {phase:?}"),
                }
            }
            Event::NodeResumed { message, .. } => {
                self.justify_resume(&seen.phase, at, message.as_ref());
                Phase::Running
            }
            Event::NodeCompleted { branch, .. } => {
                assert_eq!(seen.phase, Phase::Running, "{id}");
                Phase::Ended(End::Completed { branch: branch.as_ref().map(ToString::to_string) })
            }
            Event::NodeFailed { end, failure, .. } => {
                assert_eq!(seen.doomed, failure.kind == kind::JOIN_UNSATISFIABLE, "{id}");
                let mistake = kind::DEFINITION_ERRORS.contains(&&*failure.kind);
                let settles = matches!(end, FailureEnd::Final | FailureEnd::TimedOut);
                let plan_node = &self.plan.nodes[node];
                let handled =
                    plan_node.on_error != OnError::Fail && !plan_node.on_definition_errors;
                assert_eq!(failure.on_error_skipped, mistake && settles && handled, "{id}");
                self.failed(node, *end, failure.on_error_skipped)
            }
            Event::NodeSkipped { .. } => {
                assert!(may_start, "{id} may not be skipped now");
                assert_eq!(turn, Some(Turn::Skip), "{id}");
                Phase::Ended(End::Skipped)
            }
            Event::NodeCancelled { .. } => Phase::Ended(End::Cancelled),
            other => unreachable!("{other:?} is not about a node"),
        };
        self.nodes[node].phase = next;
    }

    /// A wait ends by its message, or when it is due and not before.
    fn justify_resume(&self, phase: &Phase, at: Timestamp, message: Option<&MessageId>) {
        match (phase, message) {
            (Phase::Waiting(Wait::Delay { due }), None) => assert!(*due <= at, "too early"),
            (Phase::Waiting(Wait::Signal { name, .. }), Some(message)) => {
                let known = |(id, of): &(MessageId, String)| id == message && **name == **of;
                assert!(self.signals.iter().any(known), "{message} never came");
            }
            other => panic!("nothing ends {other:?}"),
        }
    }

    fn failed(&mut self, node: usize, end: FailureEnd, past_on_error: bool) -> Phase {
        let plan_node = &self.plan.nodes[node];
        match end {
            FailureEnd::RetryAt(due) => {
                let seen = &mut self.nodes[node];
                seen.tries += 1;
                let tries = plan_node.retry.as_ref().map_or(1, |policy| policy.max_attempts);
                assert!(seen.tries < tries, "{} had its tries", plan_node.id);
                Phase::Waiting(Wait::Retry { due })
            }
            FailureEnd::Abandoned(due) => Phase::Waiting(Wait::Retry { due }),
            FailureEnd::Final | FailureEnd::TimedOut => {
                if plan_node.on_error == OnError::Fail || past_on_error {
                    self.unhandled |= self.plan.failure_policy == FailurePolicy::Partial;
                }
                Phase::Ended(End::Failed { past_on_error })
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    Open,
    Taken,
    Dead,
    Neutral,
}
