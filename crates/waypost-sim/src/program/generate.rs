//! Random programs, put together from shapes that workflows have: chains, fans, diamonds, forks,
//! races, rescues, in each other and side by side.

mod approvals;
mod bodies;
mod budgets;
mod children;
mod kinds;
mod maps;
mod messages;
mod operations;
mod storms;

use super::{FailurePolicy, Join, Kind, Need, Node, OnError, Program};
use crate::random::Random;

/// The contents of programs, and how much of each.
#[derive(Clone, Debug)]
pub struct Appetite {
    /// Nodes of one program, at most.
    pub nodes_max: usize,
    /// The longest delay. Some are much shorter.
    pub delay_ms_max: u64,
    /// The longest wait before a second try.
    pub retry_wait_ms_max: u64,
    /// How long an attempt at a sink that never answers lasts, at most.
    pub hang_ms_max: u64,
    /// Waits for signals?
    pub waits: bool,
    /// Sinks that never answer?
    pub hang: bool,
    /// Deadlines of nodes and timeouts of executions?
    pub limits: bool,
    /// Tasks that must not be called twice?
    pub at_most_once: bool,
    /// Tasks of remote workers?
    pub remote: bool,
    /// How many tasks in a hundred have a sink that fails them.
    pub failures_percent: u32,
    /// How many programs in a hundred have groups or loops.
    pub bodies_percent: u32,
    /// How many in a hundred have maps.
    pub maps_percent: u32,
    /// How many in a hundred start executions of the child workflows, which must be defined.
    pub children_percent: u32,
    /// How many in a hundred send messages to webhook endpoints, or signals by id.
    pub messages_percent: u32,
    /// How many in a hundred ask people.
    pub approvals_percent: u32,
    /// How many in a hundred have tasks with a circuit breaker, whose endpoint is down for a while.
    pub storms_percent: u32,
    /// How many in a hundred have tasks that use tokens, and a budget.
    pub budgets_percent: u32,
    /// How many in a hundred start operations of an outside service, which calls back or is polled.
    pub operations_percent: u32,
}

impl Appetite {
    /// For a world where time costs nothing.
    pub fn simulated() -> Self {
        Self {
            nodes_max: 14,
            delay_ms_max: 36_000_000,
            retry_wait_ms_max: 5_000,
            hang_ms_max: 30_000,
            waits: true,
            hang: true,
            limits: true,
            at_most_once: true,
            remote: true,
            failures_percent: 30,
            bodies_percent: 35,
            maps_percent: 20,
            children_percent: 0,
            messages_percent: 0,
            approvals_percent: 0,
            storms_percent: 0,
            budgets_percent: 0,
            operations_percent: 0,
        }
    }

    /// For real processes, where a second is a second.
    pub fn real() -> Self {
        Self {
            nodes_max: 10,
            delay_ms_max: 300,
            retry_wait_ms_max: 50,
            hang_ms_max: 300,
            remote: false,
            ..Self::simulated()
        }
    }
}

/// The shortest limit that may be exceeded: above what a prompt world needs for its part.
const TIGHT_MS: u64 = 1_500;
/// The reserve of an ample limit.
const AMPLE_MS: u64 = 60_000;

impl Program {
    /// A random program.
    pub fn generate(random: &mut Random, appetite: &Appetite) -> Self {
        let program = Self {
            nodes: Vec::new(),
            failure_policy: if random.percent(30) {
                FailurePolicy::Partial
            } else {
                FailurePolicy::FailFast
            },
            timeout_ms: None,
            keyed: None,
            budget: None,
        };
        let most = u64::try_from(appetite.nodes_max.max(1)).unwrap_or(u64::MAX);
        let size = usize::try_from(random.between(1, most)).unwrap_or(1);
        let mut builder = Builder { random, appetite, program, size, container: String::new() };
        while builder.room() > 0 {
            builder.shape();
        }
        builder.limit();
        let mut program = builder.program;
        program.add_bodies(random, appetite);
        program.add_maps(random, appetite);
        program.add_children(random, appetite);
        program.add_messages(random, appetite);
        program.add_approvals(random, appetite);
        program.add_storms(random, appetite);
        program.add_budget(random, appetite);
        program.add_operations(random, appetite);
        // Behind a join that does not wait for all, a test may depend on an open node.
        program.make_valid();
        program
    }

