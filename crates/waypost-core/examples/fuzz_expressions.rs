//! The long form of the fuzz test of expressions: `make fuzz-expressions MINUTES=10`.
//!
//! Runs random programs over hostile data for so many minutes, and ends with an error where one of
//! them took more CPU time than an evaluation may. An abort, for want of memory or of stack, ends it
//! too: it runs under a limit of 1 GB of address space, on a thread with the stack of those that
//! evaluate.

#![expect(
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

/// What one evaluation may take, in CPU time of its thread: a release build on a machine of today.
const CPU_MAX: Duration = Duration::from_millis(50);
/// How often a program that took longer is measured again. Other load on the machine makes the same
/// work take up to twice the CPU time, at random, so that the least of the runs is what counts.
const AGAIN: usize = 8;

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

/// One evaluation, with all that it builds and drops.
#[derive(Debug)]
struct Run {
    took: Duration,
    work: u64,
    kind: String,
}

impl Run {
    fn of(source: &str, input: &Json) -> Self {
        let Ok(expression) = Expression::compile(source) else {
            return Self { took: Duration::ZERO, work: 0, kind: "fault".into() };
        };
        let start = cpu_time();
        let mut scope = Scope::new();
        scope.json("input", input);
        let outcome = expression.eval(&scope);
        let kind = outcome.err().map_or("value".to_owned(), |failure| failure.kind.into_owned());
        let work = scope.work();
        drop(scope);
        Self { took: cpu_time() - start, work, kind }
    }
}

fn fuzz(span: Duration, from: u64) -> bool {
    let began = Instant::now();
    let inputs: Vec<Json> = [200, 20_000, 160_000]
        .iter()
        .flat_map(|size| (0..6).map(move |seed| data(&mut Dice(seed), *size)))
        .map(|text| Json::parse(&text).unwrap())
        .collect();
    let (mut seed, mut slowest, mut dearest) = (from, Duration::ZERO, 0.0);
    let (mut failed, mut repeated, mut within) = (0u64, 0u64, true);
    while began.elapsed() < span {
        let dice = &mut Dice(seed);
        let source = program(dice);
        let input = &inputs[dice.roll(inputs.len())];
        let first = Run::of(&source, input);
        assert!(first.work <= WORK_MAX);
        failed += u64::from(first.kind != "value");
        let mut took = first.took;
        if took > CPU_MAX {
            repeated += 1;
            took = (0..AGAIN).map(|_| Run::of(&source, input).took).min().unwrap().min(took);
        }
        if took > slowest {
            slowest = took;
            println!("slowest so far: {first:?}, least {took:?}, seed {seed}: {}", short(&source));
        }
        let dear = took.as_nanos() as f64 / (first.work as f64 + 20_000.0);
        if dear > dearest {
            dearest = dear;
            println!(
                "dearest so far: {dear:.1} ns a unit, {first:?}, seed {seed}: {}",
                short(&source)
            );
        }
        if took > CPU_MAX {
            println!("TOO SLOW: {first:?}, least {took:?}, seed {seed}: {source}");
            within = false;
        }
        seed += 1;
    }
    println!(
        "{} programs, {failed} failed, {repeated} measured again; slowest {slowest:?} of CPU time",
        seed - from
    );
    within
}

/// A payload of a part over and over.
fn fill(part: &str) -> String {
    format!("[{}]", vec![part; 1_000_000 / (part.len() + 1)].join(","))
}

fn text(part: &str) -> String {
    format!("\"{}\"", part.repeat(900_000 / part.len()))
}

fn small() -> String {
    fill("1")[..20_000].to_owned() + "]"
}

