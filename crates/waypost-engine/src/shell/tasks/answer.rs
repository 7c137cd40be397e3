//! The answer to a poll, on its way from the tasks thread to the caller. Its receiver may be
//! dropped at any moment; an answer that was sent and not read goes back to the tasks thread.

use std::sync::Arc;

use tokio::sync::oneshot;
use waypost_core::id::WorkerId;
use waypost_ports::store::StoreError;
use waypost_ports::tasks::Offer;

use super::TasksOrder;
use crate::shell::Shared;
use crate::shell::remote_tasks::{Polled, WorkerPoll};

pub(crate) type Reply = oneshot::Sender<Result<Given, StoreError>>;

/// A worker's tasks, and the offers that they came from, in the same order: to put them back.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) polled: Polled,
    pub(crate) offers: Vec<Offer>,
}

/// Waits for the answer to a poll. Safe to drop.
pub(crate) struct PollAnswer {
    given: oneshot::Receiver<Result<Given, StoreError>>,
    worker: WorkerId,
    leaving: bool,
    shared: Arc<Shared>,
}

impl PollAnswer {
    pub(crate) fn to(poll: &WorkerPoll, shared: &Arc<Shared>) -> (Reply, Self) {
        let (reply, given) = oneshot::channel();
        let WorkerPoll { worker, leaving, .. } = *poll;
        (reply, Self { given, worker, leaving, shared: Arc::clone(shared) })
    }

    /// The answer; `None` where there will be none.
    pub(crate) async fn wait(&mut self) -> Option<Result<Given, StoreError>> {
        (&mut self.given).await.ok()
    }
}

impl Drop for PollAnswer {
    fn drop(&mut self) {
        self.given.close();
        if let Ok(Ok(Given { polled, offers })) = self.given.try_recv() {
            // A leaving worker has nothing left to cancel.
            let cancel = if self.leaving { Vec::new() } else { polled.cancel };
            if !(cancel.is_empty() && offers.is_empty()) {
                self.shared.task_orders.push(TasksOrder::Undelivered(self.worker, cancel, offers));
            }
        }
    }
}
