//! The items of maps and the iterations of loops, listed by page and status.

use std::fmt::Write as _;

use waypost_core::command::{Command, Outcome, Request};
use waypost_core::event::Origin;
use waypost_core::failure::Failure;
use waypost_core::flow::plan;
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::state::ItemsRequest;
use waypost_core::status::NodeStatus;

use super::run::Run;

/// A page as text: `3 COMPLETED 7, 4 FAILED oops; 10, more`.
fn page(plan: &Plan, run: &Run<'_>, path: &str, asked: &str) -> String {
    let mut request = ItemsRequest { status: None, after: None, limit: 100 };
    for word in asked.split_whitespace() {
        let named = |status: &NodeStatus| status.name() == word;
        match (word.split_once('='), NodeStatus::ALL.into_iter().find(named)) {
            (Some(("after", index)), _) => request.after = index.parse().ok(),
            (Some(("limit", limit)), _) => request.limit = limit.parse().expect("a limit"),
            (_, status) => request.status = Some(status.expect("a status")),
        }
    }
    let page = match run.state.items(plan, &path.into(), request) {
        Ok(page) => page,
        Err(refusal) => return refusal.to_string(),
    };
    let mut text = String::new();
    for item in &page.items {
        write!(text, "{} {}", item.index, item.status).expect("text");
        assert_eq!(item.started_at.is_some(), item.status == NodeStatus::Running);
        let failure = item.failure.as_ref().map(|failure| failure.kind.to_string());
        let output = item.output.as_ref().map(|output| output.text().to_owned());
        text += &failure.or(output).map_or_else(String::new, |note| format!(" {note}"));
        text += ", ";
    }
    let count = page.count.map_or("?".to_owned(), |count| count.to_string());
    format!("{text}of {count}{}", if page.more { ", more" } else { "" })
}

fn complete(run: &mut Run<'_>, node: &str, output: &str) {
    let outcome = Outcome::Completed(Json::parse(output).expect("JSON"));
    run.command(Command::Report(run.report(node, None, outcome))).expect("it is taken");
}

fn fail(run: &mut Run<'_>, node: &str) {
    let outcome = Outcome::Failed(Failure::permanent("oops", "it failed"));
    run.command(Command::Report(run.report(node, None, outcome))).expect("it is taken");
}

fn expect(plan: &Plan, run: &Run<'_>, path: &str, cases: &[(&str, &str)]) {
    for (asked, found) in cases {
        assert_eq!(page(plan, run, path, asked), *found, "{path} {asked}");
    }
}

#[test]
fn items_of_a_map_are_listed_while_it_runs_and_after_its_end() {
    let plan = plan("a; m = map(6, at 2, tolerate 2) {t} needs a");
    let mut run = Run::start(&plan, "{}", None, 100);
    expect(&plan, &run, "m", &[("", "of ?")]);
    complete(&mut run, "a", "null");
    complete(&mut run, "m[0]/t", "7");
    fail(&mut run, "m[1]/t");
    complete(&mut run, "m[3]/t", "9");
    let cases = [
        ("", "0 COMPLETED 7, 1 FAILED oops, 2 RUNNING, 3 COMPLETED 9, 4 RUNNING, 5 PENDING, of 6"),
        ("COMPLETED", "0 COMPLETED 7, 3 COMPLETED 9, of 6"),
        ("COMPLETED after=0", "3 COMPLETED 9, of 6"),
        ("COMPLETED limit=1", "0 COMPLETED 7, of 6, more"),
        ("FAILED", "1 FAILED oops, of 6"),
        ("FAILED after=1", "of 6"),
        ("RUNNING", "2 RUNNING, 4 RUNNING, of 6"),
        ("RUNNING after=2", "4 RUNNING, of 6"),
        ("PENDING", "5 PENDING, of 6"),
        ("WAITING", "of 6"),
        ("after=2 limit=2", "3 COMPLETED 9, 4 RUNNING, of 6, more"),
        ("after=18446744073709551615", "of 6"),
    ];
    expect(&plan, &run, "m", &cases);
    complete(&mut run, "m[2]/t", "null");
    complete(&mut run, "m[4]/t", "[1]");
    complete(&mut run, "m[5]/t", "2");
    assert_eq!(run.node("m").status, NodeStatus::Completed);
    let cases = [
        (
            "COMPLETED after=0",
            "2 COMPLETED null, 3 COMPLETED 9, 4 COMPLETED [1], 5 COMPLETED 2, of 6",
        ),
        ("FAILED", "1 FAILED oops, of 6"),
    ];
    expect(&plan, &run, "m", &cases);
}

