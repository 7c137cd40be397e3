//! Executions that others start, on instances that are killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::numbers::{Random, percent, scaled, within};
use super::rig::{Cluster, LONG, With};

/// How often the parent of many may be taken by an owner in one second. Kills add to it.
const WAKE_UPS_MAX: usize = 5;

const LEAF: &str = r#"
name: leaf
nodes:
  - { id: nap, type: delay, config: { duration: 20, unit: ms } }
  - { id: out, type: output, needs: [nap], config: { value: "${{ input.n }}" } }
"#;

const SLEEPER: &str = r#"
name: sleeper
nodes:
  - { id: wait, type: wait-for-events, config: { name: never } }
"#;

fn parent(child: &str, count: usize) -> String {
    format!(
        r#"
name: parent
nodes:
  - id: each
    type: map
    config: {{ items: {count}, concurrency: 1000 }}
    nodes:
      - {{ id: call, type: workflow, config: {{ workflow: {child}, input: {{ n: "${{{{ index }}}}" }} }} }}
  - {{ id: all, type: output, needs: [each], config: {{ value: "${{{{ nodes.each.output.results }}}}" }} }}
"#
    )
}

#[test]
fn children_begin_and_end_once_while_instances_are_killed_on_postgres() {
    begin_and_end_once(With::Postgres);
}

#[test]
fn children_begin_and_end_once_while_instances_are_killed_with_redis() {
    begin_and_end_once(With::Redis);
}

fn begin_and_end_once(with: With) {
    let count = if percent() < 100 { 300 } else { scaled(10_000) };
    let mut cluster = Cluster::start(3, with);
    cluster.deploy(LEAF);
    cluster.deploy(&parent("leaf", count));
    let id = cluster.block_on(cluster.api.start(0, "parent", &json!(null), "many"));
    let begun = "SELECT count(*) FROM submissions";
    let mut random = Random::new();
    let mut kills = 0;
    // Killed while children begin and end: by how many there are, not by the time.
    for part in 1..=6 {
        let enough = |cluster: &Cluster| {
            cluster.sql(begun).parse::<usize>().is_ok_and(|begun| begun > part * count / 8)
        };
        waypost_testbed::wait_until("more children have begun", LONG, || enough(&cluster));
        let at = usize::try_from(random.below(3)).unwrap();
        cluster.kill(at);
        if let Some(redis) = &cluster.redis {
            redis.flush_all();
        }
        cluster.start_again(at);
        kills += 1;
    }
    (0..3).for_each(|at| cluster.ready(at));
    let ended = cluster.block_on(cluster.api.ended(&id, 4 * LONG));
    assert_eq!(ended["status"], "COMPLETED", "after {kills} kills: {ended}");
    let results = ended["output"].as_array().unwrap_or_else(|| panic!("{ended}"));
    assert_eq!(results.len(), count);
    let wrong = results.iter().enumerate().find(|(at, result)| **result != *at);
    assert_eq!(wrong, None, "results are in the order of the items");
    assert_eq!(cluster.sql(begun), (count + 1).to_string(), "each child has begun once");
    let ends = cluster.block_on(cluster.api.events(0, &id, "RunCompleted"));
    assert_eq!(ends.len(), 1, "the parent has ended once");
    let owned = cluster.block_on(cluster.api.events(0, &id, "RunOwned"));
    let mut seconds: BTreeMap<String, usize> = BTreeMap::new();
    for event in &owned {
        let second = event["at"].as_str().and_then(|at| at.get(..19)).unwrap_or_default();
        *seconds.entry(second.to_owned()).or_default() += 1;
    }
    let busiest = seconds.values().max().copied().unwrap_or_default();
    assert!(busiest <= WAKE_UPS_MAX, "{busiest} wake-ups in one second: {seconds:?}");
    cluster.check();
}

#[test]
fn cancel_of_a_parent_reaches_all_its_open_children() {
    With::both(|with| within(Duration::from_secs(15), |_| cancel_all(with)));
}

/// How long it took until all had ended.
fn cancel_all(with: With) -> Duration {
    let count = if percent() < 100 { 100 } else { 1_000 };
    let cluster = Cluster::start(3, with);
    cluster.deploy(SLEEPER);
    cluster.deploy(&parent("sleeper", count));
    let id = cluster.block_on(cluster.api.start(0, "parent", &json!(null), "wide"));
    let waiting = "SELECT count(*) FROM execution_wait_states \
                   WHERE workflow_id = 'sleeper' AND status = 'WAITING'";
    let all = count.to_string();
    waypost_testbed::wait_until("all children wait", LONG, || cluster.sql(waiting) == all);
    let began = Instant::now();
    let cancel = format!("/v1/executions/{id}/cancel");
    let answer = cluster.block_on(cluster.api.post(1, &cancel, &json!({ "reason": "enough" })));
    assert!(answer.is_ok(), "{answer:?}");
    let ended = cluster.block_on(cluster.api.ended(&id, LONG));
    let took = began.elapsed();
    assert_eq!(ended["status"], "CANCELLED", "{ended}");
    assert_eq!(cluster.sql("SELECT count(*) FROM control"), "0", "all have ended");
    let events: Vec<Value> = cluster.block_on(cluster.api.events(0, &id, "ChildEnded"));
    assert_eq!(events.len(), count.min(1_000));
    cluster.check();
    took
}
