//! The ports of triggers and of the outbox, through a connection that fails.

use uuid::Uuid;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Millis;
use waypost_core::trigger::ItemDigest;
use waypost_ports::outbox::{
    ClaimedMessages, EndpointChange, EndpointRow, MessageClaim, MessageResult, MessagesPage,
    MessagesRequest, NewEndpoint, Outbox, OutboxStats, Replay,
};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::{
    Arrival, Arrived, ClaimedTriggers, DeadFireRow, DeadFireState, DeadFiresRequest, DueGroup,
    FireRow, FiresPage, FiresRequest, Settlement, TriggerAt, TriggerChange, TriggerClaim,
    TriggerNo, TriggerRow, TriggerStats, Triggers, TriggersPage, TriggersRequest, WaitingEvents,
};

use super::Connection;

impl Triggers for Connection {
    fn claim_triggers(&self, request: &TriggerClaim) -> Result<ClaimedTriggers, StoreError> {
        self.call(true, |tables, now| tables.claim_triggers(request, now))
    }

    fn release_trigger(&self, trigger: TriggerNo, seq: u64) -> Result<(), StoreError> {
        self.call(true, |tables, _| tables.release_trigger(trigger, seq))
    }

    fn settle_trigger(&self, settlement: &Settlement) -> Result<bool, StoreError> {
        self.call(true, |tables, now| tables.settle_trigger(settlement, now))
    }

    fn trigger(&self, workflow: &str, name: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.call(false, |tables, _| tables.trigger(workflow, name))
    }

    fn triggers(&self, request: &TriggersRequest) -> Result<TriggersPage, StoreError> {
        self.call(false, |tables, now| tables.list_triggers(request, now))
    }

    fn roster_revision(&self) -> Result<u64, StoreError> {
        self.call(false, |tables, _| tables.roster_revision())
    }

    fn change_trigger(
        &self,
        at: TriggerAt,
        change: &TriggerChange,
    ) -> Result<Option<TriggerRow>, StoreError> {
        self.call(true, |tables, _| tables.change_trigger(at, change))
    }

    fn fired(
        &self,
        trigger: TriggerNo,
        items: &[ItemDigest],
    ) -> Result<Vec<Option<FireRow>>, StoreError> {
        self.call(false, |tables, _| tables.fired(trigger, items))
    }

    fn fires(&self, request: &FiresRequest) -> Result<FiresPage, StoreError> {
        self.call(false, |tables, _| tables.list_fires(request))
    }

    fn open_executions(
        &self,
        trigger: TriggerNo,
        limit: usize,
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.call(false, |tables, _| tables.open_executions(trigger, limit))
    }

    fn arrive(&self, arrivals: &[Arrival]) -> Result<Vec<Arrived>, StoreError> {
        self.call(true, |tables, now| tables.arrive(arrivals, now))
    }

    fn waiting_events(&self, trigger: TriggerNo) -> Result<WaitingEvents, StoreError> {
        self.call(false, |tables, _| tables.waiting_events(trigger))
    }

    fn claim_groups(&self, limit: usize, lease: Millis) -> Result<Vec<DueGroup>, StoreError> {
        self.call(true, |tables, now| tables.claim_groups(limit, lease, now))
    }

    fn dead_fires(&self, request: &DeadFiresRequest) -> Result<Vec<DeadFireRow>, StoreError> {
        self.call(false, |tables, _| tables.list_dead_fires(request))
    }

    fn settle_dead_fire(&self, id: i64, state: DeadFireState) -> Result<bool, StoreError> {
        self.call(true, |tables, _| tables.settle_dead_fire(id, state))
    }

    fn trim_triggers(&self) -> Result<u64, StoreError> {
        self.call(true, |tables, now| tables.trim_triggers(now))
    }

    fn trigger_stats(&self) -> Result<TriggerStats, StoreError> {
        self.call(false, |tables, now| tables.trigger_stats(now))
    }
}

impl Outbox for Connection {
    fn add_endpoint(&self, endpoint: &NewEndpoint) -> Result<(), StoreError> {
        self.call(true, |tables, now| tables.add_endpoint(endpoint, now))?
    }

    fn endpoints(&self) -> Result<Vec<EndpointRow>, StoreError> {
        self.call(false, |tables, _| tables.endpoints().to_vec())
    }

    fn change_endpoint(&self, id: &str, change: &EndpointChange) -> Result<bool, StoreError> {
        self.call(true, |tables, now| tables.change_endpoint(id, change, now))
    }

    fn delete_endpoint(&self, id: &str) -> Result<bool, StoreError> {
        self.call(true, |tables, _| tables.delete_endpoint(id))
    }

    fn delete_endpoint_of(&self, id: &str, at: TriggerAt) -> Result<bool, StoreError> {
        self.call(true, |tables, _| tables.delete_endpoint_of(id, at))
    }

    fn claim_messages(&self, request: &MessageClaim) -> Result<ClaimedMessages, StoreError> {
        self.call(true, |tables, now| tables.claim_messages(request, now))
    }

    fn settle_messages(
        &self,
        claim: Uuid,
        results: &[MessageResult],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.call(true, |tables, now| tables.settle_messages(claim, results, now))
    }

    fn messages(&self, request: &MessagesRequest) -> Result<MessagesPage, StoreError> {
        self.call(false, |tables, _| tables.list_messages(request))
    }

    fn replay_messages(&self, endpoint: &str, which: &Replay) -> Result<u64, StoreError> {
        self.call(true, |tables, now| tables.replay_messages(endpoint, which, now))
    }

    fn trim_outbox(&self, pending_max: usize) -> Result<u64, StoreError> {
        self.call(true, |tables, now| tables.trim_outbox(pending_max, now))
    }

    fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        self.call(false, |tables, now| tables.outbox_stats(now))
    }
}
