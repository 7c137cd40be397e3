//! The store in memory keeps the promises of every store.

use std::sync::Arc;

use waypost_ports::clock::{Clock, SystemClock};
use waypost_ports::conformance::Backend;
use waypost_ports::memory::MemoryStore;

struct Memory(MemoryStore);

impl Memory {
    fn new() -> Self {
        Self(MemoryStore::new(Arc::new(SystemClock)))
    }
}

impl Backend for Memory {
    type Store = MemoryStore;

    fn open(&self, clock: Arc<dyn Clock>) -> MemoryStore {
        self.0.with_clock(clock)
    }

    fn settle(&self, _: &MemoryStore) {}
}

waypost_ports::conformance_tests!(Memory::new);
