//! A full stop over many dues, and what happens afterwards.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::json;

use super::flows::{CHAIN, SLEEPER};
use super::numbers::scaled;
use super::rig::{Cluster, LONG, With};

fn millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[test]
fn many_waits_that_came_due_during_a_full_stop_each_fire_once() {
    for with in With::BOTH {
        let mut cluster = Cluster::start(3, with);
        cluster.deploy(SLEEPER);
        cluster.deploy(CHAIN);
        let api = cluster.api.clone();
        let count = scaled(30_000);
        // Far enough away to start them all before.
        let due = millis(
            SystemTime::now() + Duration::from_secs(10 + u64::try_from(count / 400).unwrap()),
        );
        let ids: Vec<String> = cluster.block_on(async {
            iter(0..count)
                .map(|n| {
                    let api = api.clone();
                    async move {
                        let input =
                            json!({ "until": due + u64::try_from(n % 1_000).unwrap(), "n": n });
                        api.start(n, "sleeper", &input, &format!("w{n}")).await
                    }
                })
                .buffered(64)
                .collect()
                .await
        });
        for at in 0..3 {
            cluster.kill(at);
        }
        waypost_testbed::wait_until("everything is due", LONG, || {
            millis(SystemTime::now()) > due + 1_000
        });
        for at in 0..3 {
            cluster.start_again(at);
        }
        (0..3).for_each(|at| cluster.ready(at));
        cluster.block_on(async {
            // New work is served meanwhile.
            let id = api.start(1, "chain", &json!(null), "new").await;
            assert_eq!(api.ended(&id, Duration::from_secs(30)).await["status"], "COMPLETED");
            iter(ids.iter())
                .map(|id| {
                    let api = api.clone();
                    async move {
                        let ended = api.ended(id, LONG * 3).await;
                        assert_eq!(ended["status"], "COMPLETED", "{ended}");
                    }
                })
                .buffer_unordered(64)
                .collect::<Vec<()>>()
                .await;
        });
        // The checker knows that no wait ended early or twice.
        cluster.check();
    }
}
