//! `waypost check`: a store that the real program has made, damaged by hand.

mod triggers;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use serde_json::{Value, json};
use waypost::wiring;
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_engine::StartRequest;
use waypost_engine::check::{CheckOptions, check};
use waypost_engine::config::Config;

use crate::program::Program;

/// Ends at once.
const CHAIN: &str = "name: chain
nodes:
  - { id: first, type: transform, config: { value: { n: '${{ input.n }}' } } }
  - { id: second, type: noop, needs: [first] }
  - { id: done, type: output, needs: [second], config: { value: '${{ nodes.first.output }}' } }
";

/// Waits for an hour.
const NAP: &str = "name: nap
nodes:
  - { id: before, type: noop }
  - { id: nap, type: delay, needs: [before], config: { duration: 1h } }
  - { id: after, type: noop, needs: [nap] }
";

/// Waits for a signal.
const ASK: &str = "name: ask
nodes:
  - { id: ask, type: wait-for-events, config: { name: approved } }
";

/// Three executions: one has ended, one waits for time, one for a signal.
struct Store {
    program: Program,
    chain: String,
    nap: String,
    ask: String,
}

impl Store {
    fn new() -> Self {
        let program = Program::new();
        let file = |name: &str, definition: &str| {
            program.file(&format!("{name}.yaml"), definition).display().to_string()
        };
        let ran = program.run(&["run", &file("chain", CHAIN), "--input", r#"{"n":1}"#]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let chain = ran.out.split_whitespace().nth(1).unwrap().to_owned();
        let wait = |name: &str, definition: &str| {
            let running = program.start(&["run", &file(name, definition)], "WAITING");
            let execution = running.execution();
            running.interrupt();
            running.wait();
            execution
        };
        let (nap, ask) = (wait("nap", NAP), wait("ask", ASK));
        let store = Self { program, chain, nap, ask };
        // Lists bring the projections up to date.
        store.program.json(&["list"]);
        store
    }

    /// A copy in a folder of its own. No process uses the store while it is copied.
    fn copy(&self) -> Self {
        let program = Program::new();
        std::fs::create_dir(program.data()).unwrap();
        for entry in std::fs::read_dir(self.program.data()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), program.data().join(entry.file_name())).unwrap();
            }
        }
        let (chain, nap, ask) = (self.chain.clone(), self.nap.clone(), self.ask.clone());
        Self { program, chain, nap, ask }
    }

    fn sql(&self, file: &str, sql: &str) {
        let connection = Connection::open(self.program.data().join(file)).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    /// Changes the log's file; `@chain`, `@nap` and `@ask` stand for numbers of executions.
    fn log(&self, sql: &str) {
        self.sql("log.db", &self.fill(sql, "submissions", "execution"));
    }

    /// Changes the projections' file.
    fn projections(&self, sql: &str) {
        self.sql("projections.db", &self.fill(sql, "execution_rows", "execution"));
    }

    fn fill(&self, sql: &str, table: &str, column: &str) -> String {
        let mut sql = sql.to_owned();
        for (name, key) in [("@chain", &self.chain), ("@nap", &self.nap), ("@ask", &self.ask)] {
            let number = format!("(SELECT {column} FROM {table} WHERE key = '{key}')");
            sql = sql.replace(name, &number);
        }
        sql
    }

    /// Changes the body of the frame of an execution that holds a text, and its checksum with it.
    fn forge(&self, key: &str, from: &str, to: &str) {
        forge(&self.program.data(), key, from, to);
    }

    fn check(&self, more: &[&str]) -> Value {
        self.program.json(&[&["check"], more].concat())
    }

    /// What a check finds: execution, invariant, seq.
    fn found(&self) -> Vec<(String, String, u64)> {
        found(&self.check(&[]))
    }
}