#[test]
fn items_of_a_map_that_failed_or_was_cancelled_are_listed() {
    let plan = plan("m = map(4, at 2, stop) {t} error continue; b needs m");
    let mut run = Run::start(&plan, "{}", None, 100);
    complete(&mut run, "m[0]/t", "1");
    fail(&mut run, "m[1]/t");
    complete(&mut run, "m[2]/t", "null");
    assert_eq!(run.node("m").status, NodeStatus::Failed);
    let all = "0 COMPLETED, 1 FAILED oops, 2 FAILED too_many_failures, 3 CANCELLED, of 4";
    expect(&plan, &run, "m", &[("", all), ("CANCELLED", "3 CANCELLED, of 4"), ("PENDING", "of 4")]);

    let mut run = Run::start(&plan, "{}", None, 100);
    complete(&mut run, "m[0]/t", "1");
    run.command(Command::Request(Request::Cancel { reason: None }, Origin::default()))
        .expect("done");
    for node in ["m[1]/t", "m[2]/t"] {
        run.command(Command::Report(run.report(node, None, Outcome::Cancelled))).expect("taken");
    }
    let all = "0 COMPLETED, 1 FAILED cancelled, 2 FAILED cancelled, 3 CANCELLED, of 4";
    expect(&plan, &run, "m", &[("", all)]);
}

#[test]
fn items_of_a_map_that_a_join_cancelled_are_listed() {
    let plan = plan("a; m = map(3, at 2) {t}; j needs a, m join any cancel-rest");
    let mut run = Run::start(&plan, "{}", None, 100);
    complete(&mut run, "m[0]/t", "1");
    complete(&mut run, "a", "null");
    assert_eq!(run.node("m").status, NodeStatus::Cancelled);
    let all = "0 COMPLETED, 1 FAILED cancelled, 2 FAILED cancelled, of 3";
    expect(&plan, &run, "m", &[("", all)]);
}

#[test]
fn iterations_of_a_loop_are_listed() {
    let plan = plan(
        "l = loop(until previous == 3, all) {t}; k = loop(until false, max 2) {u} error continue",
    );
    let mut run = Run::start(&plan, "{}", None, 100);
    complete(&mut run, "l[1]/t", "1");
    complete(&mut run, "k[1]/u", "5");
    expect(
        &plan,
        &run,
        "l",
        &[("", "1 COMPLETED 1, 2 RUNNING, of 2"), ("after=1", "2 RUNNING, of 2")],
    );
    complete(&mut run, "l[2]/t", "3");
    expect(&plan, &run, "l", &[("", "1 COMPLETED 1, 2 COMPLETED 3, of 2"), ("FAILED", "of 2")]);
    fail(&mut run, "k[2]/u");
    expect(&plan, &run, "k", &[("", "1 COMPLETED, 2 FAILED oops, of 2")]);
}

#[test]
fn nodes_without_items_and_bodies_that_closed_are_refused() {
    let plan = plan("g = group {a}; m = map(2, at 1) {n = map(2) {t}}");
    let mut run = Run::start(&plan, "{}", None, 100);
    let found = |run: &Run<'_>, path: &str| page(&plan, run, path, "");
    assert!(found(&run, "g").contains("g is neither a map nor a loop"));
    assert!(found(&run, "x").contains("no node \"x\""));
    assert_eq!(found(&run, "m[0]/n"), "0 RUNNING, 1 RUNNING, of 2");
    assert!(found(&run, "m[1]/n").contains("is in an item or iteration that is not open"));
    complete(&mut run, "m[0]/n[0]/t", "1");
    complete(&mut run, "m[0]/n[1]/t", "1");
    assert!(found(&run, "m[0]/n").contains("only the log has what was in it"));
}

/// A page costs what is on it, not what is before it.
#[test]
fn pages_of_ten_million_items_are_found_at_once() {
    let plan = plan("m = map(10000000, at 2) {t}");
    let run = Run::start(&plan, "{}", None, 100);
    expect(
        &plan,
        &run,
        "m",
        &[
            ("PENDING limit=1 after=9999997", "9999998 PENDING, of 10000000, more"),
            ("RUNNING", "0 RUNNING, 1 RUNNING, of 10000000"),
            ("COMPLETED", "of 10000000"),
        ],
    );
}
