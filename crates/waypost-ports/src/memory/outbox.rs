//! Webhook endpoints and their messages, as the store in memory keeps them.

mod statements;

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::outbox::MessageKind;
use waypost_core::outbox::delivery::{MessageNext, judge};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};

use super::MemoryStore;
use crate::outbox::{
    AwaitedResult, ClaimedMessages, DEAD_KEPT, DELIVERED_KEPT, EXPIRED, EndpointChange,
    EndpointRow, EndpointState, LastAttempt, MessageClaim, MessageName, MessageResult, MessageRow,
    MessageState, MessagesPage, MessagesRequest, NewEndpoint, OVER_QUOTA, Outbox, OutboxMessage,
    OutboxStats, PENDING_KEPT, Replay, TRIM_MAX, frame_mark, is_trigger_endpoint,
};
use crate::store::{Append, StoreError};
use crate::triggers::TriggerAt;

/// How long the claims of a planted bug last.
const FOR_EVER: Millis = Millis::from_secs(1_000 * 24 * 3_600);

#[derive(Clone, Default)]
pub(super) struct OutboxTables {
    /// Oldest first.
    endpoints: Vec<EndpointRow>,
    messages: Vec<KeptMessage>,
    /// Messages that nodes wait for.
    awaited: Vec<AwaitedResult>,
    last_place: u64,
}

#[derive(Clone)]
struct KeptMessage {
    row: MessageRow,
    claim: Option<Uuid>,
    /// Whose claim it is or was.
    claimer: Option<InstanceId>,
    /// Since when it is pending.
    since: Timestamp,
}

impl KeptMessage {
    fn is_pending(&self) -> bool {
        self.row.state == MessageState::Pending
    }

    fn settle(&mut self, state: MessageState, now: Timestamp) {
        (self.row.state, self.row.settled_at, self.claim) = (state, Some(now), None);
    }

    fn expire(&mut self, reason: &str, now: Timestamp) {
        self.settle(MessageState::Dead, now);
        let last = self.row.last.take();
        let (status, took) = last.map_or((None, Millis(0)), |last| (last.status, last.took));
        self.row.last = Some(LastAttempt { status, took, reason: Some(reason.into()) });
    }
}

impl OutboxTables {
    /// The rows of a frame that went in.
    pub(super) fn enqueue(&mut self, append: &Append, now: Timestamp) {
        if !is_planted(Bug::MessageOutsideCommit) {
            self.write(append, now);
        }
    }

    fn write(&mut self, append: &Append, now: Timestamp) {
        let header = &append.header;
        for outgoing in &append.side.messages {
            if outgoing.awaited {
                let mark = frame_mark(header.append_id.0);
                let (execution, seq) = (header.execution, outgoing.seq);
                self.awaited.push(AwaitedResult { execution, seq, mark, delivered: 0, failed: 0 });
            }
            for row in &self.endpoints {
                let NewEndpoint { id, workflow, kinds, .. } = &row.endpoint;
                let is_of = workflow.as_ref().is_none_or(|name| *name == outgoing.workflow);
                if !is_of || !kinds.contains(outgoing.kind) || row.state == EndpointState::Disabled
                {
                    continue;
                }
                self.last_place += 1;
                let name = MessageName {
                    endpoint: Arc::clone(id),
                    execution: header.execution,
                    seq: outgoing.seq,
                    mark: frame_mark(header.append_id.0),
                };
                let message = OutboxMessage {
                    name,
                    kind: outgoing.kind,
                    at: now,
                    frame_seq: header.first_seq,
                    data: outgoing.data.render().into_owned(),
                };
                let row = MessageRow {
                    place: self.last_place,
                    message,
                    state: MessageState::Pending,
                    attempts: 0,
                    due: now,
                    last: None,
                    settled_at: None,
                };
                self.messages.push(KeptMessage { row, claim: None, claimer: None, since: now });
            }
        }
    }

    /// The messages that nodes wait for and that no endpoint waits for any more.
    pub(super) fn resolve(&mut self) -> Vec<AwaitedResult> {
        let mut resolved = Vec::new();
        let messages = &self.messages;
        self.awaited.retain(|awaited| {
            let is_it = |kept: &&KeptMessage| awaited.is_of(&kept.row.message.name);
            let count = |state| {
                let of = messages.iter().filter(is_it);
                of.filter(|kept| kept.row.state == state).count() as u64
            };
            let is_over =
                is_planted(Bug::FirstEndpointIsEnough) && count(MessageState::Delivered) > 0;
            let is_pending = count(MessageState::Pending) > 0 && !is_over;
            if !is_pending {
                resolved.push(AwaitedResult {
                    delivered: awaited.delivered + count(MessageState::Delivered),
                    failed: awaited.failed + count(MessageState::Dead),
                    ..*awaited
                });
            }
            is_pending
        });
        resolved
    }

