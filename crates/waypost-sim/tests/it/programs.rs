//! The generator: what it makes is valid, and it makes everything.

use std::collections::BTreeSet;

use waypost_sim::program::{
    Appetite, DelaySpan, FailurePolicy, Join, Kind, OnError, Program, RetryOn, Script, Signal,
    Test, Value,
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
    assert_eq!(nodes, program.nodes.len());
}

#[test]
fn every_program_is_a_valid_definition() {
    for appetite in [Appetite::simulated(), Appetite::real()] {
        for (seed, program) in generated(&appetite) {
            assert!((1..=appetite.nodes_max).contains(&program.nodes.len()));
            expect_valid(&format!("seed {seed}"), &program);
        }
    }
}

#[test]
fn every_smaller_program_is_valid_and_smaller() {
    for (seed, program) in generated(&Appetite::simulated()).take(80) {
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
        for node in &program.nodes {
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
    for (at, node) in program.nodes.iter().enumerate() {
        note(match &node.kind {
            Kind::Noop => "noop",
            Kind::Transform(_) => "transform",
            Kind::Condition(Test::AtLeast(_)) => "condition on the input",
            Kind::Condition(Test::Completed(_)) => "condition on a status",
            Kind::Condition(Test::Broken) => "broken condition",
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
            Kind::Output(_) => "output",
            Kind::Task(Script::Good) => "good",
            Kind::Task(Script::Flaky(times)) if *times < node.tries_max() => "flaky, overcome",
            Kind::Task(Script::Flaky(_)) => "flaky, not overcome",
            Kind::Task(Script::Bad) => "bad",
            Kind::Task(Script::Down) => "down",
            Kind::Task(Script::Hang) => "hang",
        });
        if let Kind::Transform(values) | Kind::Output(values) = &node.kind {
            for value in values {
                note(match value {
                    Value::Constant(_) => "constant",
                    Value::Plus(_) => "sum",
                    Value::Text => "text",
                    Value::OutputOf(_) => "output of a node",
                    Value::StatusOf(_) => "status of a node",
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
            && program.leads_only_to(at).len() > sources
        {
            note("a way that leads only to a join");
        }
        if sources < node.needs.len() {
            note("two edges from one source");
        }
        if program.successors(at).count() > 2 {
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
    let ancestors = program.ancestors();
    for node in &program.nodes {
        let above: Vec<_> = node.sources().into_iter().map(|source| &ancestors[source]).collect();
        if let [first, second, ..] = &above[..]
            && first.intersection(second).next().is_some()
        {
            note("diamond");
        }
    }
    found
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
    assert_eq!(often.len(), 57, "{often:#?}");
    let rare: Vec<_> = often.iter().filter(|(_, times)| **times < 12).collect();
    assert!(rare.is_empty(), "{rare:?}");
}

#[test]
fn a_program_reads_well() {
    let program = Program::generate(&mut Random::new(13), &Appetite::simulated()).to_string();
    assert_eq!(
        program,
        "a: delay 2939677; b: delay 3479558 <- a; c: noop <- a; d: wait go <- a; \
         e: transform [n+79] <- b | on-error=error"
    );
}
