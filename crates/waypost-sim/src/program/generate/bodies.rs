//! Containers: some nodes of a random program become groups and loops. From a stream of its own, so
//! that programs without any do not change.

use super::{Appetite, Builder};
use crate::program::{Ends, FailurePolicy, Kind, Loop, Node, Program, Setting, Test, Value};
use crate::random::Random;

/// How deep bodies are in each other, at most.
pub(super) const DEPTH_MAX: u32 = 3;
/// The longest delay of a node in a body.
const DELAY_MS_MAX: u64 = 20_000;
/// Nodes of one body, at most.
const SIZE_MAX: u64 = 3;

impl Program {
    /// Makes containers of some nodes, and lets nodes set and read the variable.
    pub(super) fn add_bodies(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("bodies");
        if !random.percent(appetite.bodies_percent) {
            return;
        }
        let mut bodies = Bodies::new(&mut random, appetite);
        for _ in 0..bodies.random.between(1, 2) {
            let at = bodies.random.index(self.nodes.len());
            let node = &mut self.nodes[at];
            // Others may need its branches, and a container has none.
            if !matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. })
                && node.body().is_none()
            {
                bodies.fill(node, 1, false);
            }
        }
        bodies.mention(&mut self.nodes, false, false);
    }
}

pub(super) struct Bodies<'a> {
    random: &'a mut Random,
    appetite: Appetite,
}

impl<'a> Bodies<'a> {
    pub(super) fn new(random: &'a mut Random, appetite: &Appetite) -> Self {
        // An iteration waits as often as a program does: the world must outlast all of them.
        let delay_ms_max = appetite.delay_ms_max.min(DELAY_MS_MAX);
        Self { random, appetite: Appetite { delay_ms_max, ..appetite.clone() } }
    }

    /// Makes a container of a node.
    fn fill(&mut self, node: &mut Node, depth: u32, in_loop: bool) {
        let repeats = self.random.percent(50);
        let body = self.body(&node.id, depth, in_loop || repeats);
        (node.timeout_ms, node.at_most_once, node.remote) = (None, false, false);
        let had_retry = node.retry.take().is_some();
        node.kind = match repeats {
            true => Kind::Loop(self.repeat(body)),
            false => Kind::Group(body),
        };
        let mut builder = self.builder(&node.id, 0);
        if !repeats && (had_retry || builder.random.percent(40)) {
            node.retry = Some(builder.retry());
        }
        if node.deadline_ms.is_some() {
            node.deadline_ms = Some(builder.deadline(node));
        }
    }

    fn repeat(&mut self, body: Vec<Node>) -> Loop {
        let count = self.random.between(1, 4);
        let most = self.appetite.retry_wait_ms_max;
        let ends = match self.random.below(20) {
            0..=7 => Ends::Until(Test::Iteration(count)),
            8..=11 => Ends::While(Test::Below(count)),
            12..=14 => Ends::Until(Test::Variable(count)),
            15 | 16 => Ends::Until(Test::Previous),
            17 => Ends::While(Test::AtLeast(self.random.below(10))),
            18 => Ends::Until(Test::AtLeast(self.random.below(10))),
            _ => Ends::Until(Test::Broken),
        };
        Loop {
            body,
            ends,
            max: self.random.between(1, 4),
            delay_ms: if self.random.percent(40) { self.random.between(1, most) } else { 0 },
            all: self.random.percent(40),
        }
    }

    pub(super) fn body(&mut self, container: &str, depth: u32, in_loop: bool) -> Vec<Node> {
        let size = usize::try_from(self.random.between(1, SIZE_MAX)).unwrap_or(1);
        let mut builder = self.builder(container, size);
        while builder.room() > 0 {
            builder.shape();
        }
        let mut nodes = builder.program.nodes;
        for node in &mut nodes {
            let chooses = matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. });
            if depth < DEPTH_MAX && !chooses && self.random.percent(20) {
                self.fill(node, depth + 1, in_loop);
            }
        }
        nodes
    }

    pub(super) fn builder(&mut self, container: &str, size: usize) -> Builder<'_> {
        let program = Program {
            nodes: Vec::new(),
            failure_policy: FailurePolicy::FailFast,
            timeout_ms: None,
            keyed: None,
            budget: None,
        };
        let container = container.to_owned();
        Builder { random: self.random, appetite: &self.appetite, program, size, container }
    }

    /// Lets nodes set the variable, and read it and what else they see.
    pub(super) fn mention(&mut self, nodes: &mut [Node], inside: bool, in_loop: bool) {
        for node in nodes {
            if self.random.percent(if inside { 40 } else { 20 }) {
                node.sets = Some(match self.random.percent(50) {
                    true => Setting::More,
                    false => Setting::To(self.random.below(5)),
                });
            }
            let number = self.random.between(1, 3);
            match &mut node.kind {
                Kind::Transform(values) | Kind::Output(values) => {
                    let more = [
                        (50, Value::Variable, true),
                        (40, Value::Before, inside),
                        (40, Value::Iteration, in_loop),
                        (40, Value::Previous, in_loop),
                    ];
                    for (percent, value, seen) in more {
                        if seen && self.random.percent(percent) {
                            values.push(value);
                        }
                    }
                }
                Kind::Condition(test) => match self.random.below(5) {
                    0 => *test = Test::Variable(number),
                    1 | 2 if in_loop => *test = Test::Iteration(number),
                    3 if in_loop => *test = Test::Previous,
                    _ => {}
                },
                Kind::Group(body) => self.mention(body, true, in_loop),
                Kind::Loop(Loop { body, .. }) => self.mention(body, true, true),
                Kind::Map(each) => self.mention(&mut each.body, true, in_loop),
                _ => {}
            }
        }
    }
}
