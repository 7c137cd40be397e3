//! Paused on one instance, resumed on another, with its whole context.

use futures_util::future::join_all;
use serde_json::{Value, json};

use waypost_testbed::RedisReply;

use super::flows::GATE;
use super::rig::{Cluster, LONG, With};

/// What lies in the cache when the other instance resumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cache {
    Warm,
    Emptied,
    OfAnotherHistory,
}

#[test]
fn what_is_paused_on_one_instance_goes_on_on_another_when_the_first_is_gone() {
    check(With::Postgres, Cache::Emptied);
}

#[test]
fn it_does_so_with_a_warm_cache() {
    check(With::Redis, Cache::Warm);
}

#[test]
fn it_does_so_with_a_cache_that_was_emptied() {
    check(With::Redis, Cache::Emptied);
}

#[test]
fn it_does_so_with_a_cache_of_another_history() {
    check(With::Redis, Cache::OfAnotherHistory);
}

fn check(with: With, cache: Cache) {
    let mut cluster = Cluster::start(3, with);
    cluster.deploy(GATE);
    let api = cluster.api.clone();
    let start = |n: usize| {
        let api = api.clone();
        async move { api.start(0, "gate", &json!({ "text": format!("t{n}") }), &format!("k{n}")).await }
    };
    let ids = cluster.block_on(async { join_all((0..20).map(start)).await });
    cluster.block_on(async {
        for id in &ids {
            api.until(id, LONG, |body| body["status"] == "PAUSED").await;
            // By a person, on top of the wait: the first ten, which then nothing but a person resumes.
        }
        for id in ids.iter().take(10) {
            let answer = api.post(0, &format!("/v1/executions/{id}/pause"), &json!({})).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
    });
    if cache == Cache::OfAnotherHistory {
        swap_contexts(&cluster, &ids);
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
    cluster.check();
}

/// Gives each context to another execution, under its name.
fn swap_contexts(cluster: &Cluster, ids: &[String]) {
    let redis = cluster.redis.as_ref().unwrap();
    let key = |id: &String| format!("waypost:execution:context:{{{id}}}");
    for pair in ids.chunks(2) {
        let (a, b) = (key(&pair[0]), key(&pair[1]));
        for (from, to) in [(&*a, "waypost:swap"), (&*b, &*a), ("waypost:swap", &*b)] {
            let renamed = redis.command(&["RENAME", from, to]);
            assert!(!matches!(renamed, RedisReply::Error(_)), "there is a context: {renamed:?}");
        }
    }
}

#[test]
fn two_hundred_who_resume_at_once_resume_once() {
    for with in With::BOTH {
        let cluster = Cluster::start(3, with);
        cluster.deploy(GATE);
        let api = cluster.api.clone();
        cluster.block_on(async {
            let id = api.start(0, "gate", &json!({ "text": "x" }), "one").await;
            api.until(&id, LONG, |body| body["status"] == "PAUSED").await;
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
