//! The rows for readers: their columns, that they are nothing but a fold of the log, and that they are
//! written whichever process dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::kind::Family;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::ManualClock;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::inspect::Inspect;
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{LEASE, Store};
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::wait_until;

use crate::lives::{completed, created, definition, live, started};
use crate::support::{Database, Intruder, instance, is_committed, numbers, proxied};

const PATIENCE: Duration = Duration::from_secs(30);

/// The columns that the design lists.
const COLUMNS: [(&str, &str); 3] = [
    (
        "executions",
        "id, workflow_id, workflow_version, trigger_id, trigger_node_id, status, started_at, \
         completed_at, duration, nodes_executed, notifications_sent, context, trigger_data, \
         workflow_metadata, execution_metadata, error, error_details, current_node_id, resume_at, \
         resumed_at, resumed_by, created_at, updated_at",
    ),
    (
        "node_executions",
        "id, execution_id, node_id, node_label, node_type, node_sub_type, registry_id, status, \
         started_at, completed_at, duration, input_data, output_data, node_config, \
         execution_context, error, error_details, retry_count, retry_details, created_at, \
         updated_at",
    ),
    (
        "execution_wait_states",
        "id, execution_id, node_id, workflow_id, trigger_id, trigger_node_id, wait_type, \
         resume_at, context_snapshot, status, expires_at, created_at, updated_at",
    ),
];

pub(crate) fn options() -> Options {
    let families = |kind: &str| (kind == "noop").then_some(Family::Logic);
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    Options { families: Arc::new(families), clock: Some(clock), ..Options::default() }
}

/// Every row of every view and of the documents, as text.
pub(crate) fn dump(intruder: &Intruder<'_>) -> String {
    let rows = |view: &str, id: &str| {
        intruder.text(&format!(
            "SELECT coalesce(string_agg(v::text, E'\\n' ORDER BY {id}), '') FROM {view} AS v"
        ))
    };
    let views = COLUMNS.map(|(view, _)| rows(view, "v.id"));
    format!("{}\n{}", views.join("\n"), rows("execution_documents", "v.execution"))
}

fn keys(store: &PostgresStore) -> Vec<String> {
    let page = store.list(&ListRequest { limit: 100, ..ListRequest::default() }).unwrap();
    page.rows.iter().rev().map(|row| row.key.to_string()).collect()
}

/// Begins an execution of this key.
pub(crate) fn begin(store: &PostgresStore, key: &str, input: &str) -> Hand {
    let owner = instance(store, 1);
    let mut hand = Hand::new(numbers(store, owner, 1)[0], owner);
    let outcome = store.append(&[hand.write(&[created(key, input)]).into()]).unwrap();
    assert!(is_committed(&outcome[0]), "{outcome:?}");
    hand
}

#[test]
fn views_have_the_columns_of_the_design() {
    let database = Database::new();
    drop(database.open());
    let intruder = database.intruder();
    for (view, columns) in COLUMNS {
        let names = intruder.text(&format!(
            "SELECT string_agg(column_name, ', ' ORDER BY ordinal_position)
             FROM information_schema.columns
             WHERE table_schema = 'waypost' AND table_name = '{view}'"
        ));
        assert_eq!(names, columns, "{view}");
    }
    for status in Status::ALL {
        let name = intruder.text(&format!("SELECT waypost_status({}::int2)", status as i16));
        assert_eq!(name, status.name());
    }
    for status in NodeStatus::ALL {
        let name = intruder.text(&format!("SELECT waypost_node_status({}::int2)", status as i16));
        assert_eq!(name, status.name());
    }
}

