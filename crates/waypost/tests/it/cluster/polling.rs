//! Polls of several instances: each entry of a source starts one execution, and what cannot start one stands in
//! nobody's way.

use serde_json::{Value, json};
use waypost_testbed::wait_until;

use super::entries::{EntrySource, list_definition, start_list};
use super::numbers::{Random, percent, scaled};
use super::rig::{Cluster, LONG, With};

/// Entries of the full length.
const ENTRIES: usize = 5_000;
/// Entries that become visible at once.
const BURST: usize = 300;
/// Items of the full length, of which every tenth cannot start anything.
const ITEMS: usize = 10_000;

/// How many items of a workflow's trigger have this outcome.
fn fires(cluster: &Cluster, workflow: &str, outcome: u8) -> usize {
    let sql = format!(
        "SELECT count(*) FROM trigger_fires AS f JOIN triggers AS t ON t.number = f.trigger \
         WHERE t.workflow = '{workflow}' AND f.outcome = {outcome}"
    );
    usize::try_from(cluster.number(&sql)).unwrap()
}

/// As the API shows it.
fn trigger(cluster: &Cluster, workflow: &str) -> Value {
    cluster.block_on(cluster.api.get(0, &format!("/v1/triggers/{workflow}/all"))).body
}

#[test]
fn each_entry_of_a_source_starts_one_execution_while_instances_are_killed() {
    let source = EntrySource::start(17);
    let mut cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(&source.definition());
    let mut random = Random::new();
    let count = scaled(ENTRIES).next_multiple_of(BURST);
    let mut visible = 0;
    while visible < count {
        source.burst(BURST);
        visible += BURST;
        // Under way, not at the end of the burst.
        wait_until("some of the burst have fired", LONG, || {
            fires(&cluster, "entries", 0) + BURST / 2 > visible
        });
        let at = usize::try_from(random.below(3)).unwrap();
        cluster.kill(at);
        cluster.start_again(at);
        cluster.ready(at);
    }
    wait_until("all entries have fired", LONG, || fires(&cluster, "entries", 0) >= count);
    // Late ones and those of the last page are read once more.
    let cursor = || cluster.sql("SELECT seq FROM triggers");
    let before = cursor();
    wait_until("the source is read again", LONG, || cursor() != before);
    cluster.pause_trigger("entries", "all");
    assert_eq!(fires(&cluster, "entries", 0), count);
    let (failed, back) = source.trouble();
    assert!(failed > 0, "some reads failed");
    assert_eq!(back, Vec::<String>::new(), "the cursor never goes back");
    cluster.all_have_completed("entries", count);
    let outputs = "SELECT count(DISTINCT (context::jsonb) ->> 'output') FROM executions";
    assert_eq!(cluster.sql(outputs), count.to_string(), "one execution for each entry");
    cluster.check();
}

#[test]
fn items_that_can_start_nothing_are_dead_and_the_others_start() {
    let sink = start_list(scaled(ITEMS), |id| id % 10 == 3);
    let mut cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(&list_definition("mixed", &sink));
    let (count, dead) = (scaled(ITEMS), scaled(ITEMS) / 10);
    if percent() >= 100 {
        for part in 1..4 {
            wait_until("a part has fired", LONG, || fires(&cluster, "mixed", 0) > part * 2_000);
            cluster.kill(part - 1);
            cluster.start_again(part - 1);
            cluster.ready(part - 1);
        }
    }
    let at_end = || trigger(&cluster, "mixed")["cursor"]["cursor"]["after"] == json!(count);
    wait_until("the cursor is at the end", LONG, at_end);
    assert_eq!(trigger(&cluster, "mixed")["state"], "active");
    assert_eq!((fires(&cluster, "mixed", 0), dead), (count - dead, fires_dead(&cluster, "mixed")));
    cluster.all_have_completed("mixed", count - dead);
    cluster.check();
}

fn fires_dead(cluster: &Cluster, workflow: &str) -> usize {
    let sql = format!(
        "SELECT count(DISTINCT d.item) FROM dead_fires AS d JOIN triggers AS t ON t.number = d.trigger \
         WHERE t.workflow = '{workflow}' AND d.state = 0"
    );
    usize::try_from(cluster.number(&sql)).unwrap()
}

/// Twenty items in a row that can start nothing: what fails is the definition or the source, which is not emptied
/// into dead letters.
#[test]
fn poll_stops_after_twenty_dead_items_in_a_row_and_at_ten_thousand() {
    let in_a_row = start_list(1_000, |id| id >= 30);
    let many = start_list(1_000, |id| id % 2 == 1);
    let cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(&list_definition("in-a-row", &in_a_row));
    let is_broken = |workflow: &str| trigger(&cluster, workflow)["state"] == "broken";
    wait_until("it is broken", LONG, || is_broken("in-a-row"));
    assert_eq!((fires(&cluster, "in-a-row", 0), fires_dead(&cluster, "in-a-row")), (30, 20));
    let shown = trigger(&cluster, "in-a-row");
    assert_eq!(shown["cursor"]["cursor"]["after"], json!(0), "{shown}");
    // Nearly as many dead letters as are kept, whose items are forgotten by now.
    cluster
        .deploy(&list_definition("many", &many).replace("    if:", "    enabled: false\n    if:"));
    let left = cluster.sql(
        "INSERT INTO dead_fires (trigger, item, label, at, reason, payload, state) \
         SELECT t.number, sha256(convert_to(n::text, 'utf8')), 'old', waypost_now() - 20 * 86400000::int8, 'old', '{}', 0 \
         FROM triggers AS t, generate_series(1, 9990) AS n WHERE t.workflow = 'many' RETURNING id",
    );
    assert_eq!(left.lines().count(), 9_990);
    let resumed =
        cluster.block_on(cluster.api.post(1, "/v1/triggers/many/all/resume", &Value::Null));
    assert!(resumed.is_ok(), "{resumed:?}");
    wait_until("it is broken", LONG, || is_broken("many"));
    let reason = trigger(&cluster, "many")["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("dead letters"), "{reason}");
    let dead = fires_dead(&cluster, "many");
    assert!((10_000..10_000 + 500).contains(&dead), "{dead}");
    cluster.check();
}
