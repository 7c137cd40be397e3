//! A full stop over many dues, and what happens afterwards.

use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::json;

use super::flows::{CHAIN, SLEEPER};
use super::numbers::scaled;
use super::rig::{Api, Cluster, LONG, With};

/// Within so many milliseconds all instances are killed.
const STOPPING: u64 = 1_000;

fn millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Starts sleepers that are due then, or within a second of it.
async fn sleepers(api: &Api, name: &str, count: usize, due: u64) -> Vec<String> {
    let start = |n: usize| async move {
        let input = json!({ "until": due + u64::try_from(n % 1_000).unwrap(), "n": n });
        api.start(n, "sleeper", &input, &format!("{name}{n}")).await
    };
    iter(0..count).map(start).buffered(64).collect().await
}

#[test]
fn many_waits_that_came_due_during_a_full_stop_each_fire_once() {
    With::both(|with| {
        let mut cluster = Cluster::start(3, with);
        cluster.deploy(SLEEPER);
        cluster.deploy(CHAIN);
        let api = cluster.api.clone();
        let count = scaled(30_000);
        // How long it takes to start them is found out with some that are due at once.
        let (some, began) = ((count / 10).max(1), Instant::now());
        cluster.block_on(sleepers(&api, "first", some, 0));
        let each = began.elapsed() / u32::try_from(some).unwrap();
        let mut starting = each * u32::try_from(count).unwrap() * 3 / 2 + Duration::from_secs(4);
        let (ids, due) = loop {
            let ended = || cluster.sql("SELECT count(*) FROM control") == "0";
            waypost_testbed::wait_until("those before them have ended", LONG, ended);
            let due = millis(SystemTime::now() + starting);
            let ids = cluster.block_on(sleepers(&api, &format!("{due}-"), count, due));
            if millis(SystemTime::now()) + STOPPING < due {
                break (ids, due);
            }
            // The machine has become slower since.
            starting *= 2;
            assert!(starting < LONG * 4, "they take too long to start");
        };
        for at in 0..3 {
            cluster.kill(at);
        }
        let waiting = cluster.sql("SELECT count(*) FROM control");
        assert_eq!(waiting, count.to_string(), "all of them wait when everything stops");
        waypost_testbed::wait_until("everything is due", LONG + starting, || {
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
    });
}
