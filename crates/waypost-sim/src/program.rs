//! Programs: workflows in a form of their own, small enough to reason about.
//!
//! ```text
//!   approvals    what people are asked; spans: how long nodes may take
//!   containers   groups, loops and maps; children: the workflows that nodes start
//!   generate     Random + Appetite ─▶ Program
//!   messages     what nodes send: to webhook endpoints, to executions
//!   operations   what an outside service does, and calls back or is polled for
//!   definition   Program ─▶ the JSON that Waypost runs, and an input for it
//!   script       how the outside world answers a task's calls
//!   graph        what follows from the edges alone
//!   display      Program ─▶ one line for people
//!   shrink       Program ─▶ smaller programs; weight: how small
//! ```
//!
//! Everything about a program is in its definition and its input: nothing depends on who runs it. A
//! node needs and mentions only nodes before it, so the order of `nodes` is a topological one. The
//! body of a container is a list of nodes like a program's own, with positions of its own.

mod approvals;
mod budgets;
mod children;
mod containers;
mod definition;
mod display;
mod generate;
pub mod graph;
mod messages;
mod operations;
mod retry;
mod script;
mod shrink;
mod spans;
mod waits;
mod weight;

use std::collections::BTreeSet;

use waypost_core::kind::{APPROVED, EXPIRED, REJECTED};
use waypost_core::plan::ConcurrencyPolicy;

pub use approvals::{APPROVER, Approval, DEPUTY};
pub use budgets::{BudgetRule, INPUT_TOKENS, OUTPUT_TOKENS};
pub use children::{ChildCall, ChildProgram, Tie};
pub use containers::{Each, Ends, ITEMS_MAX, ItemSource, Loop, Tolerated, span_of};
pub use definition::{FAILURE, HANDLER, NAME};
pub use generate::Appetite;
pub use messages::Notify;
pub use operations::Operation;
pub use retry::{RetryOn, RetryRule};
pub use script::{OutsideReply, Script};
pub use waits::{DelaySpan, LATE, Signal, Signals};

/// The largest `n` of an input; the smallest is 0.
pub const N_MAX: u64 = 9;

/// A workflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its nodes, each after those it needs.
    pub nodes: Vec<Node>,
    /// The effect of an unhandled failure on the rest.
    pub failure_policy: FailurePolicy,
    /// How long an execution may take.
    pub timeout_ms: Option<u64>,
    /// How many executions may run at once. Random programs have no limit: the generator of several
    /// programs decides which of them share one.
    pub keyed: Option<Keyed>,
    /// How many tokens its tasks may use.
    pub budget: Option<BudgetRule>,
}

/// A limit on how many executions of one key may run at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keyed {
    pub limit: u32,
    /// What happens to one more.
    pub policy: ConcurrencyPolicy,
    /// Are there two keys, by the input's `n`, or one?
    pub split: bool,
}

/// The effect of an unhandled failure on the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailurePolicy {
    /// It ends the execution.
    FailFast,
    /// Nodes that do not depend on it continue.
    Partial,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its id; it keeps it when other nodes are removed.
    pub id: String,
    pub kind: Kind,
    /// Its edges.
    pub needs: Vec<Need>,
    /// How they join.
    pub join: Join,
    /// What follows a failed attempt.
    pub retry: Option<RetryRule>,
    /// How long one attempt may take.
    pub timeout_ms: Option<u64>,
    /// How long all attempts may take.
    pub deadline_ms: Option<u64>,
    /// What follows its failure.
    pub on_error: OnError,
    /// Does that also follow a mistake of the definition?
    pub definition_errors: bool,
    /// Must it never be called twice for one try?
    pub at_most_once: bool,
    /// Is it a task of a remote worker?
    pub remote: bool,
    /// What it sets the variable to when it completes.
    pub sets: Option<Setting>,
}

impl Node {
    /// A node with its kind and its edges, and nothing else.
    pub fn plain(id: impl Into<String>, kind: Kind, needs: Vec<Need>) -> Self {
        Self {
            id: id.into(),
            kind,
            needs,
            join: Join::All,
            retry: None,
            timeout_ms: None,
            deadline_ms: None,
            on_error: OnError::Fail,
            definition_errors: false,
            at_most_once: false,
            remote: false,
            sets: None,
        }
    }
}

/// What a node sets the program's variable to, which counts as 0 before. Items of a map have their own,
/// which begins with the value that the variable around it has when the item is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    To(u64),
    /// One more than it was.
    More,
}

/// One edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The position of the node it comes from.
    pub source: usize,
    /// The branch it is on.
    pub branch: Option<String>,
}

/// How a node's sources join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    All,
    /// The first so many of them.
    Count {
        /// How many; `any` is 1.
        count: usize,
        /// Cancel what leads only here when it fires?
        cancel_rest: bool,
    },
}

/// What follows a node's failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OnError {
    /// It is not handled.
    Fail,
    /// As if it had completed.
    Continue,
    /// The edges on this branch.
    Branch(String),
}

