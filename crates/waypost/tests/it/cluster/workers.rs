//! Tasks through remote workers: processes that know nothing but the public protocol.

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::json;
use waypost_testbed::{Process, Sink};

use super::numbers::{scaled, within};
use super::rig::{Cluster, LONG, With};

/// When a worker that gives no sign of life has lost what it held, at the latest: its lease, and two
/// looks at it.
const LOST_AFTER: Duration = Duration::from_secs(15 + 2 * 5 + 2);

/// One task for a remote worker, and its number.
pub(super) const FOREIGN: &str = r#"
name: foreign
nodes:
  - id: work
    type: worker
    config: { handler: count, input: { n: "${{ input.n }}", ms: "${{ input.ms | default(0) }}" } }
  - { id: done, type: output, needs: [work], config: { value: "${{ nodes.work.output.n }}" } }
"#;

/// One call to a sink.
fn call(sink: &Sink) -> String {
    let url = sink.url("/call");
    format!(
        "name: call\nnodes:\n  - {{ id: call, type: api-call, config: {{ method: POST, url: \"{url}\" }} }}\n"
    )
}

/// The worker in Python, with a habit, which talks to all instances.
pub(super) fn worker(cluster: &Cluster, habit: &str) -> Process {
    worker_at(cluster, habit, &[0, 1, 2])
}

/// The same, which talks to these.
pub(super) fn worker_at(cluster: &Cluster, habit: &str, instances: &[usize]) -> Process {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cluster/worker.py");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .env("SERVERS", servers(cluster, instances))
        .env("HANDLER", "count")
        .env("HABIT", habit);
    Process::start(&command, &cluster.file(&format!("worker-{habit}.log")))
}

/// `waypost worker`, which serves calls and talks to these instances.
pub(super) fn own_worker(cluster: &Cluster, instances: &[usize]) -> Process {
    let servers = servers(cluster, instances);
    let mut command = cluster.command(&["worker", "--handler", "api-call", "--server", &servers]);
    command.args(["--slots", "8", "--allow-egress", "127.0.0.1/32", "--log", "info"]);
    command.env("WAYPOST_DRAIN_TIMEOUT", "60s");
    Process::start(&command, &cluster.file("worker.log"))
}

fn servers(cluster: &Cluster, instances: &[usize]) -> String {
    let url = |at: &usize| format!("http://127.0.0.1:{}", cluster.instances[*at].port);
    instances.iter().map(url).collect::<Vec<_>>().join(",")
}

#[test]
fn outcomes_are_exact_whatever_workers_do_on_postgres() {
    outcomes_are_exact(With::Postgres);
}

#[test]
fn outcomes_are_exact_whatever_workers_do_with_redis() {
    outcomes_are_exact(With::Redis);
}

fn outcomes_are_exact(with: With) {
    let cluster = Cluster::start(3, with);
    cluster.deploy(FOREIGN);
    let api = cluster.api.clone();
    let mut ids = start_tasks(&cluster, 0, scaled(1_000).max(100));
    // One is killed with tasks in hand, and one stands still for longer than it counts as alive.
    let mut plain = worker(&cluster, "plain");
    plain.wait_for_line("ran", LONG);
    plain.kill();
    let mut frozen = worker(&cluster, "frozen");
    frozen.wait_for_line("ran", LONG);
    frozen.freeze();
    let [mut foreign, mut twice, mut late] =
        ["foreign", "twice", "late"].map(|habit| worker(&cluster, habit));
    // Whoever comes late to the others finds nothing left; there is more until each has had something.
    waypost_testbed::wait_until("each of them has a task", LONG, || {
        let idle = [&foreign, &twice, &late].iter().any(|worker| !worker.output().contains("ran "));
        if idle {
            ids.extend(start_tasks(&cluster, ids.len(), 20));
        }
        !idle
    });
    waypost_testbed::pause(LOST_AFTER);
    frozen.thaw();
    cluster.block_on(async {
        iter(ids.iter().enumerate())
            .map(|(n, id)| {
                let api = api.clone();
                async move {
                    let ended = api.ended(id, LONG * 2).await;
                    assert_eq!(ended["status"], "COMPLETED", "{ended}");
                    assert_eq!(ended["output"], n, "{ended}");
                }
            })
            .buffer_unordered(32)
            .collect::<Vec<()>>()
            .await;
    });
    for worker in [&mut frozen, &mut foreign, &mut twice, &mut late] {
        all_is_reported(worker);
    }
    let forged = answers(&foreign, "foreign");
    assert!(forged.iter().all(|answer| answer.starts_with("409 ")), "{forged:?}");
    // Accepted for an owner elsewhere, it may be committed when it is heard again.
    // One that was committed may be kept for an owner who is slow to say so again. Neither is ever refused.
    let alike = ["200 200", "202 202", "202 200", "200 202"];
    let both = answers(&twice, "twice");
    assert!(both.iter().all(|answer| alike.contains(&&**answer)), "{both:?}");
    for worker in [&foreign, &twice, &late] {
        let taken = reports(worker).iter().all(|(_, _, status)| matches!(status, 200 | 202));
        assert!(taken, "{}", worker.output());
    }
    late_reports_are_refused(&cluster, &frozen);
    cluster.check();
}

