//! What a folder takes of triggers, and what it releases when an engine opens it.

use std::path::Path;

use rusqlite::Connection;
use waypost_core::id::DefinitionHash;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemKey, TriggerCursor, TriggerKindName, WindowMode};
use waypost_ports::store::{NewDefinition, Store, StoreError};
use waypost_ports::triggers::{
    Arrival, Arrived, GROUPS_MAX, NewTrigger, TRIGGERS_MAX, TriggerClaim, Triggers,
};
use waypost_sqlite::{Options, SqliteStore};

const FIVE_MINUTES: Millis = Millis::from_secs(300);

/// A version of a workflow with one trigger of events, or one that is due.
fn definition(workflow: &str, due: Option<Timestamp>) -> NewDefinition {
    let trigger = NewTrigger {
        name: "it".into(),
        kind: if due.is_some() { TriggerKindName::Schedule } else { TriggerKindName::Event },
        timing: [0; 32],
        cursor: TriggerCursor::None,
        next_due: due,
        enabled: true,
        topics: vec!["t".into()],
        throttle: None,
        ends: None,
    };
    NewDefinition {
        name: workflow.into(),
        hash: DefinitionHash::of(workflow.as_bytes()),
        canonical: workflow.into(),
        make_current: true,
        triggers: vec![trigger],
        paused: false,
    }
}

/// Rows that nobody wrote through the store.
fn fill(folder: &Path, sql: &str) {
    let log = Connection::open(folder.join("log.db")).unwrap();
    log.execute_batch(sql).unwrap();
}

#[test]
fn deploy_with_more_triggers_than_a_folder_may_have_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    store.define(&definition("flow", None)).unwrap();
    fill(
        folder.path(),
        &format!(
            "INSERT INTO triggers (workflow, name, kind, version, definition, revision, seq, incarnation, state,
                                   cursor, failures, topics, registered_at, timing, by_definition)
             WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < {TRIGGERS_MAX})
             SELECT 'many', n, 2, 1, definition, 1, 1, 0, 3, cursor, 0, topics, 0, timing, 0
             FROM n, (SELECT * FROM triggers LIMIT 1)"
        ),
    );
    store
        .define(&NewDefinition { canonical: "flow 2".into(), ..definition("flow", None) })
        .unwrap();
    let refused = store.define(&definition("other", None));
    assert!(
        matches!(&refused, Err(StoreError::Refused(reason)) if reason.contains("100000 triggers")),
        "{refused:?}"
    );
    assert!(store.trigger("other", "it").unwrap().is_none());
}

#[test]
fn event_that_would_begin_one_group_too_many_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    store.define(&definition("flow", None)).unwrap();
    let row = store.trigger("flow", "it").unwrap().unwrap();
    let last = GROUPS_MAX - 1;
    fill(
        folder.path(),
        &format!(
            "INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at)
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {last})
             SELECT {}, n, n, 0, 0, 1, 1, 1 << 50, 1 << 50 FROM n",
            row.number.0
        ),
    );
    let arrival = |group: &str, item: &str| Arrival {
        at: row.at(),
        group: group.into(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        rule: WindowMode::Batch { size: 100, wait: FIVE_MINUTES },
        payload: "1".into(),
    };
    let arrivals = [arrival("a", "1"), arrival("b", "2"), arrival("a", "3"), arrival("7", "4")];
    let arrived = store.arrive(&arrivals).unwrap();
    assert_eq!(arrived, [Arrived::Held, Arrived::Full, Arrived::Held, Arrived::Held]);
    // What found no room is not remembered: it may come again.
    fill(folder.path(), "DELETE FROM trigger_groups WHERE key = '9'");
    assert_eq!(store.arrive(&arrivals[1..2]).unwrap(), [Arrived::Held]);
}

/// The engine that had claimed it is gone: the lock of the folder proves it.
#[test]
fn trigger_that_a_killed_engine_had_claimed_is_claimed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let request = TriggerClaim::any(10, FIVE_MINUTES);
    let claim = || {
        let store = SqliteStore::open(folder.path(), Options::engine()).unwrap();
        // A deploy ends a claim, too.
        if store.trigger("flow", "it").unwrap().is_none() {
            store.define(&definition("flow", Some(Timestamp(1)))).unwrap();
        }
        let first = store.claim_triggers(&request).unwrap().triggers.len();
        (first, store.claim_triggers(&request).unwrap().triggers.len())
    };
    assert_eq!(claim(), (1, 0));
    assert_eq!(claim(), (1, 0));
}