/// What filters and operators do.
fn computing() -> Vec<(&'static str, String)> {
    vec![
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
        ("([input] * 99) | map('sum') | sum", small()),
        ("([input] * 99) | map('sort') | map('length') | sum", small()),
        ("([input] * 99) | map('unique') | map('length') | sum", small()),
        ("([input] * 99) | map('reverse') | map('length') | sum", small()),
        ("([input] * 99) | map('join') | map('length') | sum", small()),
        ("([input] * 99) | map('tojson') | map('length') | sum", small()),
        ("([input] * 99) | map('string') | map('length') | sum", small()),
        ("([input] * 99) | map('zip', input) | map('length') | sum", small()),
        ("([input] * 99) | map('batch', 1) | map('length') | sum", small()),
        ("([input] * 99) | map('groupby', 'x') | map('length') | sum", small()),
        ("([input] * 99) | map('map', 'string') | map('length') | sum", small()),
        ("([input] * 99) | map('map', 'default', 1) | map('length') | sum", small()),
        ("([input] * 99) | map('select', 'eq', 1) | map('length') | sum", small()),
        ("(([1.2345e300] * 9999) | map('string') | join | length)", small()),
        ("(([1.2345] * 9999) | map('round', 19) | sum)", small()),
        ("(([1.2345] * 9999) | map('round', 1000) | sum)", small()),
        ("(([1.2345e300] * 9999) | map('round', -3) | sum)", small()),
        ("(([1.2345e-300] * 9999) | tojson | length)", small()),
        ("(['1.23456789e-300'] * 9999) | map('float') | list | length", small()),
        ("([0] * 600000) | length", small()),
        ("(([0] * 300000) + ([1] * 300000)) | length", small()),
        ("([{'a': 1, 'b': 2}] * 99999) | map('items') | list | length", small()),
        ("([{'a': 1, 'b': 2}] * 99999) | map('dictsort') | list | length", small()),
        ("([{'a': 1, 'b': 2}] * 99999) | map('chain', {'c': 1}) | list | length", small()),
        ("([{'a': 1, 'b': 2}] * 99999) | map(attribute='a') | sum", small()),
        ("([{'a': 1, 'b': 2}] * 99999) | sort(attribute='b,a') | length", small()),
    ]
}

/// The same, where it is built to be dear: lists that expressions make …
fn hostile_lists() -> Vec<(&'static str, String)> {
    vec![
        ("([input] * 1000000) | length", small()),
        ("([[]] * 200000) | map('list') | length", small()),
        ("([['a']] * 60000) | map('join', ',') | length", small()),
        ("(['a'] * 900000) | join", small()),
        ("[1E400] * 500000", small()),
        ("[''] * 300000", small()),
        ("[1] * 500000", small()),
        ("[18446744073709551615] * 50000", small()),
        ("[-1.2345678901234567e-300] * 40000", small()),
        ("[{}] * 300000", small()),
        ("'\\u0000' * 160000", small()),
        ("('\\u0000' * 100000) | tojson | tojson", small()),
        ("([input.0] * 700000) | batch(1) | length", text("a")),
        ("([0] * 90000) | batch(1) | length", small()),
        ("([0] * 90000) | slice(90000) | length", small()),
        ("([0] * 500000) | batch(500000, 0) | first | length", small()),
        ("([0] * 90000) | zip([0] * 90000) | length", small()),
        ("(([0] * 500000)[::2])[::-1] | length", small()),
        ("(input[::-1])[::-1] | length", text("aß")),
        ("('a' * 300000) | list | join | length", small()),
        ("([input] * 9) | map('lower') | map('length') | sum", text("Σ'")),
        ("([input] * 9) | map('title') | map('length') | sum", text("ŉ ")),
        ("([input] * 9) | map('string') | join | length", text("İ")),
        ("input | unique | length", fill("\"Σ\"")),
        ("input | sort | length", fill("\"Ab\"")),
        ("input | reverse | sort | length", fill("[1,2]")),
        ("input | sort(attribute='a.b,c,d') | length", fill("{\"a\":{\"b\":1}}")),
        ("input | groupby('a') | length", fill("{\"a\":1}")),
        (
            "input | groupby('a', default=0) | map(attribute='list') | map('length') | sum",
            fill("{}"),
        ),
        ("input | selectattr('a', 'defined') | length", fill("{}")),
        ("input | map(attribute='a.0.b', default=1) | sum", fill("{\"a\":[{\"b\":1}]}")),
        ("input | select('in', input) | length", fill("1")),
        ("input | reject('in', [0] * 99999) | length", fill("1")),
        ("input | reject('in', '1234567' * 9999) | length", fill("\"x\"")),
        ("(input ~ 'b') in (input * 2)", text("a")[..200_000].to_owned() + "\""),
        (
            "([input] * 99) | select('in', 'a' * 900000) | length",
            text("ab")[..9_000].to_owned() + "\"",
        ),
    ]
}

