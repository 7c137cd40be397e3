//! The inputs of all drivers: one queue for each engine thread, and what leads an input to one of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::BatchQueue;
use crate::driver::{Input, least, route};

/// See the module.
pub(crate) struct InputQueues {
    queues: Box<[InputQueue]>,
}

#[derive(Default)]
struct InputQueue {
    inputs: BatchQueue<Input>,
    /// Submissions in the queue, and what the driver had after its last step.
    starts: AtomicUsize,
    load: AtomicUsize,
}

impl InputQueues {
    pub(crate) fn new(drivers: u32) -> Self {
        Self { queues: (0..drivers).map(|_| InputQueue::default()).collect() }
    }

    pub(crate) fn drivers(&self) -> usize {
        self.queues.len()
    }

    /// Sends an input to the drivers that it is for.
    pub(crate) fn push(&self, input: Input) {
        route(input, self.queues.len(), || self.least(), |driver, input| self.send(driver, input));
    }

    pub(crate) fn extend(&self, inputs: impl IntoIterator<Item = Input>) {
        inputs.into_iter().for_each(|input| self.push(input));
    }

    /// Sends an input to one driver.
    pub(crate) fn send(&self, driver: usize, input: Input) {
        let Some(queue) = self.queues.get(driver) else { return };
        if self.queues.len() > 1 && matches!(input, Input::Start(_)) {
            queue.starts.fetch_add(1, Ordering::Relaxed);
        }
        queue.inputs.push(input);
    }

    /// Sends an input of a driver to those whose bits are set, first to its next: where one slot is free,
    /// the first to be woken gets it.
    pub(crate) fn forward(&self, from: usize, to: u64, input: &Input) {
        let count = self.queues.len();
        let drivers = (1..count).map(|next| (from + next) % count);
        for driver in drivers.filter(|driver| to & 1 << driver != 0) {
            if let Some(copy) = input.copy() {
                self.send(driver, copy);
            }
        }
    }

    /// The queue of one driver.
    pub(crate) fn of(&self, driver: usize) -> &BatchQueue<Input> {
        &self.queues[driver].inputs
    }

    /// A driver took so many submissions, and has so many executions after its step.
    pub(crate) fn stepped(&self, driver: usize, starts: usize, load: usize) {
        if let Some(queue) = self.queues.get(driver).filter(|_| self.queues.len() > 1) {
            queue.load.store(load, Ordering::Relaxed);
            queue.starts.fetch_sub(starts, Ordering::Relaxed);
        }
    }

    fn least(&self) -> usize {
        let load = |queue: &InputQueue| {
            queue.starts.load(Ordering::Relaxed) + queue.load.load(Ordering::Relaxed)
        };
        least(self.queues.iter().map(load))
    }
}
