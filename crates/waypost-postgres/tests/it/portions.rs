//! Much at once: what is read and written goes in portions that a statement can carry.

use std::time::Duration;

use waypost_core::event::{Event, NodeEvent, RunEvent};
use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::inspect::Inspect;
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{Append, ControlChange, History, Store};
use waypost_postgres::PostgresStore;
use waypost_testbed::wait_until;

use crate::lives::{completed, created, started};
use crate::projections::lose_rows;
use crate::support::{Database, Intruder, everything, instance, is_committed, numbers};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the projections take at once, and what one more frame adds.
const PORTION: i64 = 4 << 20;
const FRAME: i64 = 1 << 20;

fn text(bytes: i64) -> Json {
    let bytes = usize::try_from(bytes).unwrap();
    Json::parse(&format!("\"{}\"", "x".repeat(bytes))).unwrap()
}

/// Executions that give about a MiB each, in one batch.
fn give_much(store: &PostgresStore, count: u32) -> Vec<Hand> {
    let owner = instance(store, 1);
    let mut hands: Vec<Hand> =
        numbers(store, owner, count).into_iter().map(|e| Hand::new(e, owner)).collect();
    let batch: Vec<Append> = hands
        .iter_mut()
        .map(|hand| {
            let key = format!("key-{}", hand.execution.0);
            let done = Event::Run(RunEvent::Completed { output: text(FRAME - 2_000) });
            hand.write(&[created(&key, "1"), started("a", 1), completed("a"), done]).into()
        })
        .collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    hands
}

/// Notes how many rows and bytes each statement writes, and fails those that write more rows than this.
fn watch(intruder: &Intruder<'_>, table: &str, rows_max: u32) {
    intruder.run(&format!(
        "CREATE TABLE written (rows bigint, bytes bigint);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF (SELECT count(*) FROM added) > {rows_max} THEN
                 RAISE EXCEPTION 'too much at once' USING ERRCODE = 'query_canceled';
             END IF;
             INSERT INTO written SELECT count(*), sum(length(output)) FROM added;
             RETURN NULL;
         END $$;
         CREATE TRIGGER noted AFTER INSERT ON {table} REFERENCING NEW TABLE AS added
             FOR EACH STATEMENT EXECUTE FUNCTION note()"
    ));
}

fn shown(store: &PostgresStore) -> usize {
    let page = store.list(&ListRequest { limit: 1_000, ..ListRequest::default() }).unwrap();
    page.rows.len()
}

/// What is at hand, what is read from the log, and what is derived again.
#[test]
fn rows_are_written_in_portions_of_bytes() {
    let database = Database::new();
    let store = database.open();
    let intruder = database.intruder();
    watch(&intruder, "execution_rows", 1_000);
    let check = |what: &str, rows: i64| {
        let most = intruder.number("SELECT max(bytes) FROM written");
        assert!(most < PORTION + FRAME, "{what}: {most} bytes at once");
        assert!(most > FRAME, "{what}: one by one");
        assert_eq!(intruder.number("SELECT sum(rows)::int8 FROM written"), rows, "{what}");
        intruder.run("DELETE FROM written");
    };
    let hands = give_much(&store, 10);
    store.wait_projected().unwrap();
    check("at hand", 10);
    store.rebuild(&mut |_, _| {}).unwrap();
    check("rebuilt", 10);
    lose_rows(&database, "DELETE FROM execution_rows", 0);
    store.wait_projected().unwrap();
    assert_eq!(shown(&store), hands.len());
    check("read from the log", 10);
}

/// More frames than are compared at once.
#[test]
fn sweeper_compares_a_long_log_in_pages() {
    let database = Database::new();
    let store = database.open();
    let intruder = database.intruder();
    let owner = instance(&store, 1);
    for _ in 0..3 {
        let mut hands: Vec<Hand> =
            numbers(&store, owner, 2_000).into_iter().map(|e| Hand::new(e, owner)).collect();
        let first = |hand: &mut Hand| -> Append {
            hand.write(&[created(&format!("key-{}", hand.execution.0), "1")]).into()
        };
        let batch: Vec<Append> = hands.iter_mut().map(first).collect();
        assert!(store.append(&batch).unwrap().iter().all(is_committed));
    }
    store.wait_projected().unwrap();
    lose_rows(&database, "DELETE FROM execution_rows", 0);
    store.wait_projected().unwrap();
    assert_eq!(intruder.number("SELECT count(*) FROM execution_rows"), 6_000);
    assert_eq!(store.lag().unwrap().frames, 0);
}

