//! Paused on one instance, resumed on another, with its whole context.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use waypost_testbed::RedisReply;

use super::flows::GATE;
use super::numbers::metric;
use super::rig::{Cluster, LONG, With};

/// By then a context is kept, or never.
const COPIED: Duration = Duration::from_secs(10);

/// What lies in the cache when the other instance resumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cache {
    Warm,
    Emptied,
    OfAnotherHistory,
}

#[test]
fn paused_execution_of_a_dead_instance_resumes_on_another() {
    check(With::Postgres, Cache::Emptied);
}

#[test]
fn paused_execution_of_a_dead_instance_resumes_from_a_warm_cache() {
    check(With::Redis, Cache::Warm);
}

#[test]
fn paused_execution_of_a_dead_instance_resumes_without_its_copy() {
    check(With::Redis, Cache::Emptied);
}

#[test]
fn paused_execution_of_a_dead_instance_ignores_a_foreign_copy() {
    check(With::Redis, Cache::OfAnotherHistory);
}

fn check(with: With, cache: Cache) {
    let mut cluster = Cluster::start(3, with);
    in_touch(&cluster);
    cluster.deploy(GATE);
    let api = cluster.api.clone();
    let start = |n: usize| {
        let api = api.clone();
        async move { api.start(0, "gate", &json!({ "text": format!("t{n}") }), &format!("k{n}")).await }
    };
    let ids = cluster.block_on(async { join_all((0..20).map(start)).await });
    cluster.block_on(async {
        for id in &ids {
            api.until(id, LONG, |body| body["status"] == "WAITING").await;
            // By a person, on top of the wait: the first ten, which then nothing but a person resumes.
        }
        for id in ids.iter().take(10) {
            let answer = api.post(0, &format!("/v1/executions/{id}/pause"), &json!({})).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
    });
    if cache == Cache::OfAnotherHistory {
        swap_contexts(&cluster, &kept(&cluster, &ids, "gate"));
    }
    cluster.kill(0);
    if let (Cache::Emptied, Some(redis)) = (cache, &cluster.redis) {
        redis.flush_all();
    }
    cluster.block_on(async {
        for (n, id) in ids.iter().enumerate() {
            if n < 10 {
                let resumed =
                    api.post(1, &format!("/v1/executions/{id}/resume"), &Value::Null).await;
                assert!(resumed.is_ok(), "{resumed:?}");
            }
            let signal = json!({ "name": "go", "body": { "by": "B" } });
            let sent = api.post(2, &format!("/v1/executions/{id}/signals"), &signal).await;
            assert!(sent.is_ok(), "{sent:?}");
        }
        for (n, id) in ids.iter().enumerate() {
            let ended = api.ended(id, LONG).await;
            assert_eq!(ended["status"], "COMPLETED", "{ended}");
            assert_eq!(ended["output"], json!({ "text": format!("t{n}"), "by": "B" }));
        }
    });
    let used = |at| metric(&cluster.block_on(api.metrics(at)), "waypost_contexts_used_total");
    // The first ten park once more when they are resumed, and have a copy then, whatever there was before.
    let used = used(1) + used(2);
    assert!(used > 10 || cache != Cache::Warm, "copies spared {used} loads");
    cluster.check();
}

/// The key of an execution's context.
fn key(id: &str) -> String {
    format!("waypost:execution:context:{{{id}}}")
}

/// Gives each context to another execution, under its name.
fn swap_contexts(cluster: &Cluster, ids: &[String]) {
    for pair in ids.chunks_exact(2) {
        let (a, b) = (key(&pair[0]), key(&pair[1]));
        for (from, to) in [(&*a, "waypost:swap"), (&*b, &*a), ("waypost:swap", &*b)] {
            rename(cluster, from, to);
        }
    }
}

fn rename(cluster: &Cluster, from: &str, to: &str) {
    let renamed = cluster.redis.as_ref().unwrap().command(&["RENAME", from, to]);
    assert!(!matches!(renamed, RedisReply::Error(_)), "there is a context: {renamed:?}");
}

/// Waits twice, and gives what it remembers of everything before.
const TWO_GATES: &str = r#"
name: two-gates
nodes:
  - id: first
    type: transform
    config: { value: { remembered: "${{ input.text }}" } }
  - { id: one, type: wait-for-events, needs: [first], config: { name: one } }
  - id: between
    type: transform
    needs: [one]
    config: { value: "${{ nodes.first.output.remembered }} ${{ nodes.one.output.by }}" }
  - { id: two, type: wait-for-events, needs: [between], config: { name: two } }
  - id: last
    type: output
    needs: [two]
    config: { value: "${{ nodes.between.output }} ${{ nodes.two.output.by }}" }
"#;

/// A copy of its own past is sealed for the very key that it lies under, and opens; but it is not what the
/// execution was parked with.
#[test]
fn it_does_so_with_a_cache_of_its_own_past() {
    let mut cluster = Cluster::start(3, With::Redis);
    let ids = parked_at_one(&cluster);
    for id in &ids {
        quarantine(&cluster, id);
        send(&cluster, 0, id, "one", "A");
    }
    kept(&cluster, &ids, "two").iter().for_each(|id| put_back(&cluster, id));
    continues_on_another(&mut cluster, &ids, "A B");
}

/// Nor is a copy of what would have been its future, had the database not been put back to an earlier
/// state: that one is even as long as what came instead. Nothing but the digest in the store tells.
#[test]
fn it_does_so_with_a_cache_of_a_future_that_was_undone() {
    let mut cluster = Cluster::start(3, With::Redis);
    let ids = parked_at_one(&cluster);
    (0..3).for_each(|at| cluster.kill(at));
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND pid <> pg_backend_pid()";
    waypost_testbed::wait_until("nobody is connected", LONG, || cluster.sql(others) == "0");
    let copy = format!("CREATE DATABASE earlier TEMPLATE {}", cluster.database);
    cluster.postgres.sql("postgres", &copy);
    let go_on = |cluster: &mut Cluster, database: &str, by: &str| {
        cluster.database = database.to_owned();
        (0..3).for_each(|at| cluster.start_again(at));
        (0..3).for_each(|at| cluster.ready(at));
        in_touch(cluster);
        ids.iter().for_each(|id| send(cluster, 0, id, "one", by));
        kept(cluster, &ids, "two")
    };
    let database = cluster.database.clone();
    let undone = go_on(&mut cluster, &database, "X");
    undone.iter().for_each(|id| quarantine(&cluster, id));
    (0..3).for_each(|at| cluster.kill(at));
    go_on(&mut cluster, "earlier", "A");
    undone.iter().for_each(|id| put_back(&cluster, id));
    continues_on_another(&mut cluster, &ids, "A B");
}

/// Executions that wait for `one`, with their contexts in Redis.
fn parked_at_one(cluster: &Cluster) -> Vec<String> {
    in_touch(cluster);
    cluster.deploy(TWO_GATES);
    let start = |n: usize| {
        let api = cluster.api.clone();
        let input = json!({ "text": format!("t{n}") });
        async move { api.start(0, "two-gates", &input, &format!("p{n}")).await }
    };
    let ids = cluster.block_on(async { join_all((0..10).map(start)).await });
    kept(cluster, &ids, "one")
}

/// Takes away what is kept of an execution.
fn quarantine(cluster: &Cluster, id: &str) {
    rename(cluster, &key(id), &format!("aside:{id}"));
}

/// Puts it in the place of what is kept by now.
fn put_back(cluster: &Cluster, id: &str) {
    rename(cluster, &format!("aside:{id}"), &key(id));
}

/// An instance is killed, and the others have the whole context.
fn continues_on_another(cluster: &mut Cluster, ids: &[String], expected: &str) {
    cluster.kill(0);
    for (n, id) in ids.iter().enumerate() {
        send(cluster, 1 + n % 2, id, "two", "B");
    }
    cluster.block_on(async {
        for (n, id) in ids.iter().enumerate() {
            let ended = cluster.api.ended(id, LONG).await;
            assert_eq!(ended["status"], "COMPLETED", "{ended}");
            assert_eq!(ended["output"], format!("t{n} {expected}"));
        }
    });
    cluster.check();
}

/// Those of which the context at this node is kept. A copy is made while it costs nothing: for one that
/// Redis does not take at once there is none.
fn kept(cluster: &Cluster, ids: &[String], node: &str) -> Vec<String> {
    let redis = cluster.redis.as_ref().unwrap();
    let is_kept = |id: &&String| {
        let RedisReply::Bytes(Some(kept)) = redis.command(&["GET", &key(id)]) else { return false };
        let kept: Value = serde_json::from_slice(&kept).unwrap();
        kept["currentNodeId"] == node
    };
    let began = Instant::now();
    let kept = || ids.iter().filter(is_kept).cloned().collect::<Vec<_>>();
    waypost_testbed::wait_until("contexts are kept", LONG, || {
        kept().len() == ids.len() || began.elapsed() > COPIED && kept().len() >= ids.len() / 2
    });
    kept()
}

/// Waits until all instances use Redis.
fn in_touch(cluster: &Cluster) {
    for at in 0..cluster.instances.len() {
        waypost_testbed::wait_until("it has found Redis", LONG, || {
            let answer = cluster.block_on(cluster.api.get(at, "/readyz"));
            answer.status == 200 && !answer.body.to_string().contains("degraded")
        });
    }
}

fn send(cluster: &Cluster, at: usize, id: &str, name: &str, by: &str) {
    let signal = json!({ "name": name, "body": { "by": by } });
    let path = format!("/v1/executions/{id}/signals");
    let sent = cluster.block_on(cluster.api.post(at, &path, &signal));
    assert!(sent.is_ok(), "{sent:?}");
}

#[test]
fn two_hundred_who_resume_at_once_resume_once() {
    for with in With::BOTH {
        let cluster = Cluster::start(3, with);
        cluster.deploy(GATE);
        let api = cluster.api.clone();
        cluster.block_on(async {
            let id = api.start(0, "gate", &json!({ "text": "x" }), "one").await;
            api.until(&id, LONG, |body| body["status"] == "WAITING").await;
            let paused = api.post(1, &format!("/v1/executions/{id}/pause"), &json!({})).await;
            assert!(paused.is_ok(), "{paused:?}");
            let path = format!("/v1/executions/{id}/resume");
            let body = Value::Null;
            let answers = join_all((0..200).map(|n| api.post(n, &path, &body))).await;
            for answer in &answers {
                assert!(answer.is_ok() || answer.status == 409, "{answer:?}");
            }
            assert!(answers.iter().any(super::rig::Answer::is_ok), "somebody resumed it");
            let by_person = |event: &&Value| event["data"]["origin"].is_object();
            let resumed = api.events(2, &id, "RunResumed").await;
            assert_eq!(resumed.iter().filter(by_person).count(), 1, "{resumed:?}");
            let signal = json!({ "name": "go", "body": { "by": "all" } });
            api.post(0, &format!("/v1/executions/{id}/signals"), &signal).await;
            assert_eq!(api.ended(&id, LONG).await["status"], "COMPLETED");
        });
        cluster.check();
    }
}
