//! Is the judge awake? True results, with one thing changed: it must complain of each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use waypost_core::event::CancelReason;
use waypost_core::status::{NodeStatus, Status};
use waypost_sim::model::{Calls, Cause, End, ItemsRan, NodeRan, Ran, SentSignal, judge};
use waypost_sim::program::{Appetite, FailurePolicy, Join, Kind, Need, Node, Program, Signal};
use waypost_sim::random::Random;

use super::driver::{SINK, Trouble, run};

/// Changes one thing; false where there is nothing of the kind to change.
type Mutation = fn(&Program, &mut Ran, &mut Random) -> bool;

const MUTATIONS: &[(&str, Mutation)] = &[
    ("another status", |program, ran, random| {
        let ends = [
            NodeStatus::Completed,
            NodeStatus::Failed,
            NodeStatus::TimedOut,
            NodeStatus::Skipped,
            NodeStatus::Cancelled,
        ];
        let to = *random.pick(&ends);
        change(
            program,
            ran,
            random,
            |_, node| node.status.is_settled() && node.status != to,
            |node| {
                node.status = to;
            },
        )
    }),
    ("not settled", |program, ran, random| {
        let ended = ran.end != End::Waiting;
        change(
            program,
            ran,
            random,
            |_, node| ended && node.status.is_settled(),
            |node| {
                node.status = NodeStatus::Running;
                node.settled = None;
            },
        )
    }),
    ("settled twice", |program, ran, random| {
        change(program, ran, random, |_, node| node.settlements == 1, |node| node.settlements = 2)
    }),
    ("another branch", |program, ran, random| {
        change(
            program,
            ran,
            random,
            |_, node| node.branch.is_some(),
            |node| {
                node.branch = Some("remote".into());
            },
        )
    }),
    ("another output", |program, ran, random| {
        change(program, ran, random, completed, |node| node.output = Some(json!("changed")))
    }),
    ("another failure", |program, ran, random| {
        change(program, ran, random, failed, |node| node.failure = Some("changed".into()))
    }),
    ("a failure forgotten", |program, ran, random| {
        change(program, ran, random, failed, |node| {
            (node.status, node.failure) = (NodeStatus::Completed, None);
        })
    }),
    ("one try more", |program, ran, random| {
        let ended = |at: Kind, node: &NodeRan| completed(at.clone(), node) || failed(at, node);
        change(program, ran, random, ended, |node| node.tries += 1)
    }),
    ("one try less", |program, ran, random| {
        let tried = |kind: Kind, node: &NodeRan| {
            (completed(kind.clone(), node) || failed(kind, node)) && node.tries > 0
        };
        change(program, ran, random, tried, |node| node.tries -= 1)
    }),
    ("an attempt abandoned", |program, ran, random| {
        change(program, ran, random, |_, _| true, |node| node.abandoned += 1)
    }),
    ("run too early", |program, ran, random| {
        let needy = needy(program);
        let fits = move |_: Kind, node: &NodeRan| node.scheduled.is_some();
        change_in(&needy, program, ran, random, fits, |node| node.scheduled = Some(1))
    }),
    ("skipped too early", |program, ran, random| {
        change(program, ran, random, skipped, |node| node.settled = Some(1))
    }),
    ("run instead of skipped", |program, ran, random| {
        change(program, ran, random, skipped, |node| {
            node.status = NodeStatus::Completed;
            node.scheduled = node.settled;
            (node.starts, node.tries) = (1, 1);
        })
    }),
    ("skipped instead of run", |program, ran, random| {
        change(program, ran, random, completed, |node| {
            *node = NodeRan {
                status: NodeStatus::Skipped,
                settled: node.settled,
                settlements: 1,
                ..NodeRan::default()
            };
        })
    }),
    ("cancelled by no join", |program, ran, random| {
        let no_joins = !program
            .nodes
            .iter()
            .any(|node| matches!(node.join, Join::Count { cancel_rest: true, .. }));
        change(
            program,
            ran,
            random,
            |_, node| no_joins && node.status.is_settled(),
            |node| {
                node.status = NodeStatus::Cancelled;
                node.cancelled = Some(CancelReason::Join);
            },
        )
    }),
    ("a join that waited for more", |program, ran, _| {
        let late = |at: usize| {
            let Join::Count { count, .. } = program.nodes[at].join else { return None };
            let sources = program.nodes[at].sources();
            let sources: Vec<_> =
                sources.iter().map(|of| ran.node(&program.nodes[*of].id)).collect();
            let plain = program.nodes[at].needs.iter().all(|need| need.branch.is_none());
            let all = sources.iter().all(|source| source.status == NodeStatus::Completed);
            let last = sources.iter().filter_map(|source| source.settled).max();
            (plain && all && sources.len() > count).then_some(last?)
        };
        let found = (0..program.nodes.len()).find_map(|at| Some((at, late(at)?)));
        let Some((at, last)) = found else { return false };
        let node = ran.nodes.entry(program.nodes[at].id.clone()).or_default();
        if node.scheduled.is_none() {
            return false;
        }
        node.scheduled = Some(last + 1);
        true
    }),
    ("another end", |_, ran, random| {
        let End::Ended(end) = ran.end else { return false };
        let ends = [Status::Completed, Status::Failed, Status::Cancelled, Status::TimedOut];
        let others: Vec<Status> = ends.into_iter().filter(|other| *other != end).collect();
        ran.end = End::Ended(*random.pick(&others));
        true
    }),
    ("ended twice", |_, ran, _| {
        ran.ends += 1;
        ran.ends > 1
    }),
    ("ended by a request that was not made", |_, ran, _| {
        let seq = u64::MAX;
        (ran.cause, ran.output) = (Some((seq, Cause::Cancel)), None);
        let ended = ran.end != End::Waiting;
        ran.end = End::Ended(Status::Cancelled);
        ended
    }),
    ("ended by a timeout that it does not have", |program, ran, _| {
        let seq = u64::MAX;
        (ran.cause, ran.output) = (Some((seq, Cause::Deadline)), None);
        let ended = ran.end != End::Waiting;
        ran.end = End::Ended(Status::TimedOut);
        ended && program.timeout_ms.is_none()
    }),
    ("a failure that did not end it", |program, ran, _| {
        let fast = program.failure_policy == FailurePolicy::FailFast;
        let by_failure = matches!(ran.cause, Some((_, Cause::Failure(_))));
        ran.cause = None;
        ran.end = End::Ended(Status::Completed);
        fast && by_failure
    }),
    ("stuck", |_, ran, _| {
        let ended = ran.end != End::Waiting;
        (ran.end, ran.ends) = (End::Waiting, 0);
        ended
    }),
    ("another output of the execution", |_, ran, _| {
        ran.output = Some(json!("changed"));
        ran.end != End::Waiting
    }),
    ("one call more", |_, ran, _| first_calls(ran, |calls| calls.calls += 1)),
    ("one call less", |program, ran, _| {
        let ended = |id: &String| {
            let node = ran.node(id);
            let kind = || program.locate(id).unwrap().kind.clone();
            completed(kind(), &node) || failed(kind(), &node)
        };
        let Some(id) = ran.sink.keys().find(|id| ended(id)).cloned() else { return false };
        ran.sink.remove(&id);
        true
    }),
    ("one effect more", |_, ran, _| first_calls(ran, |calls| calls.effects = calls.calls + 1)),
    ("no effect", |_, ran, _| {
        let done = |id: &String| ran.node(id).status == NodeStatus::Completed;
        let Some(id) = ran.sink.keys().find(|id| done(id)).cloned() else { return false };
        ran.sink.get_mut(&id).unwrap().values_mut().for_each(|calls| calls.effects = 0);
        true
    }),
    ("a second key", |_, ran, _| {
        let Some(calls) = ran.sink.values_mut().next() else { return false };
        calls.insert("another".into(), Calls { calls: 0, effects: 0 });
        true
    }),
    ("a call of a node that was skipped", |program, ran, _| {
        let idle = |id: &&String| ran.node(id).starts == 0;
        let Some(id) = program.nodes.iter().map(|node| &node.id).find(idle) else { return false };
        let calls = BTreeMap::from([("key".into(), Calls { calls: 1, effects: 0 })]);
        ran.sink.insert(id.clone(), calls);
        true
    }),
    ("a signal that was not sent", |program, ran, _| {
        ran.world.signals.clear();
        program.nodes.iter().any(|node| {
            matches!(node.kind, Kind::Wait { .. })
                && ran.node(&node.id).status == NodeStatus::Completed
        })
    }),
    ("one iteration less", |_, ran, _| {
        let mut loops = ran.nodes.values_mut().filter(|node| {
            let repeats = node.items.is_none() && node.bodies.iter().any(|b| b.index.is_some());
            node.status == NodeStatus::Completed && repeats
        });
        loops.next().and_then(|node| node.bodies.pop()).is_some()
    }),
    ("one item less", |_, ran, _| {
        first_map(ran, |map, _| map.bodies.len() > 1 && map.bodies.pop().is_some())
    }),
    ("items in another order", |_, ran, _| {
        first_map(ran, |map, _| {
            let several = map.bodies.len() > 1;
            map.bodies.reverse();
            several
        })
    }),
    ("another item", |_, ran, _| {
        first_map(ran, |_, items| {
            let Some(Value::Array(list)) = &mut items.list else { return false };
            list.first_mut().map(|item| *item = json!("changed")).is_some()
        })
    }),
    ("one more failure tolerated", |_, ran, _| {
        first_map(ran, |_, items| {
            items.tolerated += 1;
            true
        })
    }),
    ("all items open at once", |program, ran, _| {
        let narrow = |id: &String| match &program.locate(id).unwrap().kind {
            Kind::Map(each) => each.width,
            _ => u64::MAX,
        };
        let mut maps = ran.nodes.iter_mut().filter(|(id, _)| narrow(id) < u64::MAX);
        let wide = |map: &NodeRan, width: u64| map.bodies.len() as u64 > width;
        let found = maps.find(|(id, map)| completed(Kind::Noop, map) && wide(map, narrow(id)));
        found.is_some_and(|(_, map)| {
            let first = map.bodies[0].opened;
            map.bodies.iter_mut().for_each(|body| body.opened = first);
            true
        })
    }),
    ("results in another order", |_, ran, _| {
        first_map(ran, |map, _| {
            let Some(results) = map.output.as_mut().and_then(|out| out.get_mut("results")) else {
                return false;
            };
            let before = results.clone();
            if let Some(list) = results.as_array_mut() {
                list.reverse();
            }
            *results != before
        })
    }),
    ("a failure of an item that is not listed", |_, ran, _| {
        first_map(ran, |map, _| {
            let failures = map.output.as_mut().and_then(|out| out.get_mut("failures"));
            failures.and_then(Value::as_array_mut).is_some_and(|list| list.pop().is_some())
        })
    }),
    ("a body of a completed group that was never opened", |program, ran, _| {
        let is_group =
            |id: &String| matches!(program.locate(id).map(|node| &node.kind), Some(Kind::Group(_)));
        let mut groups = ran.nodes.iter_mut().filter(|(id, _)| is_group(id));
        let found = groups.find(|(_, node)| node.status == NodeStatus::Completed);
        found.is_some_and(|(_, node)| node.bodies.pop().is_some())
    }),
    ("another output in a body", |_, ran, _| {
        let bodies = ran.nodes.values_mut().flat_map(|node| &mut node.bodies);
        let mut inside = bodies.flat_map(|body| body.nodes.values_mut());
        let found = inside.find(|node| node.status == NodeStatus::Completed);
        found.map(|node| node.output = Some(json!("changed"))).is_some()
    }),
    ("a try of a group under the keys of another", |_, ran, _| {
        let mut of_tries =
            ran.sink.values_mut().filter(|seen| seen.keys().any(|key| key.contains('@')));
        let Some(seen) = of_tries.next() else { return false };
        let again: Vec<String> = seen.keys().filter(|key| key.contains('@')).cloned().collect();
        for key in again {
            let calls = seen.remove(&key).unwrap();
            let first = seen.entry(key.replace("@2", "").replace("@3", "").replace("@4", ""));
            let first = first.or_default();
            first.calls += calls.calls;
            first.effects += calls.effects;
        }
        true
    }),
    ("a node of another program", |_, ran, _| {
        ran.nodes.insert("stranger".into(), NodeRan::default());
        true
    }),
];

