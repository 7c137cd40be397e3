//! The SQL of the log's file, one statement a file. Nothing else in this crate holds SQL text, but
//! for the pragmas of `connection` and the statements of `projections`.

#[cfg(test)]
use rusqlite::Connection;

macro_rules! queries {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../queries/", $file, ".sql"));)*
    };
}

queries! {
    BACKLOG = "backlog";
    BLOB_NAMED_BY = "blob_named_by";
    BLOB_REF_INSERT = "blob_ref_insert";
    BLOB_SWEEP_TAKE = "blob_sweep_take";
    BLOBS_NAMED = "blobs_named";
    BREAKER_DELETE = "breaker_delete";
    BREAKER_LOAD = "breaker_load";
    BREAKER_SAVE = "breaker_save";
    BREAKERS_EXPIRE = "breakers_expire";
    BREAKERS_LIST = "breakers_list";
    CLAIM_DUE = "claim_due";
    CLAIM_FORGOTTEN = "claim_forgotten";
    CLAIM_NEXT_DUE = "claim_next_due";
    CLAIM_READY = "claim_ready";
    CLAIM_SUSPECTS = "claim_suspects";
    CLAIM_TAKE = "claim_take";
    CLUSTER_KEY = "cluster_key";
    CONTROL_ADMIT = "control_admit";
    CONTROL_DOUBT = "control_doubt";
    CONTROL_ENDED = "control_ended";
    CONTROL_HOLD = "control_hold";
    CONTROL_EXISTS = "control_exists";
    CONTROL_LOAD = "control_load";
    CONTROL_OWNED = "control_owned";
    CONTROL_OWNER = "control_owner";
    CONTROL_PARKED = "control_parked";
    CONTROL_READY_AGAIN = "control_ready_again";
    CONTROL_RELEASE = "control_release";
    CONTROL_RELEASE_ALL = "control_release_all";
    CONTROL_REQUIRES = "control_requires";
    CONTROL_SETTLED = "control_settled";
    CONTROL_STANDING = "control_standing";
    CONTROL_WAKE = "control_wake";
    CURRENT_VERSION = "current_version";
    CURRENT_VERSION_SET = "current_version_set";
    DEFINITION_BY_HASH = "definition_by_hash";
    DEFINITION_BY_VERSION = "definition_by_version";
    DEFINITION_CURRENT = "definition_current";
    DEFINITION_INSERT = "definition_insert";
    DEFINITION_VERSIONS = "definition_versions";
    DEFINITIONS_LATEST = "definitions_latest";
    EXECUTION_NEWEST = "execution_newest";
    EXECUTIONS_AFTER = "executions_after";
    FRAME_BEFORE = "frame_before";
    FRAME_DUE = "frame_due";
    FRAME_FIND = "frame_find";
    FRAME_INSERT = "frame_insert";
    FRAME_LATEST = "frame_latest";
    FRAME_PARENT = "frame_parent";
    FRAMES_FEED = "frames_feed";
    FRAMES_HEAD = "frames_head";
    FRAMES_HOLDING = "frames_holding";
    FRAMES_LOAD = "frames_load";
    FRAMES_BETWEEN = "frames_between";
    FRAMES_SHOWN = "frames_shown";
    FRAMES_TAIL = "frames_tail";
    INSTANCE_ADD = "instance_add";
    INSTANCE_ALIVE = "instance_alive";
    INSTANCE_END = "instance_end";
    INSTANCE_FIND = "instance_find";
    INSTANCE_RENEW = "instance_renew";
    INSTANCES_END_ALL = "instances_end_all";
    INSTANCES_EXPIRED = "instances_expired";
    INSTANCES_LIST = "instances_list";
    INSTANCES_OLDEST = "instances_oldest";
    KEY_INSERT = "key_insert";
    KEY_REVOKE = "key_revoke";
    KEYS_LIST = "keys_list";
    MAIL_COLLECT = "mail_collect";
    MAIL_CONSUME = "mail_consume";
    MAIL_FIND = "mail_find";
    MAIL_DISCARD = "mail_discard";
    MAIL_INSERT = "mail_insert";
    MAIL_LOAD = "mail_load";
    NUMBERS_RESERVE = "numbers_reserve";
    AWAITED_ADD = "awaited_add";
    AWAITED_KEEP = "awaited_keep";
    AWAITED_REMOVE = "awaited_remove";
    AWAITED_SETTLED = "awaited_settled";
    ENDPOINT_DELETE = "endpoint_delete";
    ENDPOINT_HEALTH = "endpoint_health";
    ENDPOINT_HEALTH_NUMBERED = "endpoint_health_numbered";
    ENDPOINT_HEALTH_SET = "endpoint_health_set";
    ENDPOINT_INSERT = "endpoint_insert";
    ENDPOINT_MESSAGES_DELETE = "endpoint_messages_delete";
    ENDPOINT_ROTATE = "endpoint_rotate";
    ENDPOINT_STATE = "endpoint_state";
    ENDPOINTS_EXIST = "endpoints_exist";
    ENDPOINTS_LIST = "endpoints_list";
    MESSAGE_ENQUEUE = "message_enqueue";
    OUTBOX_CANDIDATES = "outbox_candidates";
    OUTBOX_CLAIMED = "outbox_claimed";
    OUTBOX_CLAIMED_BY = "outbox_claimed_by";
    OUTBOX_CROWDED = "outbox_crowded";
    OUTBOX_EXPIRE = "outbox_expire";
    OUTBOX_FORGET = "outbox_forget";
    OUTBOX_LIST = "outbox_list";
    OUTBOX_NEXT_DUE = "outbox_next_due";
    OUTBOX_OF_EXECUTION = "outbox_of_execution";
    OUTBOX_READY = "outbox_ready";
    OUTBOX_REPLAY = "outbox_replay";
    OUTBOX_REPLAY_ONE = "outbox_replay_one";
    OUTBOX_SETTLE = "outbox_settle";
    OUTBOX_SHED = "outbox_shed";
    OUTBOX_STATS = "outbox_stats";
    OUTBOX_TAKE = "outbox_take";
    OUTBOX_WAKE = "outbox_wake";
    PERMIT_GIVE = "permit_give";
    PERMIT_HOLDING = "permit_holding";
    PERMIT_INSERT = "permit_insert";
    PERMIT_KEYS = "permit_keys";
    PERMIT_LOAD = "permit_load";
    PERMIT_OLDEST = "permit_oldest";
    PERMIT_OWN = "permit_own";
    PERMIT_QUEUES = "permit_queues";
    PERMIT_RELEASE = "permit_release";
    PERMIT_SUPERSEDE = "permit_supersede";
    PERMIT_WAITING = "permit_waiting";
    PUBLISHED_COUNT = "published_count";
    PUBLISHED_DELETE = "published_delete";
    PUBLISHED_EXPIRE = "published_expire";
    PUBLISHED_GIVEN = "published_given";
    PUBLISHED_INSERT = "published_insert";
    PUBLISHED_NEXT = "published_next";
    PUBLISHED_TAKEN = "published_taken";
    PUBLISHED_TURN = "published_turn";
    SNAPSHOT_DISCARD = "snapshot_discard";
    SNAPSHOT_LOAD = "snapshot_load";
    SNAPSHOT_SAVE = "snapshot_save";
    STORE_ID = "store_id";
    STRAY_CONTROL = "stray_control";
    STRAY_MAIL = "stray_mail";
    STRAY_PERMIT = "stray_permit";
    STRAY_SNAPSHOT = "stray_snapshot";
    SUBMISSION_BY_IDEMPOTENCY = "submission_by_idempotency";
    SUBMISSION_BY_KEY = "submission_by_key";
    SUBMISSION_DELETE = "submission_delete";
    SUBMISSION_INSERT = "submission_insert";
    SUBSCRIBED = "subscribed";
    SUBSCRIPTION_DELETE = "subscription_delete";
    SUBSCRIPTION_HUNGRY = "subscription_hungry";
    SUBSCRIPTION_INSERT = "subscription_insert";
    SUBSCRIPTIONS_FEED = "subscriptions_feed";
    SUBSCRIPTIONS_LACK = "subscriptions_lack";
    SUBSCRIPTIONS_OF_EXECUTION = "subscriptions_of_execution";
    SUBSCRIPTIONS_PASS = "subscriptions_pass";
    TIME_LATEST = "time_latest";
    SIGNAL_OWNERS = "signal_owners";
    TREE_RESERVE = "tree_reserve";
    TREES_FORGET = "trees_forget";
    AUDIT_BY_ACTOR = "audit_by_actor";
    AUDIT_INSERT = "audit_insert";
    AUDIT_LIST = "audit_list";
    WEIGH_EVENTS = "weigh_events";
    WEIGH_FEED = "weigh_feed";
    WEIGH_MAIL = "weigh_mail";
    WEIGH_STATE = "weigh_state";
    DEAD_FIRE_INSERT = "dead_fire_insert";
    DEAD_FIRE_SETTLE = "dead_fire_settle";
    DEAD_FIRES_COUNT = "dead_fires_count";
    DEAD_FIRES_LIST = "dead_fires_list";
    DEAD_FIRES_TRIM = "dead_fires_trim";
    FIRE_CLOSED = "fire_closed";
    FIRE_DEAD = "fire_dead";
    FIRE_FIND = "fire_find";
    FIRE_INSERT = "fire_insert";
    FIRES_LIST = "fires_list";
    FIRES_OPEN = "fires_open";
    FIRES_TRIM = "fires_trim";
    GROUP_CLAIM = "group_claim";
    GROUP_CLOSE = "group_close";
    GROUP_CURRENT = "group_current";
    GROUP_DELETE = "group_delete";
    GROUP_FIND = "group_find";
    GROUP_INSERT = "group_insert";
    GROUP_SAVE = "group_save";
    GROUPS_COUNT = "groups_count";
    GROUPS_DUE = "groups_due";
    GROUPS_OF = "groups_of";
    GROUPS_PAUSE = "groups_pause";
    GROUPS_RELEASE_ALL = "groups_release_all";
    PENDING_DELETE = "pending_delete";
    PENDING_INSERT = "pending_insert";
    PENDING_LIST = "pending_list";
    TRIGGER_CLAIM = "trigger_claim";
    TRIGGER_FIND = "trigger_find";
    TRIGGER_FIRED = "trigger_fired";
    TRIGGER_INSERT = "trigger_insert";
    TRIGGER_LOAD = "trigger_load";
    TRIGGER_ROSTER = "trigger_roster";
    TRIGGER_ROSTER_RAISE = "trigger_roster_raise";
    TRIGGER_SAVE = "trigger_save";
    TRIGGER_STATS = "trigger_stats";
    TRIGGERS_COUNT = "triggers_count";
    TRIGGERS_DUE = "triggers_due";
    TRIGGERS_LIST = "triggers_list";
    TRIGGERS_NEXT_DUE = "triggers_next_due";
    TRIGGERS_OF_WORKFLOW = "triggers_of_workflow";
    TRIGGERS_RELEASE_ALL = "triggers_release_all";
}

/// How SQLite would go about a statement, step by step.
#[cfg(test)]
pub(crate) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = explain.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}

#[cfg(test)]
mod tests;