/// Starts so many more executions with a task each.
fn start_tasks(cluster: &Cluster, first: usize, count: usize) -> Vec<String> {
    let start = |n: usize| {
        let api = cluster.api.clone();
        async move {
            let input = json!({ "n": n, "ms": 100 + n % 100 });
            api.start(n, "foreign", &input, &format!("w{n}")).await
        }
    };
    cluster.block_on(iter(first..first + count).map(start).buffered(32).collect())
}

/// What a worker said after this word.
fn answers(worker: &Process, word: &str) -> Vec<String> {
    let of = |line: &str| Some(line.strip_prefix(word)?.strip_prefix(' ')?.to_owned());
    let said = worker.output();
    // The last line may not be there to its end.
    let (whole, _) = said.rsplit_once('\n').unwrap_or_default();
    whole.lines().filter_map(of).collect()
}

/// Of which execution and attempt a worker has reported, and how that was answered.
fn reports(worker: &Process) -> Vec<(String, u64, u64)> {
    let parse = |answer: &String| {
        let words: Vec<&str> = answer.split(' ').collect();
        (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap())
    };
    answers(worker, "reported").iter().map(parse).collect()
}

/// Waits until a worker has heard of everything that it ran.
fn all_is_reported(worker: &mut Process) {
    worker.wait_for("an answer to every report", LONG, |worker| {
        let ran = answers(worker, "ran").len();
        assert!(ran > 0, "it has had a task");
        reports(worker).len() == ran
    });
}

/// Whoever was thought to be dead is refused what it says of attempts that were given up for lost, and
/// nothing else.
fn late_reports_are_refused(cluster: &Cluster, frozen: &Process) {
    let mut refused = 0;
    for (id, attempt, status) in reports(frozen) {
        let failed = cluster.block_on(cluster.api.events(0, &id, "NodeFailed"));
        let lost = failed.iter().any(|event| event["attempt"] == attempt);
        let expected: &[u64] = if lost { &[409] } else { &[200, 202] };
        assert!(expected.contains(&status), "{id}, attempt {attempt}: {status}, {failed:?}");
        refused += usize::from(lost);
    }
    assert!(refused > 0, "it held something when it stood still: {}", frozen.output());
}

#[test]
fn a_cancellation_reaches_a_worker_at_another_instance_within_a_second() {
    With::both(|with| {
        let cluster = Cluster::start(3, with);
        cluster.deploy(FOREIGN);
        let api = cluster.api.clone();
        let mut worker = worker_at(&cluster, "plain", &[1]);
        within(Duration::from_secs(1), |turn| {
            let input = json!({ "n": 1, "ms": 600_000 });
            let id = cluster.block_on(api.start(0, "foreign", &input, &format!("c{turn}")));
            worker.wait_for_line(&format!("ran {id}"), LONG);
            // Once its start is in the log: before that, the owner does not know whom to tell.
            waypost_testbed::wait_until("it has started", LONG, || {
                !cluster.block_on(api.events(0, &id, "NodeStarted")).is_empty()
            });
            let asked = Instant::now();
            let path = format!("/v1/executions/{id}/cancel");
            let answer = cluster.block_on(api.post(2, &path, &json!({})));
            assert!(answer.is_ok(), "{answer:?}");
            worker.wait_for_line(&format!("stopped {id}"), LONG);
            let answered = asked.elapsed();
            let ended = cluster.block_on(api.ended(&id, LONG));
            assert_eq!(ended["status"], "CANCELLED", "{with:?}");
            answered
        });
        cluster.check();
    });
}

