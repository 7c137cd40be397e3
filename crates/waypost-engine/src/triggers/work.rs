//! The work on triggers, without the loop around it: one claim, one trigger that is due, one group of a window.
//! The runner makes Tokio tasks of it; the simulator runs it step by step.

use std::sync::Arc;

use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::TriggerKindName;
use waypost_ports::source::{PageSource, StreamReader};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::{ClaimedTriggers, DueGroup, TriggerClaim, TriggerRow};

use super::streams::{StreamEnd, Streams};
use super::successes::Successes;
use super::{FireError, FireResult, Firing, TriggerWakeups};

/// What the work on the triggers of an instance shares.
pub struct TriggerWork {
    pub(super) firing: Firing,
    pub(super) pages: Arc<dyn PageSource>,
    pub(super) streams: Streams,
    pub(super) wakeups: TriggerWakeups,
    pub(super) successes: Successes,
}

impl TriggerWork {
    /// Over what reads the pages of polls and the sources of streams.
    pub fn new(
        firing: Firing,
        pages: Arc<dyn PageSource>,
        streams: Arc<dyn StreamReader>,
        wakeups: TriggerWakeups,
    ) -> Self {
        let (streams, successes) = (Streams::new(streams), Successes::default());
        Self { firing, pages, streams, wakeups, successes }
    }

    /// Claims triggers that are due, for a time in which others leave them alone.
    pub async fn claim(&self, request: TriggerClaim) -> Result<ClaimedTriggers, StoreError> {
        self.firing.call(move |triggers| triggers.claim_triggers(&request)).await
    }

    /// Claims groups of windows that are due.
    pub async fn claim_groups(
        &self,
        limit: usize,
        lease: Millis,
    ) -> Result<Vec<DueGroup>, StoreError> {
        self.firing.call(move |triggers| triggers.claim_groups(limit, lease)).await
    }

    /// Does what is due of a trigger at a time of the store; returns when it is due again, if that is known.
    pub async fn on_trigger(
        &self,
        row: TriggerRow,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, FireError> {
        Ok(self.on_row(row, now).await?.due)
    }

    /// The same, and who watches its source until then.
    pub(super) async fn on_row(
        &self,
        row: TriggerRow,
        now: Timestamp,
    ) -> Result<StreamEnd, FireError> {
        let due = match row.kind {
            TriggerKindName::Schedule => self.on_schedule(row, now).await?,
            TriggerKindName::Poll => self.on_poll(row, now).await?,
            TriggerKindName::Stream => return self.on_stream(row, now).await,
            TriggerKindName::Webhook | TriggerKindName::Event | TriggerKindName::WorkflowEnded => {
                None
            }
        };
        Ok(StreamEnd { due, ..StreamEnd::default() })
    }

    /// Fires a group of a window or of a throttle.
    pub async fn flush(&self, group: &DueGroup) -> Result<FireResult, FireError> {
        self.firing.flush(group).await
    }
}