/// What a node does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing.
    Noop,
    /// Makes a list of values.
    Transform(Vec<Value>),
    /// Selects `true` or `false`.
    Condition(Test),
    /// Selects the branch of the first case that holds.
    Switch {
        /// Tried in order.
        cases: Vec<Case>,
        /// The branch where none holds.
        default: Option<String>,
    },
    /// Gathers the outputs of its sources.
    Join,
    /// Fails with a kind of its own.
    Fail,
    /// Waits for a span.
    Delay(DelaySpan),
    /// Waits for a signal.
    Wait {
        signal: Signal,
        /// How long at most.
        timeout_ms: Option<u64>,
    },
    /// Waits for some of several signals.
    Signals(Signals),
    /// Asks a person to decide.
    Approval(Approval),
    /// Makes a list of values the execution's output.
    Output(Vec<Value>),
    /// Calls the outside world.
    Task(Script),
    /// Starts an operation of an outside service, and waits until it is done.
    Operation(Operation),
    /// Runs its body once.
    Group(Vec<Node>),
    /// Runs its body again and again.
    Loop(Loop),
    /// Runs its body for each item.
    Map(Each),
    /// Starts an execution of a child workflow.
    Child(ChildCall),
    /// Sends a message to webhook endpoints.
    Notify(Notify),
    /// Sends a signal to its own execution, by id.
    Emit(Signal),
}

/// A case of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// When it holds.
    pub test: Test,
    /// The branch that it selects.
    pub branch: String,
}

/// Something that holds or does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// Is the input's `n` at least this?
    AtLeast(u64),
    /// Has an earlier node completed? Only of nodes that have surely settled.
    Completed(usize),
    /// Is the iteration of the nearest loop at least this?
    Iteration(u64),
    /// Is it below this?
    Below(u64),
    /// Has its last iteration had an output?
    Previous,
    /// Has its last iteration found an operation done?
    Done,
    /// Is the index of the item of the nearest map at least this?
    Index(u64),
    /// Is the variable at least this?
    Variable(u64),
    /// Not a boolean: the evaluation fails.
    Broken,
}

/// A value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    Constant(u64),
    /// The input's `n` and so much more.
    Plus(u64),
    /// A text with the input's `n` in it.
    Text,
    /// The output of an earlier node, as far as it has one.
    OutputOf(usize),
    /// The results in the output of an earlier map; it fails where there are none.
    ResultsOf(usize),
    /// The status of an earlier node.
    StatusOf(usize),
    /// The output of the first node that the container around needs; null where there is none.
    Before,
    /// The iteration of the nearest loop.
    Iteration,
    /// The output of its last iteration.
    Previous,
    /// The item of the nearest map.
    Item,
    /// The index of that item.
    Index,
    Variable,
    /// A field of the input that is not there: the evaluation fails.
    Broken,
}

impl Node {
    /// How many tries it has.
    pub fn tries_max(&self) -> u32 {
        self.retry.map_or(1, |retry| retry.max_attempts)
    }

    /// The branches that an edge from it may be on.
    pub fn branches(&self) -> Vec<&str> {
        let mut branches: Vec<&str> = match &self.kind {
            Kind::Condition(_) => vec!["true", "false"],
            Kind::Switch { cases, default } => {
                cases.iter().map(|case| &*case.branch).chain(default.as_deref()).collect()
            }
            Kind::Signals(Signals { late: true, .. })
            | Kind::Operation(Operation { late: true, .. }) => vec![LATE],
            Kind::Approval(_) => vec![APPROVED, REJECTED, EXPIRED],
            _ => Vec::new(),
        };
        if let OnError::Branch(branch) = &self.on_error {
            branches.push(branch);
        }
        branches
    }

    /// It, and all that is in its body.
    fn all(&self) -> Vec<&Self> {
        let inside = self.body().unwrap_or_default().iter().flat_map(Self::all);
        std::iter::once(self).chain(inside).collect()
    }

    /// The nodes it needs, each once.
    pub fn sources(&self) -> BTreeSet<usize> {
        self.needs.iter().map(|need| need.source).collect()
    }
}

impl Program {
    /// The position of a node.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// The node of a path, whichever iteration it names.
    pub fn locate(&self, path: &str) -> Option<&Node> {
        let (mut nodes, mut found) = (&self.nodes[..], None);
        for step in path.split('/') {
            let id = step.split_once('[').map_or(step, |(id, _)| id);
            found = Some(nodes.iter().find(|node| node.id == id)?);
            nodes = found.and_then(Node::body).unwrap_or_default();
        }
        found
    }

    /// Its nodes and those of all bodies.
    pub fn all(&self) -> Vec<&Node> {
        self.nodes.iter().flat_map(Node::all).collect()
    }

    /// Changes its nodes and those of all bodies.
    pub fn each_node_mut(&mut self, change: &mut dyn FnMut(&mut Node)) {
        self.nodes.iter_mut().for_each(|node| node.each_mut(change));
    }

    /// The signals that its waits need, once for each.
    pub fn signals(&self) -> Vec<Signal> {
        self.all().into_iter().flat_map(Node::signals).collect()
    }

    /// The signals that its waits need in all scopes that may be opened.
    pub fn signals_max(&self) -> Vec<Signal> {
        self.nodes.iter().flat_map(Node::signals_max).collect()
    }
}
