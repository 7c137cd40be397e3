//! The store's own runtime, and waiting for what happens on it, on whatever thread the caller is.

use tokio::runtime::{Builder, Handle, Runtime};
use waypost_ports::store::StoreError;

/// Threads that carry statements. They only move bytes.
const THREADS: usize = 2;

/// A runtime that may be dropped anywhere, also on a thread of another runtime: the drop does not
/// wait for its tasks.
pub(crate) struct Threads(Option<Runtime>);

impl Threads {
    pub(crate) fn start() -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("waypost-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Unavailable(format!("cannot start threads: {error}")))?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a future to its end. If the caller is on a thread of another runtime, which must have
/// several, that thread is released for as long as that takes: commands of the command line are
/// such callers.
pub(crate) fn wait<T>(runtime: &Handle, future: impl Future<Output = T>) -> T {
    match Handle::try_current() {
        Err(_) => runtime.block_on(future),
        Ok(_) => tokio::task::block_in_place(|| runtime.block_on(future)),
    }
}
