//! The kill test: a process with mixed load is killed with -9, again and again, and afterwards
//! everything that it acknowledged has ended as it should.
//!
//! The victim is this test binary, started again to run `kill::victim` alone. It submits executions
//! and writes a line for each one that was acknowledged; the parent kills it after a random number
//! of lines, so that nothing here depends on the clock.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use waypost::wiring;
use waypost_core::event::Event;
use waypost_core::frame::decode;
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::status::Status;
use waypost_engine::check::{Options, check};
use waypost_engine::config::Config;
use waypost_engine::{Observer, StartRequest};
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{History, Store};

use crate::sink::Sink;

const KILLS: usize = 30;
const FOLDER: &str = "WAYPOST_TEST_VICTIM_FOLDER";
const SINK: &str = "WAYPOST_TEST_VICTIM_SINK";
const FINISH: &str = "WAYPOST_TEST_VICTIM_FINISH";

/// The load: a definition, and how its executions must end.
const FLOWS: &[(&str, Status)] = &[
    (
        "name: chain
nodes:
  - { id: a, type: noop }
  - { id: b, type: noop, needs: [a] }
  - { id: c, type: transform, needs: [b], config: { value: { n: '${{ input.n }}' } } }
  - { id: d, type: output, needs: [c], config: { value: '${{ nodes.c.output.n }}' } }
",
        Status::Completed,
    ),
    (
        "name: fan
nodes:
  - { id: root, type: noop }
  - { id: w1, type: noop, needs: [root] }
  - { id: w2, type: shell, needs: [root], config: { args: ['true'] } }
  - { id: w3, type: shell, needs: [root], config: { args: [sleep, '0.05'] } }
  - { id: all, type: join, needs: [w1, w2, w3] }
  - { id: any, type: join, join: any, needs: [w1, w2, w3] }
",
        Status::Completed,
    ),
    (
        "name: branches
nodes:
  - { id: odd, type: condition, config: { expression: input.n % 2 == 1 } }
  - { id: yes, type: noop, needs: [{ node: odd, branch: 'true' }] }
  - { id: no, type: noop, needs: [{ node: odd, branch: 'false' }] }
  - { id: after, type: join, needs: [yes, no] }
",
        Status::Completed,
    ),
    (
        "name: naps
nodes:
  - { id: short, type: delay, config: { duration: 300 } }
  - { id: long, type: delay, needs: [short], config: { duration: 2500 } }
  - { id: end, type: noop, needs: [long] }
",
        Status::Completed,
    ),
    (
        "name: calls
nodes:
  - id: one
    type: api-call
    config: { method: POST, url: '${{ input.sink }}/one', body: { n: '${{ input.n }}' } }
    retry: { maxAttempts: 50, waitDuration: 20, exponentialBackoff: false }
  - id: two
    type: api-call
    needs: [one]
    config: { method: POST, url: '${{ input.sink }}/two' }
    retry: { maxAttempts: 50, waitDuration: 20, exponentialBackoff: false }
",
        Status::Completed,
    ),
    (
        "name: refused
nodes:
  - { id: call, type: api-call, config: { url: '${{ input.sink }}/no' }, retry: { retryOn: [5xx] } }
  - { id: never, type: noop, needs: [call] }
",
        Status::Failed,
    ),
];

#[test]
fn nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let mut acknowledged = BTreeMap::new();
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..KILLS {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lines = 5 + (dice >> 33) % 120;
        let mut victim = spawn(folder.path(), &sink, false);
        read_acknowledged(&mut victim, Some(lines), &mut acknowledged);
        victim.kill().unwrap(); // SIGKILL
        victim.wait().unwrap();
    }
    let mut last = spawn(folder.path(), &sink, true);
    read_acknowledged(&mut last, None, &mut acknowledged);
    assert!(last.wait().unwrap().success(), "the last process did not finish the rest");
    assert!(acknowledged.len() > KILLS * 5, "only {} were acknowledged", acknowledged.len());
    audit(folder.path(), &sink, &acknowledged);
}

fn spawn(folder: &Path, sink: &Sink, finish: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::victim", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(SINK, format!("http://{}", sink.address))
        .env(FINISH, if finish { "yes" } else { "" })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads the lines of acknowledged executions: so many, or all there are.
fn read_acknowledged(
    victim: &mut Child,
    lines: Option<u64>,
    acknowledged: &mut BTreeMap<String, usize>,
) {
    let mut left = lines.unwrap_or(u64::MAX);
    for line in BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some((key, flow)) = line.strip_prefix("ack ").and_then(|ack| ack.split_once(' ')) {
            acknowledged.insert(key.to_owned(), flow.parse().unwrap());
            left -= 1;
        }
        if left == 0 {
            return;
        }
    }
    assert!(lines.is_none(), "the victim ended by itself");
}

