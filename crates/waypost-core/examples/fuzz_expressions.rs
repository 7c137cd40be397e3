//! The long form of the fuzz test of expressions: `make fuzz-expressions MINUTES=10`.
//!
//! Runs random programs over hostile data for so many minutes, and ends with an error where one of
//! them took more CPU time than an evaluation may. An abort, for want of memory or of stack, ends it
//! too: it runs under a limit of 1 GB of address space, on a thread with the stack of those that
//! evaluate.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for developers, which runs for a given time"
)]

#[path = "../tests/it/programs.rs"]
mod programs;

use std::time::{Duration, Instant};

use programs::{Dice, data, program};
use rustix::time::{ClockId, clock_gettime};
use waypost_core::expr::{Expression, Scope, WORK_MAX};
use waypost_core::json::Json;

/// A margin above the 50 ms that are meant, for machines that are slower or busy.
const CPU_MAX: Duration = Duration::from_millis(100);

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("prices").is_some() {
        return prices();
    }
    let minutes: f64 = arguments.next().map_or(1.0, |text| text.parse().unwrap());
    let from: u64 = arguments.next().map_or(0, |text| text.parse().unwrap());
    let run = move || fuzz(Duration::from_secs_f64(minutes * 60.0), from);
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
    assert!(thread.join().unwrap(), "an evaluation took more CPU time than it may");
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn fuzz(span: Duration, from: u64) -> bool {
    let began = Instant::now();
    let inputs: Vec<Json> = [200, 20_000, 160_000]
        .iter()
        .flat_map(|size| (0..6).map(move |seed| data(&mut Dice(seed), *size)))
        .map(|text| Json::parse(&text).unwrap())
        .collect();
    let (mut seed, mut slowest, mut dearest, mut limits) = (from, Duration::ZERO, 0.0, 0u64);
    let mut within = true;
    while began.elapsed() < span {
        let dice = &mut Dice(seed);
        let source = program(dice);
        let input = &inputs[dice.roll(inputs.len())];
        let start = cpu_time();
        let mut scope = Scope::new();
        scope.json("input", input);
        if let Ok(expression) = Expression::compile(&source) {
            limits += u64::from(expression.eval(&scope).is_err());
        }
        let work = scope.work();
        drop(scope);
        let took = cpu_time() - start;
        assert!(work <= WORK_MAX);
        if took > slowest {
            slowest = took;
            println!("slowest so far: {took:?}, {work} units, seed {seed}: {}", short(&source));
        }
        let dear = took.as_nanos() as f64 / (work as f64 + 20_000.0);
        if dear > dearest {
            dearest = dear;
            println!(
                "dearest so far: {dear:.1} ns a unit, {took:?}, seed {seed}: {}",
                short(&source)
            );
        }
        if took > CPU_MAX {
            println!("TOO SLOW: {took:?}, {work} units, seed {seed}: {source}");
            within = false;
        }
        seed += 1;
    }
    println!("{} programs, {limits} failed, slowest {slowest:?}", seed - from);
    within
}

/// What a unit of work costs, operation by operation: the least of some runs, so that other work of
/// the machine counts little.
fn prices() {
    let fill = |part: &str| format!("[{}]", vec![part; 1_000_000 / (part.len() + 1)].join(","));
    let text = |part: &str| format!("\"{}\"", part.repeat(900_000 / part.len()));
    let small = fill("1")[..20_000].to_owned() + "]";
    let reading =
        ["0", "[]", "{}", "1.5", "1.50", "\"\"", "\"\\n\"", "{\"a\":0}", "[[[[]]]]", "[1.25,2.5]"]
            .map(|part| ("input | length", fill(part)));
    let computing = [
        ("input | upper | length", text("a")),
        ("input | upper | length", text("ß")),
        ("input | title | length", text("aß ")),
        ("input | list | length", text("a")),
        ("input | split('') | length", text("a")),
        ("input | split | length", text("a ")),
        ("input | replace('a', 'b') | length", text("ab")),
        ("input | trim('abcdefgh') | length", text("a")),
        ("([input] * 100) | map('replace', 'aaaaaaab', '') | list | length", text("a")),
        ("([input] * 100) | select('in', ['b']) | list | length", text("a")),
        ("(['aaaaaaaaaaaab'] * 100) | select('in', input) | list | length", text("a")),
        ("input | tojson | length", text("<")),
        ("input", text("\\n")),
        ("input", fill("1")),
        ("input", fill("\"a\"")),
        ("([input] * 99) | map('sum') | sum", small.clone()),
        ("([input] * 99) | map('sort') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('unique') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('reverse') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('join') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('tojson') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('string') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('zip', input) | map('length') | sum", small.clone()),
        ("([input] * 99) | map('batch', 1) | map('length') | sum", small.clone()),
        ("([input] * 99) | map('groupby', 'x') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('map', 'string') | map('length') | sum", small.clone()),
        ("([input] * 99) | map('map', 'default', 1) | map('length') | sum", small.clone()),
        ("([input] * 99) | map('select', 'eq', 1) | map('length') | sum", small.clone()),
        ("(([1.2345e300] * 9999) | map('string') | join | length)", small.clone()),
        ("(([1.2345] * 9999) | map('round', 19) | sum)", small.clone()),
        ("(([1.2345] * 9999) | map('round', 1000) | sum)", small.clone()),
        ("(([1.2345e300] * 9999) | map('round', -3) | sum)", small.clone()),
        ("(([1.2345e-300] * 9999) | tojson | length)", small.clone()),
        ("(['1.23456789e-300'] * 9999) | map('float') | list | length", small.clone()),
        ("[0] * 600000 | length", small.clone()),
        ("([0] * 600000) + [1] | length", small.clone()),
        ("([{'a': 1, 'b': 2}] * 99999) | map('items') | list | length", small.clone()),
        ("([{'a': 1, 'b': 2}] * 99999) | map('dictsort') | list | length", small.clone()),
        ("([{'a': 1, 'b': 2}] * 99999) | map('chain', {'c': 1}) | list | length", small.clone()),
        ("([{'a': 1, 'b': 2}] * 99999) | map(attribute='a') | sum", small.clone()),
        ("([{'a': 1, 'b': 2}] * 99999) | sort(attribute='b,a') | length", small),
    ];
    for (source, input) in reading.into_iter().chain(computing) {
        let (mut least, mut units, mut kind) = (Duration::MAX, 0, "value".to_owned());
        for _ in 0..5 {
            let start = cpu_time();
            let mut scope = Scope::new();
            scope.json("input", &Json::parse(&input).unwrap());
            if let Err(failure) = Expression::compile(source).unwrap().eval(&scope) {
                kind = failure.kind.into_owned();
            }
            units = scope.work();
            drop(scope);
            least = least.min(cpu_time() - start);
        }
        let each = least.as_nanos() as f64 / units as f64;
        let data = input.chars().take(12).collect::<String>();
        println!(
            "{each:6.1} ns a unit, {least:>12.3?}, {units:>8} units: {source}, {data}, {kind}"
        );
    }
}

fn short(source: &str) -> String {
    source.chars().take(160).collect()
}
