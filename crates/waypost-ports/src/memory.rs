//! A store without a disk: maps behind a mutex, for tests and for the simulator.
//!
//! It exists to be obviously right, so that the other stores can be compared with it. Nothing is
//! cached and nothing is indexed twice; lists fold the whole log.

mod audit;
mod query;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::frame::{FrameHeader, Parent};
use waypost_core::id::{ExecutionId, ExecutionKey, InstanceId};
use waypost_core::time::Timestamp;

use crate::clock::Clock;
use crate::store::{
    Append, Appended, ClaimRequest, Claims, Control, ControlChange, Definition, DefinitionRef,
    Delivery, Heartbeat, History, LEASE, Mail, NewDefinition, Renewal, Snapshot, Store, StoreError,
    StoredFrame, Submission, Urgency,
};

/// A store in memory. Clones share their data, as connections to one database do.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    data: Arc<Mutex<Data>>,
}

#[derive(Default)]
struct Data {
    /// The latest time ever given out.
    latest: Timestamp,
    /// The last number set aside for an execution.
    last_number: i64,
    /// Until when each instance is alive.
    leases: BTreeMap<InstanceId, Timestamp>,
    frames: BTreeMap<(ExecutionId, u64), StoredFrame>,
    control: BTreeMap<ExecutionId, ControlRow>,
    /// In the order of arrival.
    inbox: Vec<Mail>,
    keys: BTreeMap<ExecutionKey, ExecutionId>,
    idempotency: BTreeMap<Arc<str>, (ExecutionId, [u8; 32])>,
    snapshots: BTreeMap<ExecutionId, KeptSnapshot>,
    definitions: Vec<Definition>,
}

struct ControlRow {
    control: Control,
    /// The least urgent mail that makes it ready.
    wakes_from: Urgency,
    /// The lowest fold that can read its frames.
    requires: u16,
}

struct KeptSnapshot {
    /// The frame that it came with.
    first_seq: u64,
    snapshot: Snapshot,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, data: Arc::default() }
    }

    /// The same data under another clock.
    #[must_use]
    pub fn with_clock(&self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, data: Arc::clone(&self.data) }
    }

    /// Does something with the data at a time that never goes back.
    fn with<T>(&self, action: impl FnOnce(&mut Data, Timestamp) -> T) -> T {
        let mut data = self.data.lock();
        data.latest = data.latest.max(self.clock.now());
        let now = data.latest;
        action(&mut data, now)
    }
}

impl Store for MemoryStore {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        self.with(|data, now| {
            if heartbeat.leaving {
                data.leases.remove(&heartbeat.instance);
            } else {
                data.leases.insert(heartbeat.instance, now.plus(LEASE));
            }
            let first = data.last_number + 1;
            data.last_number += i64::from(heartbeat.numbers);
            Ok(Renewal { now, numbers: first..data.last_number + 1 })
        })
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        self.with(|data, now| Ok(batch.iter().map(|append| data.append(append, now)).collect()))
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        self.with(|data, now| Ok(data.claim(request, now)))
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<History>, StoreError> {
        self.with(|data, _| Ok(data.load(execution)))
    }

    fn load_all(&self, execution: ExecutionId) -> Result<Option<History>, StoreError> {
        self.with(|data, _| {
            let history = data.load(execution);
            Ok(history.map(|history| History {
                snapshot: None,
                frames: data.frames_from(execution, 0).cloned().collect(),
                ..history
            }))
        })
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<Delivery>, StoreError> {
        self.with(|data, _| Ok(mail.iter().map(|mail| data.deliver(mail)).collect()))
    }

    fn collect(&self, owner: InstanceId, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.with(|data, _| {
            let owned = |mail: &&Mail| {
                data.control
                    .get(&mail.execution)
                    .is_some_and(|row| row.control.owner == Some(owner))
            };
            Ok(data.inbox.iter().filter(owned).take(limit).cloned().collect())
        })
    }

    fn hold(&self, execution: ExecutionId, reason: &str) -> Result<(), StoreError> {
        self.with(|data, _| {
            if let Some(row) = data.control.get_mut(&execution) {
                row.wakes_from = Urgency::Resume;
                row.control.owner = None;
                row.control.ready = false;
                row.control.next_due = None;
                row.control.held = Some(reason.to_owned());
            }
            Ok(())
        })
    }

    fn define(&self, new: &NewDefinition) -> Result<Definition, StoreError> {
        self.with(|data, _| {
            if let Some(known) = data.definitions.iter().find(|known| known.hash == new.hash) {
                return Ok(known.clone());
            }
            let versions = data.definitions.iter().filter(|known| known.name == new.name);
            let definition = Definition {
                name: Arc::clone(&new.name),
                version: versions.map(|known| known.version).max().unwrap_or(0) + 1,
                hash: new.hash,
                canonical: Arc::clone(&new.canonical),
            };
            data.definitions.push(definition.clone());
            Ok(definition)
        })
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.with(|data, _| {
            let matches = |known: &&Definition| match which {
                DefinitionRef::Hash(hash) => known.hash == *hash,
                DefinitionRef::Latest(name) => known.name == *name,
                DefinitionRef::Version(name, version) => {
                    known.name == *name && known.version == *version
                }
            };
            Ok(data.definitions.iter().filter(matches).max_by_key(|known| known.version).cloned())
        })
    }
}

impl Data {
    fn append(&mut self, append: &Append, now: Timestamp) -> Appended {
        let header = &append.header;
        if let Some(stored) = self.frames.get(&(header.execution, header.first_seq)) {
            return match stored.header.append_id == header.append_id {
                true => Appended::Committed { at: stored.at },
                false => self.taken(append).unwrap_or(Appended::Fenced),
            };
        }
        if header.last_seq < header.first_seq {
            return Appended::Poisoned { reason: "the frame ends before it begins".to_owned() };
        }
        if let Some(duplicate) = self.taken(append) {
            return duplicate;
        }
        if !self.is_next(header) {
            return Appended::Fenced;
        }
        let frame = StoredFrame { header: *header, at: now, body: Ok(append.body.clone()) };
        self.frames.insert((header.execution, header.first_seq), frame);
        self.write_side(append);
        Appended::Committed { at: now }
    }

