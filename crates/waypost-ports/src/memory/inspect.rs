//! What a checker asks of the store in memory. Its projections are folded anew for each question,
//! so there is never anything to find, or to repair, in those.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::projection::Changes;
use waypost_core::time::Timestamp;

use super::query::fold;
use super::tables::ControlRow;
use super::{MemoryStore, Tables};
use crate::inspect::{
    Chunk, ChunkRequest, DerivedRow, Examined, Inspect, Ownership, PermitQueue, Remedy, Repair,
    Shown, ShownNode, ShownRows, Standing, Stray, StrayKind, open_waits,
};
use crate::store::{Control, History, MailOf, StoreError, Urgency};

impl Inspect for MemoryStore {
    fn executions(&self, request: &ChunkRequest) -> Result<Chunk, StoreError> {
        self.with(|data, _| {
            let mut all = data.executions();
            all.retain(|id| request.after.is_none_or(|after| *id > after));
            let next = all.get(request.limit).and(all.get(request.limit.saturating_sub(1)));
            let next = next.copied();
            all.truncate(request.limit);
            all.retain(|id| {
                let last = data.frames_from(*id, 0).last();
                request.since.is_none_or(|since| last.is_some_and(|frame| frame.at >= since))
            });
            Ok(Chunk { executions: all, next })
        })
    }

    fn examine(&self, executions: &[ExecutionNo]) -> Result<Vec<Examined>, StoreError> {
        self.with(|data, now| {
            let examined = executions.iter().filter_map(|id| data.examine(*id, now));
            Ok(examined.collect())
        })
    }

    fn shown(&self, executions: &[ExecutionNo]) -> Result<Vec<Shown>, StoreError> {
        self.with(|data, _| Ok(executions.iter().map(|id| data.shown(*id)).collect()))
    }

    fn catch_up(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn strays(&self) -> Result<Vec<Stray>, StoreError> {
        self.with(|data, _| {
            let control = data.control.keys().map(|id| (*id, StrayKind::Control));
            let mail = data.inbox.iter().map(|mail| (mail.execution, StrayKind::Mail));
            let snapshots = data.snapshots.keys().map(|id| (*id, StrayKind::Snapshot));
            let permits = data.permits.values().map(|row| (row.execution, StrayKind::Permit));
            let rows = control.chain(mail).chain(snapshots).chain(permits);
            let mut strays: Vec<Stray> = rows
                .filter(|(id, _)| data.frames_from(*id, 0).next().is_none())
                .map(|(execution, kind)| Stray { execution, kind })
                .collect();
            strays.sort_unstable();
            strays.dedup();
            Ok(strays)
        })
    }

    fn repair(&self, repair: &Repair) -> Result<bool, StoreError> {
        self.with(|data, now| {
            let last = data.frames_from(repair.execution, 0).last();
            let control = data.control.get(&repair.execution).map(|row| &row.control);
            // How many are before it changes without it.
            let seen = repair.seen.clone().map(|seen| Control { permit: None, ..seen });
            let same = last.map(|frame| frame.header.as_parent()) == repair.last
                && (last.is_none() || control == seen.as_ref());
            if same {
                data.apply_repair(repair.execution, &repair.remedy, now);
            }
            Ok(same)
        })
    }

    fn permit_queues(&self) -> Result<Vec<PermitQueue>, StoreError> {
        self.with(|data, _| Ok(data.permit_queues()))
    }

    fn promote(&self) -> Result<(), StoreError> {
        self.with(|data, _| {
            data.promote_all();
            Ok(())
        })
    }

    fn reproject(&self, _: &[ExecutionNo]) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Tables {
    /// Everything that is stored of one execution.
    pub fn examine(&self, execution: ExecutionNo, now: Timestamp) -> Option<Examined> {
        let snapshot = self.snapshots.get(&execution).map(|kept| kept.snapshot.clone());
        let history = self.history(execution, 0, snapshot)?;
        let mail = self.collect(MailOf::Execution(execution), usize::MAX);
        let standing = self.control.get(&execution).map(|row| Standing {
            ownership: match row.control.owner {
                None => Ownership::Unowned,
                Some(owner) if self.is_alive(owner, now) => Ownership::Held,
                Some(_) => Ownership::Expired,
            },
            wakes_from: row.wakes_from,
            requires: row.requires,
        });
        let permit = self.permit(execution);
        let history = History { mail, mail_waits: false, ..history };
        let subscriptions = self.topics.of_execution(execution);
        Some(Examined { history, standing, permit, subscriptions })
    }

    fn shown(&self, execution: ExecutionNo) -> Shown {
        let mut changes = Changes::default();
        let mut due = 0;
        for stored in self.frames_from(execution, 0) {
            if fold(&mut changes, stored) {
                due = stored.header.first_seq;
            }
        }
        Shown { execution, due, rows: rows(changes) }
    }

    fn apply_repair(&mut self, execution: ExecutionNo, remedy: &Remedy, now: Timestamp) {
        let (row, epoch, requires, permit) = match remedy {
            Remedy::Control { row, epoch, requires, permit, subscriptions } => {
                self.topics.replace(execution, subscriptions, now);
                (row, *epoch, *requires, permit)
            }
            Remedy::Nothing => return self.forget(execution),
            Remedy::NoSnapshot => {
                self.snapshots.remove(&execution);
                return;
            }
        };
        let (next_due, held, wakes_from) = match row {
            DerivedRow::Ready => (None, None, Urgency::Ordinary),
            DerivedRow::Parked { next_due } => (*next_due, None, Urgency::Ordinary),
            DerivedRow::Held { reason, next_due } => {
                (*next_due, Some(reason.clone()), Urgency::Cancel)
            }
        };
        let wakes = self
            .inbox
            .iter()
            .any(|mail| mail.execution == execution && mail.body.urgency() >= wakes_from);
        let ready = *row == DerivedRow::Ready || wakes;
        let before = self.control.get(&execution);
        let epoch = before.map_or(0, |row| row.control.epoch).max(epoch);
        let requires = before.map_or(0, |row| row.requires).max(requires);
        let (owner, crashes, doubt) = (None, 0, false);
        let control = Control { owner, epoch, next_due, ready, held, crashes, doubt, permit: None };
        self.control
            .insert(execution, ControlRow { control, wakes_from, deaf_to: Vec::new(), requires });
        self.repair_permit(execution, permit.as_ref());
    }
}

/// The rows that a store with tables would have.
fn rows(changes: Changes) -> Option<ShownRows> {
    let created = changes.created?;
    let output = changes.end.and_then(|end| end.output).map(|output| output.text().to_owned());
    Some(ShownRows {
        key: Arc::clone(&created.run.key.0),
        created_at: created.at,
        view: changes.view,
        output,
        nodes: changes.nodes.iter().map(|(path, change)| ShownNode::of(path, change)).collect(),
        waits: open_waits(&changes.waits),
    })
}
