//! Logs that this engine wrote once, in every log format. Each version must fold them to the same states
//! and derive the same rows from them.
//!
//! `tests/golden/logs` is never edited: `SUMS` has a checksum of each file. New logs may be added with
//! `cargo run -p waypost-sim -- record FOLDER`. `tests/golden/expected` holds what comes of them. Where a
//! change means to alter that, `WAYPOST_GOLDEN=write` writes it again, and the diff shows what changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use waypost::wiring;
use waypost_core::apply::{apply, begin};
use waypost_core::event::{Event, LOG_FORMAT, RunEvent};
use waypost_core::frame::{FrameHeader, Parent, decode};
use waypost_core::id::{AppendId, ExecutionNo, InstanceId};
use waypost_core::plan::Plan;
use waypost_core::state::{NodeState, State};
use waypost_core::time::Timestamp;
use waypost_ports::store::{Append, Appended, NewDefinition, Side, Store, Submission};
use waypost_postgres::PostgresStore;
use waypost_testbed::postgres::{Postgres, database_of};
use xxhash_rust::xxh3::xxh3_64;

/// The views that users read, and where they have the execution's id.
const VIEWS: [(&str, &str); 3] = [
    ("executions", "id"),
    ("node_executions", "execution_id"),
    ("execution_wait_states", "execution_id"),
];

/// Every event that a log can hold.
const EVENTS: &str = "RunCreated RunOwned RunQueued RunAdmitted RunPauseRequested RunPaused RunResumed \
    RunQuarantined RunEnding RunCompleted RunFailed RunCancelled RunTimedOut RunReopened \
    SignalReceived SignalDelivered MessageIgnored NodeScheduled NodeStarted NodeCheckpointed NodeCompleted NodeFailed \
    NodeWaiting NodeSignalled NodeReminded NodeResumed NodeRequeued NodeSkipped NodeCancelled BodyOpened BodyEnding MapOpened ItemsOpened NodeTuned \
    ChildStarted ChildReopened ChildEnded SignalSent \
    NodeReserved NodeUsed RunBudgetExhausted RunBudgetSet";

/// One log, as it was stored.
struct Golden {
    name: String,
    canonical: String,
    plan: Plan,
    frames: Vec<(FrameHeader, String)>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The files of the logs, in order.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder().join("logs")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files
}

fn logs() -> Vec<Golden> {
    (1..).zip(files()).map(|(number, file)| Golden::read(ExecutionNo(number), &file)).collect()
}

impl Golden {
    /// All of them go into one store: each gets a number of its own.
    fn read(execution: ExecutionNo, file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        let canonical = lines.next().unwrap().to_owned();
        let plan = waypost_lang::compile_canonical(canonical.as_bytes(), &waypost_nodes::catalog());
        let mut parent = None;
        let frames = lines.map(|line| {
            let (header, body) = read_frame(execution, line, parent);
            parent = Some(header.as_parent());
            (header, body)
        });
        let frames = frames.collect();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { name, canonical, plan: plan.unwrap(), frames }
    }

