//! Circuit breakers with real stores and a real endpoint: how many calls are made while it is down, and that
//! every execution completes once it is up.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use waypost::cluster_services::ClusterServices;
use waypost::{backend, wiring};
use waypost_core::breaker::BreakerState;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_engine::config::Config;
use waypost_engine::{Engine, StartRequest};
use waypost_nodes::egress::{Allowance, Egress};
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::Store;
use waypost_postgres::PostgresStore;
use waypost_testbed::postgres::Postgres;
use waypost_testbed::{Sink, wait_until};

use crate::program::Program;

const EXECUTIONS: usize = 1_000;
/// Probes that fail before the endpoint is up.
const PROBES: u64 = 3;

fn definition(url: &str) -> String {
    format!(
        "
name: calls
nodes:
  - id: call
    type: api-call
    config: {{ url: {url}, method: POST }}
    retry: {{ maxAttempts: 3, waitDuration: 100ms }}
    breaker: {{ key: {url}, failures: 5, period: 1m, cooldown: 2s }}
"
    )
}

fn engine(store: Arc<dyn Store>, folder: &TempDir) -> Engine {
    let local: Allowance = "127.0.0.0/8".parse().unwrap();
    let nodes = waypost_nodes::Settings {
        egress: Egress::new([local]),
        ..waypost_nodes::Settings::default()
    };
    let around = ClusterServices::alone(backend::folder_blobs(folder.path()));
    let config = Config::default();
    wiring::open_engine_in(&around, store, &nodes, Arc::new(NoSecrets), config, None).unwrap()
}

/// Starts executions of a workflow whose endpoint is down, in turns on the engines.
fn start(
    runtime: &tokio::runtime::Runtime,
    store: &dyn Store,
    engines: &[Engine],
    url: &str,
) -> Vec<ExecutionNo> {
    let compiled = wiring::compile(definition(url).as_bytes()).unwrap();
    let version = wiring::define(store, &compiled).unwrap().version;
    let plan = Arc::new(compiled.plan);
    let requests =
        (0..EXECUTIONS).map(|_| StartRequest::new(Arc::clone(&plan), version, Json::null()));
    let starts = requests
        .zip(engines.iter().cycle())
        .map(async |(request, engine)| engine.start(request).await.unwrap().execution);
    runtime.block_on(futures_util::future::join_all(starts))
}

fn state(store: &dyn Store) -> Option<BreakerState> {
    store.list_breakers(None, 10).unwrap().pop().map(|row| row.state)
}

/// A thousand executions call an endpoint that is down, and comes up after some probes.
fn calls_while_open(stores: &[Arc<dyn Store>]) {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engines: Vec<Engine> = {
        let _inside = runtime.enter();
        stores.iter().map(|store| engine(Arc::clone(store), &folder)).collect()
    };
    let store = &*stores[0];
    let sink = Sink::start();
    sink.answer(503, "{}");
    let executions = start(&runtime, store, &engines, &sink.url("/calls"));
    let probes = || state(store).and_then(|state| state.open).map_or(0, |open| open.probes);
    let is_open = || state(store).is_some_and(|state| state.open.is_some());
    wait_until("it opens", Duration::from_secs(120), is_open);
    // What was under way when it opened may arrive before the first probe.
    let mut calls_before = 0;
    wait_until("probes fail", Duration::from_secs(120), || {
        let (calls, probes) = (sink.received().len(), probes());
        if probes == 0 {
            calls_before = calls;
        }
        probes > PROBES
    });
    let calls = sink.received().len();
    assert!(calls - calls_before <= 10, "{calls_before} calls before it opened, {calls} in all");
    // Each instance makes five calls at once; where they last a second, a few more.
    assert!(calls_before <= 20 * engines.len(), "{calls_before} calls before it opened");
    sink.answer(200, "{}");
    let ended = |execution: ExecutionNo| {
        let history = store.load(execution).unwrap().expect("it is in the store");
        history.control.is_none().then(|| last_event(store, execution))
    };
    for execution in executions {
        wait_until("it ends", Duration::from_secs(300), || ended(execution).is_some());
        let last = ended(execution).unwrap();
        assert!(last.contains("RunCompleted"), "{last}");
    }
    assert_eq!(state(store), None, "the breaker is closed");
    for engine in engines {
        runtime.block_on(engine.stop(Duration::from_secs(5)));
    }
}

fn last_event(store: &dyn Store, execution: ExecutionNo) -> String {
    let mut frames = store.load_after(execution, 0).unwrap();
    String::from_utf8(frames.pop().unwrap().body.unwrap()).unwrap()
}

#[test]
fn breaker_of_a_failing_endpoint_lets_few_calls_pass_and_no_execution_fails_on_sqlite() {
    let folder = TempDir::new().unwrap();
    calls_while_open(&[Arc::new(wiring::open_engine_store(folder.path()).unwrap())]);
}

#[test]
fn breaker_is_shared_by_two_instances_on_postgres() {
    let postgres = Postgres::shared();
    let url = postgres.database();
    let open = || {
        let options = waypost_postgres::Options::default();
        Arc::new(PostgresStore::open(&url, options).unwrap()) as Arc<dyn Store>
    };
    calls_while_open(&[open(), open()]);
}

#[test]
fn breaker_is_shown_and_reset_on_the_command_line() {
    let program = Program::new();
    let node = |command: &str| {
        format!(
            "name: charge\nnodes:\n  - {{ id: charge, type: shell, config: {{ command: {command} }}, \
             breaker: {{ key: billing, failures: 1, cooldown: 1h }} }}\n"
        )
    };
    let down = program.file("down.yaml", node("exit 3")).display().to_string();
    assert_eq!(program.run(&["run", &down]).code, 1, "its failure opens the breaker");
    let up = program.file("up.yaml", node("echo done")).display().to_string();
    let running = program.start(&["run", &up], "for breaker billing");
    let execution = running.execution();
    running.interrupt();
    running.wait();
    let why = program.run(&["why", &execution]).out;
    assert!(why.contains("breaker \"billing\" is open until"), "{why}");
    assert!(why.contains("1 failure within 1m, last: exit_code"), "{why}");
    let shown = program.run(&["show", &execution]).out;
    assert!(shown.contains("for breaker billing until"), "{shown}");
    let waits = program.json(&["waits", "--kind", "breaker"]);
    assert_eq!(waits["waits"][0]["breaker"], "billing", "{waits}");
    let list = program.json(&["breakers", "list"]);
    assert_eq!(list["breakers"][0]["status"], "open", "{list}");
    let reset = program.run(&["breakers", "reset", "billing"]);
    assert_eq!((reset.code, &*reset.out), (0, "breaker billing is closed\n"));
    let list = program.run(&["breakers", "list"]);
    assert_eq!(list.out, "no breaker is open or had a failure of late\n");
    let again = program.run(&["breakers", "reset", "billing"]);
    assert_ne!(again.code, 0);
    assert!(again.err.contains("no breaker \"billing\" is open"), "{}", again.err);
    let ran = program.run(&["run", &up]);
    assert_eq!(ran.code, 0, "attempts pass again: {}{}", ran.out, ran.err);
}