    /// The places of some of its nodes, those in bodies included: at most so many.
    fn some_places(&self, random: &mut Random, most: u64) -> Vec<usize> {
        let count = self.all().len();
        (0..random.between(1, most)).map(|_| random.index(count)).collect()
    }
}

struct Builder<'a> {
    random: &'a mut Random,
    appetite: &'a Appetite,
    program: Program,
    size: usize,
    /// The id of the container whose body it builds; empty for a program.
    container: String,
}

impl Builder<'_> {
    fn room(&self) -> usize {
        self.size.saturating_sub(self.program.nodes.len())
    }

    fn last(&self) -> Option<usize> {
        self.program.nodes.len().checked_sub(1)
    }

    /// Adds one shape, at a random place.
    fn shape(&mut self) {
        let Some(last) = self.last() else {
            self.any_node(&[]);
            return;
        };
        let from = if self.random.percent(50) { last } else { self.random.index(last + 1) };
        match self.random.below(10) {
            0 => drop(self.any_node(&[])),
            1 | 2 => drop(self.any_node(&[from])),
            3 => self.fan(from),
            4 => self.diamond(from),
            5 | 6 => self.fork(from),
            7 => self.race(from),
            8 => self.rescue(from),
            _ => self.merge(),
        }
    }

    /// Several nodes after one.
    fn fan(&mut self, from: usize) {
        for _ in 0..self.random.between(2, 4) {
            self.any_node(&[from]);
        }
    }

    /// Several nodes after one, and one after them all.
    fn diamond(&mut self, from: usize) {
        let arms = self.arms(from);
        self.meet(&arms);
    }

    fn arms(&mut self, from: usize) -> Vec<usize> {
        let count = self.random.between(2, 3);
        (0..count).filter_map(|_| self.any_node(&[from])).collect()
    }

    /// A choice, a node on some of its branches, and maybe one after those.
    fn fork(&mut self, from: usize) {
        let needs = vec![self.need(from)];
        let kind = self.choice(from);
        let Some(choice) = self.add(kind, needs, Join::All) else { return };
        let branches: Vec<String> =
            self.program.nodes[choice].branches().into_iter().map(Into::into).collect();
        let mut arms = Vec::new();
        for branch in branches {
            if self.random.percent(80) {
                let kind = self.kind(&[choice]);
                let need = Need { source: choice, branch: Some(branch) };
                arms.extend(self.add(kind, vec![need], Join::All));
            }
        }
        if self.random.percent(70) {
            self.meet(&arms);
        }
    }

    /// Arms of different lengths, of which the first few decide; the rest may be cancelled.
    fn race(&mut self, from: usize) {
        let arms: Vec<usize> = self
            .arms(from)
            .into_iter()
            .map(|arm| match self.random.percent(40) {
                true => self.any_node(&[arm]).unwrap_or(arm),
                false => arm,
            })
            .collect();
        let count = self.random.index(arms.len().max(1)) + 1;
        if arms.is_empty() {
            return;
        }
        let cancel_rest = self.random.percent(60);
        let needs = arms.iter().map(|arm| self.need(*arm)).collect();
        let kind = if self.random.percent(60) { Kind::Join } else { self.kind(&arms) };
        self.add(kind, needs, Join::Count { count, cancel_rest });
    }

    /// A task that is likely to fail, and the nodes that handle its failure.
    fn rescue(&mut self, from: usize) {
        let needs = vec![self.need(from)];
        let script = self.failing();
        let Some(task) = self.add(Kind::Task(script), needs, Join::All) else { return };
        let branch = (*self.random.pick(&["error", "oops"])).to_owned();
        self.program.nodes[task].on_error = OnError::Branch(branch.clone());
        let kind = self.kind(&[task]);
        let rescue = self.add(kind, vec![Need { source: task, branch: Some(branch) }], Join::All);
        let sequel = if self.random.percent(60) { self.any_node(&[task]) } else { None };
        if self.random.percent(50) {
            let arms: Vec<usize> = rescue.into_iter().chain(sequel).collect();
            self.meet(&arms);
        }
    }

    /// One node after several from anywhere.
    fn merge(&mut self) {
        let count = self.random.between(2, 4);
        let mut from: Vec<usize> =
            (0..count).map(|_| self.random.index(self.program.nodes.len())).collect();
        from.sort_unstable();
        from.dedup();
        self.meet(&from);
    }

    /// One node after these.
    fn meet(&mut self, from: &[usize]) {
        if from.is_empty() {
            return;
        }
        let needs = from.iter().map(|source| self.need(*source)).collect();
        let join = match self.random.below(10) {
            0..=5 => Join::All,
            6 | 7 => Join::Count { count: 1, cancel_rest: self.random.percent(30) },
            _ => {
                let count = self.random.index(from.len()) + 1;
                Join::Count { count, cancel_rest: self.random.percent(30) }
            }
        };
        let kind = if self.random.percent(40) { Kind::Join } else { self.kind(from) };
        self.add(kind, needs, join);
    }

    fn any_node(&mut self, from: &[usize]) -> Option<usize> {
        let needs = from.iter().map(|source| self.need(*source)).collect();
        let kind = self.kind(from);
        self.add(kind, needs, Join::All)
    }

    /// An edge from a node, on one of its branches if it has any. Both an edge on a branch and one
    /// without are right for a node that can fail over; a choice without its branches is rare.
    fn need(&mut self, source: usize) -> Need {
        let node = &self.program.nodes[source];
        let chooses = matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. });
        let branches = node.branches();
        let on_branch = !branches.is_empty() && self.random.percent(if chooses { 75 } else { 30 });
        let branch = on_branch.then(|| (*self.random.pick(&branches)).to_owned());
        Need { source, branch }
    }

    fn add(&mut self, kind: Kind, needs: Vec<Need>, join: Join) -> Option<usize> {
        if self.room() == 0 {
            return None;
        }
        let at = self.program.nodes.len();
        let mut node = Node { join, ..Node::plain(id(&self.container, at), kind, needs) };
        // Sometimes two edges from one source, of which either will do.
        if self.random.percent(10)
            && let Some(first) = node.needs.first().map(|need| need.source)
        {
            let more = self.need(first);
            if !node.needs.contains(&more) {
                node.needs.push(more);
            }
        }
        self.decorate(&mut node);
        self.program.nodes.push(node);
        Some(at)
    }

    /// Sometimes a timeout for the whole: ample, or not.
    fn limit(&mut self) {
        if !self.appetite.limits || !self.random.percent(15) {
            return;
        }
        let spans = self.program.nodes.iter().filter_map(Node::span_ms_max);
        let all: u64 = spans.sum();
        self.program.timeout_ms = Some(match self.random.percent(50) {
            true => all * 2 + AMPLE_MS,
            false => self.random.between(TIGHT_MS, all.max(TIGHT_MS)),
        });
    }
}

/// `a` to `z`, then numbers; `c1` to `c9` in the body of `c`.
fn id(container: &str, at: usize) -> String {
    if !container.is_empty() {
        return format!("{container}{}", at + 1);
    }
    u8::try_from(at)
        .ok()
        .filter(|at| *at < 26)
        .map_or_else(|| format!("n{at}"), |at| char::from(b'a' + at).to_string())
}
