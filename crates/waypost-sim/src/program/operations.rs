//! Operations of an outside service: a node starts one, and is called back or polls until it is done.

use serde_json::{Map, Value as Json, json};

use super::{Ends, Kind, LATE, Loop, Need, Node, Script, Test};

/// The ids of the nodes that an operation is made of.
pub(super) const START: &str = "start";
const POLL: &str = "poll";
const CHECK: &str = "check";

/// An operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// As the compiler makes it: `start`; where it polls, `poll` after it, a loop of `check`.
    pub body: Vec<Node>,
    /// How long it may take once it is started.
    pub timeout_ms: Option<u64>,
    /// Does a timeout select a branch? Not where it polls.
    pub late: bool,
}

/// How an operation is polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Polls {
    pub every_ms: u64,
    /// Which poll finds it done, from 1.
    pub done_at: u64,
    /// How many calls of each poll fail.
    pub refusals: u32,
    pub max: u64,
}

impl Test {
    /// As the definition has [`Self::Done`]. Of a report that contradicts itself there is no body.
    pub(super) const DONE: &'static str = "previous.body is defined and previous.body.done";
}

impl Operation {
    /// One that is started by a good call, and calls back.
    pub fn simplest() -> Self {
        let start = Node::plain(START, Kind::Task(Script::Good), Vec::new());
        Self { body: vec![start], timeout_ms: None, late: false }
    }

    /// Adds the loop of polls; `check` has the retry policy.
    pub(super) fn polling(mut self, polls: Polls, check: Node) -> Self {
        let Polls { every_ms, done_at, refusals, max } = polls;
        let script = Script::Poll { done_at, refusals, at: 0 };
        let check = Node { id: CHECK.into(), kind: Kind::Task(script), ..check };
        let spec = Loop {
            body: vec![check],
            ends: Ends::Until(Test::Done),
            max,
            delay_ms: every_ms,
            all: false,
        };
        let need = Need { source: 0, branch: None };
        let deadline_ms = self.timeout_ms;
        self.body.push(Node { deadline_ms, ..Node::plain(POLL, Kind::Loop(spec), vec![need]) });
        self
    }

    /// Does it poll, or is it called back?
    pub fn polls(&self) -> bool {
        self.body.len() > 1
    }

    /// The config of its node; `print` gives the fields of a node in its body.
    pub(super) fn config(&self, print: impl Fn(&[Node]) -> Json) -> Json {
        let first = |nodes: &[Node]| print(nodes).get(0).cloned().unwrap_or_default();
        let mut config = json!({ "start": first(&self.body) });
        if let Some(timeout) = self.timeout_ms {
            config["timeout"] = json!(timeout);
        }
        if self.late {
            config["onTimeout"] = json!(LATE);
        }
        if let Some(Kind::Loop(spec)) = self.body.get(1).map(|node| &node.kind) {
            let mut poll = match first(&spec.body) {
                Json::Object(fields) => fields,
                _ => Map::new(),
            };
            poll.insert("every".into(), json!(spec.delay_ms));
            poll.insert("until".into(), json!(Test::DONE));
            poll.insert("maxPolls".into(), json!(spec.max));
            config["poll"] = Json::Object(poll);
        }
        config
    }

    /// How long all its tries take, if its body takes so long; `None`: without limit.
    pub(super) fn span_ms_max(&self, body_ms: u64, tries: u64, waits_ms: u64) -> Option<u64> {
        let waits = if self.polls() { 0 } else { self.timeout_ms? };
        Some((body_ms + waits) * tries + waits_ms)
    }

    /// How many options it has, for a measure that shrinking makes smaller.
    pub(super) fn weight(&self) -> usize {
        let body: usize = self.body.iter().map(Node::weight).sum();
        body + usize::from(self.timeout_ms.is_some()) + usize::from(self.late)
    }
}