/// Changes the first map that has completed.
fn first_map(ran: &mut Ran, change: impl Fn(&mut NodeRan, &mut ItemsRan) -> bool) -> bool {
    let maps = ran.nodes.values_mut().filter(|node| node.status == NodeStatus::Completed);
    for map in maps.filter(|node| node.items.is_some()) {
        let Some(mut items) = map.items.take() else { continue };
        let changed = change(map, &mut items);
        map.items = Some(items);
        if changed {
            return true;
        }
    }
    false
}

fn completed(_: Kind, node: &NodeRan) -> bool {
    node.status == NodeStatus::Completed
}

fn failed(_: Kind, node: &NodeRan) -> bool {
    matches!(node.status, NodeStatus::Failed | NodeStatus::TimedOut)
}

fn skipped(_: Kind, node: &NodeRan) -> bool {
    node.status == NodeStatus::Skipped
}

/// The nodes that need others.
fn needy(program: &Program) -> Vec<usize> {
    (0..program.nodes.len()).filter(|at| !program.nodes[*at].needs.is_empty()).collect()
}

fn change(
    program: &Program,
    ran: &mut Ran,
    random: &mut Random,
    fits: impl Fn(Kind, &NodeRan) -> bool,
    change: impl FnOnce(&mut NodeRan),
) -> bool {
    let all: Vec<usize> = (0..program.nodes.len()).collect();
    change_in(&all, program, ran, random, fits, change)
}

