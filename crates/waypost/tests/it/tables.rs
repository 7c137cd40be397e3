//! The read tables, as people query them: the same values in a folder and in a database, after a crash and
//! after a rebuild, and every column in the reference.

use std::process::Command;

use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use waypost_testbed::postgres::{Postgres, database_of};

use crate::program::{Program, Ran, Running};
use crate::tidy::root;

const VIEWS: [&str; 3] = ["executions", "node_executions", "execution_wait_states"];

const TOUR: &str = r#"
name: tour
timeout: 2h
nodes:
  - id: greet
    type: shell
    config: { args: [echo, "hello ${{ input.name }}"] }
    variables: { who: "${{ input.name }}", words: ["${{ input.name }}", 2] }
  - { id: ask, type: wait-for-events, needs: greet, config: { name: approved, timeout: 1h } }
  - { id: last, type: shell, needs: ask, config: { args: [echo, done] } }
"#;

/// A folder, or a database, and the program on it.
struct Store {
    program: Program,
    url: Option<String>,
}

impl Store {
    fn both() -> [Self; 2] {
        let url = Postgres::shared().database();
        [None, Some(url)].map(|url| Self { program: Program::new(), url })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(args);
        command.env("WAYPOST_LEASE", "3s");
        if let Some(url) = &self.url {
            command.env("WAYPOST_DATABASE_URL", url);
        }
        command
    }

    fn run(&self, args: &[&str]) -> String {
        let Ran { code, out, err } = Ran::from(self.command(args).output().unwrap());
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[args, &["-o", "json"]].concat())).unwrap()
    }

    /// The rows of a view by id, with JSON as JSON.
    fn rows(&self, view: &str) -> Vec<Value> {
        match &self.url {
            None => {
                let file = self.program.data().join("projections.db");
                sqlite_rows(&rusqlite::Connection::open(file).unwrap(), view)
            }
            Some(url) => {
                let database = database_of(url);
                let rows =
                    format!("coalesce(json_agg(to_jsonb(v) ORDER BY v.id), '[]') FROM {view}");
                let rows = Postgres::shared().sql(database, &format!("SELECT {rows} AS v"));
                serde_json::from_str(&rows).unwrap()
            }
        }
    }

    fn all(&self) -> Vec<Vec<Value>> {
        VIEWS.iter().map(|view| self.rows(view)).collect()
    }

    /// Runs a workflow until it waits, kills the process, sends the signal and resumes it.
    fn tour(&self) -> String {
        let file = self.program.file("tour.yaml", TOUR).display().to_string();
        let args = ["run", &file, "--id", "tour-1", "--input", r#"{"name": "Ada"}"#];
        Running::start(self.command(&args), "WAITING").kill();
        let why = self.json(&["why", "tour-1"]);
        // A database learns of the death when the lease expires.
        let is_alive = |instance: &Value| instance["alive"] == true;
        while self.url.is_some()
            && self.json(&["instances"])["instances"].as_array().unwrap().iter().any(is_alive)
        {
        }
        self.run(&["signal", "tour-1", "approved", "--body", "true"]);
        self.run(&["resume", "tour-1"]);
        why["reasons"][0]["wait"].as_str().unwrap().to_owned()
    }
}

fn sqlite_rows(connection: &rusqlite::Connection, view: &str) -> Vec<Value> {
    let mut select = connection.prepare(&format!("SELECT * FROM {view} ORDER BY id")).unwrap();
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let rows = select.query_map([], |row| {
        let value = |at: usize| match row.get_ref(at).unwrap() {
            ValueRef::Integer(number) => json!(number),
            ValueRef::Text(text) => {
                let text = std::str::from_utf8(text).unwrap();
                let is_json = text.starts_with(['{', '[', 'n', 't', 'f']);
                let read = is_json.then(|| serde_json::from_str(text).ok()).flatten();
                read.unwrap_or_else(|| json!(text))
            }
            ValueRef::Null => Value::Null,
            other => panic!("{other:?}"),
        };
        let fields = columns.iter().enumerate().map(|(at, name)| (name.clone(), value(at)));
        Ok(Value::Object(fields.collect()))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Without what differs between two runs: times, and ids of instances.
fn alike(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|n| n > 1_000_000_000_000) => {
            json!("a time")
        }
        Value::String(text) if is_instance(text) => json!("an instance"),
        Value::Array(all) => all.iter().map(alike).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "duration" && *name != "number");
            fields.map(|(name, value)| (name.clone(), alike(value))).collect()
        }
        other => other.clone(),
    }
}

