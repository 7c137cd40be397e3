//! The rows of the store in memory, and the statements that its operations are made of.
//!
//! A statement is what a database does at one moment: it sees everything that was committed before
//! and nothing that comes later. An operation of a store is several of them, and others may come in
//! between. That is where stores go wrong, so the seams are public:
//!
//! ```text
//!   append    find_parents ─▶ insert ─▶ outcome, wake_parked     (the first two are one statement,
//!   deliver   put ─▶ wake                                         whose reads may be older than its
//!   claim     sweep ─▶ list_claimable ─▶ take                     writes)
//! ```
//!
//! They are in `appending.rs`, `inbox.rs` and `claiming.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::breaker::BreakerState;
use waypost_core::event::MessageId;
use waypost_core::frame::FrameHeader;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::permits::PermitRequest;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::appending::first_submission;
use super::blob_refs::BlobTables;
use super::outbox::OutboxTables;
use super::reading::Pages;
use super::topics::TopicTables;
use super::triggers::TriggerTables;
use crate::access::{AuditEntry, KeyRow};
use crate::store::{
    About, Append, Control, ControlChange, Definition, Heartbeat, Mail, Renewal, Settled, Snapshot,
    StoredFrame, Urgency,
};

/// See the module.
#[derive(Clone, Default)]
pub struct Tables {
    pub pages: Pages,
    /// The latest time ever given out.
    latest: Timestamp,
    /// The last number reserved for an execution.
    last_number: i64,
    /// Of every instance that announced itself.
    pub(super) leases: BTreeMap<InstanceId, LeaseRow>,
    pub(super) frames: BTreeMap<(ExecutionNo, u64), StoredFrame>,
    /// The places of the frames, in the order of their commits.
    pub(super) commits: Vec<(ExecutionNo, u64)>,
    pub(super) control: BTreeMap<ExecutionNo, ControlRow>,
    /// In the order of arrival.
    pub(super) inbox: Vec<Mail>,
    pub(super) keys: BTreeMap<ExecutionId, ExecutionNo>,
    pub(super) idempotency: BTreeMap<Arc<str>, (ExecutionNo, [u8; 32])>,
    pub(super) snapshots: BTreeMap<ExecutionNo, KeptSnapshot>,
    /// The queues of all concurrency keys, by ticket: in the order of commits.
    pub(super) permits: BTreeMap<i64, PermitRow>,
    pub(super) definitions: Vec<KeptDefinition>,
    pub(super) current_versions: BTreeMap<Arc<str>, u32>,
    /// In the order in which they were added.
    pub(super) api_keys: Vec<KeyRow>,
    pub(super) blobs: BlobTables,
    pub(super) outbox: OutboxTables,
    pub(super) topics: TopicTables,
    pub(super) triggers: TriggerTables,
    pub(super) breakers: BTreeMap<Arc<str>, BreakerState>,
    /// Places that were reserved in the trees below these roots, and when the last ones were.
    pub(super) trees: BTreeMap<ExecutionId, (u64, Timestamp)>,
    /// In the order in which it was recorded.
    pub(super) audit: Vec<AuditEntry>,
}

#[derive(Clone, Default)]
pub(super) struct LeaseRow {
    /// `None` once it was ended.
    pub(super) until: Option<Timestamp>,
    pub(super) fold: u16,
    /// What the instance published about itself, and when.
    pub(super) about: About,
    pub(super) renewed_at: Option<Timestamp>,
}

#[derive(Clone)]
pub(super) struct KeptDefinition {
    pub(super) definition: Definition,
    pub(super) created_at: Timestamp,
}

#[derive(Clone)]
pub(super) struct ControlRow {
    pub(super) control: Control,
    /// The least urgent mail that makes it ready.
    pub(super) wakes_from: Urgency,
    /// Mail that was there when it was quarantined, and does not wake it.
    pub(super) deaf_to: Vec<MessageId>,
    /// The lowest fold that can read its frames.
    pub(super) requires: u16,
}

impl ControlRow {
    /// Does this mail make it ready?
    pub(super) fn listens_to(&self, mail: &Mail) -> bool {
        mail.body.urgency() >= self.wakes_from && !self.deaf_to.contains(&mail.message)
    }
}

#[derive(Clone)]
pub(super) struct PermitRow {
    pub(super) execution: ExecutionNo,
    pub(super) request: PermitRequest,
    pub(super) holding: bool,
    /// Has a newcomer sent it a cancellation?
    pub(super) superseded: bool,
}

#[derive(Clone)]
pub(super) struct KeptSnapshot {
    /// The frame that it came with.
    pub(super) first_seq: u64,
    pub(super) snapshot: Snapshot,
}

