//! The rows for readers: their columns, and that they are nothing but a fold of the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::types::Value;
use waypost_core::event::{Event, FailureEnd, NodeEvent, Origin, RunCreated, RunEvent, Wait};
use waypost_core::failure::Failure;
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::kind::Family;
use waypost_core::time::Timestamp;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::query::Query;
use waypost_ports::store::Store;
use waypost_sqlite::{Families, Options, SqliteStore};

use crate::workload;

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

fn rows_of(folder: &Path) -> Connection {
    Connection::open(folder.join("projections.db")).unwrap()
}

fn dump(folder: &Path) -> Vec<Vec<Value>> {
    let connection = rows_of(folder);
    let mut all = Vec::new();
    for (view, _) in COLUMNS {
        let mut select = connection.prepare(&format!("SELECT * FROM {view} ORDER BY id")).unwrap();
        let columns = select.column_count();
        let rows = select.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
        all.extend(rows.unwrap().map(Result::unwrap));
    }
    all
}

/// Different ways for an execution to live, cut into frames.
fn lives() -> Vec<Vec<Vec<Event>>> {
    let started = |node: &str, attempt| {
        Event::Node(NodeEvent::Started {
            node: node.into(),
            attempt,
            worker: None,
            remote: None,
            token: None,
            due: None,
        })
    };
    let scheduled = |node: &str, attempt| {
        Event::Node(NodeEvent::Scheduled {
            node: node.into(),
            attempt,
            cause: Vec::new(),
            deadline: None,
        })
    };
    let completed = |node: &str| {
        Event::Node(NodeEvent::Completed {
            node: node.into(),
            attempt: 1,
            output: Some(Json::parse(r#"{"text":"\u0000"}"#).unwrap()),
            branch: Some("true".into()),
            variables: BTreeMap::new(),
        })
    };
    let failure = Failure::transient("http", "answered 503");
    let failed = |end| {
        Event::Node(NodeEvent::Failed {
            node: "b".into(),
            attempt: 1,
            failure: failure.clone(),
            end,
            wait: None,
        })
    };
    let signal = Wait::Signal { name: "go".into(), due: Some(Timestamp(5_000_000)) };
    let waiting = Event::Node(NodeEvent::Waiting {
        node: "b".into(),
        attempt: 1,
        wait: signal,
        span: None,
        message: None,
    });
    let resumed = Event::Node(NodeEvent::Resumed {
        node: "b".into(),
        attempt: 1,
        message: None,
        origin: Origin::default(),
        timed_out: false,
        more: false,
    });
    let run_failed = Event::Run(RunEvent::Failed {
        failure: failure.clone(),
        nodes: vec!["b".into()],
        output: None,
    });
    let reopened = Event::Run(RunEvent::Reopened {
        generation: 2,
        nodes: vec!["b".into()],
        origin: Origin::default(),
        deadline: None,
        reason: None,
    });
    let retry_at = |due| FailureEnd::RetryAt(Timestamp(due));
    vec![
        vec![
            vec![started("a", 1), completed("a")],
            vec![Event::Run(RunEvent::Completed { output: Json::null() })],
        ],
        vec![
            vec![started("a", 1), completed("a"), started("b", 1)],
            vec![failed(retry_at(7)), scheduled("b", 2)],
            vec![started("b", 2), failed(retry_at(8))],
            vec![scheduled("b", 3), failed(FailureEnd::Final), run_failed],
            vec![reopened, scheduled("b", 1)],
            vec![
                started("b", 1),
                completed("b"),
                Event::Run(RunEvent::Completed { output: Json::null() }),
            ],
        ],
        vec![vec![started("b", 1), waiting.clone()], vec![resumed], vec![completed("b")]],
        vec![
            vec![started("b", 1), waiting],
            vec![Event::Run(RunEvent::Cancelled { reason: None })],
        ],
    ]
}

fn live(store: &SqliteStore) {
    let definition = workload::definition(3);
    store.define(&definition).unwrap();
    for (number, frames) in workload::numbers(store, 4).zip(lives()) {
        let mut hand = Hand::new(ExecutionNo(number), workload::INSTANCE);
        let created = created(number, definition.hash);
        store.append(&[hand.write(&[created]).into()]).unwrap();
        for events in frames {
            store.append(&[hand.write(&events).into()]).unwrap();
            if number % 2 == 0 {
                store.wait_projected().unwrap();
            }
        }
    }
    store.wait_projected().unwrap();
}

fn created(number: i64, definition: DefinitionHash) -> Event {
    Event::Run(RunEvent::Created(Box::new(RunCreated {
        key: ExecutionId(format!("life-{number}").into()),
        workflow: "chain".into(),
        version: 1,
        definition,
        input: Json::parse(r#"{"n":1}"#).unwrap(),
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        deadline: None,
        origin: Origin::default(),
        parent: None,
        trigger: None,
    })))
}

fn options() -> Options {
    let families = |kind: &str| (kind == "noop").then_some(Family::Logic);
    Options { families: Arc::new(families), ..Options::engine() }
}

#[test]
fn views_have_the_columns_of_the_design() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path(), Options::engine()).unwrap());
    let connection = rows_of(folder.path());
    for (view, columns) in COLUMNS {
        let select = connection.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let names: Vec<&str> = select.column_names().collect();
        assert_eq!(names.join(", "), columns, "{view}");
    }
}

