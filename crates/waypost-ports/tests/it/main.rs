//! The store in memory keeps the promises of every store, and so do tasks in memory.

use std::sync::Arc;

use waypost_core::time::Millis;
use waypost_ports::clock::{Clock, ManualClock, SystemClock};
use waypost_ports::conformance::StoreUnderTest;
use waypost_ports::conformance::tasks::{TasksBackend, still_clock};
use waypost_ports::memory::{MemoryStore, MemoryTasks};

struct Memory(MemoryStore);

impl Memory {
    fn new() -> Self {
        Self(MemoryStore::new(Arc::new(SystemClock)))
    }
}

impl StoreUnderTest for Memory {
    type Store = MemoryStore;

    fn open(&self, clock: Arc<dyn Clock>) -> MemoryStore {
        self.0.with_clock(clock)
    }

    fn settle(&self, _: &MemoryStore) {}
}

waypost_ports::conformance_tests!(Memory::new);

struct Here {
    clock: Arc<ManualClock>,
    tasks: MemoryTasks,
}

impl Here {
    fn new() -> Self {
        let clock = still_clock();
        let tasks = MemoryTasks::new(Arc::clone(&clock) as Arc<dyn Clock>, [7; 32]);
        Self { clock, tasks }
    }
}

impl TasksBackend for Here {
    type Tasks = MemoryTasks;

    fn open(&self) -> MemoryTasks {
        self.tasks.clone()
    }

    fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }
}

waypost_ports::tasks_conformance_tests!(Here::new);