    fn events(&self) -> impl Iterator<Item = (u16, Event)> + '_ {
        self.frames.iter().flat_map(|(header, body)| {
            decode(body.as_bytes()).unwrap().into_iter().map(|event| (header.requires, event))
        })
    }

    /// A line for each frame, and the whole of the last state.
    fn states(&self) -> Value {
        let (mut state, mut lines): (Option<State>, Vec<String>) = (None, Vec::new());
        for (header, body) in &self.frames {
            for event in decode(body.as_bytes()).unwrap() {
                let at = header.decided_at;
                match &mut state {
                    None => state = Some(begin(&self.plan, header.execution, &event, at).unwrap()),
                    Some(state) => apply(&self.plan, state, &event, at).unwrap(),
                }
            }
            lines.push(line_of(&self.plan, state.as_ref().unwrap()));
        }
        json!({ "frames": lines, "last": whole(&self.plan, &state.unwrap()) })
    }

    /// Appends everything to a store.
    fn import(&self, store: &dyn Store) {
        let hash = match self.events().next() {
            Some((_, Event::Run(RunEvent::Created(created)))) => created.definition,
            other => panic!("a log begins with {other:?}"),
        };
        let definition = NewDefinition {
            name: self.plan.workflow.clone(),
            hash,
            canonical: self.canonical.as_str().into(),
            make_current: true,
            triggers: Vec::new(),
            paused: false,
        };
        store.define(&definition).unwrap();
        for (header, body) in &self.frames {
            let submission = match decode(body.as_bytes()).unwrap().first() {
                Some(Event::Run(RunEvent::Created(created))) => {
                    Some(Submission { key: created.key.clone(), idempotency: None, fire: None })
                }
                _ => None,
            };
            let side = Side { submission, ..Side::default() };
            let append = Append { header: *header, body: body.clone().into_bytes(), side };
            let appended = store.append(&[append]).unwrap();
            assert!(matches!(appended[..], [Appended::Committed { .. }]), "{appended:?}");
        }
    }

    /// Compares its rows in the views that users read.
    fn expect_views(&self, store: &str, rows: impl Fn(&str, &str) -> Vec<Value>) {
        let key = match self.events().next() {
            Some((_, Event::Run(RunEvent::Created(created)))) => created.key.to_string(),
            other => panic!("a log begins with {other:?}"),
        };
        let views = VIEWS.map(|(view, column)| {
            let rows = rows(view, &format!("{column} = '{key}'"));
            (view.to_owned(), rows.into_iter().map(present).collect())
        });
        self.expect(store, &Value::Object(views.into_iter().collect()));
    }

    /// Compares with what is expected of this log, or writes it down.
    fn expect(&self, what: &str, found: &Value) {
        let file = folder().join("expected").join(format!("{}.{what}.json", self.name));
        let found = format!("{found:#}\n");
        if std::env::var_os("WAYPOST_GOLDEN").is_some_and(|mode| mode == "write") {
            return std::fs::write(file, found).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap();
        if let Some((at, (wanted, line))) =
            expected.lines().zip(found.lines()).enumerate().find(|(_, (a, b))| a != b)
        {
            panic!("{}:{}: {wanted:?} is wanted, and {line:?} found", file.display(), at + 1);
        }
        assert_eq!(expected.len(), found.len(), "{}", file.display());
    }
}

/// A line of a file: the header's fields, and the stored bytes of the events.
fn read_frame(execution: ExecutionNo, line: &str, parent: Option<Parent>) -> (FrameHeader, String) {
    let (fields, events) = line.split_once(",\"events\":").unwrap();
    let fields: Value = serde_json::from_str(&format!("{fields}}}")).unwrap();
    let whole = |name: &str| fields[name].as_i64().unwrap();
    let count = |name: &str| u64::try_from(whole(name)).unwrap();
    let id = |name: &str| Uuid::parse_str(fields[name].as_str().unwrap()).unwrap();
    let header = FrameHeader {
        execution,
        first_seq: count("first_seq"),
        last_seq: count("last_seq"),
        append_id: AppendId(id("append_id")),
        parent,
        instance: InstanceId(id("instance")),
        epoch: u32::try_from(whole("epoch")).unwrap(),
        decided_at: Timestamp(whole("decided_at")),
        requires: u16::try_from(whole("requires")).unwrap(),
    };
    (header, events.strip_suffix('}').unwrap().to_owned())
}

/// Where an execution stands, on one line.
fn line_of(plan: &Plan, state: &State) -> String {
    let nodes = plan.positions().map(|at| {
        let NodeState { status, attempt, .. } = state.node(at);
        format!("{}={status}#{attempt}", plan.node(at).id)
    });
    let nodes = nodes.collect::<Vec<_>>().join(" ");
    let due = state.next_due().map(|due| format!(" due={due}")).unwrap_or_default();
    format!("{} {} epoch={}{due}: {nodes}", state.seq, state.status, state.epoch)
}