fn is_instance(text: &str) -> bool {
    text.len() == 32 && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn read_tables_after_a_crash_have_the_same_values_in_both_stores() {
    let found = Store::both().map(|store| {
        let wait = store.tour();
        let all = store.all();
        let [execution] = &all[0][..] else { panic!("{all:?}") };
        assert_eq!(execution["status"], "COMPLETED", "the end is there when the command returns");
        let context = &execution["context"];
        assert_eq!(context["input"], json!({ "name": "Ada" }));
        assert_eq!(context["variables"], json!({ "who": "Ada", "words": ["Ada", 2] }));
        assert_eq!(context["path"], json!(["greet", "ask", "last"]));
        assert_eq!(context["nodes"]["ask"], true);
        assert_eq!(context["metadata"]["executionId"], "tour-1");
        assert_eq!(context["metadata"]["startedAt"], execution["started_at"]);
        assert!(is_instance(execution["resumed_by"].as_str().unwrap()), "{execution}");
        assert!(number(&execution["resumed_at"]) > number(&execution["started_at"]));
        let deadline = number(&execution["execution_metadata"]["deadline"]);
        assert!(deadline - number(&execution["created_at"]) >= 2 * 3_600_000);

        let input = |node: &str| {
            let row = all[1].iter().find(|row| row["node_id"] == node).unwrap();
            assert!(number(&row["created_at"]) <= number(&row["started_at"]), "{row}");
            assert_eq!(row["updated_at"], row["completed_at"], "{row}");
            row["input_data"].clone()
        };
        assert_eq!(input("greet"), json!({ "args": ["echo", "hello Ada"] }));
        assert_eq!(input("last"), json!({ "args": ["echo", "done"] }));

        let [waited] = &all[2][..] else { panic!("{all:?}") };
        assert_eq!(waited["id"], wait, "the id is the API's");
        assert_eq!(
            (&waited["status"], &waited["wait_type"]),
            (&json!("COMPLETED"), &json!("WAIT_EVENTS"))
        );
        let expires = number(&waited["expires_at"]) - number(&waited["created_at"]);
        assert!((3_600_000..3_700_000).contains(&expires), "{waited}");
        assert!(number(&waited["updated_at"]) >= number(&waited["created_at"]));

        store.run(&["projections", "rebuild"]);
        assert_eq!(store.all(), all, "a rebuild changes nothing");
        all.iter().flatten().map(alike).collect::<Vec<_>>()
    });
    assert_eq!(found[0], found[1]);
}

#[test]
fn lists_show_the_kind_of_a_failure() {
    let program = Program::new();
    let file = program.file(
        "fails.yaml",
        "{name: fails, nodes: [{id: a, type: fail, config: {kind: sorry, message: it cannot}}]}",
    );
    assert_eq!(program.run(&["run", &file.display().to_string()]).code, 1);
    let list = program.json(&["list"]);
    let failure = &list["executions"][0]["failure"];
    assert_eq!(*failure, json!({ "kind": "sorry", "message": "it cannot" }), "{list}");
}

#[test]
fn reference_of_the_read_tables_has_every_column() {
    let page = std::fs::read_to_string(root().join("docs/reference/tables.md")).unwrap();
    let program = Program::new();
    let file = program.file("one.yaml", "{name: one, nodes: [{id: a, type: noop}]}");
    program.run(&["run", &file.display().to_string()]);
    let connection = rusqlite::Connection::open(program.data().join("projections.db")).unwrap();
    for view in VIEWS {
        let (_, section) = page.split_once(&format!("\n## {view}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let documented: Vec<&str> = rows.filter_map(|line| line.split('`').nth(1)).collect();
        let select = connection.prepare(&format!("SELECT * FROM {view}")).unwrap();
        assert_eq!(documented, select.column_names().collect::<Vec<_>>(), "{view}");
    }
}