/// The rows beside the log.
impl Tables {
    /// The store's time: the clock's, but never before a time that was given out already.
    pub fn tell_time(&mut self, clock: Timestamp) -> Timestamp {
        self.latest = self.latest.max(clock);
        self.latest
    }

    pub(super) fn make_ready(&mut self, execution: ExecutionNo) {
        let Some(row) = self.control.get_mut(&execution) else { return };
        let may_wake = |mail: &Mail| mail.execution == execution && row.listens_to(mail);
        if row.control.owner.is_none() && self.inbox.iter().any(may_wake) {
            row.control.ready = true;
        }
    }

    /// The rows beside the log that change with a frame.
    pub(super) fn write_side(&mut self, append: &Append) {
        let (header, side) = (&append.header, &append.side);
        let execution = header.execution;
        if let Some(submission) = first_submission(append) {
            self.keys.insert(submission.key.clone(), execution);
            if let Some(idempotency) = &submission.idempotency {
                let entry = (execution, idempotency.digest);
                self.idempotency.insert(Arc::clone(&idempotency.key), entry);
            }
        }
        self.inbox
            .retain(|mail| mail.execution != execution || !side.consumed.contains(&mail.message));
        if let Some(row) = self.control.get_mut(&execution) {
            row.requires = row.requires.max(header.requires);
        }
        if let Some(change) = &side.control {
            self.change_control(header, change);
        }
        if let Some(settled) = side.settled
            && let Some(row) = self.control.get_mut(&execution)
        {
            row.control.doubt = false;
            if settled == Settled::Progress && !is_planted(Bug::CrashNeverForgiven) {
                row.control.crashes = 0;
            }
        }
        if let Some(request) = &side.permit {
            self.request_permit(header, request);
        }
        self.blobs.reference(execution, &side.blobs);
        if let Some(body) = &side.snapshot {
            let snapshot = Snapshot { seq: header.last_seq, body: body.clone() };
            let kept = KeptSnapshot { first_seq: header.first_seq, snapshot };
            self.snapshots.insert(execution, kept);
        }
    }

    fn change_control(&mut self, header: &FrameHeader, change: &ControlChange) {
        let execution = header.execution;
        let (owner, next_due, held, wakes_from) = match change {
            ControlChange::Owned => (Some(header.instance), None, None, Urgency::Ordinary),
            ControlChange::Parked { next_due } => (None, *next_due, None, Urgency::Ordinary),
            ControlChange::Held { reason, next_due } => {
                (None, *next_due, Some(reason.clone()), Urgency::Cancel)
            }
            ControlChange::Ended => return self.forget(execution),
        };
        let (epoch, ready, permit) = (header.epoch, false, None);
        let (crashes, doubt) = (0, false);
        let control = Control { owner, epoch, next_due, ready, held, crashes, doubt, permit };
        let mut row =
            ControlRow { control, wakes_from, deaf_to: Vec::new(), requires: header.requires };
        if let Some(before) = self.control.get(&execution) {
            row.requires = before.requires;
            row.control.epoch = row.control.epoch.max(before.control.epoch);
            if owner.is_some() || is_planted(Bug::CrashNeverForgiven) {
                (row.control.crashes, row.control.doubt) =
                    (before.control.crashes, before.control.doubt);
            }
        }
        self.control.insert(execution, row);
    }
}

/// Ownership.
impl Tables {
    /// Deletes the rows beside the log of an execution.
    pub(super) fn forget(&mut self, execution: ExecutionNo) {
        self.control.remove(&execution);
        self.inbox.retain(|mail| mail.execution != execution);
        self.snapshots.remove(&execution);
        self.topics.forget(execution);
        self.release_permit(execution);
    }

    /// Renews or ends a lease.
    pub fn renew(&mut self, heartbeat: &Heartbeat, now: Timestamp) -> Renewal {
        let until = heartbeat.lease.map(|lease| now.plus(lease));
        let (fold, about) = (heartbeat.fold, heartbeat.about.clone());
        let lease = LeaseRow { until, fold, about, renewed_at: Some(now) };
        self.leases.insert(heartbeat.instance, lease);
        let first = self.last_number + 1;
        self.last_number += i64::from(heartbeat.numbers);
        let alive = self.leases.values().filter(|lease| lease.until.is_some_and(|it| it > now));
        let fold = alive.map(|lease| lease.fold).min().unwrap_or(heartbeat.fold);
        Renewal { now, numbers: first..self.last_number + 1, fold }
    }

    /// Is an instance alive at this time?
    pub fn is_alive(&self, instance: InstanceId, now: Timestamp) -> bool {
        let until = self.leases.get(&instance).and_then(|lease| lease.until);
        until.is_some_and(|until| until > now)
    }
}