#[test]
fn a_rebuild_gives_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    live(&store);
    let before = dump(folder.path());
    assert!(before.len() > 10, "{before:?}");
    store.rebuild(&mut |_, _| {}).unwrap();
    assert_eq!(dump(folder.path()), before);
    drop(store);
    std::fs::remove_file(folder.path().join("projections.db")).unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    store.wait_projected().unwrap();
    assert_eq!(dump(folder.path()), before, "made again from nothing");
}

/// Who fails once, in whatever way, does not leave the lists standing still.
#[test]
fn a_panic_holds_the_rows_up_and_does_not_end_them() {
    let folder = tempfile::tempdir().unwrap();
    let panicked = AtomicBool::new(false);
    let families = move |kind: &str| {
        assert!(panicked.swap(true, Ordering::SeqCst), "the first time");
        (kind == "noop").then_some(Family::Logic)
    };
    let families: Families = Arc::new(families);
    let store =
        SqliteStore::open(folder.path(), Options { families, ..Options::engine() }).unwrap();
    live(&store);
    let shown = dump(folder.path());
    assert!(shown.len() > 10, "{shown:?}");
    store.rebuild(&mut |_, _| {}).unwrap();
    assert_eq!(dump(folder.path()), shown);
}

/// Names are numbered as they come, which depends on how the log is cut.
#[test]
fn outputs_are_shown_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    let definition = workload::definition(3);
    store.define(&definition).unwrap();
    let number = workload::numbers(&store, 1).next().unwrap();
    let mut hand = Hand::new(ExecutionNo(number), workload::INSTANCE);
    store.append(&[hand.write(&[created(number, definition.hash)]).into()]).unwrap();
    for node in ["b", "a"] {
        let completed = Event::Node(NodeEvent::Completed {
            node: node.into(),
            attempt: 1,
            output: Some(Json::parse("1").unwrap()),
            branch: None,
            variables: BTreeMap::new(),
        });
        store.append(&[hand.write(&[completed]).into()]).unwrap();
        store.wait_projected().unwrap();
    }
    let before = dump(folder.path());
    store.rebuild(&mut |_, _| {}).unwrap();
    assert_eq!(dump(folder.path()), before);
}

