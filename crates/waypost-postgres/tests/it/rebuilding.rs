//! Rows that are derived again while others write them.

use std::sync::atomic::{AtomicBool, Ordering};

use waypost_ports::query::Query;
use waypost_ports::store::Store;

use crate::lives::{completed, definition, live, started};
use crate::projections::{begin, dump, options};
use crate::support::{Database, is_committed};

const TABLES: [&str; 4] = ["execution_rows", "node_rows", "wait_rows", "execution_documents"];

#[test]
fn rebuilding_and_appending_do_not_get_in_each_others_way() {
    let database = Database::new();
    let store = database.open_with(options());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.rebuild(&mut |_, _| {}).unwrap();
            }
        });
        for number in 0..60 {
            let mut hand = begin(&store, &format!("key-{number}"), "1");
            for node in ["a", "b", "c"] {
                let frame = hand.write(&[started(node, 1), completed(node)]);
                assert!(is_committed(&store.append(&[frame.into()]).unwrap()[0]));
            }
            if number % 10 == 0 {
                store.wait_projected().unwrap();
            }
        }
        store.wait_projected().unwrap();
        done.store(true, Ordering::Relaxed);
    });
    let intruder = database.intruder();
    let rows = dump(&intruder);
    assert_eq!(intruder.number("SELECT count(*) FROM node_rows WHERE status = 4"), 180);
    store.rebuild(&mut |_, _| {}).unwrap();
    assert_eq!(dump(&intruder), rows);
}

/// A rebuild finds no rows of an execution, and another process writes the first ones before the rebuild has
/// deleted those of its nodes.
#[test]
fn rebuild_keeps_rows_that_another_process_wrote_first() {
    let database = Database::new();
    let store = database.open_with(options());
    let mut hand = begin(&store, "contended", "1");
    store.append(&[hand.write(&[started("a", 1), completed("a")]).into()]).unwrap();
    store.wait_projected().unwrap();
    let intruder = database.intruder();
    let rows = dump(&intruder);
    let each = |action: fn(&str) -> String| intruder.run(&TABLES.map(action).join(";"));
    each(|table| {
        format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}; DELETE FROM {table}")
    });
    for first in ["node_rows", "wait_rows", "execution_documents"] {
        intruder.run(&format!("BEGIN; LOCK TABLE {first} IN ACCESS EXCLUSIVE MODE"));
        std::thread::scope(|scope| {
            let rebuild = scope.spawn(|| store.rebuild(&mut |_, _| {}));
            intruder.wait_for_waiters("projections", 1);
            each(|table| format!("INSERT INTO {table} SELECT * FROM kept_{table}"));
            intruder.run("COMMIT");
            rebuild.join().unwrap().unwrap();
        });
        assert_eq!(dump(&intruder), rows, "{first}");
        each(|table| format!("DELETE FROM {table}"));
    }
}

#[test]
fn a_deadlock_is_no_reason_to_give_up() {
    let database = Database::new();
    let store = database.open_with(options());
    store.define(&definition()).unwrap();
    let mut hand = begin(&store, "contended", "1");
    store.append(&[hand.write(&[started("a", 1)]).into()]).unwrap();
    store.wait_projected().unwrap();
    let intruder = database.intruder();
    let rows = dump(&intruder);
    assert!(rows.contains("Node A"), "{rows}");
    // What is taken from definitions is undone with the rest of it, and done with it.
    intruder.run("DELETE FROM definition_nodes");
    intruder.run(
        "CREATE SEQUENCE tries;
         CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('tries') <= 3 THEN
                 RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER conflict BEFORE INSERT ON execution_rows
             FOR EACH ROW EXECUTE FUNCTION conflict()",
    );
    store.rebuild(&mut |_, _| {}).unwrap();
    assert_eq!((dump(&intruder), intruder.number("SELECT last_value FROM tries")), (rows, 4));
}

#[test]
fn migration_of_the_read_tables_derives_their_rows_again() {
    let database = Database::new();
    let store = database.open_with(options());
    live(&[&store], |_, _| {});
    let intruder = database.intruder();
    let rows = dump(&intruder);
    drop(store);
    // Back to the layout before, with rows that lack what it did not have.
    intruder.run(
        "DROP VIEW executions, node_executions, execution_wait_states; DROP TABLE variable_rows;
         CREATE VIEW executions AS SELECT 1; CREATE VIEW node_executions AS SELECT 1;
         CREATE VIEW execution_wait_states AS SELECT 1;
         ALTER TABLE execution_rows DROP COLUMN owner, DROP COLUMN progress,
             DROP COLUMN trigger_name, DROP COLUMN trigger_node, DROP COLUMN fired;
         ALTER TABLE node_rows DROP COLUMN seq, DROP COLUMN created_at, DROP COLUMN updated_at,
             DROP COLUMN deadline, DROP COLUMN input, ADD COLUMN completed_at bigint;
         DROP INDEX wait_rows_listed, wait_rows_by_kind; ALTER TABLE wait_rows DROP COLUMN detail;
         DROP TABLE blob_refs, blob_sweep, blobs, blob_parts, blob_uploads;
         DROP TABLE outbox, webhook_endpoints, breakers, subscriptions, published, trees, outbox_awaited;
         DROP TABLE triggers, trigger_roster, trigger_fires, trigger_groups, trigger_pending, dead_fires;
         DELETE FROM migrations
         WHERE name IN ('true rows', 'node ends', 'blobs', 'progress', 'outbox', 'waits', 'breakers',
                        'topics', 'notifications', 'approval links', 'trees', 'awaited',
                        'turns', 'tree use', 'publisher', 'triggers', 'fired', 'claimers',
                        'awaited counts', 'throttles', 'started')",
    );
    let _store = database.open_with(options());
    let executions = rows.lines().filter(|line| line.starts_with("(life-")).count();
    assert!(executions > 10, "{rows}");
    let shown = "(SELECT count(*) FROM executions) + (SELECT count(*) FROM node_executions)
        + (SELECT count(*) FROM execution_wait_states)";
    intruder.wait_until(&format!("SELECT {shown} = {executions}"));
    assert_eq!(dump(&intruder), rows);
}