    fn endpoint(&mut self, id: &str) -> Option<&mut EndpointRow> {
        self.endpoints.iter_mut().find(|row| *row.endpoint.id == *id)
    }

    /// The first pending message of each execution for an endpoint: when it is due, and where it is.
    fn heads(&self, endpoint: &str) -> Vec<(Timestamp, usize)> {
        let mut pending: Vec<(ExecutionNo, u64, usize)> = self
            .messages
            .iter()
            .enumerate()
            .filter(|(_, kept)| kept.is_pending() && *kept.row.message.name.endpoint == *endpoint)
            .map(|(at, kept)| (kept.row.message.name.execution, kept.row.message.name.seq, at))
            .collect();
        pending.sort_unstable();
        if !is_planted(Bug::MessageOvertakes) {
            pending.dedup_by_key(|(execution, ..)| *execution);
        }
        let mut heads: Vec<_> =
            pending.iter().map(|(.., at)| (self.messages[*at].row.due, *at)).collect();
        heads.sort_unstable();
        heads
    }

    fn claim(&mut self, request: &MessageClaim, now: Timestamp) -> ClaimedMessages {
        let lease = if is_planted(Bug::MessageClaimedForEver) { FOR_EVER } else { request.lease };
        let ends = now.plus(lease);
        let mut claimed = ClaimedMessages {
            endpoints: !self.endpoints.is_empty(),
            handoffs: self
                .endpoints
                .iter()
                .any(|row| row.endpoint.kinds.contains(MessageKind::Handoff)),
            at: now,
            ..ClaimedMessages::default()
        };
        for at in 0..self.endpoints.len() {
            let endpoint = self.endpoints[at].clone();
            let for_trigger = is_trigger_endpoint(&endpoint.endpoint.id);
            if endpoint.state != EndpointState::Active || for_trigger && !request.for_triggers {
                continue;
            }
            let id = Arc::clone(&endpoint.endpoint.id);
            let under_way = |kept: &&KeptMessage| {
                kept.claim.is_some() && kept.row.due > now && kept.row.message.name.endpoint == id
            };
            let in_flight = self.messages.iter().filter(under_way).count();
            let room = endpoint.health.room(in_flight, now);
            let room = room.min(request.limit.saturating_sub(claimed.messages.len()));
            let heads = self.heads(&id);
            let taken = heads.iter().take_while(|(due, _)| *due <= now).take(room).count();
            let endpoint = Arc::new(endpoint);
            for (_, at) in &heads[..taken] {
                let kept = &mut self.messages[*at];
                (kept.claim, kept.claimer) = (Some(request.claim), Some(request.instance));
                kept.row.due = ends;
                claimed.messages.push((kept.row.message.clone(), Arc::clone(&endpoint)));
            }
            let row = &mut self.endpoints[at];
            if taken > 0 {
                row.health = row.health.claimed(ends);
            }
            let probe_at = row.health.probe_at;
            let next =
                self.heads(&id).first().map(|(due, _)| probe_at.map_or(*due, |at| at.max(*due)));
            claimed.next_due = claimed.next_due.into_iter().chain(next).min();
        }
        claimed
    }

    fn settle(&mut self, claim: Uuid, result: &MessageResult, now: Timestamp) {
        let is_it = |kept: &&mut KeptMessage| {
            kept.row.message.name == result.name && kept.claim == Some(claim) && kept.is_pending()
        };
        let Some(kept) = self.messages.iter_mut().find(is_it) else { return };
        let found = self.endpoints.iter_mut().find(|row| row.endpoint.id == result.name.endpoint);
        let Some(endpoint) = found else { return };
        let verdict = judge(endpoint.health, kept.row.attempts, &result.result, now, result.jitter);
        endpoint.health = verdict.health;
        if verdict.disables {
            endpoint.state = EndpointState::Disabled;
        }
        kept.row.attempts = verdict.attempts;
        kept.row.last = Some(LastAttempt {
            status: result.result.status(),
            took: result.took,
            reason: result.result.reason().map(Into::into),
        });
        match verdict.message {
            MessageNext::Delivered => kept.settle(MessageState::Delivered, now),
            MessageNext::Dead => kept.settle(MessageState::Dead, now),
            MessageNext::Retry { due } => (kept.claim, kept.row.due) = (None, due),
        }
    }

    fn replay(&mut self, endpoint: &str, which: &Replay, now: Timestamp) -> u64 {
        let mut replayed = 0;
        for kept in &mut self.messages {
            let (message, state) = (&kept.row.message, kept.row.state);
            let is_chosen = match which {
                Replay::Dead => state == MessageState::Dead,
                Replay::Since(time) => message.at >= *time,
                Replay::Only(names) => names.contains(&message.name),
            };
            if kept.is_pending() || !is_chosen || *message.name.endpoint != *endpoint {
                continue;
            }
            (kept.row.state, kept.row.attempts, kept.row.due) = (MessageState::Pending, 0, now);
            (kept.row.settled_at, kept.since) = (None, now);
            replayed += 1;
        }
        replayed
    }