#[test]
fn rows_say_what_happened() {
    let database = Database::new();
    let store = database.open_with(options());
    live(&[&store], |_, _| {});
    let intruder = database.intruder();
    let node = |column: &str, id: &str| {
        intruder.text(&format!("SELECT ({column})::text FROM node_executions WHERE id = '{id}'"))
    };
    assert_eq!(node("status", "life-1/a"), "COMPLETED");
    assert_eq!(node("output_data", "life-1/a"), r#"{"text":"\u0000"}"#);
    assert_eq!(node("status || retry_count", "life-2/b"), "COMPLETED0", "a repair starts anew");
    assert_eq!(node("node_label || node_type || node_sub_type", "life-1/a"), "Node Alogicnoop");
    let run = |column: &str, id: &str| {
        intruder.text(&format!("SELECT ({column})::text FROM executions WHERE id = '{id}'"))
    };
    assert_eq!(run("status", "life-2"), "COMPLETED");
    assert_eq!(run("notifications_sent", "life-1"), "0");
    intruder.run("UPDATE definition_nodes SET kind = 'notify'");
    assert_eq!(run("notifications_sent", "life-1"), "1", "its node a has completed");
    assert_eq!(run("execution_metadata -> 'generation'", "life-2"), "2");
    assert_eq!(run("execution_metadata -> 'labels' ->> 'team'", "life-2"), "a");
    // PostgreSQL's operators do not look into JSON that has U+0000 in it.
    let context = run("context", "life-1");
    assert!(context.contains(r#""nodes" : { "a" : {"text":"\u0000"} }"#), "{context}");
    assert_eq!(run("context -> 'input' -> 'n'", "life-4"), "1");
    let waits = intruder.text(
        "SELECT string_agg(wait_type || ' ' || status, ', ' ORDER BY id) FROM execution_wait_states",
    );
    assert_eq!(
        waits,
        "RETRY COMPLETED, RETRY COMPLETED, WAIT_EVENTS COMPLETED, WAIT_EVENTS FAILED"
    );
    let found = intruder.number(
        "SELECT count(*) FROM execution_documents
         WHERE document @> '{\"input\": {\"n\": 1}, \"labels\": {\"team\": \"a\"}, \"output\": {\"sum\": 3}}'",
    );
    assert_eq!(found, 2, "those that completed");
}

#[test]
fn rows_are_a_fold_of_the_log_however_it_is_cut() {
    let gathered = {
        let database = Database::new();
        let store = database.open_with(options());
        live(&[&store], |_, _| {});
        let intruder = database.intruder();
        let rows = dump(&intruder);
        store.rebuild(&mut |_, _| {}).unwrap();
        assert_eq!(dump(&intruder), rows, "derived again");
        let all: Vec<_> = (1..=4).map(ExecutionNo).collect();
        store.reproject(&all).unwrap();
        assert_eq!(dump(&intruder), rows, "one by one");
        rows
    };
    assert!(gathered.lines().count() > 10, "{gathered}");
    // Frame by frame, and for half of the executions by processes that take turns.
    let database = Database::new();
    let (one, two) = (database.open_with(options()), database.open_with(options()));
    live(&[&one, &two], |life, store| {
        if life % 2 == 0 {
            store.wait_projected().unwrap();
        }
    });
    assert_eq!(dump(&database.intruder()), gathered);
}

/// A process dies with rows to write, while it holds the sweeper's lease.
#[test]
fn sweeper_of_another_process_projects_what_a_dead_one_left() {
    let database = Database::new();
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    let options = || Options { clock: Some(clock.clone()), ..options() };
    let (proxy, url) = proxied(&database);
    let dying = PostgresStore::open(&url, options()).unwrap();
    begin(&dying, "shown", "1");
    dying.wait_projected().unwrap();
    let (intruder, observer) = (database.intruder(), database.intruder());
    intruder.wait_until("SELECT holder IS NOT NULL FROM sweeper");
    let survivor = database.open_with(options());
    // A session sees the statistics of others once per transaction, so another session has to look.
    intruder.run("BEGIN; LOCK TABLE execution_rows IN EXCLUSIVE MODE");
    let mut ended = begin(&dying, "ended", "2");
    let done = Event::Run(RunEvent::Completed { output: Json::null() });
    let last = ended.write(&[started("a", 1), completed("a"), done]).into();
    assert!(is_committed(&dying.append(&[last]).unwrap()[0]));
    observer.wait_for_waiters("projections", 1);
    proxy.refuse();
    intruder.run("ROLLBACK");
    drop(dying);
    assert_eq!(keys(&survivor), ["shown"]);
    assert_eq!(survivor.lag().unwrap().frames, 2, "and lists say that they are behind");

    clock.advance(Millis(LEASE.0 + 1));
    wait_until("it is shown", PATIENCE, || keys(&survivor) == ["shown", "ended"]);
    assert_eq!(survivor.lag().unwrap().frames, 0);
    let rows = survivor.shown(&[ended.execution]).unwrap();
    assert_eq!(rows[0].rows.as_ref().map(|rows| rows.view.status), Some(Status::Completed));
}

/// 1. A process sends an append, and freezes before the server executes it.
/// 2. Its leases end. Another process sweeps the whole log.
/// 3. The server commits the append. The process never learns of it, and dies.
#[test]
fn sweeper_projects_what_a_frozen_process_committed_after_its_lease() {
    let database = Database::new();
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    let options = || Options { clock: Some(clock.clone()), ..options() };
    let (proxy, url) = proxied(&database);
    let frozen = PostgresStore::open(&url, options()).unwrap();
    let mut hand = begin(&frozen, "frozen", "1");
    frozen.wait_projected().unwrap();
    let (intruder, observer) = (database.intruder(), database.intruder());
    observer.wait_until("SELECT holder IS NOT NULL FROM sweeper");
    let holder = observer.text("SELECT holder::text FROM sweeper");
    let survivor = database.open_with(options());
    intruder.run("BEGIN; LOCK TABLE frames IN EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let append = hand.write(&[started("a", 1)]).into();
        let late = scope.spawn(|| frozen.append(&[append]));
        observer.wait_for_waiters("writers", 1);
        proxy.refuse();
        clock.advance(Millis(LEASE.0 + 1));
        observer.wait_until(&format!("SELECT holder <> '{holder}' FROM sweeper"));
        survivor.wait_projected().unwrap();
        assert_eq!(survivor.lag().unwrap().frames, 0);
        intruder.run("COMMIT");
        assert!(late.join().unwrap().is_err(), "the process does not learn of it");
    });
    drop(frozen);
    wait_until("it is shown", PATIENCE, || {
        let shown = survivor.shown(&[hand.execution]).unwrap().remove(0).rows.unwrap();
        shown.nodes.iter().any(|node| node.path == "a")
    });
}

/// Frames after the oldest open transaction may still get frames before them: the sweeper waits for its end.
#[test]
fn an_open_transaction_of_another_client_delays_repairs_and_nothing_else() {
    let database = Database::new();
    let store = database.open_with(options());
    begin(&store, "lost", "1");
    store.wait_projected().unwrap();
    let other = database.intruder();
    other.run("BEGIN; SELECT pg_current_xact_id()");
    lose_rows(&database, "DELETE FROM execution_rows", 0);
    let mut hand = begin(&store, "own", "2");
    store.append(&[hand.write(&[started("a", 1)]).into()]).unwrap();
    store.wait_projected().unwrap();
    assert_eq!(keys(&store), ["lost", "own"], "what was committed before it is repaired");
    assert_eq!(store.lag().unwrap().frames, 0);
    database.intruder().run("DELETE FROM execution_rows WHERE execution = 2");
    store.wait_projected().unwrap();
    assert_eq!((keys(&store), store.lag().unwrap().frames), (vec!["lost".to_owned()], 2));
    other.run("ROLLBACK");
    store.wait_projected().unwrap();
    assert_eq!((keys(&store).len(), store.lag().unwrap().frames), (2, 0));
}

#[test]
fn a_process_that_ends_projects_everything_and_lets_another_one_sweep() {
    let database = Database::new();
    let store = database.open_with(options());
    begin(&store, "last words", "1");
    drop(store);
    let intruder = database.intruder();
    assert_eq!(intruder.number("SELECT count(*) FROM execution_rows"), 1);
    assert_eq!(intruder.number("SELECT held_until FROM sweeper"), 0);
}

#[test]
fn a_lost_connection_loses_no_rows() {
    let database = Database::new();
    let store = database.open_with(options());
    let (intruder, observer) = (database.intruder(), database.intruder());
    for number in 0..5 {
        intruder.run("BEGIN; LOCK TABLE execution_rows IN EXCLUSIVE MODE");
        let mut hand = begin(&store, &format!("key-{number}"), "1");
        observer.wait_for_waiters("projections", 1);
        assert!(is_committed(&store.append(&[hand.write(&[started("a", 1)]).into()]).unwrap()[0]));
        observer.kill("projections");
        intruder.run("ROLLBACK");
    }
    store.wait_projected().unwrap();
    assert_eq!(keys(&store), ["key-0", "key-1", "key-2", "key-3", "key-4"]);
    let before = dump(&intruder);
    store.rebuild(&mut |_, _| {}).unwrap();
    assert_eq!(dump(&intruder), before);
}

/// As if the server had lost the end of its log: rows that were written are gone, and so is the place that the
/// sweeper had reached.
pub(crate) fn lose_rows(database: &Database, deletion: &str, place: i64) {
    let (intruder, observer) = (database.intruder(), database.intruder());
    intruder.run(&format!(
        "BEGIN; LOCK TABLE sweeper IN ACCESS EXCLUSIVE MODE; {deletion}; \
         UPDATE sweeper SET place = {place}"
    ));
    observer.kill("projections");
    intruder.run("COMMIT");
}

#[test]
fn rows_that_the_server_lost_come_again() {
    let database = Database::new();
    let store = database.open_with(options());
    let intruder = database.intruder();
    store.define(&definition()).unwrap();
    begin(&store, "first", "1");
    store.wait_projected().unwrap();
    let place = intruder.number("SELECT place FROM sweeper");
    begin(&store, "second", "1");
    store.wait_projected().unwrap();
    let lost = "DELETE FROM execution_rows WHERE execution = 2; DELETE FROM definition_nodes";
    lose_rows(&database, lost, place);
    wait_until("it is shown again", PATIENCE, || keys(&store) == ["first", "second"]);
    assert_eq!(intruder.number("SELECT count(*) FROM definition_nodes"), 1);
}

#[test]
fn projector_leaves_out_only_the_execution_the_database_rejects() {
    let database = Database::new();
    let store = database.open_with(options());
    store.define(&definition()).unwrap();
    let intruder = database.intruder();
    intruder.run(
        "ALTER TABLE execution_documents ADD CHECK (document -> 'input' <> '13');
         ALTER TABLE execution_rows ADD CHECK (key <> 'bad')",
    );
    for (key, input) in [("a", "12"), ("without a document", "13"), ("bad", "14"), ("b", "15")] {
        begin(&store, key, input);
    }
    store.wait_projected().unwrap();
    assert_eq!(keys(&store), ["a", "without a document", "b"]);
    begin(&store, "later", "16");
    store.wait_projected().unwrap();
    assert_eq!(keys(&store), ["a", "without a document", "b", "later"]);
    let documents =
        intruder.text("SELECT string_agg(document ->> 'input', ' ') FROM execution_documents");
    assert!(documents.ends_with("16"), "{documents}");
    // A sweeper that finds them behind gets past them too.
    let other = database.open_with(options());
    lose_rows(&database, "DELETE FROM execution_rows; DELETE FROM execution_documents", 0);
    other.wait_projected().unwrap();
    assert_eq!(keys(&other), ["a", "without a document", "b", "later"]);
    assert_eq!(other.lag().unwrap().frames, 0);
}

#[test]
fn a_frame_that_cannot_be_read_is_left_out() {
    let database = Database::new();
    let store = database.open_with(options());
    let mut hand = begin(&store, "damaged", "1");
    let mut unreadable = hand.write(&[started("a", 1)]);
    unreadable.0.body = b"no events".to_vec();
    let end = hand.write(&[Event::Run(RunEvent::Cancelled { reason: None })]);
    store.append(&[unreadable.into(), end.into()]).unwrap();
    store.wait_projected().unwrap();
    let rows = store.shown(&[hand.execution]).unwrap().remove(0).rows.unwrap();
    assert_eq!((rows.view.status, rows.nodes.len()), (Status::Cancelled, 0));
    assert_eq!(store.frames_skipped(), 1);
}

/// Who fails once, in whatever way, does not leave the lists standing still.
#[test]
fn a_panic_holds_the_rows_up_and_does_not_end_them() {
    let database = Database::new();
    let panicked = AtomicBool::new(false);
    let families = move |kind: &str| {
        assert!(panicked.swap(true, Ordering::SeqCst), "the first time");
        (kind == "noop").then_some(Family::Logic)
    };
    let store = database.open_with(Options { families: Arc::new(families), ..options() });
    store.define(&definition()).unwrap();
    begin(&store, "first", "1");
    store.wait_projected().unwrap();
    assert_eq!(keys(&store), ["first"]);
}

#[test]
fn a_log_that_creates_its_execution_twice_keeps_its_first_row() {
    let database = Database::new();
    let store = database.open_with(options());
    let mut hand = begin(&store, "first", "1");
    store.wait_projected().unwrap();
    store.append(&[hand.write(&[created("second", "2")]).into()]).unwrap();
    wait_until("all is shown", PATIENCE, || store.lag().unwrap().frames == 0);
    assert_eq!(keys(&store), ["first"]);
}
