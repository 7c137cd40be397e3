//! What may happen to Redis: everything, and nothing is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use waypost_testbed::{Process, Redis};

use super::flows::{CHAIN, GATE};
use super::load::Load;
use super::numbers::{metric, percent};
use super::rig::{Api, Cluster, LONG, With};
use super::workers::{self, FOREIGN};

/// Executions of three kinds: those that wait get their signal, and those with a task elsewhere have a
/// worker.
async fn one(api: Api, n: usize) -> String {
    match n % 3 {
        0 => return api.start(n, "chain", &json!(null), &format!("r{n}")).await,
        1 => return api.start(n, "foreign", &json!({ "n": n }), &format!("r{n}")).await,
        _ => {}
    }
    let id = api.start(n, "gate", &json!({ "text": "x" }), &format!("r{n}")).await;
    let body = json!({ "name": "go", "body": { "by": n } });
    let sent = api.post(n + 1, &format!("/v1/executions/{id}/signals"), &body).await;
    assert!(sent.is_ok(), "Redis is no reason to refuse anything: {sent:?}");
    id
}

/// A cluster under load, and the worker of its tasks.
struct Busy {
    cluster: Cluster,
    load: Load,
    worker: Process,
}

impl Busy {
    fn begin() -> Self {
        let cluster = Cluster::start(3, With::Redis);
        cluster.deploy(CHAIN);
        cluster.deploy(GATE);
        cluster.deploy(FOREIGN);
        let load = Load::begin(&cluster, one);
        let worker = workers::worker(&cluster, "plain");
        load.more(50);
        Self { cluster, load, worker }
    }

    fn redis(&mut self) -> &mut Redis {
        self.cluster.redis.as_mut().unwrap()
    }

    /// Nothing was lost or done again, nobody was taken for dead, and nobody has died.
    fn end(mut self) {
        self.load.end(&self.cluster);
        // Its worker lives, so nothing that it did is done again.
        let mut ran = BTreeSet::new();
        for line in self.worker.output().lines().filter(|line| line.starts_with("ran ")) {
            let execution = line.split(' ').nth(1).map(str::to_owned);
            assert!(ran.insert(execution), "done twice: {line}");
        }
        assert!(!ran.is_empty(), "the worker has done something");
        self.cluster.all_have_lived();
        assert_eq!(self.cluster.sql("SELECT count(DISTINCT instance) FROM frames"), "3");
        for at in 0..3 {
            let metrics = self.cluster.block_on(self.cluster.api.metrics(at));
            for name in ["waypost_takeovers_total", "waypost_ownership_lost_total"] {
                assert_eq!(metric(&metrics, name), 0, "{name} of instance {at}");
            }
        }
    }
}

#[test]
fn flushed_ten_times() {
    let mut busy = Busy::begin();
    for _ in 0..10 {
        busy.redis().flush_all();
        busy.load.more(20);
    }
    busy.end();
}

#[test]
fn stopped_for_a_minute() {
    let mut busy = Busy::begin();
    busy.redis().stop();
    let minute = Duration::from_secs(60) * u32::try_from(percent()).unwrap() / 100;
    waypost_testbed::pause(minute.max(Duration::from_secs(5)));
    busy.load.more(50);
    let ready = |busy: &Busy| busy.cluster.block_on(busy.cluster.api.get(0, "/readyz"));
    waypost_testbed::wait_until("it says that it goes on without redis", LONG, || {
        let answer = ready(&busy);
        answer.status == 200 && answer.body.to_string().contains("degraded")
    });
    busy.redis().start_again();
    busy.load.more(50);
    waypost_testbed::wait_until("it is well again", LONG, || {
        !ready(&busy).body.to_string().contains("degraded")
    });
    busy.end();
}

#[test]
fn restored_from_an_old_copy() {
    let mut busy = Busy::begin();
    let old = busy.redis().backup();
    busy.load.more(100);
    busy.redis().restore(&old);
    busy.load.more(100);
    busy.end();
}

#[test]
fn full_of_garbage_and_of_wrong_types() {
    let mut busy = Busy::begin();
    for round in 0..5 {
        let redis = busy.redis();
        let keys = match redis.command(&["KEYS", "*"]) {
            waypost_testbed::RedisReply::Many(keys) => keys,
            other => panic!("{other:?}"),
        };
        for (n, key) in keys.iter().enumerate() {
            let waypost_testbed::RedisReply::Bytes(Some(key)) = key else { continue };
            let key = String::from_utf8_lossy(key).into_owned();
            drop(redis.command(&["DEL", &key]));
            let garbage = match (n + round) % 4 {
                0 => redis.command(&["SET", &key, "garbage"]),
                1 => redis.command(&["RPUSH", &key, "a", "b"]),
                2 => redis.command(&["XADD", &key, "*", "no", "sense"]),
                _ => redis.command(&["HSET", &key, "a", "b"]),
            };
            drop(garbage);
        }
        busy.load.more(20);
    }
    busy.end();
}
