//! An execution that aborts every process that decides it: real processes, on a real folder. Each life is
//! this test binary once more, running [`life_of_a_process`] alone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use waypost::wiring;
use waypost_core::command::Request;
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::config::Config;
use waypost_engine::driver::Committed;
use waypost_engine::{ControlRequest, Engine, Observer, StartRequest};
use waypost_ports::query::Query;
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::{SUSPECT_FROM, Store};

const FOLDER: &str = "WAYPOST_TEST_LIFE_IN";
const CURED: &str = "WAYPOST_TEST_LIFE_IS_CURED";
const POISON: &str = "poison";
const BYSTANDERS: [&str; 3] = ["bystander-1", "bystander-2", "bystander-3"];

const QUICK: &str = "{name: quick, nodes: [{id: a, type: noop}]}";
const LONG: &str = "{name: long, nodes: [{id: a, type: shell, config: {args: [sleep, '30']}}]}";

#[test]
fn execution_that_aborts_every_process_is_quarantined_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut deaths = 0;
    let said = loop {
        let (died, said) = live(folder.path(), false);
        if !died {
            break said;
        }
        deaths += 1;
        assert!(deaths < 10, "{said}");
    };
    assert_eq!(deaths, SUSPECT_FROM + Config::default().crashes_max, "{said}");
    let store = wiring::open_store(folder.path()).unwrap();
    let control = |key: &str| {
        let execution = store.find(Some(key)).unwrap().unwrap();
        store.load(execution).unwrap().unwrap().control.unwrap()
    };
    let held = control(POISON).held.unwrap();
    assert!(held.contains("4 processes died with this execution in hand"), "{held}");
    for key in BYSTANDERS {
        assert_eq!(control(key).held, None, "{key}");
    }
    drop(store);
    // A person has removed the cause and resumes it.
    let (died, said) = live(folder.path(), true);
    assert!(!died, "{said}");
}

/// One life of a process: did it die, and what did it say?
fn live(folder: &Path, cured: bool) -> (bool, String) {
    let mut life = Command::new(std::env::current_exe().unwrap());
    life.args(["--exact", "crashing::life_of_a_process", "--nocapture"]).env(FOLDER, folder);
    if cured {
        life.env(CURED, "yes");
    }
    let output = life.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_none_or(|code| code == 0), "{said}");
    (output.status.code().is_none(), said)
}

/// Does nothing but in a process that the test above has started.
#[test]
fn life_of_a_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let cured = std::env::var_os(CURED).is_some();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(live_on(Path::new(&folder), cured));
}

async fn live_on(folder: &Path, cured: bool) {
    let backend = Arc::new(wiring::open_engine_store(folder).unwrap());
    let store: Arc<dyn Store> = Arc::clone(&backend) as Arc<dyn Store>;
    // On the engine's thread, between the commit of the take-over and the evaluation behind it.
    let kills = |committed: &Committed| {
        let evaluates = |event: &Event| matches!(event, Event::Run(RunEvent::Owned { .. }));
        if committed.key.as_str() == POISON && committed.events.iter().any(evaluates) {
            std::process::abort();
        }
    };
    let observer: Option<Observer> = (!cured).then(|| Arc::new(kills) as Observer);
    let nodes = waypost_nodes::Settings { shell_enabled: true, ..Default::default() };
    let secrets = Arc::new(NoSecrets);
    let engine = wiring::open_engine(
        (Arc::clone(&store), waypost::backend::folder_blobs(folder)),
        &nodes,
        secrets,
        Config::default(),
        observer,
    )
    .unwrap();
    let find = |key: &str| backend.find(Some(key)).unwrap();
    let Some(poison) = find(POISON) else {
        for key in BYSTANDERS {
            start(&engine, &*store, LONG, Some(key)).await;
        }
        start(&engine, &*store, QUICK, Some(POISON)).await;
        unreachable!("it aborts");
    };
    if cured {
        engine
            .request(ControlRequest::new(poison, Request::Resume { reason: None }))
            .await
            .unwrap();
        assert_eq!(engine.ended(poison).await.unwrap().status, Status::Completed);
        return engine.stop(Duration::ZERO).await;
    }
    // Others go through all the time, until it is found out or kills.
    while store.load(poison).unwrap().unwrap().control.unwrap().held.is_none() {
        let quick = start(&engine, &*store, QUICK, None).await;
        assert_eq!(quick.ended().await.unwrap().status, Status::Completed);
    }
    engine.stop(Duration::ZERO).await;
}

async fn start(
    engine: &Engine,
    store: &dyn Store,
    definition: &str,
    key: Option<&str>,
) -> waypost_engine::Started {
    let compiled = wiring::compile(definition.as_bytes()).unwrap();
    let version = wiring::define(store, &compiled).unwrap().version;
    let request = StartRequest::new(Arc::new(compiled.plan), version, Json::null());
    let key = key.map(|key| ExecutionId(key.into()));
    engine.start(StartRequest { key, ..request }).await.unwrap()
}