/// Does nothing in an ordinary test run; see the module.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let finish = std::env::var(FINISH).is_ok_and(|finish| !finish.is_empty());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let ended = Arc::new((AtomicU64::new(0), Notify::new()));
        let observer: Observer = {
            let ended = Arc::clone(&ended);
            Arc::new(move |committed| {
                if committed.events.iter().any(Event::is_end) {
                    ended.0.fetch_add(1, Ordering::SeqCst);
                    ended.1.notify_one();
                }
            })
        };
        let store = Arc::new(wiring::open_engine_store(Path::new(&folder)).unwrap());
        let plans: Vec<(Arc<Plan>, u32)> = FLOWS
            .iter()
            .map(|(source, _)| {
                let compiled = wiring::compile(source.as_bytes()).unwrap();
                let version = wiring::define(&*store, &compiled).unwrap().version;
                (Arc::new(compiled.plan), version)
            })
            .collect();
        let open = if finish { unfinished(&store) } else { 0 };
        let nodes = waypost_nodes::Settings {
            egress: waypost_nodes::egress::Egress::new(["127.0.0.0/8".parse().unwrap()]),
            shell_enabled: true,
            ..waypost_nodes::Settings::default()
        };
        let config = Config { slots: 16, ..Config::default() };
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let engine = Arc::new(wiring::open_engine(shared, &nodes, config, Some(observer)).unwrap());
        if finish {
            while ended.0.load(Ordering::SeqCst) < open {
                ended.1.notified().await;
            }
            engine.stop(std::time::Duration::from_secs(5)).await;
            return;
        }
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..4u64 {
            let (engine, plans) = (Arc::clone(&engine), plans.clone());
            clients.spawn(async move {
                for n in 0u64.. {
                    let flow = usize::try_from((n * 4 + client) % 6).unwrap();
                    let sink = std::env::var(SINK).unwrap();
                    let input = Json::from_value(&serde_json::json!({ "n": n, "sink": sink }));
                    let (plan, version) = plans[flow].clone();
                    let started =
                        engine.start(StartRequest::new(plan, version, input)).await.unwrap();
                    let line = format!("ack {} {flow}\n", started.key.clone().unwrap());
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                    if n % 8 == 0 {
                        started.ended().await;
                    }
                }
            });
        }
        clients.join_all().await;
    });
}

fn unfinished(store: &waypost_sqlite::SqliteStore) -> u64 {
    store.wait_projected().unwrap();
    let (mut open, mut before) = (0, None);
    loop {
        let request = ListRequest { before, limit: 1_000, ..ListRequest::default() };
        let page = store.list(&request).unwrap();
        open += page.rows.iter().filter(|row| !row.status.is_end()).count();
        match page.next {
            Some(next) => before = Some(next),
            None => return open.try_into().unwrap(),
        }
    }
}

fn audit(folder: &Path, sink: &Sink, acknowledged: &BTreeMap<String, usize>) {
    let store = wiring::open_store(folder).unwrap();
    let report = check(&store, &wiring::plans(), &Options::default(), &|_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let mut expected_calls = BTreeMap::new();
    for (key, flow) in acknowledged {
        let execution = store.find(Some(key)).unwrap().expect("an acknowledged execution is there");
        let history = store.load_all(execution).unwrap().unwrap();
        let loaded = waypost_engine::fold(history.clone(), &wiring::plans(), &store).unwrap();
        assert_eq!(loaded.state.status, FLOWS[*flow].1, "{key} of {:?}", loaded.state.created);
        note_calls(key, &history, &mut expected_calls);
    }
    for key in sink.keys() {
        let seen = sink.seen(&key);
        if let Some(starts) = expected_calls.get(&key) {
            // Every request follows a committed start: more requests than starts would mean that a
            // node ran without one, for instance after it had completed.
            assert!(seen.requests <= *starts, "{key}: {seen:?}, started {starts} times");
        }
    }
    for (key, _) in expected_calls.iter().filter(|(key, _)| !key.contains("/call/")) {
        assert!(sink.seen(key).accepted >= 1, "{key} completed without having been accepted");
    }
}

fn note_calls(key: &str, history: &History, calls: &mut BTreeMap<String, u64>) {
    for (node, starts) in starts(history) {
        if ["one", "two", "call"].contains(&node.as_str()) {
            calls.insert(format!("{key}/{node}/1"), starts);
        }
    }
}

/// How often each node was started.
fn starts(history: &History) -> BTreeMap<String, u64> {
    let mut starts = BTreeMap::new();
    for frame in &history.frames {
        let events = frame.body.as_ref().ok().and_then(|body| decode(body).ok());
        for event in events.into_iter().flatten() {
            if let Event::NodeStarted { node, .. } = event {
                *starts.entry(node.to_string()).or_default() += 1;
            }
        }
    }
    starts
}
