//! Child workflows: a few fixed programs that every world defines, and how nodes start them. Being
//! programs, they are judged like those that people submit.

use std::fmt;

use super::{
    DelaySpan, FailurePolicy, Kind, Need, Node, OnError, Program, RetryOn, RetryRule, Script,
    Signal, Value, span_of,
};

/// What a node starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildCall {
    pub of: ChildProgram,
    pub tie: Tie,
}

/// How a child and the node that started it are tied to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// The node waits for the child, which is cancelled with it.
    Awaited,
    /// The node waits for the child, which goes on without it.
    Left,
    /// The node does not wait.
    Detached,
}

/// The workflows that nodes start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildProgram {
    /// Calls the outside world and has an output.
    Works,
    /// Fails after a while.
    Fails,
    /// Waits for a delay.
    Sleeps,
    /// Waits for a signal.
    Listens,
    /// Takes longer than it may.
    Overruns,
    /// Starts others: one that fails, with a retry, and one that works.
    Parent,
}

impl ChildProgram {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Works, Self::Fails, Self::Sleeps, Self::Listens, Self::Overruns, Self::Parent];

    /// The name of the workflow.
    pub fn name(self) -> &'static str {
        match self {
            Self::Works => "child-works",
            Self::Fails => "child-fails",
            Self::Sleeps => "child-sleeps",
            Self::Listens => "child-listens",
            Self::Overruns => "child-overruns",
            Self::Parent => "child-parent",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|child| child.name() == name)
    }

    /// What it does.
    pub fn program(self) -> Program {
        let after = |source: usize| vec![Need { source, branch: None }];
        let node = |id: &str, kind: Kind, needs: Vec<Need>| Node::plain(id, kind, needs);
        let child = |of: Self| Kind::Child(ChildCall { of, tie: Tie::Awaited });
        let first = match self {
            Self::Works => node("a", Kind::Task(Script::Good), Vec::new()),
            Self::Fails => node("a", Kind::Delay(DelaySpan::Fixed(500)), Vec::new()),
            Self::Sleeps => node("a", Kind::Delay(DelaySpan::Fixed(8_000)), Vec::new()),
            Self::Listens => {
                let wait = Kind::Wait { signal: Signal::Go, timeout_ms: None };
                node("a", wait, Vec::new())
            }
            Self::Overruns => node("a", Kind::Delay(DelaySpan::Fixed(30_000)), Vec::new()),
            Self::Parent => Node {
                retry: Some(RetryRule {
                    max_attempts: 2,
                    wait_ms: 400,
                    backoff: false,
                    on: RetryOn::Transient,
                }),
                on_error: OnError::Continue,
                ..node("a", child(Self::Fails), Vec::new())
            },
        };
        let second = match self {
            Self::Fails => Kind::Task(Script::Bad),
            Self::Parent => child(Self::Works),
            _ => Kind::Output(vec![Value::Plus(1)]),
        };
        Program {
            nodes: vec![first, node("b", second, after(0))],
            failure_policy: FailurePolicy::FailFast,
            timeout_ms: (self == Self::Overruns).then_some(2_000),
            keyed: None,
            budget: None,
        }
    }
}

impl ChildCall {
    /// How long the node can take in a prompt world; `None`: without limit.
    pub(super) fn span_ms_max(self) -> Option<u64> {
        /// How long it takes until the child is claimed, and until its end is known.
        const MESSAGES_MS: u64 = 1_000;
        if self.tie == Tie::Detached {
            return Some(MESSAGES_MS);
        }
        let program = self.of.program();
        let span = match (span_of(&program.nodes), program.timeout_ms) {
            (Some(span), Some(timeout)) => Some(span.min(timeout)),
            (span, timeout) => span.or(timeout),
        };
        span.map(|span| span + MESSAGES_MS)
    }
}

impl fmt::Display for ChildCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of.name())?;
        match self.tie {
            Tie::Awaited => Ok(()),
            Tie::Left => f.write_str(" leave"),
            Tie::Detached => f.write_str(" detached"),
        }
    }
}
