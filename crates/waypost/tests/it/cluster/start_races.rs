//! Executions that start others, whose owners are killed (`kill -9`) right around the starts: no child without
//! a parent, no start without a child, and none twice.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use waypost_testbed::{Process, Sink, free_port};

use super::numbers::{Random, scaled};
use super::rig::{Api, Cluster, LONG, With};

/// Starts of children in the full length; each parent makes two.
const STARTS: usize = 1_000;
/// Parents that begin around one kill.
const PARENTS: usize = 10;
/// A kill comes within so many milliseconds of the first request of its round.
const AROUND_MS: u64 = 120;

const PARENT: &str = r#"
name: bearing
nodes:
  - { id: kept, type: workflow, config: { workflow: born, input: { n: "${{ input.n }}" } } }
  - { id: free, type: workflow, config: { workflow: born, wait: false, input: { n: "${{ input.n }}" } } }
  - { id: done, type: output, needs: [kept, free], config: { value: "${{ nodes.kept.output }}" } }
"#;

/// A child that makes one call, under the key of its own node.
fn child(sink: &Sink) -> String {
    let url = sink.url("/call");
    format!(
        r#"
name: born
nodes:
  - {{ id: call, type: api-call, config: {{ method: POST, url: "{url}" }} }}
  - {{ id: out, type: output, needs: [call], config: {{ value: "${{{{ input.n }}}}" }} }}
"#
    )
}

fn rounds() -> usize {
    scaled(STARTS).max(60) / (2 * PARENTS)
}

/// Begins the parents of a round, and kills an instance around their starts.
fn round(
    runtime: &Runtime,
    api: &Api,
    (number, at): (usize, usize),
    kill: impl FnOnce(),
) -> Vec<String> {
    let start = |n: usize| {
        let (api, n) = (api.clone(), number * PARENTS + n);
        runtime.spawn(async move {
            api.start(at, "bearing", &json!({ "n": n }), &format!("p{n}")).await
        })
    };
    let starting: Vec<_> = (0..PARENTS).map(start).collect();
    kill();
    let started = starting.into_iter().map(|start| runtime.block_on(start).unwrap());
    started.collect()
}

/// Parents and children agree, and the sink has one key for each child. Returns how many there are.
async fn families(api: &Api, parents: &[String], sink: &Sink) -> usize {
    let mut children: BTreeMap<String, String> = BTreeMap::new();
    for (n, parent) in parents.iter().enumerate() {
        let ended = api.ended(parent, 4 * LONG).await;
        assert_eq!(
            (&ended["status"], &ended["output"]),
            (&json!("COMPLETED"), &json!(n)),
            "{ended}"
        );
        let started = api.events(0, parent, "ChildStarted").await;
        let nodes: BTreeSet<_> = started.iter().map(|event| event["node"].to_string()).collect();
        assert_eq!((started.len(), nodes.len()), (2, 2), "each node starts one: {started:?}");
        for event in started {
            let child = event["data"]["child"].as_str().unwrap_or_else(|| panic!("{event}"));
            assert_eq!(children.insert(child.to_owned(), parent.clone()), None, "{child}");
        }
    }
    for (child, parent) in &children {
        let ended = api.ended(child, LONG).await;
        assert_eq!(ended["status"], "COMPLETED", "{ended}");
        let created = api.events(0, child, "RunCreated").await;
        let [created] = &*created else { panic!("{child} began once: {created:?}") };
        assert_eq!(created["data"]["parent"]["key"], Value::from(parent.as_str()), "{created}");
    }
    let keys = sink.counts();
    let expected: BTreeSet<_> = children.keys().map(|child| format!("{child}/call/1")).collect();
    assert_eq!(
        keys.into_keys().collect::<BTreeSet<_>>(),
        expected,
        "each child calls under one key"
    );
    parents.len() + children.len()
}

#[test]
fn starts_survive_kills_of_their_owners_on_postgres() {
    in_a_cluster(With::Postgres);
}

#[test]
fn starts_survive_kills_of_their_owners_with_redis() {
    in_a_cluster(With::Redis);
}

fn in_a_cluster(with: With) {
    let (mut cluster, sink) = (Cluster::start(3, with), Sink::start());
    cluster.deploy(&child(&sink));
    cluster.deploy(PARENT);
    let (mut random, mut parents) = (Random::new(), Vec::new());
    let runtime = Runtime::new().unwrap();
    for number in 0..rounds() {
        let at = usize::try_from(random.below(3)).unwrap();
        let around = Duration::from_millis(random.below(AROUND_MS));
        let api = cluster.api.clone();
        parents.extend(round(&runtime, &api, (number, at), || {
            waypost_testbed::pause(around);
            cluster.kill(at);
            cluster.start_again(at);
        }));
        cluster.ready(at);
    }
    let all = cluster.block_on(families(&cluster.api, &parents, &sink));
    assert_eq!(cluster.sql("SELECT count(*) FROM submissions"), all.to_string(), "no orphans");
    assert_eq!(cluster.sql("SELECT count(*) FROM control"), "0", "all have ended");
    cluster.check();
}

/// One `waypost serve` over a folder.
struct Single {
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Process>,
}

impl Single {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
        command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("--data").arg(self.folder.path().join("data"));
        command
    }

    fn start(&mut self) {
        let address = format!("127.0.0.1:{}", self.port);
        let command =
            self.command(&["serve", "--listen", &address, "--allow-egress", "127.0.0.1/32"]);
        let mut process = Process::start(&command, &self.folder.path().join("server.log"));
        process.wait_ready(self.port, LONG);
        self.process = Some(process);
    }

    fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }
}

#[test]
fn starts_survive_kills_of_their_owner_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (mut single, sink) = (Single { folder, port: free_port(), process: None }, Sink::start());
    single.start();
    let (api, runtime) = (Api::of(vec![single.port]), Runtime::new().unwrap());
    for source in [&child(&sink), PARENT] {
        assert!(runtime.block_on(api.deploy(0, source)).is_ok());
    }
    let (mut random, mut parents) = (Random::new(), Vec::new());
    for number in 0..rounds() {
        let around = Duration::from_millis(random.below(AROUND_MS));
        parents.extend(round(&runtime, &api, (number, 0), || {
            waypost_testbed::pause(around);
            single.kill();
            single.start();
        }));
    }
    let all = runtime.block_on(families(&api, &parents, &sink));
    single.process.as_mut().unwrap().terminate();
    single.process.as_mut().unwrap().wait(LONG);
    let log = rusqlite::Connection::open(single.folder.path().join("data/log.db")).unwrap();
    let count = |sql: &str| log.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(
        count("SELECT count(*) FROM submissions"),
        i64::try_from(all).unwrap(),
        "no orphans"
    );
    assert_eq!(count("SELECT count(*) FROM control"), 0, "all have ended");
    let check = single.command(&["check"]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
