//! Random programs, put together from shapes that workflows have: chains, fans, diamonds, forks,
//! races, rescues, in each other and side by side.

use super::{
    Case, FailurePolicy, Join, Kind, Need, Node, OnError, Program, Retry, RetryOn, Script, Signal,
    Span, Test, Value,
};
use crate::random::Random;

/// What programs may hold, and how much of it.
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
    /// How many tasks in a hundred have a sink that fails them.
    pub failures_percent: u32,
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
            failures_percent: 30,
        }
    }

    /// For real processes, where a second is a second.
    pub fn real() -> Self {
        Self {
            nodes_max: 10,
            delay_ms_max: 300,
            retry_wait_ms_max: 50,
            hang_ms_max: 300,
            ..Self::simulated()
        }
    }
}

/// The shortest limit that is not meant to be kept: above what a prompt world needs for its part.
const TIGHT_MS: u64 = 1_500;
/// What an ample limit has to spare.
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
        };
        let most = u64::try_from(appetite.nodes_max.max(1)).unwrap_or(u64::MAX);
        let size = usize::try_from(random.between(1, most)).unwrap_or(1);
        let mut builder = Builder { random, appetite, program, size };
        while builder.room() > 0 {
            builder.shape();
        }
        builder.limit();
        let mut program = builder.program;
        // Behind a join that does not wait for all, a test may look at what is still open.
        program.mend();
        program
    }
}

