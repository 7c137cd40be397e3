//! The generator: what it makes is valid, and it makes everything.

use std::collections::BTreeSet;

use waypost_sim::program::graph::{ancestors, leads_only_to, successors};
use waypost_sim::program::{
    Appetite, DelaySpan, Each, Ends, FailurePolicy, ItemSource, Join, Kind, Loop, Node, OnError,
    Program, RetryOn, Script, Setting, Signal, Signals, Test, Tolerated, Value,
};
use waypost_sim::random::Random;

const SEEDS: u64 = 3_000;

fn generated(appetite: &Appetite) -> impl Iterator<Item = (u64, Program)> {
    (0..SEEDS).map(move |seed| (seed, Program::generate(&mut Random::new(seed), appetite)))
}

#[track_caller]
fn expect_valid(what: &str, program: &Program) {
    let definition = program.definition();
    let compiled = waypost_lang::parse(definition.as_bytes(), &waypost_nodes::catalog());
    let nodes = compiled.map(|compiled| compiled.plan.nodes.len());
    let nodes = nodes.unwrap_or_else(|faults| panic!("{what}: {program}\n{faults:?}"));
    assert_eq!(nodes, program.all().len());
}

#[test]
fn every_program_is_a_valid_definition() {
    let trees = Appetite { children_percent: 80, ..Appetite::simulated() };
    let messages = Appetite { messages_percent: 80, ..Appetite::simulated() };
    let operations = Appetite { operations_percent: 80, ..Appetite::simulated() };
    for appetite in [Appetite::simulated(), Appetite::real(), trees, messages, operations] {
        for (seed, program) in generated(&appetite).take(1_000) {
            assert!((1..=appetite.nodes_max).contains(&program.nodes.len()));
            expect_valid(&format!("seed {seed}"), &program);
        }
    }
}

#[test]
fn every_smaller_program_is_valid_and_smaller() {
    let appetite =
        Appetite { messages_percent: 50, operations_percent: 50, ..Appetite::simulated() };
    for (seed, program) in generated(&appetite).take(80) {
        for candidate in program.shrink_candidates() {
            expect_valid(&format!("seed {seed}, shrunk"), &candidate);
            assert!(candidate.weight() < program.weight(), "{program}\n{candidate}");
        }
    }
}

#[test]
fn shrinking_comes_to_an_end() {
    let mut program = Program::generate(&mut Random::new(5), &Appetite::simulated());
    while let Some(smaller) = program.shrink_candidates().into_iter().next() {
        program = smaller;
    }
    assert_eq!(program.nodes.len(), 1, "{program}");
}

#[test]
fn a_seed_gives_the_same_program_every_time() {
    let program = || Program::generate(&mut Random::new(42), &Appetite::simulated());
    assert_eq!(program(), program());
}

#[test]
fn an_appetite_is_kept() {
    let appetite = Appetite {
        waits: false,
        hang: false,
        limits: false,
        at_most_once: false,
        remote: false,
        failures_percent: 0,
        ..Appetite::real()
    };
    for (seed, program) in generated(&appetite) {
        assert_eq!(program.timeout_ms, None);
        assert!(program.signals().is_empty());
        for node in program.all() {
            assert!(!node.at_most_once && node.deadline_ms.is_none(), "seed {seed}: {program}");
            assert_ne!(node.kind, Kind::Task(Script::Hang));
            if let Kind::Delay(span) = node.kind {
                assert!(span.ms(9) <= appetite.delay_ms_max, "seed {seed}: {program}");
            }
        }
    }
}

/// Everything there is, by name, as far as one program has it.
fn features(program: &Program) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut note = |feature: &str| found.extend([feature.to_owned()]);
    if program.failure_policy == FailurePolicy::Partial {
        note("partial");
    }
    if program.timeout_ms.is_some() {
        note("timeout of the execution");
    }
    found.extend(features_of(&program.nodes, 0));
    found
}

