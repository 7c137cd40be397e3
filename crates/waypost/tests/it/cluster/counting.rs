//! What is written, counted on the database itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::flows::{CHAIN, GATE};
use super::rig::{Cluster, LONG, With};
use super::workers::{self, FOREIGN};
use crate::reference::METRICS;
use crate::tidy::root;

/// The first frame of an execution whose first node begins at once.
const BEGUN: &str = "RunCreated RunOwned NodeScheduled NodeStarted";
/// The end of a node that another one follows.
const NEXT: &str = "NodeCompleted NodeScheduled NodeStarted";
/// The end of the last node.
const END: &str = "NodeCompleted RunCompleted";

/// What each frame of an execution says.
fn frames(cluster: &Cluster, id: &str) -> Vec<String> {
    let sql = "SELECT string_agg(e.type, ' ' ORDER BY e.seq) \
               FROM submissions AS s JOIN frames AS f USING (execution) JOIN events AS e \
               ON e.execution = f.execution AND e.seq BETWEEN f.first_seq AND f.last_seq";
    let of = format!("{sql} WHERE s.key = '{id}' GROUP BY f.first_seq ORDER BY f.first_seq");
    cluster.sql(&of).lines().map(str::to_owned).collect()
}

#[test]
fn every_status_change_is_one_append_and_none_changes_nothing() {
    for with in With::BOTH {
        let cluster = Cluster::start(3, with);
        cluster.deploy(CHAIN);
        cluster.deploy(GATE);
        cluster.deploy(FOREIGN);
        let _worker = workers::worker(&cluster, "plain");
        let api = cluster.api.clone();
        let (chain, gate, foreign) = cluster.block_on(async {
            let chain = api.start(0, "chain", &json!(null), "c").await;
            api.ended(&chain, LONG).await;
            let gate = api.start(0, "gate", &json!({ "text": "x" }), "g").await;
            api.until(&gate, LONG, |body| body["status"] == "WAITING").await;
            let body = json!({ "name": "go", "body": { "by": 1 } });
            api.post(0, &format!("/v1/executions/{gate}/signals"), &body).await;
            api.ended(&gate, LONG).await;
            let foreign = api.start(0, "foreign", &json!({ "n": 1 }), "f").await;
            api.ended(&foreign, LONG).await;
            (chain, gate, foreign)
        });
        // Started with the first node; then one commit a node, the last of which is the end.
        let mut nodes = vec![BEGUN];
        nodes.extend([NEXT; 9]);
        assert_eq!(frames(&cluster, &chain), [&nodes[..], &[END]].concat());
        // It parks with the frame that says what it waits for, and is woken with what it waited for.
        let woken = "RunOwned SignalReceived NodeResumed NodeCompleted NodeScheduled NodeStarted";
        assert_eq!(frames(&cluster, &gate), [BEGUN, NEXT, "NodeWaiting RunPaused", woken, END]);
        // Offered, begun, done, and the node after it. A start may reach its owner with the end.
        let offered = "RunCreated RunOwned NodeScheduled";
        let apart = [offered, "NodeStarted", NEXT, END];
        let together = "NodeStarted NodeCompleted NodeScheduled NodeStarted";
        let foreign_frames = frames(&cluster, &foreign);
        let either = foreign_frames == apart || foreign_frames == [offered, together, END];
        assert!(either, "{foreign_frames:?}");
        for id in [&chain, &gate, &foreign] {
            let events = cluster.block_on(api.all_events(1, id));
            no_status_changes_to_itself(&events);
            let mut notices = 0;
            // The stream ends before what a transaction that is under way may still come before.
            waypost_testbed::wait_until("a notice of its end", LONG, || {
                let stream = cluster.block_on(api.stream(2, "type=RunCompleted"));
                notices = stream.matches(&format!("\"{id}\"")).count();
                notices > 0
            });
            assert_eq!(notices, 1, "one notice of the end of {id}");
        }
        cluster.check();
    }
}

/// What operators are told about is there, and everything that is there they are told about.
#[test]
fn every_metric_is_there_and_documented() {
    let cluster = Cluster::start(1, With::Redis);
    let metrics = cluster.block_on(cluster.api.metrics(0));
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let there: BTreeSet<&str> = types.collect();
    let page = std::fs::read_to_string(root().join(METRICS)).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<&str> = rows.filter(|name| name.starts_with("waypost_")).collect();
    let silent: Vec<_> = there.difference(&documented).collect();
    assert!(silent.is_empty(), "not in {METRICS}: {silent:?}");
    let missing: Vec<_> = documented.difference(&there).collect();
    assert!(missing.is_empty(), "in {METRICS}, and nowhere else: {missing:?}");
}

