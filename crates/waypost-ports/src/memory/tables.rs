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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::breaker::BreakerState;
use waypost_core::event::MessageId;
use waypost_core::frame::FrameHeader;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::permits::PermitRequest;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::blob_refs::BlobTables;
use super::outbox::OutboxTables;
use super::reading::Pages;
use super::topics::TopicTables;
use crate::access::{AuditEntry, KeyRow};
use crate::store::{
    About, Append, Appended, Control, ControlChange, Definition, Heartbeat, Mail, Renewal, Settled,
    Snapshot, StoredFrame, Submission, TakenName, Urgency,
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

/// The result of inserting a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It went in.
    At(Timestamp),
    /// It did not: something else is in its place, or its names are taken.
    Not,
    /// It did not, because this many executions hold the permits of its concurrency key.
    Rejected(u64),
    /// It did not, because an execution that was to begin with it could not.
    Unborn,
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

/// Appending: the log and its side rows.
impl Tables {
    /// The store's time: the clock's, but never before a time that was given out already.
    pub fn tell_time(&mut self, clock: Timestamp) -> Timestamp {
        self.latest = self.latest.max(clock);
        self.latest
    }

    /// A whole append, with nothing in between.
    pub fn append(&mut self, batch: &[Append], now: Timestamp) -> Vec<Appended> {
        let parents = self.find_parents(batch);
        let inserted = self.insert(batch, &parents, now);
        self.wake_parked(batch, &inserted, now);
        batch.iter().zip(inserted).map(|(append, at)| self.outcome(append, at)).collect()
    }

    /// The reading half of the append statement: for each frame, is its parent the last frame of
    /// its execution? A frame may also follow an earlier one of the batch.
    pub fn find_parents(&self, batch: &[Append]) -> Vec<bool> {
        let found = |(at, append): (usize, &Append)| {
            if is_planted(Bug::FenceWithoutParent) {
                return true;
            }
            let header = &append.header;
            let earlier = batch.get(..at).unwrap_or_default().iter().rev();
            let before =
                earlier.map(|append| &append.header).find(|h| h.execution == header.execution);
            match before {
                Some(before) => follows(header, before),
                None => match self.frames_from(header.execution, 0).last() {
                    Some(last) => follows(header, &last.header),
                    None => header.parent.is_none() && header.first_seq == 1,
                },
            }
        };
        batch.iter().enumerate().map(found).collect()
    }

    /// The writing half: inserts the frames whose parent was found, if no other frame has their
    /// place and their names are free, with their side rows. Returns when each was committed.
    pub fn insert(&mut self, batch: &[Append], parents: &[bool], now: Timestamp) -> Vec<Inserted> {
        let mut refused = Vec::new();
        let mut inserted = Vec::with_capacity(batch.len());
        for (append, parent) in batch.iter().zip(parents) {
            let header = &append.header;
            let place = (header.execution, header.first_seq);
            let free = *parent
                && header.first_seq <= header.last_seq
                && !refused.contains(&header.execution)
                && !self.frames.contains_key(&place)
                && self.taken(append).is_none();
            let refusal = match (free, self.rejects(append)) {
                (false, _) => Some(Inserted::Not),
                (true, Some(holding)) => Some(Inserted::Rejected(holding)),
                (true, None) => {
                    (!self.can_be_born(&append.side.births)).then_some(Inserted::Unborn)
                }
            };
            if let Some(refusal) = refusal {
                refused.push(header.execution);
                inserted.push(refusal);
                continue;
            }
            for append in std::iter::once(append).chain(&append.side.births) {
                let header = append.header;
                let place = (header.execution, header.first_seq);
                let frame = StoredFrame { header, at: now, body: Ok(append.body.clone()) };
                self.frames.insert(place, frame);
                self.commits.push(place);
                self.write_side(append);
                self.outbox.enqueue(append, now);
            }
            self.report_deliveries();
            for mail in &append.side.mail {
                self.put(mail);
            }
            self.topics.change(append, now);
            inserted.push(Inserted::At(now));
        }
        inserted
    }

    /// Are the numbers and names of all of them free?
    fn can_be_born(&self, births: &[Append]) -> bool {
        let numbers: BTreeSet<_> = births.iter().map(|birth| birth.header.execution).collect();
        let named = births.iter().filter_map(first_submission).count();
        let names: BTreeSet<_> =
            births.iter().filter_map(first_submission).map(|names| &names.key).collect();
        let free = |birth: &Append| match self.frames_from(birth.header.execution, 0).last() {
            None => birth.header.parent.is_none() && self.taken(birth).is_none(),
            // It is opened again.
            Some(last) => birth.header.parent.is_some() && follows(&birth.header, &last.header),
        };
        numbers.len() == births.len() && names.len() == named && births.iter().all(free)
    }

    /// The outcome of a frame. One that was not inserted is looked up in a statement of its own:
    /// the insert's snapshot may not have the frame that it waited for.
    pub fn outcome(&self, append: &Append, inserted: Inserted) -> Appended {
        match inserted {
            Inserted::At(at) => return Appended::Committed { at },
            Inserted::Rejected(holding) => return Appended::Rejected { holding },
            Inserted::Unborn => return Appended::Unborn,
            Inserted::Not => {}
        }
        let header = &append.header;
        if header.last_seq < header.first_seq {
            return Appended::Poisoned { reason: "the frame ends before it begins".to_owned() };
        }
        match self.frames.get(&(header.execution, header.first_seq)) {
            Some(stored)
                if stored.header.append_id == header.append_id
                    && !is_planted(Bug::LostReplyIsFailure) =>
            {
                Appended::Committed { at: stored.at }
            }
            _ => self.taken(append).unwrap_or(Appended::Fenced),
        }
    }

    /// After the commit that parked them: executions whose mail came before it are made ready. Mail
    /// that comes after it finds them parked ([`wake`](Self::wake)). Whichever commits second sees
    /// the other. So are those that the committed frames have sent mail to, or a signal by key.
    pub fn wake_parked(&mut self, batch: &[Append], inserted: &[Inserted], now: Timestamp) {
        for (append, inserted) in batch.iter().zip(inserted) {
            let parks = matches!(
                append.side.control,
                Some(ControlChange::Parked { .. } | ControlChange::Held { .. })
            );
            if !matches!(inserted, Inserted::At(_)) {
                continue;
            }
            if parks {
                self.make_ready(append.header.execution);
            }
            for mail in &append.side.mail {
                self.wake(mail);
            }
            let topics = append.side.topics.iter().filter(|_| !is_planted(Bug::SubscriberBlind));
            for name in topics.flat_map(|topics| topics.names()).collect::<BTreeSet<_>>() {
                self.route(name, now);
            }
        }
    }

    pub(super) fn make_ready(&mut self, execution: ExecutionNo) {
        let Some(row) = self.control.get_mut(&execution) else { return };
        let may_wake = |mail: &Mail| mail.execution == execution && row.listens_to(mail);
        if row.control.owner.is_none() && self.inbox.iter().any(may_wake) {
            row.control.ready = true;
        }
    }

    /// The answer to a first frame whose names another execution has.
    fn taken(&self, append: &Append) -> Option<Appended> {
        let submission = first_submission(append)?;
        if let Some(idempotency) = &submission.idempotency
            && let Some((execution, digest)) = self.idempotency.get(&idempotency.key)
        {
            let taken = TakenName::key(*digest == idempotency.digest);
            return Some(Appended::Duplicate { execution: *execution, taken });
        }
        let execution = *self.keys.get(&submission.key)?;
        Some(Appended::Duplicate { execution, taken: TakenName::Id })
    }

    fn write_side(&mut self, append: &Append) {
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

/// Does a frame build on this one?
fn follows(header: &FrameHeader, before: &FrameHeader) -> bool {
    header.parent == Some(before.as_parent()) && before.last_seq + 1 == header.first_seq
}

fn first_submission(append: &Append) -> Option<&Submission> {
    append.side.submission.as_ref().filter(|_| append.header.parent.is_none())
}