/// Those of the nodes of a scope, which is in so many bodies.
fn features_of(nodes: &[Node], depth: u32) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for node in nodes {
        found.extend(node.body().into_iter().flat_map(|body| features_of(body, depth + 1)));
    }
    let mut note = |feature: &str| found.extend([feature.to_owned()]);
    if depth > 0 {
        note(&format!("bodies {depth} deep"));
    }
    for (at, node) in nodes.iter().enumerate() {
        match node.sets {
            Some(Setting::To(_)) => note("sets the variable"),
            Some(Setting::More) => note("adds to the variable"),
            None => {}
        }
        note(match &node.kind {
            Kind::Noop => "noop",
            Kind::Transform(_) => "transform",
            Kind::Condition(Test::AtLeast(_)) => "condition on the input",
            Kind::Condition(Test::Completed(_)) => "condition on a status",
            Kind::Condition(Test::Broken) => "broken condition",
            Kind::Condition(Test::Variable(_)) => "condition on the variable",
            Kind::Condition(Test::Index(_)) => "condition on the index",
            Kind::Condition(_) => "condition on the iteration",
            Kind::Switch { default: Some(_), .. } => "switch with default",
            Kind::Switch { default: None, .. } => "switch without default",
            Kind::Join => "join",
            Kind::Fail => "fail",
            Kind::Delay(DelaySpan::Fixed(0)) => "no delay",
            Kind::Delay(DelaySpan::Fixed(36_000_000)) => "long delay",
            Kind::Delay(DelaySpan::Fixed(_)) => "delay",
            Kind::Delay(DelaySpan::Computed { minus: 0, .. }) => "computed delay",
            Kind::Delay(DelaySpan::Computed { .. }) => "computed delay, maybe below zero",
            Kind::Wait { signal: Signal::Approval, .. } => "filtered wait",
            Kind::Wait { timeout_ms: Some(_), .. } => "wait with timeout",
            Kind::Wait { timeout_ms: None, .. } => "wait without timeout",
            Kind::Signals(Signals { late: true, .. }) => "wait with a branch for its timeout",
            Kind::Signals(Signals { need, wanted, .. }) if *need == wanted.len() => "wait for all",
            Kind::Signals(Signals { need: 1, .. }) => "wait for any",
            Kind::Signals(_) => "wait for some",
            Kind::Approval(_) => "approval",
            Kind::Operation(operation) if operation.polls() => "polled operation",
            Kind::Operation(_) => "operation that calls back",
            Kind::Output(_) => "output",
            Kind::Task(Script::Good) => "good",
            Kind::Task(Script::Flaky(times)) if *times < node.tries_max() => "flaky, overcome",
            Kind::Task(Script::Flaky(_)) => "flaky, not overcome",
            Kind::Task(Script::Bad) => "bad",
            Kind::Task(Script::Down) => "down",
            Kind::Task(Script::Hang) => "hang",
            Kind::Task(Script::Storm) => "storm",
            Kind::Task(Script::Model) => "model",
            Kind::Task(Script::Poll { .. }) => "poll",
            Kind::Child(_) => "child",
            Kind::Notify(notify) if notify.wait => "awaited message",
            Kind::Notify(_) => "message",
            Kind::Emit(_) => "signal by id",
            Kind::Group(_) if node.retry.is_some() => "group that is tried again",
            Kind::Group(_) => "group",
            Kind::Loop(Loop { ends: Ends::Until(Test::Variable(_)), .. }) => "loop on the variable",
            Kind::Loop(Loop { ends: Ends::Until(Test::Previous), .. }) => "loop on the output",
            Kind::Loop(Loop { ends: Ends::Until(Test::Broken), .. }) => "broken loop",
            Kind::Loop(Loop { ends: Ends::Until(Test::Index(_)), .. }) => "loop on the index",
            Kind::Loop(Loop { ends: Ends::Until(_), delay_ms: 0, .. }) => "loop until",
            Kind::Loop(Loop { ends: Ends::Until(_), .. }) => "loop with a delay",
            Kind::Loop(Loop { ends: Ends::While(_), .. }) => "loop while",
            Kind::Map(_) => "map",
        });
        if let Kind::Map(each) = &node.kind {
            features_of_map(each).into_iter().for_each(&mut note);
        }
        if let Kind::Transform(values) | Kind::Output(values) = &node.kind {
            for value in values {
                note(match value {
                    Value::Constant(_) => "constant",
                    Value::Plus(_) => "sum",
                    Value::Text => "text",
                    Value::OutputOf(_) => "output of a node",
                    Value::ResultsOf(_) => "results of a map",
                    Value::StatusOf(_) => "status of a node",
                    Value::Before => "output from outside of the body",
                    Value::Iteration => "iteration",
                    Value::Previous => "output of the last iteration",
                    Value::Item => "item",
                    Value::Index => "index",
                    Value::Variable => "variable",
                    Value::Broken => "broken value",
                });
            }
        }
        let sources = node.sources().len();
        note(match node.join {
            Join::All if sources == 0 => "entry",
            Join::All if sources == 1 => "chain",
            Join::All => "join of all",
            Join::Count { count: 1, cancel_rest: false } => "join of any",
            Join::Count { count: 1, cancel_rest: true } => "join of any, cancelling",
            Join::Count { cancel_rest: false, .. } => "join of several",
            Join::Count { cancel_rest: true, .. } => "join of several, cancelling",
        });
        if matches!(node.join, Join::Count { cancel_rest: true, .. })
            && leads_only_to(nodes, at).len() > sources
        {
            note("a way that leads only to a join");
        }
        if sources < node.needs.len() {
            note("two edges from one source");
        }
        if successors(nodes, at).count() > 2 {
            note("fan");
        }
        if node.needs.iter().any(|need| need.branch.is_some()) {
            note("edge on a branch");
        }
        note(match &node.on_error {
            OnError::Fail => "on error: fail",
            OnError::Continue => "on error: continue",
            OnError::Branch(branch) if branch == "error" => "on error: error",
            OnError::Branch(_) => "on error: a branch",
        });
        if node.definition_errors {
            note("on error: also the definition's");
        }
        if let Some(retry) = node.retry {
            note(if retry.backoff { "retry with backoff" } else { "retry without backoff" });
            note(match retry.on {
                RetryOn::Transient => "retry",
                RetryOn::ServerErrors => "retry 5xx",
                RetryOn::ClientErrors => "retry 4xx",
                RetryOn::Timeouts => "retry timeouts",
            });
        }
        if node.deadline_ms.is_some() {
            note("deadline");
        }
        if node.at_most_once {
            note("at most once");
        }
    }
    let ancestors = ancestors(nodes);
    for node in nodes {
        let above: Vec<_> = node.sources().into_iter().map(|source| &ancestors[source]).collect();
        if let [first, second, ..] = &above[..]
            && first.intersection(second).next().is_some()
        {
            note("diamond");
        }
    }
    found
}

