//! The promises of every store.

use std::sync::Arc;
use std::time::Duration;

use waypost_ports::clock::Clock;
use waypost_ports::conformance::StoreUnderTest;
use waypost_ports::query::Query;
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::postgres::Postgres;
use waypost_testbed::wait_until;

struct Database(String);

impl Database {
    fn new() -> Self {
        Self(Postgres::shared().database())
    }
}

impl StoreUnderTest for Database {
    type Store = PostgresStore;

    fn open(&self, clock: Arc<dyn Clock>) -> PostgresStore {
        PostgresStore::open(&self.0, Options { clock: Some(clock), ..Options::default() }).unwrap()
    }

    fn settle(&self, store: &PostgresStore) {
        // A transaction of another client, such as the server's own, can keep the sweeper back.
        wait_until("all is shown", Duration::from_secs(60), || {
            store.wait_projected().unwrap();
            store.lag().unwrap().frames == 0
        });
    }
}

waypost_ports::conformance_tests!(Database::new);
