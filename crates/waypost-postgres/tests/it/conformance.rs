//! The promises of every store.

use std::sync::Arc;

use waypost_ports::clock::Clock;
use waypost_ports::conformance::Backend;
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::postgres::Postgres;

struct Database(String);

impl Database {
    fn new() -> Self {
        Self(Postgres::shared().database())
    }
}

impl Backend for Database {
    type Store = PostgresStore;

    fn open(&self, clock: Arc<dyn Clock>) -> PostgresStore {
        PostgresStore::open(&self.0, Options { clock: Some(clock), ..Options::default() }).unwrap()
    }

    fn settle(&self, store: &PostgresStore) {
        store.wait_projected().unwrap();
    }
}

waypost_ports::conformance_tests!(Database::new);
