//! Opening: layouts, and several instances that start at once.

use std::sync::Barrier;

use waypost_ports::store::StoreError;
use waypost_postgres::{Options, PostgresStore, migrations};
use waypost_testbed::postgres::Postgres;

#[test]
fn eight_stores_may_be_opened_at_once() {
    let url = Postgres::shared().database();
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                PostgresStore::open(&url, Options::default()).unwrap();
            });
        }
    });
    let state = migrations(&url, &Options::default()).unwrap();
    assert!(state.pending.is_empty() && state.current >= 1, "{state:?}");
}

#[test]
fn a_layout_of_a_newer_version_is_refused() {
    let server = Postgres::shared();
    let url = server.database();
    drop(PostgresStore::open(&url, Options::default()).unwrap());
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    server.sql(database, "INSERT INTO waypost.migrations (version, name) VALUES (999, 'later')");
    let refused = PostgresStore::open(&url, Options::default());
    assert!(
        matches!(&refused, Err(StoreError::Refused(why)) if why.contains("layout 999")),
        "{refused:?}"
    );
}

#[test]
fn additions_of_a_newer_version_are_ignored() {
    let server = Postgres::shared();
    let url = server.database();
    drop(PostgresStore::open(&url, Options::default()).unwrap());
    let known = migrations(&url, &Options::default()).unwrap().current;
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    server.sql(database, "INSERT INTO waypost.migrations (version, name) VALUES (-999, 'more')");
    drop(PostgresStore::open(&url, Options::default()).unwrap());
    let state = migrations(&url, &Options::default()).unwrap();
    assert_eq!((state.current, state.pending.len()), (999, 0));
    // What an older version sees.
    let required = server.sql(database, "SELECT max(version) FROM waypost.migrations");
    assert!(required.parse::<u32>().unwrap() < known, "{required} {known}");
}

/// A user who may do nothing in the database but what its schema allows.
#[test]
fn a_schema_of_its_own_is_all_it_needs() {
    let server = Postgres::shared();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    server.sql(database, "REVOKE CREATE ON SCHEMA public FROM public");
    server.sql(database, "CREATE ROLE modest LOGIN");
    server.sql(database, "CREATE SCHEMA orders AUTHORIZATION modest");
    let url = url.replace("waypost@", "modest@");
    let options = Options { schema: "orders".to_owned(), ..Options::default() };
    let store = PostgresStore::open(&url, options.clone()).unwrap();
    assert_eq!(waypost_ports::access::Access::keys(&store).unwrap(), []);
    assert_eq!(migrations(&url, &options).unwrap().pending, []);
    let other = PostgresStore::open(&url, Options::default());
    assert!(matches!(other, Err(StoreError::Refused(_))), "{other:?}");
}

#[test]
fn a_name_that_is_no_schema_is_refused() {
    for schema in ["", "Orders", "a\"b", "1a", "a b"] {
        let options = Options { schema: schema.to_owned(), ..Options::default() };
        let refused = PostgresStore::open("postgres://127.0.0.1/x", options);
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{schema:?}");
    }
}

/// A copy of the database counts its transactions from the beginning; frames must still come after those
/// that were copied.
#[test]
fn store_opened_on_a_copy_assigns_places_after_its_frames() {
    let server = Postgres::shared();
    let url = server.database();
    drop(PostgresStore::open(&url, Options::default()).unwrap());
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let far = 1_i64 << 50;
    server.sql(
        database,
        &format!(
            "INSERT INTO waypost.frames (execution, first_seq, last_seq, place, at, decided_at, epoch, \
             checksum, append_id, instance, requires, body) \
             VALUES (1, 1, 1, {far}, 0, 0, 1, 0, gen_random_uuid(), gen_random_uuid(), 1, '')"
        ),
    );
    drop(PostgresStore::open(&url, Options::default()).unwrap());
    let place = server.sql(database, "SET search_path = waypost; SELECT waypost_place()");
    assert!(place.parse::<i64>().unwrap() > far, "{place}");
}
