//! The statements of the outbox, for the store in memory and for the simulator, which runs them one by one.

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::OutboxTables;
use crate::memory::Tables;
use crate::outbox::{
    AwaitedResult, ClaimedMessages, EndpointChange, EndpointRow, EndpointState, FORMER_SECRET_KEPT,
    MessageClaim, MessageResult, MessageRow, MessageState, MessagesPage, MessagesRequest,
    NewEndpoint, OutboxStats, Replay,
};
use crate::store::{Append, StoreError};
use crate::triggers::TriggerAt;

impl OutboxTables {
    /// Makes what dead instances have claimed due.
    fn release(&mut self, is_dead: impl Fn(InstanceId) -> bool, now: Timestamp) {
        if is_planted(Bug::MessageClaimedForEver) {
            return;
        }
        for kept in &mut self.messages {
            let is_held = kept.claim.is_some() && kept.row.due > now;
            if !is_held || !kept.claimer.is_some_and(&is_dead) {
                continue;
            }
            let ends = std::mem::replace(&mut kept.row.due, now);
            kept.claim = None;
            let id = &kept.row.message.name.endpoint;
            if let Some(row) = self.endpoints.iter_mut().find(|row| row.endpoint.id == *id) {
                row.health = row.health.released(ends, now);
            }
        }
    }
}

impl Tables {
    /// Keeps an endpoint.
    pub fn add_endpoint(
        &mut self,
        endpoint: &NewEndpoint,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if self.outbox.endpoint(&endpoint.id).is_some() {
            let id = &endpoint.id;
            return Err(StoreError::Refused(format!("there is an endpoint {id} already")));
        }
        self.outbox.endpoints.push(EndpointRow {
            endpoint: endpoint.clone(),
            state: EndpointState::Active,
            health: Default::default(),
            former: None,
            created_at: now,
        });
        Ok(())
    }

    /// Every endpoint, oldest first.
    pub fn endpoints(&self) -> &[EndpointRow] {
        &self.outbox.endpoints
    }

    /// Changes an endpoint; `false` where there is none of this id.
    pub fn change_endpoint(&mut self, id: &str, change: &EndpointChange, now: Timestamp) -> bool {
        let Some(row) = self.outbox.endpoint(id) else { return false };
        match change {
            EndpointChange::Pause => row.state = EndpointState::Paused,
            EndpointChange::Resume => {
                (row.state, row.health) = (EndpointState::Active, Default::default());
            }
            EndpointChange::Rotate(secret) => {
                let former = std::mem::replace(&mut row.endpoint.secret, secret.clone());
                row.former = Some((former, now.plus(FORMER_SECRET_KEPT)));
            }
        }
        true
    }

    /// Deletes an endpoint of a trigger that is still at this revision.
    pub fn delete_endpoint_of(&mut self, id: &str, at: TriggerAt) -> bool {
        self.triggers.is_trigger_at(at) && self.delete_endpoint(id)
    }

    /// Deletes an endpoint with all its messages; `false` where there is none of this id.
    pub fn delete_endpoint(&mut self, id: &str) -> bool {
        let before = self.outbox.endpoints.len();
        let OutboxTables { messages, awaited, .. } = &mut self.outbox;
        for kept in messages.iter().filter(|kept| *kept.row.message.name.endpoint == *id) {
            let is_it = |awaited: &&mut AwaitedResult| awaited.is_of(&kept.row.message.name);
            let Some(awaited) = awaited.iter_mut().find(is_it) else { continue };
            match kept.row.state {
                MessageState::Delivered => awaited.delivered += 1,
                MessageState::Pending | MessageState::Dead => awaited.failed += 1,
            }
        }
        self.outbox.endpoints.retain(|row| *row.endpoint.id != *id);
        self.outbox.messages.retain(|kept| *kept.row.message.name.endpoint != *id);
        self.outbox.endpoints.len() < before
    }

    /// Takes messages that are due.
    pub fn claim_messages(&mut self, request: &MessageClaim, now: Timestamp) -> ClaimedMessages {
        let reported = self.report_deliveries();
        let leases = &self.leases;
        let is_dead = |instance| {
            let until = leases.get(&instance).and_then(|lease| lease.until);
            until.is_some_and(|until| until <= now)
        };
        self.outbox.release(|claimer| claimer != request.instance && is_dead(claimer), now);
        let limit = if is_dead(request.instance) { 0 } else { request.limit };
        ClaimedMessages { reported, ..self.outbox.claim(&MessageClaim { limit, ..*request }, now) }
    }

    /// Records what became of claimed messages, and mails it to the nodes that wait for it. Returns which
    /// executions have mail now.
    pub fn settle_messages(
        &mut self,
        claim: Uuid,
        results: &[MessageResult],
        now: Timestamp,
    ) -> Vec<ExecutionNo> {
        results.iter().for_each(|result| self.outbox.settle(claim, result, now));
        if is_planted(Bug::SettledWithoutMail) {
            self.outbox.resolve();
        }
        self.report_deliveries()
    }

    /// All messages, oldest first.
    pub fn outbox_rows(&self) -> impl Iterator<Item = &MessageRow> {
        self.outbox.messages.iter().map(|kept| &kept.row)
    }

    /// A page of messages, newest first.
    pub fn list_messages(&self, request: &MessagesRequest) -> MessagesPage {
        let MessagesRequest { endpoint, execution, state, before, limit } = request;
        let mut rows: Vec<MessageRow> = self
            .outbox
            .messages
            .iter()
            .rev()
            .map(|kept| &kept.row)
            .filter(|row| before.is_none_or(|before| row.place < before))
            .filter(|row| state.is_none_or(|state| row.state == state))
            .filter(|row| endpoint.as_ref().is_none_or(|id| row.message.name.endpoint == *id))
            .filter(|row| execution.is_none_or(|number| row.message.name.execution == number))
            .take(limit.saturating_add(1))
            .cloned()
            .collect();
        let more = rows.len() > *limit;
        rows.truncate(*limit);
        MessagesPage { rows, more }
    }

    /// Sends messages again.
    pub fn replay_messages(&mut self, endpoint: &str, which: &Replay, now: Timestamp) -> u64 {
        self.outbox.replay(endpoint, which, now)
    }

    /// Deletes what is no longer kept.
    pub fn trim_outbox(&mut self, pending_max: usize, now: Timestamp) -> u64 {
        self.outbox.trim(pending_max, now)
    }

    /// Counts, for metrics.
    pub fn outbox_stats(&self, now: Timestamp) -> OutboxStats {
        self.outbox.stats(now)
    }

    /// Writes the messages of a frame that was committed before, as a planted bug has it.
    pub fn write_messages_late(&mut self, append: &Append, now: Timestamp) {
        for append in std::iter::once(append).chain(&append.side.births) {
            self.outbox.write(append, now);
        }
        self.report_deliveries();
    }
}
