//! When to project: a thread that sleeps until something was appended, lets a little more come, and works
//! it off. Now and then it looks whether somebody died and left something behind.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use waypost_ports::store::StoreError;

use super::projector::Projector;
use super::queue::Queue;

/// How long frames may gather before they are shown.
const GATHER: Duration = Duration::from_millis(100);

/// How often to look around, and to try again after an error.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long whoever closes a store waits for the last rows. What is not shown by then is shown by another
/// process.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The thread that writes the projections.
pub(super) struct ProjectorThread {
    handle: Option<JoinHandle<()>>,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct Ended {
    is_so: Mutex<bool>,
    told: Condvar,
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
                tell.told.notify_all();
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Self { handle: Some(handle), ended })
    }

    /// Waits for its end; the queue has been told to stop.
    pub(super) fn join(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let mut ended = self.ended.is_so.lock();
        if !*ended {
            self.ended.told.wait_while_for(&mut ended, |ended| !*ended, STOP_TIMEOUT);
        }
        if *ended && handle.join().is_err() {
            tracing::error!("the projector panicked; other processes will project what is missing");
        }
    }
}

/// Blocks its thread while it waits, which has nothing else to do.
async fn run(queue: &Queue, mut projector: Projector) {
    let mut looked = Instant::now();
    loop {
        let patience = if projector.is_unsettled() { GATHER } else { LOOK_AGAIN };
        let Some(work) = queue.take(patience, GATHER) else { break };
        let mut result = projector.round(queue, work).await;
        if matches!(result, Ok(true)) {
            queue.shown();
            if looked.elapsed() >= LOOK_AGAIN {
                looked = Instant::now();
                result = projector.take_over().await;
            }
        }
        if let Err(error) = result {
            tracing::warn!(%error, "the projections could not be written; trying again");
            queue.pause(LOOK_AGAIN);
        }
    }
    end(queue, projector).await;
}

/// Shows what is left. A process that owes nothing says so; one that does is taken for dead in time.
async fn end(queue: &Queue, mut projector: Projector) {
    let rest = queue.rest();
    let all_heard = rest.heard_before == queue.next_append();
    let result = match projector.round(queue, rest).await {
        Ok(true) if all_heard => projector.leave().await,
        other => other.map(drop),
    };
    if let Err(error) = result {
        tracing::debug!(%error, "the last projections are left to another process");
    }
}