#[test]
fn a_cancellation_reaches_a_handler_in_another_instance_within_a_second() {
    With::both(|with| {
        let cluster = Cluster::start(3, with);
        let sink = Sink::start();
        sink.hold();
        cluster.deploy(&call(&sink));
        let api = cluster.api.clone();
        within(Duration::from_secs(1), |turn| {
            let id = cluster.block_on(api.start(0, "call", &json!(null), &format!("c{turn}")));
            sink.wait_for(turn + 1, LONG);
            let asked = Instant::now();
            let cancel = format!("/v1/executions/{id}/cancel");
            assert!(cluster.block_on(api.post(2, &cancel, &json!({}))).is_ok());
            // Asked of the owner, who knows first; the sink has not answered, and never does.
            let ended = cluster.block_on(api.get(0, &format!("/v1/executions/{id}?wait=30s")));
            let answered = asked.elapsed();
            assert_eq!(ended.body["status"], "CANCELLED", "{with:?}: {ended:?}");
            answered
        });
        cluster.check();
    });
}

/// Calls that are held by their sink: two in slots of their owner, the others at a worker.
fn calls_at_a_worker(cluster: &Cluster, sink: &Sink) -> Vec<String> {
    sink.hold();
    cluster.deploy(&call(sink));
    let api = cluster.api.clone();
    let ids = cluster.block_on(async {
        let mut ids = Vec::new();
        for n in 0..8 {
            ids.push(api.start(0, "call", &json!(null), &format!("o{n}")).await);
        }
        ids
    });
    sink.wait_for(8, LONG);
    ids
}

/// Everything ended with its first attempt, most of it remote.
fn ended_at_once(cluster: &Cluster, sink: &Sink, ids: &[String]) {
    let api = cluster.api.clone();
    let remote = cluster.block_on(async {
        let mut remote = 0;
        for id in ids {
            assert_eq!(api.ended(id, LONG).await["status"], "COMPLETED");
            let started = api.events(0, id, "NodeStarted").await;
            assert_eq!(started.len(), 1, "{started:?}");
            remote += usize::from(started[0].to_string().contains("\"remote\""));
        }
        remote
    });
    assert_eq!(remote, 6, "two have a slot here");
    assert!(sink.counts().values().all(|count| *count == 1), "{:?}", sink.counts());
    cluster.check();
}

#[test]
fn tasks_without_a_slot_run_at_a_worker_on_postgres() {
    tasks_without_a_slot_run_at_a_worker(With::Postgres, LOST_AFTER);
}

#[test]
fn tasks_without_a_slot_run_at_a_worker_with_redis() {
    tasks_without_a_slot_run_at_a_worker(With::Redis, Duration::ZERO);
}

/// It is told to go while it has something to do, and given so long.
fn tasks_without_a_slot_run_at_a_worker(with: With, given: Duration) {
    let cluster = Cluster::start_with(2, with, &["--io-slots", "2"]);
    let sink = Sink::start();
    let mut worker = own_worker(&cluster, &[1, 0]);
    let ids = calls_at_a_worker(&cluster, &sink);
    worker.terminate();
    worker.wait_for_line("draining", LONG);
    // It is heard of for as long as it has something to do.
    waypost_testbed::pause(given);
    sink.release();
    assert!(worker.wait(LONG).success(), "{}", worker.output());
    ended_at_once(&cluster, &sink, &ids);
}

#[test]
fn a_worker_whose_instance_stands_still_talks_to_another_before_it_is_missed() {
    let mut cluster = Cluster::start_with(2, With::Postgres, &["--io-slots", "2"]);
    let sink = Sink::start();
    let _worker = own_worker(&cluster, &[1, 0]);
    let ids = calls_at_a_worker(&cluster, &sink);
    cluster.process(1).freeze();
    waypost_testbed::pause(LOST_AFTER);
    sink.release();
    ended_at_once(&cluster, &sink, &ids);
    cluster.process(1).thaw();
    cluster.ready(1);
}
