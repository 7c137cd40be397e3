//! Concurrency keys on the command line: the place in the queue, rejections, and what `waypost check`
//! finds in lines that were damaged by hand.

use rusqlite::Connection;
use serde_json::Value;

use crate::program::Program;

/// Waits for a signal, one at a time.
fn ask(policy: &str) -> String {
    format!(
        "name: ask
concurrency: {{ key: all, policy: {policy} }}
nodes:
  - {{ id: ask, type: wait-for-events, config: {{ name: approved }} }}
"
    )
}

/// One execution that was let in and waits for a signal, and one that is queued behind it.
struct Line {
    program: Program,
    first: String,
    second: String,
}

impl Line {
    fn new() -> Self {
        let program = Program::new();
        let file = program.file("ask.yaml", ask("queue")).display().to_string();
        let until = |mark: &str| {
            let running = program.start(&["run", &file], mark);
            let execution = running.execution();
            running.interrupt();
            running.wait();
            execution
        };
        let (first, second) = (until("WAITING"), until("waits for a permit"));
        Self { program, first, second }
    }

    /// Changes the log's file; `@first` and `@second` stand for numbers of executions.
    fn damage(&self, sql: &str) {
        let number = |key: &str| format!("(SELECT execution FROM submissions WHERE key = '{key}')");
        let sql = sql.replace("@first", &number(&self.first));
        let sql = sql.replace("@second", &number(&self.second));
        let connection = Connection::open(self.program.data().join("log.db")).unwrap();
        connection.execute_batch(&sql).unwrap();
    }

    /// What a check finds: which execution, and the invariant.
    fn found(&self) -> Vec<(&'static str, String)> {
        let report = self.program.json(&["check"]);
        let name = |id: &Value| match id.as_str() {
            Some(id) if id == self.first => "first",
            Some(id) if id == self.second => "second",
            _ => "nobody",
        };
        let findings = report["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| {
                (name(&finding["id"]), finding["invariant"].as_str().unwrap().to_owned())
            })
            .collect()
    }
}

type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)], bool);

/// Damage, what must be found, and whether it can be repaired.
const CASES: &[Case] = &[
    ("nothing", "SELECT 1", &[], true),
    (
        "who was let in has no place",
        "DELETE FROM permits WHERE execution = @first",
        // And so there seems to be room.
        &[("first", "concurrency.within-limit"), ("second", "concurrency.within-limit")],
        true,
    ),
    (
        "who waits has no place",
        "DELETE FROM permits WHERE execution = @second",
        &[("second", "concurrency.within-limit")],
        true,
    ),
    (
        "who was let in holds no slot",
        "UPDATE permits SET holding = 0 WHERE execution = @first",
        &[("first", "concurrency.within-limit"), ("first", "concurrency.within-limit")],
        true,
    ),
    (
        "a place in the queue of another key",
        "UPDATE permits SET key = 'ask/other' WHERE execution = @second",
        // Where it waits for nobody.
        &[("second", "concurrency.within-limit"), ("second", "concurrency.within-limit")],
        true,
    ),
    (
        "a slot that was given and nobody was told of",
        "UPDATE permits SET most = 2; UPDATE permits SET holding = 1 WHERE execution = @second",
        &[("second", "wake.has-reason")],
        true,
    ),
    (
        "room, and somebody waits",
        "UPDATE permits SET most = 2",
        &[("second", "concurrency.within-limit")],
        true,
    ),
    (
        "more than the limit",
        "UPDATE permits SET holding = 1;
         UPDATE control SET ready = 1, held = NULL, wakes_from = 0 WHERE execution = @second",
        &[("second", "concurrency.within-limit")],
        false,
    ),
    (
        "a place of nobody",
        "INSERT INTO permits (execution, key, most, policy, holding, superseded)
         VALUES (4711, 'ask/nobody', 1, 'queue', 1, 0)",
        &[("nobody", "rows.belong")],
        true,
    ),
];

#[test]
fn check_on_damaged_permits_finds_and_repairs_them() {
    let mut wrong = Vec::new();
    for (name, damage, finds, repairable) in CASES {
        let line = Line::new();
        line.damage(damage);
        let found = line.found();
        let found: Vec<_> = found.iter().map(|(of, code)| (*of, code.as_str())).collect();
        if found != *finds {
            wrong.push(format!("{name}: found {found:?}"));
        }
        let repaired = line.program.run(&["check", "--repair"]);
        if (repaired.code == 0) != *repairable || line.found().is_empty() != *repairable {
            wrong.push(format!("{name}: repaired: {}{}", repaired.out, repaired.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What has ended has no place, also where a row says otherwise.
#[test]
fn a_place_of_what_has_ended_is_found_and_given_to_the_next() {
    let line = Line::new();
    let cancelled = line.program.run(&["cancel", &line.first]);
    assert_eq!(cancelled.code, 0, "{}{}", cancelled.out, cancelled.err);
    let place = "INSERT INTO permits (ticket, execution, key, most, policy, holding, superseded)
                 VALUES (0, @first, 'ask/all', 1, 'queue', 1, 0);
                 UPDATE permits SET holding = 0 WHERE execution = @second;";
    line.damage(place);
    assert_eq!(line.found().first().map(|found| found.0), Some("first"));
    assert_eq!(line.program.run(&["check", "--repair"]).code, 0);
    assert_eq!(line.found(), []);
    let resumed = line.program.start(&["resume", &line.second], "WAITING");
    resumed.interrupt();
    resumed.wait();
}

#[test]
fn queue_position_is_shown_and_kept() {
    let line = Line::new();
    let why = line.program.run(&["why", &line.second]);
    assert!(why.out.contains("waits for a permit of concurrency key \"all\""), "{}", why.out);
    assert!(why.out.contains("1 execution is ahead of it"), "{}", why.out);
    let shown = line.program.run(&["show", &line.second]);
    assert!(shown.out.contains("SCHEDULING"), "{}", shown.out);
    assert!(
        shown.out.contains("key        \"all\", limit 1: queued, 1 ahead of it"),
        "{}",
        shown.out
    );
    let paused = line.program.run(&["pause", &line.second]);
    assert!(paused.err.contains("has not started"), "{}{}", paused.out, paused.err);
    let cancelled = line.program.run(&["cancel", &line.second]);
    assert_eq!(cancelled.code, 0, "{}{}", cancelled.out, cancelled.err);
    let events = line.program.run(&["events", &line.second]);
    assert!(!events.out.contains("Node"), "{}", events.out);
}

#[test]
fn one_too_many_is_rejected_in_words() {
    let program = Program::new();
    let file = program.file("ask.yaml", ask("reject")).display().to_string();
    let running = program.start(&["run", &file], "WAITING");
    running.interrupt();
    running.wait();
    let refused = program.run(&["run", &file]);
    assert_ne!(refused.code, 0);
    let what = "1 execution of its key is under way, and the workflow rejects more";
    assert!(refused.err.contains(what), "{}", refused.err);
    assert!(refused.err.contains("start it when one of them has ended"), "{}", refused.err);
}