/// Changes one of these nodes that fits.
fn change_in(
    among: &[usize],
    program: &Program,
    ran: &mut Ran,
    random: &mut Random,
    fits: impl Fn(Kind, &NodeRan) -> bool,
    change: impl FnOnce(&mut NodeRan),
) -> bool {
    let fitting: Vec<&String> = among
        .iter()
        .map(|at| &program.nodes[*at])
        .filter(|node| fits(node.kind.clone(), &ran.node(&node.id)))
        .map(|node| &node.id)
        .collect();
    if fitting.is_empty() {
        return false;
    }
    let id = *random.pick(&fitting);
    let mut node = ran.node(id);
    change(&mut node);
    ran.nodes.insert(id.clone(), node);
    true
}

fn first_calls(ran: &mut Ran, change: impl FnOnce(&mut Calls)) -> bool {
    let calls = ran.sink.values_mut().flat_map(BTreeMap::values_mut).next();
    calls.map(change).is_some()
}

#[test]
fn every_mutation_is_noticed() {
    let mut tried: BTreeMap<&str, u32> = BTreeMap::new();
    let mut missed = Vec::new();
    for seed in 0..1_000 {
        let random = Random::new(seed);
        let program = Program::generate(&mut random.split("program"), &Appetite::simulated());
        let input = program.input(&mut random.split("input"), SINK);
        let truth = run(&program, &input, &random, Trouble::default());
        for (name, mutation) in MUTATIONS {
            let mut ran = truth.clone();
            if !mutation(&program, &mut ran, &mut random.split(name)) {
                continue;
            }
            *tried.entry(name).or_default() += 1;
            if judge(&program, &input, &ran).is_empty() {
                missed.push(format!("seed {seed}, n = {}: {name}\n  {program}", input["n"]));
            }
        }
    }
    let rare: Vec<_> = MUTATIONS.iter().filter(|(name, _)| !tried.contains_key(name)).collect();
    assert!(rare.is_empty(), "never tried: {:?}", rare.iter().map(|(name, _)| name));
    assert!(missed.is_empty(), "{} missed\n{}", missed.len(), missed.join("\n"));
}

