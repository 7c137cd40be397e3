//! The queues of the store threads; `store.rs` has the threads.

use std::sync::Arc;

use super::BatchQueue;
use crate::driver::StoreWork;

#[expect(clippy::large_enum_variant, reason = "nearly all of them are appends")]
pub(crate) enum Order {
    Perform(StoreWork),
    /// Send the next heartbeat now.
    Renew,
    Stop,
}

pub(crate) struct Lanes {
    pub(crate) appends: Arc<BatchQueue<Order>>,
    pub(crate) errands: Arc<BatchQueue<Order>>,
    pub(crate) mail: Arc<BatchQueue<Order>>,
    pub(crate) renewals: Arc<BatchQueue<Order>>,
}

impl Lanes {
    pub(crate) fn new(append_lanes: usize) -> Self {
        let renewals = Arc::default();
        let lane = || if append_lanes == 0 { Arc::clone(&renewals) } else { Arc::default() };
        Self { appends: lane(), errands: lane(), mail: lane(), renewals }
    }

    /// Takes work other than appends.
    pub(crate) fn take_in(&self, work: Vec<StoreWork>) {
        let is_mail = |work: &StoreWork| matches!(work, StoreWork::Deliver(_));
        let (mail, errands): (Vec<_>, Vec<_>) = work.into_iter().partition(is_mail);
        for (lane, work) in [(&self.mail, mail), (&self.errands, errands)] {
            if !work.is_empty() {
                lane.extend(work.into_iter().map(Order::Perform));
            }
        }
    }

    /// Ends every lane, when it has done its work.
    pub(crate) fn stop(&self) {
        for lane in [&self.appends, &self.errands, &self.mail, &self.renewals] {
            lane.push(Order::Stop);
        }
    }
}