struct Builder<'a> {
    random: &'a mut Random,
    appetite: &'a Appetite,
    program: Program,
    size: usize,
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

    /// A task that is likely to fail, and who looks after it.
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
        let mut node = Node {
            id: id(at),
            kind,
            needs,
            join,
            retry: None,
            timeout_ms: None,
            deadline_ms: None,
            on_error: OnError::Fail,
            at_most_once: false,
        };
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

    /// A kind for a node after these.
    fn kind(&mut self, from: &[usize]) -> Kind {
        match self.random.below(100) {
            0..=7 => Kind::Noop,
            8..=21 => Kind::Transform(self.values(from)),
            22..=61 => Kind::Task(self.script()),
            62..=73 => Kind::Delay(self.span()),
            74..=83 if self.appetite.waits => self.wait(),
            74..=89 => Kind::Output(self.values(from)),
            90..=92 => Kind::Join,
            _ => from.first().map_or(Kind::Noop, |from| self.choice(*from)),
        }
    }

    fn choice(&mut self, from: usize) -> Kind {
        if self.random.percent(60) {
            return Kind::Condition(self.test(from));
        }
        let mut cases = Vec::new();
        for branch in ["low", "middle", "high"] {
            if cases.is_empty() || self.random.percent(60) {
                cases.push(Case { test: self.test(from), branch: branch.into() });
            }
        }
        let default = self.random.percent(70).then(|| "other".into());
        Kind::Switch { cases, default }
    }

    /// A test for a node that needs this one, whatever else it needs: by then it has settled.
    fn test(&mut self, from: usize) -> Test {
        match self.random.below(100) {
            0..=69 => Test::AtLeast(self.random.between(0, 10)),
            70..=95 => Test::Completed(from),
            _ => Test::Broken,
        }
    }

    fn values(&mut self, from: &[usize]) -> Vec<Value> {
        let count = self.random.between(0, 3);
        (0..count).map(|_| self.value(from)).collect()
    }

    /// A value; what it looks at may still be open where a join has not waited for it.
    fn value(&mut self, from: &[usize]) -> Value {
        let known = |builder: &mut Self| {
            let mut known: Vec<usize> = from.to_vec();
            for source in from {
                known.extend(builder.program.nodes[*source].sources());
            }
            (!known.is_empty()).then(|| *builder.random.pick(&known))
        };
        match self.random.below(100) {
            0..=9 => Value::Constant(self.random.below(1_000)),
            10..=29 => Value::Plus(self.random.below(100)),
            30..=39 => Value::Text,
            40..=69 => known(self).map_or(Value::Text, Value::OutputOf),
            70..=95 => known(self).map_or(Value::Text, Value::StatusOf),
            _ => Value::Broken,
        }
    }

    fn span(&mut self) -> Span {
        let most = self.appetite.delay_ms_max;
        match self.random.below(10) {
            0 => Span::Fixed(0),
            1..=4 => Span::Fixed(self.random.between(1, (most / 10).max(1))),
            5 => Span::Fixed(most),
            6 | 7 => Span::Computed { times: self.random.below(most / 10 + 1), minus: 0 },
            _ => {
                let times = self.random.below(most / 10 + 1);
                Span::Computed { times, minus: times * self.random.between(1, 9) }
            }
        }
    }

    fn wait(&mut self) -> Kind {
        let signal = *self.random.pick(&Signal::ALL);
        let timeout_ms = self.random.percent(50).then(|| self.spell());
        Kind::Wait { signal, timeout_ms }
    }

    /// How long something that need not come is waited for.
    fn spell(&mut self) -> u64 {
        self.random.between(100, self.appetite.delay_ms_max.max(200))
    }

    fn script(&mut self) -> Script {
        if self.random.percent(self.appetite.failures_percent) {
            return self.failing();
        }
        Script::Good
    }

    fn failing(&mut self) -> Script {
        match self.random.below(10) {
            0..=3 => Script::Flaky(u32::try_from(self.random.between(1, 3)).unwrap_or(1)),
            4 | 5 => Script::Bad,
            8 | 9 if self.appetite.hang => Script::Hang,
            _ => Script::Down,
        }
    }

    fn decorate(&mut self, node: &mut Node) {
        match node.kind {
            Kind::Task(script) => {
                let retries = if matches!(script, Script::Good) { 20 } else { 75 };
                node.at_most_once = self.appetite.at_most_once && self.random.percent(15);
                if self.random.percent(if node.at_most_once { 20 } else { retries }) {
                    node.retry = Some(self.retry());
                }
                if script == Script::Hang {
                    node.timeout_ms = Some(self.random.between(50, self.appetite.hang_ms_max));
                } else if self.random.percent(15) {
                    node.timeout_ms = Some(AMPLE_MS);
                }
            }
            Kind::Join | Kind::Noop => return,
            _ => {}
        }
        if self.appetite.limits && self.random.percent(12) {
            node.deadline_ms = Some(self.deadline(node));
        }
        if self.random.percent(25) {
            node.on_error = match self.random.below(3) {
                0 => OnError::Branch("error".into()),
                1 => OnError::Branch("oops".into()),
                _ => OnError::Continue,
            };
        }
    }

    fn retry(&mut self) -> Retry {
        Retry {
            max_attempts: u32::try_from(self.random.between(1, 4)).unwrap_or(1),
            wait_ms: self.random.between(0, self.appetite.retry_wait_ms_max),
            backoff: self.random.percent(50),
            on: match self.random.below(10) {
                0 => RetryOn::ServerErrors,
                1 => RetryOn::ClientErrors,
                2 => RetryOn::Timeouts,
                _ => RetryOn::Transient,
            },
        }
    }

    /// A deadline that the node is sure to keep, or one that it may not keep.
    fn deadline(&mut self, node: &Node) -> u64 {
        let span = node.span_ms_max().unwrap_or(self.appetite.delay_ms_max);
        match self.random.percent(50) {
            true => span * 2 + AMPLE_MS,
            false => self.random.between(TIGHT_MS, (span / 2).max(TIGHT_MS)),
        }
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

/// `a` to `z`, then numbers.
fn id(at: usize) -> String {
    u8::try_from(at)
        .ok()
        .filter(|at| *at < 26)
        .map_or_else(|| format!("n{at}"), |at| char::from(b'a' + at).to_string())
}
