//! The promises of every store.

use std::sync::Arc;

use waypost_ports::clock::Clock;
use waypost_ports::conformance::StoreUnderTest;
use waypost_sqlite::{Options, SqliteStore};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl StoreUnderTest for Folder {
    type Store = SqliteStore;

    fn open(&self, clock: Arc<dyn Clock>) -> SqliteStore {
        SqliteStore::open(self.0.path(), Options { clock, ..Options::engine() }).unwrap()
    }

    fn settle(&self, store: &SqliteStore) {
        store.wait_projected().unwrap();
    }
}

waypost_ports::conformance_tests!(Folder::new);
