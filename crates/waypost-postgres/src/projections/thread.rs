//! When to project: a thread that sleeps until something was appended, gathers a little more, and
//! projects it. Every second it gives the sweeper a turn.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use waypost_ports::store::StoreError;

use super::projector::{Projector, TICK};
use super::queue::Queue;

/// How long frames may gather before they are projected.
const GATHER: Duration = Duration::from_millis(100);

/// How long closing a store waits for the last rows. The sweeper of another process projects the rest.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct ProjectorThread {
    handle: Option<JoinHandle<()>>,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct Ended {
    is_so: Mutex<bool>,
    changed: Condvar,
}

impl ProjectorThread {
    pub(super) fn start(
        runtime: &Handle,
        queue: Arc<Queue>,
        projector: Projector,
    ) -> Result<Self, StoreError> {
        let runtime = runtime.clone();
        let ended = Arc::new(Ended::default());
        let tell = Arc::clone(&ended);
        let handle = std::thread::Builder::new()
            .name("projector".to_owned())
            .spawn(move || {
                runtime.block_on(run(&queue, projector));
                *tell.is_so.lock() = true;
                tell.changed.notify_all();
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Self { handle: Some(handle), ended })
    }

    /// Waits for its end; the queue is already stopping.
    pub(super) fn join(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let mut ended = self.ended.is_so.lock();
        if !*ended {
            self.ended.changed.wait_while_for(&mut ended, |ended| !*ended, STOP_TIMEOUT);
        }
        if *ended && handle.join().is_err() {
            tracing::error!("the projector panicked; other processes will project what is missing");
        }
    }
}

/// Blocks its thread while it waits: the thread has nothing else to do.
async fn run(queue: &Queue, mut projector: Projector) {
    loop {
        let patience = if projector.has_more_to_sweep() { Duration::ZERO } else { TICK };
        let Some(work) = queue.take(patience, GATHER) else { break };
        match projector.round(queue, work).await {
            Ok(true) => queue.done(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "the projections could not be written; trying again");
                queue.pause(TICK);
            }
        }
    }
    if let Err(error) = projector.end(queue).await {
        tracing::debug!(%error, "the last projections are left to another process");
    }
}
