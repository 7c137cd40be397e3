//! Triggers that fire with the ends of executions, while the instance that deploys them is killed.

use std::time::Duration;

use serde_json::json;
use waypost_testbed::{Sink, wait_until};

use super::flows::CHAIN;
use super::numbers::{Random, scaled};
use super::rig::{Cluster, LONG, With};

/// Deploys of the full length.
const DEPLOYS: usize = 100;

/// Fires with the end of a chain.
fn listener(n: usize) -> String {
    format!(
        "
name: listener-{n}
on:
  - workflow-ended: ends
    workflow: chain
    id: \"heard-{n}-${{{{ execution.id }}}}\"
nodes:
  - {{ id: done, type: noop }}
"
    )
}

/// Whether a deploy is answered or not: from the moment at which its trigger can be seen, no end is missed.
#[test]
fn trigger_that_can_be_seen_misses_no_end_though_its_deploy_is_killed() {
    let mut cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(CHAIN);
    let mut random = Random::new();
    // Where deploys are cut off before they are there, the next one gets more time.
    let (mut seen, mut n, mut cut_off) = (0, 0, 0);
    while seen < scaled(DEPLOYS).max(2) {
        n += 1;
        let (api, source) = (cluster.api.clone(), listener(n));
        let deploy = async move { api.try_deploy(0, &source).await };
        let deploy = cluster.runtime.spawn(deploy);
        waypost_testbed::pause(Duration::from_millis(random.below(30) + 20 * cut_off));
        cluster.kill(0);
        // Answered, or cut off.
        let answered = cluster.block_on(deploy).unwrap();
        let there = format!("SELECT count(*) FROM triggers WHERE workflow = 'listener-{n}'");
        let is_there = cluster.sql(&there) == "1";
        assert!(is_there || answered.is_none(), "a deploy that was answered is there");
        cut_off = if is_there { 0 } else { cut_off + 1 };
        if is_there {
            seen += 1;
            let api = cluster.api.clone();
            let id = cluster.block_on(api.start(1, "chain", &json!(null), &format!("chain-{n}")));
            let heard = format!("SELECT count(*) FROM submissions WHERE key = 'heard-{n}-{id}'");
            wait_until("the end was heard", LONG, || cluster.sql(&heard) == "1");
        }
        cluster.start_again(0);
        cluster.ready(0);
    }
    let lacking = "SELECT count(*) FROM triggers AS t WHERE NOT EXISTS (SELECT 1 FROM webhook_endpoints AS e \
                   WHERE convert_from(e.id, 'utf8') LIKE concat('trigger-', t.number, '-%'))";
    assert_eq!(cluster.sql(lacking), "0");
    wait_until("all have ended", LONG, || cluster.sql("SELECT count(*) FROM control") == "0");
    cluster.check();
}

/// An instance that fires no triggers must not keep the ends from those that do: a claim lasts for a minute.
#[test]
fn instance_without_triggers_leaves_ends_to_others() {
    let mut cluster = Cluster::start_with(1, With::Postgres, &["--no-triggers"]);
    let sink = Sink::start();
    cluster.deploy(CHAIN);
    cluster.deploy(&listener(0));
    cluster.add_endpoint(&sink.url("/hook"), "chain", &["execution.completed"]);
    let api = cluster.api.clone();
    for n in 1..=2 {
        cluster.block_on(api.start(0, "chain", &json!(null), &format!("chain-{n}")));
        // It has claimed what it takes.
        sink.wait_for(n, LONG);
    }
    let left = "SELECT count(*) FROM outbox AS o JOIN webhook_endpoints AS e ON e.number = o.endpoint \
                WHERE e.url = 'trigger:' AND o.state = 0 AND o.claim IS NULL";
    assert_eq!(cluster.sql(left), "2", "both ends wait, and nobody has claimed them");
    cluster.kill(0);
    cluster.change_flags(&[]);
    cluster.start_again(0);
    cluster.ready(0);
    let fired = "SELECT count(*) FROM trigger_fires WHERE outcome = 0";
    wait_until("both ends have fired", LONG, || cluster.sql(fired) == "2");
}