    /// Is the frame's parent the last frame of its execution?
    fn is_next(&self, header: &FrameHeader) -> bool {
        let last = self.frames_from(header.execution, 0).last();
        match (header.parent, last) {
            (None, None) => header.first_seq == 1,
            (Some(parent), Some(last)) => {
                last.header.as_parent() == parent && last.header.last_seq + 1 == header.first_seq
            }
            (None, Some(_)) | (Some(Parent { .. }), None) => false,
        }
    }

    /// The answer to a first frame whose names another execution has.
    fn taken(&self, append: &Append) -> Option<Appended> {
        let submission = first_submission(append)?;
        if let Some(idempotency) = &submission.idempotency
            && let Some((execution, digest)) = self.idempotency.get(&idempotency.key)
        {
            let same = *digest == idempotency.digest;
            return Some(Appended::Duplicate { execution: *execution, same });
        }
        let execution = *self.keys.get(&submission.key)?;
        Some(Appended::Duplicate { execution, same: false })
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
            ControlChange::Ended => {
                self.control.remove(&execution);
                self.inbox.retain(|mail| mail.execution != execution);
                self.snapshots.remove(&execution);
                return;
            }
        };
        let may_wake =
            |mail: &Mail| mail.execution == execution && mail.body.urgency() >= wakes_from;
        let ready = owner.is_none() && self.inbox.iter().any(may_wake);
        let control = Control { owner, epoch: header.epoch, next_due, ready, held };
        match self.control.entry(execution) {
            Entry::Vacant(slot) => {
                slot.insert(ControlRow { control, wakes_from, requires: header.requires });
            }
            Entry::Occupied(slot) => {
                let row = slot.into_mut();
                let epoch = control.epoch.max(row.control.epoch);
                row.control = Control { epoch, ..control };
                row.wakes_from = wakes_from;
            }
        }
    }

    fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Claims {
        let eligible = |execution: &ExecutionId, row: &ControlRow| {
            row.requires <= request.fold
                && request.only.as_ref().is_none_or(|only| only.contains(execution))
        };
        let mut claimable = Vec::new();
        let mut next_due = None::<Timestamp>;
        for (execution, row) in self.control.iter().filter(|(id, row)| eligible(id, row)) {
            let control = &row.control;
            let orphaned = control.owner.is_some_and(|owner| {
                owner != request.instance && self.leases.get(&owner).is_none_or(|end| *end <= now)
            });
            if orphaned || (control.owner.is_none() && control.ready) {
                claimable.push((None, *execution));
            } else if control.owner.is_none()
                && let Some(due) = control.next_due
            {
                if due <= now {
                    claimable.push((Some(due), *execution));
                } else {
                    next_due = Some(next_due.map_or(due, |earliest| earliest.min(due)));
                }
            }
        }
        claimable.sort_unstable();
        let more = claimable.len() > request.limit;
        claimable.truncate(request.limit);
        for (_, execution) in &claimable {
            if let Some(row) = self.control.get_mut(execution) {
                row.control.owner = Some(request.instance);
                row.control.epoch += 1;
                row.control.ready = false;
            }
        }
        let claimed = claimable.iter().filter_map(|(_, execution)| self.load(*execution)).collect();
        Claims { claimed, more, next_due }
    }

    fn load(&self, execution: ExecutionId) -> Option<History> {
        let kept = self.snapshots.get(&execution);
        let from = kept.map_or(0, |kept| kept.first_seq);
        let frames: Vec<_> = self.frames_from(execution, from).cloned().collect();
        if frames.is_empty() {
            return None;
        }
        Some(History {
            execution,
            control: self.control.get(&execution).map(|row| row.control.clone()),
            snapshot: kept.map(|kept| kept.snapshot.clone()),
            frames,
            mail: self.inbox.iter().filter(|mail| mail.execution == execution).cloned().collect(),
        })
    }

    fn deliver(&mut self, mail: &Mail) -> Delivery {
        let Some(row) = self.control.get_mut(&mail.execution) else {
            return match self.frames_from(mail.execution, 0).next() {
                Some(_) => Delivery::Ended,
                None => Delivery::Unknown,
            };
        };
        let same =
            |known: &Mail| known.execution == mail.execution && known.message == mail.message;
        if self.inbox.iter().any(same) {
            return Delivery::Duplicate;
        }
        self.inbox.push(mail.clone());
        if row.control.owner.is_none() && mail.body.urgency() >= row.wakes_from {
            row.control.ready = true;
        }
        Delivery::Accepted { owner: row.control.owner }
    }

    fn frames_from(
        &self,
        execution: ExecutionId,
        first_seq: u64,
    ) -> impl Iterator<Item = &StoredFrame> {
        self.frames.range((execution, first_seq)..=(execution, u64::MAX)).map(|(_, frame)| frame)
    }
}

fn first_submission(append: &Append) -> Option<&Submission> {
    append.side.submission.as_ref().filter(|_| append.header.parent.is_none())
}