/// Two waits for one signal, one after the other, to which so many signals were sent; and where the
/// second of them stands.
fn two_waits(sent: u64, second: &NodeRan) -> Vec<String> {
    let wait = |id: &str, needs: Vec<Need>| {
        Node::plain(id, Kind::Wait { signal: Signal::Go, timeout_ms: None }, needs)
    };
    let nodes = vec![wait("a", vec![]), wait("b", vec![Need { source: 0, branch: None }])];
    let program = Program {
        nodes,
        failure_policy: FailurePolicy::FailFast,
        timeout_ms: None,
        keyed: None,
        budget: None,
    };
    let done = second.status == NodeStatus::Completed;
    let first = NodeRan { scheduled: Some(3), settled: Some(8), ..waited(0) };
    let mut ran = Ran {
        end: if done { End::Ended(Status::Completed) } else { End::Waiting },
        output: done.then_some(serde_json::Value::Null),
        ends: u32::from(done),
        generation: 1,
        nodes: BTreeMap::from([("a".into(), first), ("b".into(), second.clone())]),
        ..Ran::default()
    };
    ran.world.signals = (0..sent)
        .map(|serial| SentSignal { name: "go".into(), body: Signal::Go.body(serial, true) })
        .collect();
    judge(&program, &json!({ "n": 1 }), &ran)
}

/// A wait that was ended by the signal of this serial number.
fn waited(serial: u64) -> NodeRan {
    NodeRan {
        status: NodeStatus::Completed,
        output: Some(Signal::Go.body(serial, true)),
        scheduled: Some(9),
        settled: Some(14),
        settlements: 1,
        starts: 1,
        tries: 1,
        ..NodeRan::default()
    }
}

#[test]
fn a_signal_is_consumed_once_and_not_overlooked() {
    let waits = NodeRan {
        status: NodeStatus::Waiting,
        output: None,
        settled: None,
        settlements: 0,
        tries: 0,
        ..waited(0)
    };
    let none: &[String] = &[];
    assert_eq!(two_waits(2, &waited(1)), none);
    assert_eq!(two_waits(1, &waits), none);
    assert_eq!(two_waits(1, &waited(0)), ["b: took a signal that was consumed"]);
    assert_eq!(two_waits(2, &waits), ["b: waits for a signal that came"]);
}
