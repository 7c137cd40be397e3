//! Layouts: from nothing, from an older one, from a newer one, and half way.

use waypost_core::id::{DefinitionHash, InstanceId};
use waypost_ports::access::Access;
use waypost_ports::query::Query;
use waypost_ports::store::{About, Heartbeat, LEASE, NewDefinition, Store};

use super::*;
use crate::store::SqliteStore;

const FIRST: Migration = Migration::new(1, "first", "CREATE TABLE a (x)");
const SECOND: Migration =
    Migration::new(2, "second", "CREATE TABLE b (y); INSERT INTO b SELECT x FROM a;");
const BROKEN: Migration =
    Migration::new(2, "broken", "CREATE TABLE b (y); INSERT INTO nowhere VALUES (1);");
const THIRD: Migration = Migration::new(3, "third", "CREATE TABLE c (z)").additive();
const FOURTH: Migration = Migration::new(4, "fourth", "CREATE TABLE d (z)");

fn versions(applied: &[Migration]) -> Vec<u32> {
    applied.iter().map(|migration| migration.version).collect()
}

#[test]
fn an_older_layout_is_brought_forward_with_its_data() {
    let mut connection = Connection::open_in_memory().unwrap();
    assert_eq!(versions(&apply(&mut connection, &[FIRST]).unwrap()), [1]);
    connection.execute("INSERT INTO a VALUES (7)", []).unwrap();
    assert_eq!(versions(&apply(&mut connection, &[FIRST, SECOND]).unwrap()), [2]);
    assert_eq!(versions(&apply(&mut connection, &[FIRST, SECOND]).unwrap()), Vec::<u32>::new());
    let kept: i64 = connection.query_row("SELECT y FROM b", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 7);
}

#[test]
fn a_migration_that_fails_leaves_nothing() {
    let mut connection = Connection::open_in_memory().unwrap();
    assert!(apply(&mut connection, &[FIRST, BROKEN]).is_err());
    assert_eq!(layout(&connection).unwrap(), Layout { current: 1, required: 1 });
    assert!(!connection.table_exists(None, "b").unwrap());
    assert_eq!(versions(&apply(&mut connection, &[FIRST, SECOND]).unwrap()), [2]);
}

#[test]
fn a_newer_layout_is_refused() {
    let mut connection = Connection::open_in_memory().unwrap();
    apply(&mut connection, &[FIRST, SECOND]).unwrap();
    let error = apply(&mut connection, &[FIRST]).unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)));
    assert!(error.to_string().contains("layout 2 and this version knows 1"), "{error}");
}

#[test]
fn layout_with_additions_is_used_by_builds_that_do_not_know_them() {
    let mut connection = Connection::open_in_memory().unwrap();
    apply(&mut connection, &[FIRST, SECOND, THIRD]).unwrap();
    assert_eq!(layout(&connection).unwrap(), Layout { current: 3, required: 2 });
    assert_eq!(versions(&apply(&mut connection, &[FIRST, SECOND]).unwrap()), Vec::<u32>::new());
    assert!(apply(&mut connection, &[FIRST]).is_err());
    let newer = [FIRST, SECOND, THIRD, FOURTH];
    assert_eq!(versions(&apply(&mut connection, &newer).unwrap()), [4]);
    assert_eq!(layout(&connection).unwrap(), Layout { current: 4, required: 4 });
    assert!(apply(&mut connection, &[FIRST, SECOND, THIRD]).is_err());
}

/// Data of layout 1: two versions of a workflow, an execution and its mail.
const OF_LAYOUT_1: &str = r#"
    INSERT INTO instances VALUES (1, zeroblob(16), NULL, 1);
    INSERT INTO definitions VALUES (zeroblob(32), 'hello', 1, '{"a":1}');
    INSERT INTO definitions VALUES (CAST(hex(zeroblob(16)) AS BLOB), 'hello', 2, '{"a":2}');
    INSERT INTO frames VALUES (1, 7, 1, 2, zeroblob(16), 1, 1, 5, 6, 1, 0, x'5b5d');
    INSERT INTO control VALUES (7, NULL, 1, NULL, 0, NULL, 0, 1);
    INSERT INTO inbox VALUES (1, 7, 'm1', 'ann', 2, '"resume"');
    INSERT INTO submissions VALUES (7, 'order-1', NULL, NULL);
    UPDATE store SET last_number = 41;
"#;

#[test]
fn a_folder_of_layout_1_is_brought_forward_with_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(crate::store::LOG_FILE);
    let mut old = connection::open_log(&path, &Options::engine()).unwrap();
    apply(&mut old, &KNOWN[..1]).unwrap();
    old.execute_batch(OF_LAYOUT_1).unwrap();
    drop(old);
    assert_eq!(
        versions(&migrations(folder.path()).unwrap().pending),
        [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]
    );

    let store = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    assert_eq!(migrations(folder.path()).unwrap().current, 22);
    let latest = store.current("hello").unwrap().unwrap();
    assert_eq!((latest.version, latest.created_at), (2, None), "the older layout did not store it");
    let execution = store.find(Some("order-1")).unwrap().unwrap();
    let history = store.load(execution).unwrap().unwrap();
    assert_eq!((history.frames.len(), history.mail.len()), (1, 1));
    let hash = DefinitionHash::of(b"3");
    let new = NewDefinition {
        name: "hello".into(),
        hash,
        canonical: "3".into(),
        make_current: true,
        triggers: Vec::new(),
        paused: false,
    };
    assert_eq!(store.define(&new).unwrap().definition.version, 3);
    assert!(store.current("hello").unwrap().unwrap().created_at.is_some());
    let instance = InstanceId(uuid::Uuid::from_u128(1));
    let beat =
        Heartbeat { instance, numbers: 1, fold: 1, lease: Some(LEASE), about: About::default() };
    assert_eq!(store.heartbeat(&beat).unwrap().numbers, 42..43);
    assert_eq!(store.keys().unwrap(), []);
}

#[test]
fn migrations_of_a_folder_show_current_and_pending() {
    let folder = tempfile::tempdir().unwrap();
    let before = migrations(folder.path()).unwrap();
    assert_eq!((before.current, before.pending.len()), (0, KNOWN.len()));
    assert_eq!(migrate(folder.path()).unwrap(), KNOWN);
    let after = migrations(folder.path()).unwrap();
    assert_eq!(after.pending, []);
    assert_eq!(migrate(folder.path()).unwrap(), []);
}