    fn trim(&mut self, pending_max: usize, now: Timestamp) -> u64 {
        let mut changed = 0;
        let before = self.messages.len();
        let mut deleted = 0;
        self.messages.retain(|kept| {
            let is_it = |awaited: &AwaitedResult| awaited.is_of(&kept.row.message.name);
            let keep = match kept.row.state {
                MessageState::Pending => return true,
                _ if self.awaited.iter().any(is_it) => return true, // its result counts it
                MessageState::Delivered => DELIVERED_KEPT,
                MessageState::Dead => DEAD_KEPT,
            };
            let is_old = kept.row.settled_at.is_some_and(|at| now.since(at) > keep);
            deleted += usize::from(is_old && deleted < TRIM_MAX);
            !is_old || deleted > TRIM_MAX
        });
        changed += before - self.messages.len();
        let ids: BTreeSet<Arc<str>> =
            self.endpoints.iter().map(|row| Arc::clone(&row.endpoint.id)).collect();
        for id in ids {
            let pending =
                |kept: &&mut KeptMessage| kept.is_pending() && kept.row.message.name.endpoint == id;
            let waiting = self.messages.iter_mut().filter(pending).count();
            let over = waiting.saturating_sub(pending_max);
            for (at, kept) in self.messages.iter_mut().filter(pending).enumerate() {
                if at < over {
                    kept.expire(OVER_QUOTA, now);
                    changed += 1;
                } else if now.since(kept.since) > PENDING_KEPT {
                    kept.expire(EXPIRED, now);
                    changed += 1;
                }
            }
        }
        changed as u64
    }

    fn stats(&self, now: Timestamp) -> OutboxStats {
        let mut stats = OutboxStats { at: now, ..OutboxStats::default() };
        for row in &self.endpoints {
            match row.state {
                EndpointState::Active => stats.active += 1,
                EndpointState::Paused => stats.paused += 1,
                EndpointState::Disabled => stats.disabled += 1,
            }
            let is_active = row.state == EndpointState::Active;
            stats.cooling += u64::from(is_active && row.health.probe_at.is_some());
        }
        for kept in &self.messages {
            match kept.row.state {
                MessageState::Pending => stats.pending += 1,
                MessageState::Dead => stats.dead += 1,
                MessageState::Delivered => {}
            }
            let is_active = |row: &EndpointRow| {
                row.endpoint.id == kept.row.message.name.endpoint
                    && row.state == EndpointState::Active
            };
            if kept.is_pending() && self.endpoints.iter().any(is_active) {
                stats.oldest = stats.oldest.into_iter().chain([kept.since]).min();
            }
        }
        stats
    }
}

impl Outbox for MemoryStore {
    fn add_endpoint(&self, endpoint: &NewEndpoint) -> Result<(), StoreError> {
        self.with(|data, now| data.add_endpoint(endpoint, now))
    }

    fn endpoints(&self) -> Result<Vec<EndpointRow>, StoreError> {
        self.with(|data, _| Ok(data.endpoints().to_vec()))
    }

    fn change_endpoint(&self, id: &str, change: &EndpointChange) -> Result<bool, StoreError> {
        self.with(|data, now| Ok(data.change_endpoint(id, change, now)))
    }

    fn delete_endpoint(&self, id: &str) -> Result<bool, StoreError> {
        self.with(|data, _| Ok(data.delete_endpoint(id)))
    }

    fn delete_endpoint_of(&self, id: &str, at: TriggerAt) -> Result<bool, StoreError> {
        self.with(|data, _| Ok(data.delete_endpoint_of(id, at)))
    }

    fn claim_messages(&self, request: &MessageClaim) -> Result<ClaimedMessages, StoreError> {
        self.with(|data, now| Ok(data.claim_messages(request, now)))
    }

    fn settle_messages(
        &self,
        claim: Uuid,
        results: &[MessageResult],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.with(|data, now| Ok(data.settle_messages(claim, results, now)))
    }

    fn messages(&self, request: &MessagesRequest) -> Result<MessagesPage, StoreError> {
        self.with(|data, _| Ok(data.list_messages(request)))
    }

    fn replay_messages(&self, endpoint: &str, which: &Replay) -> Result<u64, StoreError> {
        self.with(|data, now| Ok(data.replay_messages(endpoint, which, now)))
    }

    fn trim_outbox(&self, pending_max: usize) -> Result<u64, StoreError> {
        self.with(|data, now| Ok(data.trim_outbox(pending_max, now)))
    }

    fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        self.with(|data, now| Ok(data.outbox_stats(now)))
    }
}
