//! Layouts: from nothing, from an older one, from a newer one, and half way.

use super::*;

const FIRST: Migration = Migration { version: 1, name: "first", sql: "CREATE TABLE a (x)" };
const SECOND: Migration = Migration {
    version: 2,
    name: "second",
    sql: "CREATE TABLE b (y); INSERT INTO b SELECT x FROM a;",
};
const BROKEN: Migration = Migration {
    version: 2,
    name: "broken",
    sql: "CREATE TABLE b (y); INSERT INTO nowhere VALUES (1);",
};

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
    assert_eq!(current(&connection).unwrap(), 1);
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
fn a_folder_is_told_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let before = migrations(folder.path()).unwrap();
    assert_eq!((before.current, before.pending.len()), (0, KNOWN.len()));
    assert_eq!(migrate(folder.path()).unwrap(), KNOWN);
    let after = migrations(folder.path()).unwrap();
    assert_eq!(after.pending, []);
    assert_eq!(migrate(folder.path()).unwrap(), []);
}