/// All of a state that decisions depend on.
fn whole(plan: &Plan, state: &State) -> Value {
    let nodes = plan.positions().map(|at| {
        let node = present(serde_json::to_value(state.node(at)).unwrap());
        (plan.node(at).id.to_string(), node)
    });
    let nodes: Map<String, Value> = nodes.collect();
    let mut all = serde_json::to_value(state).unwrap();
    // The definition's own nodes, as a part of the whole.
    let root = all.as_object_mut().unwrap().remove("root").unwrap();
    for (name, value) in root.as_object().unwrap() {
        all[name] = value.clone();
    }
    all["nodes"] = Value::Object(nodes);
    present(all)
}

/// Without what is absent: a field that a later version adds is not in the way.
fn present(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        other => *other == json!(0) || *other == json!(false),
    };
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !is_empty(value)).collect(),
        other => other,
    }
}

#[test]
fn golden_logs_are_never_edited() {
    let sums = files().into_iter().map(|file| {
        let sum = xxh3_64(&std::fs::read(&file).unwrap());
        format!("{sum:016x}  {}\n", file.file_name().unwrap().to_str().unwrap())
    });
    let sums: String = sums.collect();
    let known = std::fs::read_to_string(folder().join("logs/SUMS")).unwrap();
    assert!(!sums.is_empty());
    assert_eq!(sums, known, "add the lines of new logs; the others stay as they are");
}

#[test]
fn golden_logs_hold_every_event_and_every_format() {
    let (mut events, mut formats) = (BTreeSet::new(), BTreeSet::new());
    for log in logs() {
        for (format, event) in log.events() {
            events.insert(event.name());
            formats.insert(format);
        }
    }
    assert_eq!(events, EVENTS.split_whitespace().collect());
    assert_eq!(formats, (1..=LOG_FORMAT).collect());
}

#[test]
fn golden_logs_fold_to_the_same_states() {
    for log in logs() {
        log.expect("states", &log.states());
    }
}

#[test]
fn golden_logs_give_the_same_rows_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = wiring::open_engine_store(folder.path()).unwrap();
    let logs = logs();
    logs.iter().for_each(|log| log.import(&store));
    store.wait_projected().unwrap();
    let rows = rusqlite::Connection::open(folder.path().join("projections.db")).unwrap();
    for log in logs {
        log.expect_views("sqlite", |view, of| view_of(&rows, view, of));
    }
}

fn view_of(rows: &rusqlite::Connection, view: &str, of: &str) -> Vec<Value> {
    let mut select = rows.prepare(&format!("SELECT * FROM {view} WHERE {of} ORDER BY id")).unwrap();
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| {
        let value = |at: usize| match row.get_ref(at).unwrap() {
            ValueRef::Integer(number) => json!(number),
            ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
            ValueRef::Null => Value::Null,
            other => panic!("{other:?}"),
        };
        let fields = columns.iter().enumerate().map(|(at, name)| (name.clone(), value(at)));
        Ok(Value::Object(fields.collect()))
    };
    select.query_map([], row).unwrap().map(Result::unwrap).collect()
}

#[test]
fn golden_logs_give_the_same_rows_in_a_database() {
    let (server, logs) = (Postgres::shared(), logs());
    let url = server.database();
    let database = database_of(&url);
    let families = std::sync::Arc::new(wiring::Catalogued);
    let options = waypost_postgres::Options { families, ..waypost_postgres::Options::default() };
    let store = PostgresStore::open(&url, options).unwrap();
    logs.iter().for_each(|log| log.import(&store));
    store.wait_projected().unwrap();
    for log in logs {
        log.expect_views("postgres", |view, of| {
            let rows = "coalesce(json_agg(to_jsonb(v) ORDER BY v.id), '[]')";
            let sql = format!("SELECT {rows} FROM {view} AS v WHERE {of}");
            serde_json::from_str(&server.sql(database, &sql)).unwrap()
        });
    }
}