/// Every event that moves a node moves it somewhere else.
fn no_status_changes_to_itself(events: &[Value]) {
    let mut nodes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut changes = 0;
    for event in events {
        let to = match event["type"].as_str().unwrap() {
            "NodeScheduled" => "QUEUED",
            "NodeStarted" | "NodeResumed" => "RUNNING",
            "NodeWaiting" => "WAITING",
            "NodeCompleted" => "COMPLETED",
            "NodeFailed" => "FAILED",
            _ => continue,
        };
        let node = event["node"].as_str().unwrap_or_else(|| panic!("{event}"));
        let from = nodes.insert(node, to);
        assert_ne!(from, Some(to), "{event}");
        changes += 1;
    }
    assert!(changes > 0, "{events:?}");
}

#[test]
fn workers_write_nothing_and_do_not_even_know_the_store() {
    let cluster = Cluster::start(2, With::Redis);
    cluster.deploy(FOREIGN);
    let mut worker = workers::worker_at(&cluster, "plain", &[0, 1]);
    let api = cluster.api.clone();
    let id = cluster.block_on(api.start(0, "foreign", &json!({ "n": 1, "ms": 600_000 }), "w"));
    worker.wait_for_line("ran", LONG);
    // Both kinds of workers, one in the middle of a task, talk to instances and to nobody else; ours
    // does not even where somebody has told it where the database is.
    let own = workers::own_worker(&cluster, &[0, 1]);
    let instances: Vec<u16> = cluster.instances.iter().map(|instance| instance.port).collect();
    for pid in [worker.id(), own.id()] {
        let mut ports = Vec::new();
        waypost_testbed::wait_until("it talks to an instance", LONG, || {
            ports = waypost_testbed::peers(pid);
            !ports.is_empty()
        });
        assert!(ports.iter().all(|port| instances.contains(port)), "{ports:?}");
    }
    let foreign = "SELECT count(*) FROM frames WHERE instance NOT IN (SELECT id FROM instances)";
    assert_eq!(cluster.sql(foreign), "0");
    let cancel = format!("/v1/executions/{id}/cancel");
    assert!(cluster.block_on(api.post(1, &cancel, &json!({}))).is_ok());
    cluster.block_on(api.ended(&id, LONG));
    cluster.check();
}

/// Has triggers of each kind, none of which fires.
const HARDLY_FIRES: &str = "name: rare
on:
  - { schedule: yearly, cron: '0 0 1 1 *', catchUp: { missed: none } }
  - { event: counted, type: rare, batch: { size: 10, wait: 1d } }
  - { poll: read, every: 1d, request: { url: 'http://127.0.0.1:1/' }, items: body, key: item }
  - { workflow-ended: after, workflow: other }
nodes:
  - { id: n, type: noop }
";

/// A quiet instance asks its database less than five times a second, with Redis and without, though there
/// are triggers.
#[test]
fn quiet_instances_hardly_ask() {
    let clusters = With::BOTH.map(|with| Cluster::start_with(1, with, &["--set", "lease=15s"]));
    clusters.iter().for_each(|cluster| cluster.deploy(HARDLY_FIRES));
    // Asked of another database: what is asked there is not counted here.
    let counts = || {
        clusters.each_ref().map(|cluster| -> u64 {
            let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname =";
            let sql = format!("{sql} '{}'", cluster.database);
            cluster.postgres.sql("postgres", &sql).parse().unwrap()
        })
    };
    // What it asks when it starts is another matter, and a connection that has become idle tells the
    // server's statistics of it up to ten seconds late.
    waypost_testbed::pause(Duration::from_secs(12));
    // So long that what is told late, at the beginning or at the end, hardly counts.
    let began = Instant::now();
    let before = counts();
    waypost_testbed::pause(Duration::from_secs(40));
    for (with, (after, before)) in With::BOTH.iter().zip(counts().into_iter().zip(before)) {
        let (asked, seconds) = (after - before, began.elapsed().as_secs());
        assert!(asked < 5 * seconds, "{asked} statements in {seconds} s ({with:?})");
    }
}
