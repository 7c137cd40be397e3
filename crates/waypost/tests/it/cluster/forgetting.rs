//! A remote worker that lives, polls, and has forgotten a task that it began.

use std::time::{Duration, Instant};

use serde_json::json;

use super::numbers::lease;
use super::rig::{Cluster, LONG, With};
use super::workers::{FOREIGN, worker};

/// How long after the lease a forgotten task is given to another worker, at the latest. For a lease its
/// worker reports that it does not have it. Instances look every 5 s, and the worker polls every 5 s. The
/// rest is slack for a busy machine.
const GIVEN_AFTER: Duration = Duration::from_secs(3 * 5 + 5 + 15);

#[test]
fn task_lost_by_a_live_worker_goes_to_another_on_postgres() {
    task_lost_by_a_live_worker_goes_to_another(With::Postgres);
}

#[test]
fn task_lost_by_a_live_worker_goes_to_another_with_redis() {
    task_lost_by_a_live_worker_goes_to_another(With::Redis);
}

fn task_lost_by_a_live_worker_goes_to_another(with: With) {
    let cluster = Cluster::start(3, with);
    cluster.deploy(FOREIGN);
    let api = cluster.api.clone();
    let mut forgetful = worker(&cluster, "forgets");
    let forgotten = cluster.block_on(api.start(0, "foreign", &json!({ "n": 1 }), "forgotten"));
    forgetful.wait_for_line(&format!("forgot {forgotten}"), LONG);
    let since = Instant::now();
    // It has this one all along, for longer than a lease, and keeps it.
    let kept = json!({ "n": 2, "ms": (3 * lease()).as_millis() });
    let kept = cluster.block_on(api.start(1, "foreign", &kept, "kept"));
    forgetful.wait_for_line(&format!("ran {kept}"), LONG);
    let mut plain = worker(&cluster, "plain");
    plain.wait_for_line(&format!("ran {forgotten}"), LONG);
    let given = since.elapsed();
    assert!(given < lease() + GIVEN_AFTER, "it was given to others after {given:?} ({with:?})");
    cluster.block_on(async {
        for (id, attempts, n) in [(&forgotten, 2, 1), (&kept, 1, 2)] {
            let ended = api.ended(id, LONG).await;
            assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &json!(n)));
            let mut started = api.events(0, id, "NodeStarted").await;
            started.retain(|event| event["node"] == "work");
            assert_eq!(started.len(), attempts, "{started:?}");
        }
        let failed = api.events(0, &forgotten, "NodeFailed").await;
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].to_string().contains("has not got it"), "{failed:?}");
    });
    plain.terminate();
    cluster.check();
}
