//! Instances that are killed at random under mixed load, and come back under the same name and port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use waypost_testbed::Sink;

use super::flows::{CHAIN, GATE, calls, held_calls};
use super::numbers::{Random, lease, metric, pace, percent, within};
use super::rig::{Api, Cluster, LONG, With};

/// How long instances are killed, in the full length.
const FULL: Duration = Duration::from_secs(120);
/// Clients that start executions at once.
const CLIENTS: usize = 8;

#[test]
fn whatever_was_acknowledged_ends_as_it_should_on_postgres() {
    check(With::Postgres, 4711);
}

#[test]
fn whatever_was_acknowledged_ends_as_it_should_with_redis() {
    check(With::Redis, 815);
}

/// An execution that was acknowledged, and how it must end.
struct Acknowledged {
    id: String,
    n: usize,
    kind: usize,
}

fn check(with: With, seed: u64) {
    let mut cluster = Cluster::start(3, with);
    let sink = Sink::start();
    cluster.deploy(&calls(&sink.url("/call")));
    cluster.deploy(GATE);
    cluster.deploy(CHAIN);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (api, acknowledged) = (cluster.api.clone(), Arc::clone(&acknowledged));
            let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
            cluster.runtime.spawn(client(api, acknowledged, stop, next))
        })
        .collect();
    let length = FULL * u32::try_from(percent()).unwrap() / 100;
    let mut random = Random(seed);
    let began = Instant::now();
    let mut kills = 0;
    while began.elapsed() < length.max(Duration::from_secs(10)) {
        let at = usize::try_from(random.below(3)).unwrap();
        waypost_testbed::pause(Duration::from_millis(1_000 + random.below(2_000)));
        cluster.kill(at);
        cluster.start_again(at);
        kills += 1;
    }
    (0..3).for_each(|at| cluster.ready(at));
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        cluster.block_on(client).unwrap();
    }
    let acknowledged = std::mem::take(&mut *acknowledged.lock());
    assert!(acknowledged.len() > 20, "only {} were started", acknowledged.len());
    cluster.block_on(async {
        for done in &acknowledged {
            let ended = cluster.api.ended(&done.id, LONG).await;
            assert_eq!(ended["status"], "COMPLETED", "after {kills} kills: {ended}");
            match done.kind {
                0 => assert_eq!(ended["output"], done.n),
                1 => assert_eq!(ended["output"]["by"], done.n),
                _ => {}
            }
        }
    });
    cluster.check();
    // Every call under its own key: as many keys as there are calls to be made.
    let calls = acknowledged.iter().filter(|done| done.kind == 0).count() * 2;
    assert_eq!(sink.counts().len(), calls, "each call has one key, whatever the attempt");
}

async fn client(
    api: Api,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    stop: Arc<AtomicBool>,
    next: Arc<AtomicUsize>,
) {
    while !stop.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let kind = n % 3;
        let (workflow, input) = match kind {
            0 => ("calls", json!({ "n": n, "ms": 100 + n % 3_000 })),
            1 => ("gate", json!({ "text": n.to_string() })),
            _ => ("chain", json!(null)),
        };
        let id = api.start(n, workflow, &input, &format!("key-{n}")).await;
        acknowledged.lock().push(Acknowledged { id: id.clone(), n, kind });
        if kind == 1 {
            signal(&api, n, &id).await;
        }
        pace().await;
        if acknowledged.lock().len() > 3_000 {
            waypost_testbed::moment().await;
        }
    }
}

/// Sends until somebody takes it: under one id it counts once.
pub(super) async fn signal(api: &Api, n: usize, id: &str) {
    let body = json!({ "name": "go", "body": { "by": n }, "messageId": format!("m-{n}") });
    let path = format!("/v1/executions/{id}/signals");
    for turn in n.. {
        let sent = api.ask(turn, reqwest::Method::POST, &path, Some(&body)).await;
        // 409: it was taken before, and the execution has ended since.
        if sent.is_ok_and(|answer| answer.is_ok() || answer.status == 409) {
            return;
        }
        waypost_testbed::moment().await;
    }
}

/// What a dead instance owned is owned again within its lease and two seconds.
#[test]
fn a_take_over_comes_within_the_lease_and_two_seconds() {
    With::both(|with| within(lease() + Duration::from_secs(2), |_| take_over(with)));
}

/// How long a take-over took.
fn take_over(with: With) -> Duration {
    let mut cluster = Cluster::start(3, with);
    let sink = Sink::start();
    let api = cluster.api.clone();
    let ids = held_calls(&cluster, &sink, 50);
    // Its lease goes on after its death: who owns what tells nothing unless it is somebody else.
    let dead = cluster.block_on(api.instance(0));
    let before = format!("SELECT count(*) FROM control WHERE owner = '{dead}'");
    assert_eq!(cluster.sql(&before), "50", "all are owned by the one that dies");
    let killed = Instant::now();
    cluster.kill(0);
    let owned = format!(
        "SELECT count(*) FROM control AS c JOIN instances AS i ON i.id = c.owner \
         WHERE i.alive_until > waypost_now() AND i.id <> '{dead}'"
    );
    waypost_testbed::wait_until("all are owned again", LONG, || cluster.sql(&owned) == "50");
    let took = killed.elapsed();
    sink.release();
    cluster.block_on(async {
        for id in &ids {
            assert_eq!(api.ended(id, LONG).await["status"], "COMPLETED");
        }
    });
    assert_eq!(sink.counts().len(), 100, "attempts of one node share its key");
    let takeovers = |at| metric(&cluster.block_on(api.metrics(at)), "waypost_takeovers_total");
    assert_eq!(takeovers(1) + takeovers(2), 50, "each was taken over once");
    cluster.check();
    took
}
