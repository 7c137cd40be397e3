//! Maps: some nodes of a random program run a body for each item, in groups and loops and around them.
//! From a stream of its own, so that programs without any do not change.

use super::bodies::{Bodies, DEPTH_MAX};
use super::{Appetite, id};
use crate::program::{
    Each, Ends, ItemSource, Kind, Loop, Need, Node, Program, Test, Tolerated, Value,
};
use crate::random::Random;

/// Where a node is: how many bodies are around it, and of which kind.
#[derive(Clone, Copy, Default)]
struct Nesting {
    depth: u32,
    in_loop: bool,
    in_map: bool,
}

impl Nesting {
    fn inside(self, kind: &Kind) -> Self {
        Self {
            depth: self.depth + 1,
            in_loop: self.in_loop || matches!(kind, Kind::Loop(_)),
            in_map: self.in_map || matches!(kind, Kind::Map(_)),
        }
    }
}

impl Program {
    /// Makes maps of some nodes, and lets nodes read the items.
    pub(super) fn add_maps(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("maps");
        if !random.percent(appetite.maps_percent) {
            return;
        }
        let mut maps = Maps { random: &mut random, appetite };
        for _ in 0..maps.random.between(1, 2) {
            let at = maps.random.index(self.all().len());
            let mut left = at;
            maps.fill_at(&mut self.nodes, &mut left, Nesting::default());
        }
        maps.mention(&mut self.nodes, false);
        maps.chain(&mut self.nodes);
    }
}

struct Maps<'a> {
    random: &'a mut Random,
    appetite: &'a Appetite,
}

impl Maps<'_> {
    /// Makes a map of the node that comes after so many others, if it can be one. True once it has been
    /// reached.
    fn fill_at(&mut self, nodes: &mut [Node], left: &mut usize, place: Nesting) -> bool {
        for at in 0..nodes.len() {
            if *left == 0 {
                let sources = self.sources(nodes, at);
                self.fill(&mut nodes[at], &sources, place);
                return true;
            }
            *left -= 1;
            let inside = place.inside(&nodes[at].kind);
            if let Some(body) = nodes[at].kind.body_mut()
                && self.fill_at(body, left, inside)
            {
                return true;
            }
        }
        false
    }

    /// The sources of a node whose outputs are lists.
    fn sources(&self, nodes: &[Node], at: usize) -> Vec<usize> {
        let is_list = |of: &usize| matches!(nodes[*of].kind, Kind::Transform(_) | Kind::Output(_));
        nodes[at].sources().into_iter().filter(is_list).collect()
    }

    fn fill(&mut self, node: &mut Node, sources: &[usize], place: Nesting) {
        // Others may need its branches, and a map has none.
        let chooses = matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. });
        if chooses || place.depth >= DEPTH_MAX {
            return;
        }
        let mut body = match node.kind.body_mut() {
            Some(body) => std::mem::take(body),
            None => {
                let mut bodies = Bodies::new(self.random, self.appetite);
                let mut body = bodies.body(&node.id, place.depth + 1, place.in_loop);
                bodies.mention(&mut body, true, place.in_loop);
                body
            }
        };
        if self.random.percent(45) {
            self.sift(&node.id, &mut body);
        }
        let count = self.random.between(0, if place.depth == 0 { 6 } else { 3 });
        (node.timeout_ms, node.at_most_once, node.remote) = (None, false, false);
        node.retry = None;
        node.kind = Kind::Map(Each {
            items: self.items(count, sources, place),
            body,
            width: self.random.between(1, 3),
            tolerated: match self.random.below(10) {
                0..=3 => Tolerated::Count(0),
                4..=6 => Tolerated::Count(self.random.between(1, 3)),
                _ => Tolerated::Percent(10 * self.random.below(11)),
            },
            stops: self.random.percent(40),
            collects: self.random.percent(85),
        });
        if node.deadline_ms.is_some() {
            let mut bodies = Bodies::new(self.random, self.appetite);
            node.deadline_ms = Some(bodies.builder(&node.id, 0).deadline(node));
        }
    }

    /// Lets some items fail, and others not.
    fn sift(&mut self, container: &str, body: &mut Vec<Node>) {
        let after = body.len().checked_sub(1).filter(|_| self.random.percent(50));
        let choice = body.len();
        let test = Test::Index(self.random.between(1, 3));
        let branch = if self.random.percent(50) { "true" } else { "false" };
        let needs = after.map(|source| Need { source, branch: None });
        let node =
            |at: usize, kind: Kind, needs: Vec<Need>| Node::plain(id(container, at), kind, needs);
        body.push(node(choice, Kind::Condition(test), needs.into_iter().collect()));
        let need = Need { source: choice, branch: Some(branch.to_owned()) };
        body.push(node(choice + 1, Kind::Fail, vec![need]));
    }

    fn items(&mut self, count: u64, sources: &[usize], place: Nesting) -> ItemSource {
        let list = |maps: &mut Self| {
            let values = (0..count).map(|_| match (maps.random.below(10), sources) {
                (0..=4, _) => Value::Constant(maps.random.below(100)),
                (5 | 6, _) => Value::Plus(maps.random.below(10)),
                (7, _) => Value::Text,
                (8, [source, ..]) => Value::OutputOf(*source),
                (8, []) if place.in_map => Value::Item,
                _ => Value::Variable,
            });
            ItemSource::List(values.collect())
        };
        match self.random.below(20) {
            0..=7 => ItemSource::Of(Value::Constant(count)),
            8..=11 if !sources.is_empty() => ItemSource::Of(Value::OutputOf(sources[0])),
            12 if place.depth == 0 => ItemSource::Of(Value::Plus(0)),
            12 if place.in_map => ItemSource::Of(Value::Index),
            13 if place.in_loop => ItemSource::Of(Value::Iteration),
            14 => ItemSource::Of(Value::Text),
            15 => ItemSource::List(vec![Value::Plus(1), Value::Broken]),
            _ => list(self),
        }
    }

    /// Lets some maps run over the results of another one; one that needs a map may become such a map.
    fn chain(&mut self, nodes: &mut [Node]) {
        for at in 0..nodes.len() {
            let is_map =
                |of: &usize| matches!(nodes[*of].kind, Kind::Map(Each { collects: true, .. }));
            let Some(source) = nodes[at].sources().into_iter().find(is_map) else { continue };
            if !self.random.percent(60) {
                continue;
            }
            if !matches!(nodes[at].kind, Kind::Map(_)) {
                self.fill(&mut nodes[at], &[], Nesting::default());
            }
            if let Kind::Map(each) = &mut nodes[at].kind {
                each.items = ItemSource::Of(Value::ResultsOf(source));
            }
        }
    }

    /// Lets nodes in maps read the items.
    fn mention(&mut self, nodes: &mut [Node], in_map: bool) {
        for node in nodes {
            let number = self.random.between(1, 3);
            match &mut node.kind {
                Kind::Transform(values) | Kind::Output(values) if in_map => {
                    for (percent, value) in [(70, Value::Item), (40, Value::Index)] {
                        if self.random.percent(percent) {
                            values.push(value);
                        }
                    }
                }
                Kind::Condition(test) if in_map && self.random.percent(40) => {
                    *test = Test::Index(number);
                }
                Kind::Loop(Loop { ends: ends @ Ends::Until(_), .. })
                    if in_map && self.random.percent(20) =>
                {
                    *ends = Ends::Until(Test::Index(number));
                }
                _ => {}
            }
            let in_map = in_map || matches!(node.kind, Kind::Map(_));
            if let Some(body) = node.kind.body_mut() {
                self.mention(body, in_map);
            }
        }
    }
}