/// … and payloads.
fn hostile_payloads() -> Vec<(&'static str, String)> {
    vec![
        (
            "([input] * 99) | map('replace', 'a' * 500 ~ 'b', '') | length",
            text("a")[..99_000].to_owned() + "\"",
        ),
        (
            "([input] * 99) | map('split', 'a' * 500 ~ 'b') | length",
            text("a")[..99_000].to_owned() + "\"",
        ),
        ("([input] * 99) | map('trim', 'a') | length", text("a")[..99_000].to_owned() + "\""),
        ("input | trim(input) | length", text("a")),
        ("(input ~ '') == (input ~ '')", fill("[]")),
        ("input == (input | reverse)", fill("[1]")),
        ("[input] < [input | list]", fill("\"\"")),
        ("input ~ input", fill("1.5")[..200_000].to_owned() + "]"),
        ("input | map('string') | map('length') | sum", fill("1.5e300")),
        ("input | map('tojson') | map('length') | sum", fill("1")),
        ("input | map('float') | sum", fill("\"1.7976931348623157e308\"")),
        ("input | map('int', 0, 36) | sum", fill("\"zzzzzz\"")),
        ("input | map('round', 2) | sum", fill("1.005")),
        ("input | map('round', 0, 'ceil') | sum", fill("1.005")),
        ("input | map('round', -3) | sum", fill("1234567")),
        ("input | map('abs') | sum", fill("-1")),
        ("input | map('first') | map('default', 1) | sum", fill("[]")),
        ("input | map('items') | map('length') | sum", fill("{\"a\":0}")),
        ("input | map('dictsort', by='value') | map('length') | sum", fill("{\"b\":0,\"a\":1}")),
        ("input | map('chain', {'a': 1}) | map('length') | sum", fill("{\"b\":0}")),
        ("input | map('lines') | map('length') | sum", fill("\"a\\na\"")),
        ("input | lines | map('upper') | unique | length", text("a\\n")),
        ("input | map('select') | map('length') | sum", fill("[1]")),
        ("input | map('map', 'abs') | map('sum') | sum", fill("[1]")),
        ("input | map('select', 'divisibleby', 3) | map('length') | sum", fill("[9]")),
        ("input | min", fill("\"a\"")),
        ("input | select('upper') | length", fill("\"A\"")),
        ("input | select('startingwith', 'A') | length", fill("\"A\"")),
        ("input | tojson(indent=200) | length", fill("1")[..9_000].to_owned() + "]"),
        ("input | tojson | tojson | tojson | length", fill("\"\"")[..90_000].to_owned() + "]"),
        ("input", fill("{\"a\":\"b\"}")),
        ("input", fill("1e5")),
        ("input", fill("{\"\":{\"\":{}}}")),
        ("input", fill("[[[0]]]")),
        ("input", fill("true")),
        ("{'a': input, 'b': input}.a | length", fill("\"a\"")),
    ]
}

/// What a unit of work costs, operation by operation: the least of some runs, so that other work of
/// the machine counts little.
fn prices() {
    let reading =
        ["0", "[]", "{}", "1.5", "1.50", "\"\"", "\"\\n\"", "{\"a\":0}", "[[[[]]]]", "[1.25,2.5]"]
            .into_iter()
            .map(|part| ("input | length", fill(part)));
    for (source, input) in
        reading.chain(computing()).chain(hostile_lists()).chain(hostile_payloads())
    {
        let input = Json::parse(&input).unwrap();
        let runs: [Run; 5] = std::array::from_fn(|_| Run::of(source, &input));
        let least = runs.iter().map(|run| run.took).min().unwrap();
        let Run { work, kind, took: first } = &runs[0];
        let each = least.as_nanos() as f64 / *work as f64;
        let data = input.text().chars().take(12).collect::<String>();
        println!(
            "{each:6.1} ns a unit, {least:>10.3?}, first {first:>10.3?}, {work:>8} units: \
             {source}, {data}, {kind}"
        );
    }
}

fn short(source: &str) -> String {
    source.chars().take(160).collect()
}