fn found(report: &Value) -> Vec<(String, String, u64)> {
    let findings = report["findings"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("nobody").to_owned();
    findings.map(|f| (text(&f["id"]), text(&f["invariant"]), f["seq"].as_u64().unwrap())).collect()
}

fn forge(data: &Path, key: &str, from: &str, to: &str) {
    let connection = Connection::open(data.join("log.db")).unwrap();
    let mut select = connection
        .prepare(
            "SELECT id, body FROM frames WHERE execution =
                (SELECT execution FROM submissions WHERE key = ?1)",
        )
        .unwrap();
    let frames = select.query_map([key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let frames: Vec<(i64, Vec<u8>)> = frames.map(Result::unwrap).collect();
    let mut forged = 0;
    for (id, body) in frames {
        let text = String::from_utf8(body).unwrap();
        if text.contains(from) {
            let body = text.replace(from, to).into_bytes();
            let checksum = xxhash_rust::xxh3::xxh3_64(&body).cast_signed();
            let sql = "UPDATE frames SET body = ?2, checksum = ?3 WHERE id = ?1";
            connection.execute(sql, (id, body, checksum)).unwrap();
            forged += 1;
        }
    }
    assert!(forged > 0, "no frame of {key} holds {from:?}");
}

/// Damage, what must be found (`chain`, `nap` or `ask`, the invariant, the seq), and whether
/// it can be repaired.
struct Case {
    name: &'static str,
    damage: fn(&Store),
    finds: &'static [(&'static str, &'static str, u64)],
    repairable: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "a frame is deleted",
        damage: |store| {
            store.log("DELETE FROM frames WHERE execution = @chain AND first_seq = 5");
        },
        finds: &[("chain", "log.gapless", 8)],
        repairable: false,
    },
    Case {
        name: "a frame is copied behind the last one",
        damage: |store| {
            store.log(
                "INSERT INTO frames (execution, first_seq, last_seq, append_id, instance, epoch,
                    decided_at, at, requires, checksum, body)
                 SELECT execution, 1000 + first_seq, 1000 + last_seq, append_id, instance, epoch,
                    decided_at, at + 1000, requires, checksum, body
                 FROM frames WHERE execution = @chain AND first_seq = 1;
                 UPDATE frames SET
                    last_seq = last_seq - first_seq + 1
                        + (SELECT max(last_seq) FROM frames WHERE execution = @chain
                           AND first_seq < 1000),
                    first_seq = 1 + (SELECT max(last_seq) FROM frames WHERE execution = @chain
                           AND first_seq < 1000)
                 WHERE execution = @chain AND first_seq > 1000",
            );
        },
        finds: &[("chain", "append.once", 13)],
        repairable: false,
    },
    Case {
        name: "an end is repeated",
        damage: |store| {
            let end = "{\"RunCompleted\":{\"output\":{\"n\":1}}}";
            store.forge(&store.chain, end, &format!("{end},{end}"));
            store.log(
                "UPDATE frames SET last_seq = last_seq + 1 WHERE execution = @chain AND first_seq =
                    (SELECT max(first_seq) FROM frames WHERE execution = @chain)",
            );
        },
        finds: &[("chain", "log.single-end", 13)],
        repairable: false,
    },
    Case {
        name: "a frame's bytes are altered",
        damage: |store| {
            store.log(
                "UPDATE frames SET body = CAST(' ' || body AS BLOB) WHERE execution = @nap AND first_seq = 1",
            );
        },
        finds: &[("nap", "log.readable", 1)],
        repairable: false,
    },
    Case {
        name: "a frame's bytes and checksum are altered",
        damage: |store| store.forge(&store.nap, "\"NodeWaiting\"", "\"NodeDozing\""),
        finds: &[("nap", "log.readable", 8)],
        repairable: false,
    },
    Case {
        name: "an output is altered and still parses",
        damage: |store| store.forge(&store.chain, "\"output\":{\"n\":1}", "\"output\":{\"n\":2}"),
        finds: &[("chain", "projection.matches-log", 12)],
        repairable: true,
    },
    Case {
        name: "an attempt is altered",
        damage: |store| {
            let started = "{\"NodeStarted\":{\"node\":\"second\",\"attempt\":";
            store.forge(&store.chain, &format!("{started}1"), &format!("{started}2"));
        },
        finds: &[("chain", "attempt.once", 7)],
        repairable: false,
    },
    Case {
        name: "the definition is deleted",
        damage: |store| store.log("DELETE FROM definitions WHERE name = 'nap'"),
        finds: &[("nap", "definition.pinned", 1)],
        repairable: false,
    },
    Case {
        name: "an owner that is gone",
        damage: |store| {
            store.log(
                "UPDATE control SET owner = (SELECT max(number) FROM instances)
                 WHERE execution = @nap",
            );
        },
        finds: &[("nap", "wake.has-reason", 9)],
        repairable: true,
    },
    Case {
        name: "due at another time",
        damage: |store| {
            store.log("UPDATE control SET next_due = next_due + 1 WHERE execution = @nap");
        },
        finds: &[("nap", "control.matches-log", 9)],
        repairable: true,
    },
    Case {
        name: "never due",
        damage: |store| store.log("UPDATE control SET next_due = NULL WHERE execution = @nap"),
        finds: &[("nap", "wake.has-reason", 9)],
        repairable: true,
    },
    Case {
        name: "the control row is gone",
        damage: |store| store.log("DELETE FROM control WHERE execution = @ask"),
        finds: &[("ask", "wake.has-reason", 6)],
        repairable: true,
    },
    Case {
        name: "held, although nobody said so",
        damage: |store| {
            store.log(
                "UPDATE control SET held = 'paused by a user', wakes_from = 1
                 WHERE execution = @ask",
            );
        },
        finds: &[("ask", "control.matches-log", 6)],
        repairable: true,
    },
    Case {
        name: "a control row is left of what has ended",
        damage: |store| {
            store.log(
                "INSERT INTO control (execution, epoch, ready, wakes_from, requires)
                 VALUES (@chain, 1, 0, 0, 1)",
            );
        },
        finds: &[("chain", "control.matches-log", 12)],
        repairable: true,
    },
    Case {
        name: "mail that wakes nobody",
        damage: |store| {
            let sent = store.program.run(&["signal", &store.ask, "other"]);
            assert_eq!(sent.code, 0, "{}{}", sent.out, sent.err);
            store.log("UPDATE control SET ready = 0 WHERE execution = @ask");
        },
        finds: &[("ask", "mail.wakes", 6)],
        repairable: true,
    },
    Case {
        name: "a control row behind its log",
        damage: |store| store.log("UPDATE control SET epoch = 0 WHERE execution = @nap"),
        finds: &[("nap", "control.matches-log", 9)],
        repairable: true,
    },
    Case {
        name: "mail for what has ended",
        damage: |store| {
            store.log(
                "INSERT INTO inbox (execution, message, urgency, body)
                 VALUES (@chain, 'm', 0, '\"resume\"')",
            );
        },
        finds: &[("chain", "control.matches-log", 12)],
        repairable: true,
    },
    Case {
        name: "projections of nobody",
        damage: |store| {
            store.projections(
                "UPDATE execution_rows SET execution = 999 WHERE execution = @chain;
                 UPDATE node_rows SET execution = 999 WHERE execution = @chain",
            );
        },
        finds: &[("chain", "projection.matches-log", 12), ("nobody", "rows.belong", 0)],
        repairable: true,
    },
    Case {
        name: "rows of nobody",
        damage: |store| {
            store.log(
                "INSERT INTO control (execution, epoch, ready, wakes_from, requires)
                 VALUES (999, 1, 0, 0, 1);
                 INSERT INTO inbox (execution, message, urgency, body)
                 VALUES (999, 'm', 0, '\"resume\"')",
            );
        },
        finds: &[("nobody", "rows.belong", 0), ("nobody", "rows.belong", 0)],
        repairable: true,
    },
    Case {
        name: "a snapshot that is not the state",
        damage: |store| {
            store.log(
                "INSERT OR REPLACE INTO snapshots (execution, first_seq, seq, checksum, body)
                 SELECT execution, first_seq, last_seq, 0, x'7b7d' FROM frames
                 WHERE execution = @nap AND first_seq = 1",
            );
        },
        finds: &[("nap", "snapshot.matches-log", 4)],
        repairable: true,
    },
    Case {
        name: "an execution is not shown",
        damage: |store| store.projections("DELETE FROM execution_rows WHERE execution = @nap"),
        finds: &[("nap", "projection.matches-log", 9)],
        repairable: true,
    },
    Case {
        name: "an execution is shown in another status",
        damage: |store| {
            store.projections("UPDATE execution_rows SET status = 3 WHERE execution = @nap");
        },
        finds: &[("nap", "projection.matches-log", 9)],
        repairable: true,
    },
    Case {
        name: "an execution is shown in no status at all",
        damage: |store| {
            store.projections("UPDATE execution_rows SET status = 99 WHERE execution = @nap");
        },
        finds: &[("nobody", "projection.matches-log", 0)],
        repairable: true,
    },
    Case {
        name: "a node is not shown",
        damage: |store| {
            store.projections(
                "DELETE FROM node_rows WHERE execution = @chain
                 AND path = (SELECT id FROM paths WHERE path = 'second')",
            );
        },
        finds: &[("chain", "projection.matches-log", 12)],
        repairable: true,
    },
    Case {
        name: "a wait is not shown",
        damage: |store| store.projections("DELETE FROM wait_rows WHERE execution = @ask"),
        finds: &[("ask", "projection.matches-log", 6)],
        repairable: true,
    },
];

#[test]
fn check_on_every_kind_of_damage_names_and_repairs_it() {
    let (mut wrong, healthy) = (Vec::new(), Store::new());
    assert_eq!(healthy.found(), [], "before any damage");
    for case in CASES {
        let store = healthy.copy();
        (case.damage)(&store);
        let found = store.found();
        let name = |of: &str| match of {
            "chain" => store.chain.clone(),
            "nap" => store.nap.clone(),
            "ask" => store.ask.clone(),
            other => other.to_owned(),
        };
        let mut left = found.clone();
        let all_found = case.finds.iter().all(|(of, invariant, seq)| {
            let fits = |(id, code, at): &(String, String, u64)| {
                *id == name(of) && code == invariant && at == seq
            };
            let place = left.iter().position(fits);
            place.map(|place| left.remove(place)).is_some()
        });
        if !all_found || !left.is_empty() {
            wrong.push(format!("{}: {:#}", case.name, store.check(&[])["findings"]));
            continue;
        }
        let repaired = store.program.run(&["check", "--repair", "-o", "json"]);
        if (repaired.code == 0) != case.repairable || store.found().is_empty() != case.repairable {
            wrong.push(format!("{}: repaired: {}{}", case.name, repaired.out, repaired.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_healthy_store_is_well() {
    let store = Store::new();
    let ran = store.program.run(&["check"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("checked 3 executions, "), "{}", ran.out);
    assert!(ran.out.trim_end().ends_with(": all is well"), "{}", ran.out);
    let report = store.check(&["last"]);
    assert_eq!((&report["executions"], &report["well"]), (&json!(1), &json!(true)));
    assert_eq!(store.check(&["--since", "1h"])["executions"], json!(3));
    assert_eq!(store.check(&["--since", "2999-01-01T00:00:00Z"])["executions"], json!(0));
    assert_eq!(store.program.run(&["check", "--since", "soon"]).code, 2);
}

#[test]
fn check_prints_one_line_per_finding() {
    let store = Store::new();
    store.log("UPDATE control SET next_due = NULL WHERE execution = @nap");
    let ran = store.program.run(&["check"]);
    assert_eq!(ran.code, 1);
    let line = ran.out.lines().next().unwrap();
    assert!(line.starts_with(&format!("{} seq ", store.nap)), "{line}");
    assert!(
        line.contains("breaks wake.has-reason (every unfinished execution has a reason to wake)"),
        "{line}"
    );
    assert!(line.ends_with("[--repair fixes it]"), "{line}");
    assert!(ran.out.contains("1 finding, 1 of which --repair can fix"), "{}", ran.out);
    let ran = store.program.run(&["check", "--repair"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.contains("[repaired]"), "{}", ran.out);
    assert!(ran.out.contains("1 finding, 1 repaired"), "{}", ran.out);
}

#[test]
fn repaired_execution_resumes() {
    let store = Store::new();
    store.log("DELETE FROM control WHERE execution = @ask");
    assert_eq!(store.program.run(&["check", "--repair"]).code, 0);
    assert_eq!(store.program.run(&["signal", &store.ask, "approved"]).code, 0);
    let resumed = store.program.run(&["resume", &store.ask]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(store.found(), []);
}

/// Nobody parked it, so that only an owner, or being ready, keeps it alive.
#[test]
fn check_finds_and_repairs_an_execution_without_an_owner() {
    let program = Program::new();
    let definition = NAP.replace("1h", "1500ms");
    let flow = program.file("nap.yaml", definition).display().to_string();
    let running = program.start(&["run", &flow], "WAITING");
    let execution = running.execution();
    running.kill();
    assert_eq!(program.run(&["check"]).code, 0, "what a crash leaves is not damage");
    let connection = Connection::open(program.data().join("log.db")).unwrap();
    connection.execute("UPDATE control SET owner = NULL, ready = 0", ()).unwrap();
    drop(connection);
    assert_eq!(
        found(&program.json(&["check"])),
        [(execution.clone(), "wake.has-reason".to_owned(), 8)]
    );
    assert_eq!(program.run(&["check", "--repair"]).code, 0);
    let resumed = program.run(&["resume", &execution]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(program.run(&["check"]).code, 0);
}

#[test]
fn a_store_in_use_is_checked_and_not_repaired() {
    let program = Program::new();
    let flow = program.file("nap.yaml", NAP).display().to_string();
    let running = program.start(&["run", &flow], "nap");
    let ran = program.run(&["check"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ran = program.run(&["check", "--repair"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(&format!("process {}", running.pid())), "{}", ran.err);
    running.kill();
    let ran = program.run(&["check"]);
    assert_eq!(ran.code, 0, "what a crash leaves is not damage: {}{}", ran.out, ran.err);
}

/// Parks, is claimed, waits for retries, joins.
const BUSY: &str = "name: busy
nodes:
  - { id: a, type: noop }
  - { id: nap, type: delay, needs: [a], config: { duration: 20ms } }
  - { id: no, type: shell, needs: [a], config: { args: ['false'] }, onError: continue,
      retry: { maxAttempts: 2, waitDuration: 5 } }
  - { id: all, type: join, needs: [nap, no] }
";

#[test]
fn a_busy_store_gives_no_false_findings() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(wiring::open_engine_store(folder.path()).unwrap());
    let compiled = wiring::compile(BUSY.as_bytes()).unwrap();
    let version = wiring::define(&*store, &compiled).unwrap().version;
    let plan = Arc::new(compiled.plan);
    let done = AtomicBool::new(false);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    std::thread::scope(|scope| {
        let checker = scope.spawn(|| {
            let guest = wiring::open_store(folder.path()).unwrap();
            let plans = wiring::plans();
            let mut rounds = 0;
            while !done.load(Ordering::SeqCst) || rounds == 0 {
                let report = check(&guest, &plans, &CheckOptions::default(), &|_| {}).unwrap();
                assert!(report.findings.is_empty(), "round {rounds}: {:#?}", report.findings);
                rounds += 1;
            }
        });
        runtime.block_on(async {
            let nodes = waypost_nodes::Settings {
                shell_enabled: true,
                ..waypost_nodes::Settings::default()
            };
            let config =
                Config { park_after: Millis(0), snapshot_bytes_min: 256, ..Config::default() };
            let shared = Arc::clone(&store) as Arc<dyn waypost_ports::store::Store>;
            let engine = wiring::open_engine(
                (shared, waypost::backend::folder_blobs(folder.path())),
                &nodes,
                Arc::new(waypost_ports::secret::NoSecrets),
                config,
                None,
            );
            let engine = Arc::new(engine.unwrap());
            let mut clients = tokio::task::JoinSet::new();
            for _ in 0..8 {
                let (engine, plan) = (Arc::clone(&engine), Arc::clone(&plan));
                clients.spawn(async move {
                    for _ in 0..15 {
                        let request = StartRequest::new(Arc::clone(&plan), version, Json::null());
                        engine.start(request).await.unwrap().ended().await;
                    }
                });
            }
            clients.join_all().await;
            engine.stop(std::time::Duration::from_secs(5)).await;
        });
        done.store(true, Ordering::SeqCst);
        checker.join().unwrap();
    });
    store.wait_projected().unwrap();
    let report = check(&*store, &wiring::plans(), &CheckOptions::default(), &|_| {}).unwrap();
    assert_eq!((report.tally.executions, report.findings.len()), (120, 0));
}