fn features_of_map(each: &Each) -> Vec<&'static str> {
    let items = match &each.items {
        ItemSource::List(values) if values.contains(&Value::Broken) => "broken items",
        ItemSource::List(values) if values.is_empty() => "empty list of items",
        ItemSource::List(_) => "list of items",
        ItemSource::Of(Value::Constant(0)) => "no items",
        ItemSource::Of(Value::Constant(_)) => "number of items",
        ItemSource::Of(Value::OutputOf(_)) => "items of a node",
        ItemSource::Of(Value::ResultsOf(_)) => "items of another map",
        ItemSource::Of(Value::Text) => "items that are none",
        ItemSource::Of(_) => "computed number of items",
    };
    let tolerated = match each.tolerated {
        Tolerated::Count(0) => "no tolerance",
        Tolerated::Count(_) => "count of tolerated items",
        Tolerated::Percent(_) => "share of tolerated items",
    };
    let inside = |wanted: fn(&Kind) -> bool| each.body.iter().any(|node| wanted(&node.kind));
    let more = [
        (each.stops, "map that stops"),
        (!each.collects, "map without results"),
        (each.width == 1, "one item at a time"),
        (each.width == 3, "three items at a time"),
        (inside(|kind| matches!(kind, Kind::Map(_))), "map in a map"),
        (inside(|kind| matches!(kind, Kind::Loop(_))), "loop in a map"),
        (inside(|kind| matches!(kind, Kind::Group(_))), "group in a map"),
    ];
    let more = more.into_iter().filter(|(there, _)| *there).map(|(_, feature)| feature);
    [items, tolerated].into_iter().chain(more).collect()
}

#[test]
fn everything_occurs() {
    let mut often = std::collections::BTreeMap::new();
    for (_, program) in generated(&Appetite::simulated()) {
        for feature in features(&program) {
            *often.entry(feature).or_insert(0) += 1;
        }
    }
    // As many as `features` knows; each at least a dozen times.
    assert_eq!(often.len(), 104, "{often:#?}");
    let rare: Vec<_> = often.iter().filter(|(_, times)| **times < 12).collect();
    assert!(rare.is_empty(), "{rare:?}");
}

#[test]
fn a_program_reads_well() {
    let program = Program::generate(&mut Random::new(13), &Appetite::simulated()).to_string();
    assert_eq!(
        program,
        "a: delay 2939677; b: group { b1: task good | remote v=1 } <- a | retry=2x756; c: noop <- a; \
         d: wait go <- a; e: transform [n+79] <- b | on-error=error"
    );
}