/// The outputs of one execution are more than a portion: its log is read in pages, and its nodes are
/// written in pieces.
#[test]
fn a_large_execution_is_shown_in_pieces() {
    let database = Database::new();
    let store = database.open();
    let intruder = database.intruder();
    let owner = instance(&store, 1);
    let mut hand = Hand::new(numbers(&store, owner, 1)[0], owner);
    let first: Append = hand.write(&[created("large", "1")]).into();
    assert!(is_committed(&store.append(&[first]).unwrap()[0]));
    for number in 0..12 {
        let node = format!("node-{number}");
        let Event::Node(NodeEvent::Completed { attempt, branch, variables, .. }) = completed(&node)
        else {
            panic!("it is completed")
        };
        let (node, output) = (node.as_str().into(), Some(text(FRAME - 2_000)));
        let done = Event::Node(NodeEvent::Completed { node, attempt, output, branch, variables });
        let frame: Append = hand.write(&[done]).into();
        assert!(is_committed(&store.append(&[frame]).unwrap()[0]));
    }
    store.wait_projected().unwrap();
    let rows = "SELECT string_agg(md5(n::text), ' ' ORDER BY n.node) FROM node_rows AS n";
    let before = intruder.text(rows);
    watch(&intruder, "node_rows", 1_000);
    assert_eq!(store.rebuild(&mut |_, _| {}).unwrap(), 13);
    let most = intruder.number("SELECT max(bytes) FROM written");
    assert!(most < PORTION + FRAME, "{most} bytes at once");
    assert_eq!(intruder.number("SELECT sum(rows)::int8 FROM written"), 12);
    assert_eq!(intruder.text(rows), before);
}

/// As many are read at once as come in the time of a statement.
#[test]
fn claims_read_in_portions_of_bytes() {
    let database = Database::new();
    let store = database.open();
    let me = instance(&store, 1);
    // The first claim sweeps.
    assert!(store.claim(&everything(me)).unwrap().claimed.is_empty());
    let mut statements = Vec::new();
    for bytes in [10, FRAME - 2_000] {
        let parked = ControlChange::Parked { next_due: Some(Timestamp(0)) };
        let mut hands: Vec<Hand> =
            numbers(&store, me, 12).into_iter().map(|e| Hand::new(e, me)).collect();
        let mut first = |hand: &mut Hand| -> Append {
            let created = created(&format!("key-{}", hand.execution.0), text(bytes).text());
            hand.write(&[created]).control(parked.clone()).into()
        };
        let batch: Vec<Append> = hands.iter_mut().map(&mut first).collect();
        assert!(store.append(&batch).unwrap().iter().all(is_committed));
        let before = store.statements().engine;
        let claimed = store.claim(&everything(me)).unwrap().claimed;
        statements.push(store.statements().engine - before);
        let all: Vec<_> = claimed.iter().map(|history| history.execution).collect();
        assert_eq!(all, hands.iter().map(|hand| hand.execution).collect::<Vec<_>>());
        let bodies = claimed.iter().map(|history| history.frames[0].body.as_ref().unwrap().len());
        assert!(bodies.min() > usize::try_from(bytes).ok());
    }
    // Two more times the question how many, and six statements to read them; should the first of the two
    // have swept as well, that was three.
    assert!(statements[1] >= statements[0] + 8, "{statements:?}");
}

/// A log that is larger than what is read at once comes whole.
#[test]
fn a_large_log_is_read_in_pages() {
    let database = Database::new();
    let store = database.open();
    let me = instance(&store, 1);
    let mut hands: Vec<Hand> =
        numbers(&store, me, 3).into_iter().map(|e| Hand::new(e, me)).collect();
    let mut appended = Vec::new();
    for number in 0..14 {
        for hand in hands.iter_mut().take(if number < 2 { 3 } else { 1 }) {
            // One of them is larger than a page.
            let bytes = if number == 8 { PORTION + 1 } else { FRAME };
            let event = Event::Run(RunEvent::Quarantined {
                reason: "x".repeat(usize::try_from(bytes).unwrap()),
            });
            let frame: Append = hand.write(&[event]).into();
            appended.push(frame.header);
            assert!(is_committed(&store.append(&[frame]).unwrap()[0]));
        }
    }
    let whole = |execution: ExecutionNo| -> Vec<FrameHeader> {
        appended.iter().filter(|header| header.execution == execution).copied().collect()
    };
    let check = |mut history: History| {
        let log: Vec<_> = history.take_log(&store).map(Result::unwrap).collect();
        let headers: Vec<_> = log.iter().map(|frame| frame.header).collect();
        assert!(log.iter().all(|frame| frame.body.is_ok()));
        assert_eq!(headers, whole(history.execution));
    };
    check(store.load(hands[0].execution).unwrap().unwrap());
    let all = [hands[1].execution, hands[0].execution, hands[2].execution];
    let examined = store.examine(&all).unwrap();
    assert_eq!(examined.len(), 2, "no more after so many bytes");
    examined.into_iter().for_each(|examined| check(examined.history));
}

/// Whatever the reason, what fails as a whole is tried in parts.
#[test]
fn projector_after_a_failed_write_tries_smaller_portions() {
    let database = Database::new();
    let store = database.open();
    let intruder = database.intruder();
    watch(&intruder, "execution_rows", 40);
    let owner = instance(&store, 1);
    let mut hands: Vec<Hand> =
        numbers(&store, owner, 300).into_iter().map(|e| Hand::new(e, owner)).collect();
    let mut first = |hand: &mut Hand| -> Append {
        hand.write(&[created(&format!("key-{}", hand.execution.0), "1")]).into()
    };
    let batch: Vec<Append> = hands.iter_mut().map(&mut first).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    wait_until("all are shown", PATIENCE, || shown(&store) == 300);
    store.wait_projected().unwrap();
}
