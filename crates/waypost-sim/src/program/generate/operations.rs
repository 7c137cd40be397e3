//! Operations: some nodes of a random program start one of an outside service, also in bodies. From a stream
//! of its own, so that programs without any do not change.

use super::bodies::Bodies;
use super::{AMPLE_MS, Appetite};
use crate::program::operations::{Operation, Polls, START};
use crate::program::{Kind, LATE, Node, OnError, Program, RetryOn, RetryRule, Script};
use crate::random::Random;

impl Program {
    /// Lets some nodes start operations.
    pub(super) fn add_operations(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("operations");
        if !random.percent(appetite.operations_percent) {
            return;
        }
        let chosen = self.some_places(&mut random, 3);
        start_in(&mut self.nodes, &mut 0, &chosen, (&mut random, appetite));
    }
}

/// Visits the nodes of a scope, and those of the bodies in it.
fn start_in(
    nodes: &mut [Node],
    at: &mut usize,
    chosen: &[usize],
    (random, appetite): (&mut Random, &Appetite),
) {
    let mut late = Vec::new();
    for (place, node) in nodes.iter_mut().enumerate() {
        let is_chosen = chosen.contains(at);
        *at += 1;
        if let Some(body) = node.kind.body_mut() {
            start_in(body, at, chosen, (&mut *random, appetite));
        } else if is_chosen && may_start(&node.kind) {
            start(node, random, appetite);
            late.extend(node.branches().contains(&LATE).then_some(place));
        }
    }
    for need in nodes.iter_mut().flat_map(|node| &mut node.needs) {
        if late.contains(&need.source) && random.percent(50) {
            need.branch = Some(LATE.to_owned());
        }
    }
}

/// Others may need the branches of one that chooses, and the rest of these have worlds of their own.
fn may_start(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::Condition(_)
            | Kind::Switch { .. }
            | Kind::Approval(_)
            | Kind::Child(_)
            | Kind::Notify(_)
            | Kind::Emit(_)
            | Kind::Task(Script::Storm | Script::Model)
    )
}

/// Makes a node start an operation: with its own call, if it is a task.
fn start(node: &mut Node, random: &mut Random, appetite: &Appetite) {
    let calls = matches!(node.kind, Kind::Task(_));
    let kind = match node.kind {
        // Most of them are started.
        Kind::Task(script) if random.percent(50) => Kind::Task(script),
        _ => Kind::Task(Script::Good),
    };
    let start = Node {
        retry: node.retry.take(),
        timeout_ms: node.timeout_ms.take(),
        at_most_once: calls && node.at_most_once,
        remote: calls && node.remote,
        ..Node::plain(START, kind, Vec::new())
    };
    (node.at_most_once, node.remote) = (false, false);
    let most = appetite.delay_ms_max.max(200);
    // Some of them within the time in which things go wrong.
    let within = if random.percent(70) { most.min(15_000) } else { most };
    let timeout_ms = random.percent(70).then(|| random.between(100, within));
    let mut operation = Operation { body: vec![start], timeout_ms, late: false };
    if random.percent(40) {
        let (polls, check) = polls(random, appetite);
        operation = operation.polling(polls, check);
    } else {
        operation.late = timeout_ms.is_some() && random.percent(40);
    }
    node.kind = Kind::Operation(operation);
    if random.percent(40) {
        node.retry = Some(RetryRule {
            max_attempts: u32::try_from(random.between(2, 3)).unwrap_or(2),
            wait_ms: random.between(0, appetite.retry_wait_ms_max),
            backoff: false,
            on: if random.percent(50) { RetryOn::Transient } else { RetryOn::Timeouts },
        });
    }
    if node.on_error == OnError::Fail && random.percent(30) {
        node.on_error = OnError::Continue;
    }
    if node.deadline_ms.is_some() {
        let mut bodies = Bodies::new(random, appetite);
        node.deadline_ms = Some(bodies.builder(&node.id.clone(), 0).deadline(node));
    }
}

/// Not yet a few times, errors now and then, and done, or too late.
fn polls(random: &mut Random, appetite: &Appetite) -> (Polls, Node) {
    let done_at = random.between(1, 5);
    let refusals = match random.percent(40) {
        true => u32::try_from(random.between(1, 2)).unwrap_or(1),
        false => 0,
    };
    let polls = Polls {
        every_ms: random.between(1, appetite.retry_wait_ms_max.max(1)),
        done_at,
        refusals,
        max: if random.percent(80) {
            done_at + random.below(3)
        } else {
            random.between(1, done_at)
        },
    };
    let retry = random.percent(80).then(|| RetryRule {
        max_attempts: 3,
        wait_ms: random.between(0, appetite.retry_wait_ms_max.min(1_000)),
        backoff: false,
        on: RetryOn::Transient,
    });
    let timeout_ms = random.percent(30).then_some(AMPLE_MS);
    (polls, Node { retry, timeout_ms, ..Node::plain("", Kind::Noop, Vec::new()) })
}