#[test]
fn rows_say_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    live(&store);
    let connection = rows_of(folder.path());
    let text = |sql: &str| -> String { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    let node = |column: &str, id: &str| {
        text(&format!("SELECT {column} FROM node_executions WHERE id = '{id}'"))
    };
    assert_eq!(node("status", "life-1/a"), "COMPLETED");
    assert_eq!(node("output_data", "life-1/a"), r#"{"text":"\u0000"}"#);
    assert_eq!(node("status || retry_count", "life-2/b"), "COMPLETED0", "a repair starts anew");
    let run = |column: &str, id: &str| {
        text(&format!("SELECT {column} FROM executions WHERE id = '{id}'"))
    };
    assert_eq!(run("status", "life-2"), "COMPLETED");
    assert_eq!(run("execution_metadata -> '$.generation'", "life-2"), "2");
    assert_eq!(run("execution_metadata ->> '$.labels.team'", "life-2"), "a");
    assert_eq!(run("context -> '$.nodes.a'", "life-1"), r#"{"text":"\u0000"}"#);
    assert_eq!(run("context -> '$.input.n'", "life-1"), "1");
    let waits = text(
        "SELECT group_concat(wait_type || ' ' || status, ', ')
         FROM (SELECT * FROM execution_wait_states ORDER BY id)",
    );
    assert_eq!(
        waits,
        "RETRY COMPLETED, RETRY COMPLETED, WAIT_EVENTS COMPLETED, WAIT_EVENTS FAILED"
    );
}

#[test]
fn nodes_are_described_by_their_definition() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    store.define(&workload::definition(3)).unwrap();
    workload::run(&store, 1, 3, 1);
    store.wait_projected().unwrap();
    let described: (String, String, String) = rows_of(folder.path())
        .query_row(
            "SELECT node_label, node_type, node_sub_type FROM node_executions WHERE node_id = 'n2'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(described, ("Node 2".to_owned(), "logic".to_owned(), "noop".to_owned()));
}

#[test]
fn completed_notify_nodes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    store.define(&workload::definition(3)).unwrap();
    workload::run(&store, 1, 3, 1);
    store.wait_projected().unwrap();
    drop(store);
    let rows = Connection::open(folder.path().join("projections.db")).unwrap();
    let sent = || -> i64 {
        let sent = "SELECT sum(notifications_sent) FROM executions";
        rows.query_row(sent, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(sent(), 0);
    let others = "UPDATE definition_nodes SET kind = 'notify' WHERE label <> 'Node 2'";
    rows.execute(others, []).unwrap();
    assert_eq!(sent(), 2);
}

#[test]
fn the_log_can_be_read_with_sql() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    workload::run(&store, 2, 3, 2);
    let log = Connection::open(folder.path().join("log.db")).unwrap();
    let completed = "SELECT group_concat(seq || ' ' || node, ', ') FROM events
        WHERE execution = 2 AND type = 'NodeCompleted' AND attempt = 1";
    let completed: String = log.query_row(completed, [], |row| row.get(0)).unwrap();
    assert_eq!(completed, "5 n1, 8 n2, 11 n3");
}

#[test]
fn foreign_projections_are_made_again() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (place, executions) in [(&folder, 5), (&other, 2)] {
        let store = SqliteStore::open(place.path(), options()).unwrap();
        workload::run(&store, executions, 2, 5);
        store.wait_projected().unwrap();
    }
    let expected = dump(other.path());
    let file = |place: &tempfile::TempDir| place.path().join("projections.db");
    std::fs::copy(file(&folder), file(&other)).unwrap();
    let store = SqliteStore::open(other.path(), options()).unwrap();
    store.wait_projected().unwrap();
    assert_eq!(dump(other.path()), expected);
    drop(store);
    std::fs::write(file(&other), b"this is not a database, and never was one").unwrap();
    let store = SqliteStore::open(other.path(), options()).unwrap();
    store.wait_projected().unwrap();
    assert_eq!(dump(other.path()), expected);
}

/// The second row of one execution was refused, and its frame tried again and again.
#[test]
fn bug_a_log_that_creates_its_execution_twice_held_up_all_lists() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), options()).unwrap();
    let definition = workload::definition(3);
    store.define(&definition).unwrap();
    let numbers: Vec<i64> = workload::numbers(&store, 2).collect();
    for number in &numbers {
        let mut hand = Hand::new(ExecutionNo(*number), workload::INSTANCE);
        for _ in 0..2 {
            let created = created(*number, definition.hash);
            store.append(&[hand.write(&[created]).into()]).unwrap();
            store.wait_projected().unwrap();
        }
    }
    assert_eq!(store.lag().unwrap().frames, 0);
    let connection = rows_of(folder.path());
    let rows: i64 =
        connection.query_row("SELECT count(*) FROM executions", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}
