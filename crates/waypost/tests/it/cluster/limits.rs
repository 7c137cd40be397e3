//! Concurrency keys: never more than the limit, in order, all of them, whatever is killed.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde_json::{Value, json};

use super::numbers::{percent, scaled};
use super::rig::{Cluster, LONG, With};

const LIMITED: &str = r#"
name: limited
concurrency: { key: "${{ input.key }}", limit: 5 }
nodes:
  - { id: work, type: delay, config: { duration: "${{ input.ms }}", unit: ms } }
  - { id: done, type: output, needs: [work], config: { value: "${{ input.n }}" } }
"#;

#[test]
fn at_most_five_of_a_key_run_in_order_and_all_finish_on_postgres() {
    at_most_five_of_a_key(With::Postgres);
}

#[test]
fn at_most_five_of_a_key_run_in_order_and_all_finish_with_redis() {
    at_most_five_of_a_key(With::Redis);
}

fn at_most_five_of_a_key(with: With) {
    let mut cluster = Cluster::start(3, with);
    cluster.deploy(LIMITED);
    let api = cluster.api.clone();
    let count = scaled(500).max(60);
    let ids: Vec<String> = cluster.block_on(async {
        let mut ids = Vec::new();
        for n in 0..count {
            // Long enough that they come faster than they go, and stand in line when one is killed.
            let input = json!({ "key": "k", "n": n, "ms": 200 });
            ids.push(api.start(n, "limited", &input, &format!("l{n}")).await);
        }
        ids
    });
    // One is cancelled while it stands in line: no worker ever hears of it.
    let cancelled = ids.last().unwrap().clone();
    cluster.block_on(async {
        let path = format!("/v1/executions/{cancelled}/cancel");
        let answer = api.post(1, &path, &Value::Null).await;
        assert!(answer.is_ok(), "{answer:?}");
    });
    let began = Instant::now();
    for round in 0..percent().div_ceil(25) {
        waypost_testbed::pause(Duration::from_secs(1));
        cluster.kill(round % 3);
        cluster.start_again(round % 3);
    }
    let ended: Vec<Value> = cluster.block_on(async {
        iter(&ids)
            .map(|id| {
                let api = api.clone();
                async move { api.ended(id, LONG * 3).await }
            })
            .buffered(32)
            .collect()
            .await
    });
    for (n, ended) in ended.iter().enumerate() {
        let expected = if n + 1 == count { "CANCELLED" } else { "COMPLETED" };
        assert_eq!(ended["status"], expected, "after {:?}: {ended}", began.elapsed());
    }
    in_order_and_within_the_limit(&cluster, &ids);
    assert_eq!(cluster.sql("SELECT count(*) FROM slots"), "0", "every slot was released");
    cluster.check();
}

/// From the logs: when each was let in, and when it ended.
fn in_order_and_within_the_limit(cluster: &Cluster, ids: &[String]) {
    let api = cluster.api.clone();
    let mut moments: Vec<(u64, i32, usize)> = Vec::new();
    let mut admitted = Vec::new();
    cluster.block_on(async {
        for (n, id) in ids.iter().enumerate() {
            let at = |events: Vec<Value>| {
                events.first().map(|event| event["at"].as_str().unwrap().to_owned())
            };
            let Some(let_in) = at(api.events(0, id, "RunAdmitted").await) else { continue };
            let end = at(api.events(0, id, "RunCompleted").await).unwrap();
            admitted.push((let_in.clone(), n));
            moments.push((time(&let_in), 1, n));
            moments.push((time(&end), -1, n));
        }
    });
    // At one millisecond, an end makes room before somebody is let in.
    moments.sort_unstable();
    let mut running = 0;
    for (_, change, n) in moments {
        running += change;
        assert!(running <= 5, "{running} run at once when {n} is let in");
    }
    admitted.sort();
    let order: Vec<_> = admitted.iter().map(|(at, n)| (at.clone(), *n)).collect();
    for pair in order.windows(2) {
        let ((earlier, a), (later, b)) = (&pair[0], &pair[1]);
        // Those that are let in together stand side by side.
        assert!(a < b || earlier == later || a - b < 5, "{a} was let in before {b}");
    }
}

fn time(text: &str) -> u64 {
    let parsed = waypost_core::time::Timestamp::parse(text).unwrap();
    u64::try_from(parsed.0).unwrap()
}
