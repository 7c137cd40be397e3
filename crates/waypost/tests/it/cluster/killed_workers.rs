//! A map whose items run at workers that are killed again and again.

use std::collections::BTreeMap;

use serde_json::json;
use waypost_testbed::Sink;

use super::numbers::{percent, scaled};
use super::rig::{Cluster, LONG, With};
use super::workers::own_worker;

/// How often each of the two workers is killed.
const KILLS: usize = 3;

/// Each item is a call at a worker, and gives its index if the call was answered.
fn mapped(sink: &Sink, items: usize) -> String {
    let url = sink.url("/call");
    format!(
        r#"
name: mapped
nodes:
  - id: each
    type: map
    config: {{ items: {items}, concurrency: 64 }}
    nodes:
      - id: call
        type: worker
        config: {{ handler: api-call, input: {{ method: POST, url: "{url}" }} }}
      - id: index
        type: transform
        needs: [call]
        config: {{ value: "${{{{ item if nodes.call.output.status == 200 else none }}}}" }}
  - {{ id: all, type: output, needs: [each], config: {{ value: "${{{{ nodes.each.output.results }}}}" }} }}
"#
    )
}

#[test]
fn items_at_workers_that_are_killed_complete_once_and_in_order_on_postgres() {
    items_complete_once_and_in_order(With::Postgres);
}

#[test]
fn items_at_workers_that_are_killed_complete_once_and_in_order_with_redis() {
    items_complete_once_and_in_order(With::Redis);
}

fn items_complete_once_and_in_order(with: With) {
    let items = if percent() < 100 { 500 } else { scaled(10_000) };
    let cluster = Cluster::start(2, with);
    let sink = Sink::start();
    cluster.deploy(&mapped(&sink, items));
    let mut workers = [own_worker(&cluster, &[0, 1]), own_worker(&cluster, &[1, 0])];
    let id = cluster.block_on(cluster.api.start(0, "mapped", &json!(null), "killed"));
    // Each is killed with calls in hand, and another one takes its place.
    let each = items / (2 * KILLS + 2);
    for kill in 0..2 * KILLS {
        sink.wait_for((kill + 1) * each, LONG);
        sink.hold();
        let held = sink.received().len();
        sink.wait_for(held + 1, LONG);
        let again = own_worker(&cluster, &[kill % 2, (kill + 1) % 2]);
        std::mem::replace(&mut workers[kill % 2], again).kill();
        sink.release();
    }
    let ended = cluster.block_on(cluster.api.ended(&id, 4 * LONG));
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let results = ended["output"].as_array().unwrap_or_else(|| panic!("{ended}"));
    assert_eq!(results.len(), items);
    let wrong = results.iter().enumerate().find(|(at, result)| **result != *at);
    assert_eq!(wrong, None, "results are in the order of the items");
    let called = sink.counts();
    assert_eq!(called.len(), items, "a key for each item");
    assert!(called.values().any(|count| *count > 1), "some were called again");
    each_completed_once(&cluster, &id, items);
    cluster.check();
}

/// The log has one completion for each call: a repeated report, or one of an attempt that was given
/// up, adds none.
fn each_completed_once(cluster: &Cluster, id: &str, items: usize) {
    let mut completed: BTreeMap<String, usize> = BTreeMap::new();
    let mut after = Some(0);
    while let Some(seq) = after {
        let path = format!("/v1/executions/{id}/events?type=NodeCompleted&limit=1000&after={seq}");
        let page = cluster.block_on(cluster.api.get(0, &path)).body;
        for event in page["events"].as_array().unwrap_or_else(|| panic!("{page}")) {
            let node = event["node"].as_str().unwrap_or_default();
            if node.ends_with("/call") {
                *completed.entry(node.to_owned()).or_default() += 1;
            }
        }
        after = page["next"].as_u64();
    }
    assert_eq!(completed.len(), items);
    let twice: Vec<_> = completed.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
