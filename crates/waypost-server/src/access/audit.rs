//! The audit log: who did what, from where, and with which result. Durable and append-only.
//!
//! One thread gathers entries and writes them a few times a second, so that requests do not wait
//! for it. An entry is lost only if the process dies within that time; a request to an execution is
//! also in the execution's own log with its actor, in the same commit. If entries arrive faster
//! than they can be written, refusals are dropped first, and counted: a stranger who is rejected a
//! million times must not fill the disk, or displace entries of actions or of key holders'
//! refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use waypost_ports::access::{Access, AuditEntry};

/// How long entries gather.
const GATHER: Duration = Duration::from_millis(200);
/// Entries that wait to be written.
pub const WAITING_MAX: usize = 10_000;
/// Refusals of holders of keys that are written a gathering.
pub const REFUSALS_MAX: usize = 20;
/// Refusals of strangers that are written a gathering.
pub const STRANGERS_MAX: usize = 1;

/// Takes entries and writes them.
pub struct AuditLog {
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Waiting>,
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    entries: Vec<AuditEntry>,
    refusals: usize,
    strangers: usize,
    closed: bool,
}

impl AuditLog {
    /// Starts the thread.
    pub fn start(store: Arc<dyn Access>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("waypost-audit".to_owned())
            .spawn(move || write(&writer, &*store))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Adds an entry; never blocks.
    pub fn add(&self, entry: AuditEntry) {
        let mut waiting = self.shared.state.lock();
        let refusal = matches!(entry.status, 401 | 403 | 429);
        let stranger = refusal && &*entry.actor == "anonymous";
        waiting.strangers += usize::from(stranger);
        waiting.refusals += usize::from(refusal && !stranger);
        let crowded = match (refusal, stranger) {
            (false, _) => false,
            (true, true) => waiting.strangers > STRANGERS_MAX,
            (true, false) => waiting.refusals > REFUSALS_MAX,
        };
        if waiting.entries.len() >= WAITING_MAX || crowded {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.entries.push(entry);
        self.shared.changed.notify_one();
    }

    /// Entries that were not written.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Writes the gathered entries and ends the thread.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the audit log's thread panicked");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

fn write(shared: &Shared, store: &dyn Access) {
    let mut unwritten = Vec::new();
    loop {
        let mut waiting = shared.state.lock();
        while waiting.entries.is_empty() && unwritten.is_empty() && !waiting.closed {
            shared.changed.wait(&mut waiting);
        }
        // Only the end is worth waking for: more entries may gather.
        shared.changed.wait_while_for(&mut waiting, |waiting| !waiting.closed, GATHER);
        unwritten.append(&mut waiting.entries);
        (waiting.refusals, waiting.strangers) = (0, 0);
        let closed = waiting.closed;
        drop(waiting);
        match store.record(&unwritten) {
            Ok(()) => unwritten.clear(),
            Err(error) => {
                tracing::warn!(%error, entries = unwritten.len(), "could not write the audit log yet; retrying");
                let over = unwritten.len().saturating_sub(WAITING_MAX);
                unwritten.drain(..over);
                shared.dropped.fetch_add(over as u64, Ordering::Relaxed);
            }
        }
        if closed {
            return;
        }
    }
}
