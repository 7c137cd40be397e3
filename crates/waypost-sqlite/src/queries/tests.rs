//! The plans of queries for people: they use indexes, and never scan a whole table.

use super::*;
use crate::migrate;

#[test]
fn queries_are_served_by_indexes() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate::apply_known(&mut connection).unwrap();
    let definitions = "USING COVERING INDEX definitions_listed";
    for (sql, index) in [
        (FRAMES_FEED, "SEARCH frames USING INTEGER PRIMARY KEY (rowid>?)"),
        (DEFINITION_CURRENT, definitions),
        (DEFINITION_VERSIONS, definitions),
        (DEFINITIONS_LATEST, definitions),
        (CONTROL_LOAD, "SEARCH earlier USING COVERING INDEX permits_by_key (key=? AND rowid<?)"),
        (PERMIT_WAITING, "INDEX permits_waiting (key=?)"),
        (PERMIT_HOLDING, "COVERING INDEX permits_holding (key=?)"),
        (PERMIT_OLDEST, "INDEX permits_by_key (key=?)"),
        (BLOB_NAMED_BY, "USING PRIMARY KEY (digest=?)"),
        (BLOBS_NAMED, "USING PRIMARY KEY (digest>?)"),
        (KEY_REVOKE, "SEARCH api_keys USING INDEX"),
        (AUDIT_LIST, "SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"),
        (AUDIT_BY_ACTOR, "USING INDEX audit_by_actor (actor=? AND id<?)"),
        (TRIGGERS_LIST, "USING INDEX sqlite_autoindex_triggers_1 ((workflow,name)>(?,?))"),
        (TRIGGERS_DUE, "USING INDEX triggers_claimable (claimable_at<?)"),
        (TRIGGERS_NEXT_DUE, "USING INDEX triggers_claimable (claimable_at>?)"),
        (FIRE_FIND, "USING INDEX sqlite_autoindex_trigger_fires_1 (trigger=? AND item=?)"),
        (FIRES_LIST, "USING INDEX trigger_fires_listed (trigger=? AND place<?)"),
        (FIRES_OPEN, "USING INDEX trigger_fires_open (trigger=? AND place>?)"),
        (FIRES_TRIM, "USING INDEX trigger_fires_old (at<?)"),
        (FIRES_OF, "SEARCH f USING INDEX trigger_fires_started (execution=?)"),
        (TRIGGERS_INSPECT, "SEARCH triggers USING INTEGER PRIMARY KEY (rowid>?)"),
        (GROUPS_INSPECT, "SEARCH p USING COVERING INDEX trigger_pending_of (in_group=?)"),
        (GROUP_CURRENT, "USING INDEX trigger_groups_current (trigger=? AND key=?)"),
        (THROTTLE_FIND, "USING INDEX trigger_groups_queue (trigger=? AND key=?)"),
        (THROTTLE_PERMITS, "USING INDEX trigger_groups_of (trigger=? AND key=?)"),
        (THROTTLES_DUE, "USING INDEX trigger_groups_claimable (claimable_at<?)"),
        (THROTTLES_CHANGE, "USING INDEX trigger_groups_queue (trigger=?)"),
        (PENDING_FIRST, "USING INDEX trigger_pending_of (in_group=?)"),
        (GROUP_FIND, "USING INDEX trigger_groups_of (trigger=? AND key=? AND seq=?)"),
        (GROUPS_DUE, "USING INDEX trigger_groups_claimable (claimable_at<?)"),
        (PENDING_LIST, "USING INDEX trigger_pending_of (in_group=?)"),
        (DEAD_FIRES_LIST, "SEARCH dead_fires USING INTEGER PRIMARY KEY (rowid<?)"),
        (DEAD_FIRES_TRIM, "INDEX dead_fires_old (at<?)"),
    ] {
        let steps = plan(&connection, sql);
        assert!(steps.iter().any(|step| step.contains(index)), "{sql}\n{steps:#?}");
        let of_a_table = |step: &String| {
            let no_table = |table: &str| {
                ["next", "counted", "CONSTANT ROW"].contains(&table)
                    || table.starts_with("json_each ")
            };
            step.strip_prefix("SCAN ").is_some_and(|table| !no_table(table))
        };
        assert!(!steps.iter().any(of_a_table), "{sql}\n{steps:#?}");
    }
    let steps = plan(&connection, BACKLOG);
    for index in
        ["SCAN control USING INDEX control_ready", "SEARCH control USING INDEX control_due"]
    {
        assert!(steps.iter().any(|step| step.starts_with(index)), "{steps:#?}");
    }
    assert!(!steps.iter().any(|step| step == "SCAN control"), "{steps:#?}");
    let steps = plan(&connection, CLAIM_SUSPECTS);
    assert!(steps.iter().any(|step| step.contains("INDEX control_suspects")), "{steps:#?}");
    let steps = plan(&connection, INSTANCES_LIST);
    let alive = "SEARCH instances USING COVERING INDEX instances_alive (alive_until>?)";
    assert!(steps.iter().any(|step| step == alive), "{steps:#?}");
}
