//! The store in memory keeps the promises of every store, and so do tasks and blobs in memory.

use std::sync::Arc;

use waypost_core::blob::BlobDigest;
use waypost_core::time::Millis;
use waypost_ports::blobs::{Blobs, MemoryBlobs};
use waypost_ports::clock::{Clock, ManualClock, SystemClock};
use waypost_ports::conformance::StoreUnderTest;
use waypost_ports::conformance::blobs::BlobsBackend;
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

struct Kept {
    clock: Arc<ManualClock>,
    blobs: MemoryBlobs,
}

impl Kept {
    fn new() -> Self {
        let clock = still_clock();
        Self { blobs: MemoryBlobs::new(Arc::clone(&clock) as Arc<dyn Clock>), clock }
    }
}

impl BlobsBackend for Kept {
    type Blobs = MemoryBlobs;

    fn open(&self) -> MemoryBlobs {
        self.blobs.clone()
    }

    fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }

    fn damage(&self, digest: &BlobDigest) {
        self.blobs.damage(digest);
    }

    fn stored(&self) -> usize {
        self.blobs.list(None, usize::MAX).expect("memory answers").len()
    }
}

waypost_ports::blobs_conformance_tests!(Kept::new);
