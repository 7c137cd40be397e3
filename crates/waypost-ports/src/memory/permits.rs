//! The queues of concurrency keys in memory: rows for [`waypost_core::permits`], and its changes of them.

use std::sync::Arc;

use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::{
    Excerpt, Occasion, PermitRequest, QueueChanges, RowChange, WAITING_MAX, WaitingRow, decide,
    rejection,
};

use super::Tables;
use super::tables::PermitRow;
use crate::inspect::{DerivedPermit, PermitQueue};
use crate::store::{Append, Permit, Urgency, cancel_message};

impl Tables {
    /// How many executions hold the permits of the key, if the frame is rejected for that.
    pub(super) fn rejects(&self, append: &Append) -> Option<u64> {
        let request = append.side.permit.as_ref()?;
        rejection(&self.excerpt(Some(append.header.execution), &request.key), request)
    }

    /// A frame asks for a permit.
    pub(super) fn request_permit(&mut self, header: &FrameHeader, request: &PermitRequest) {
        let excerpt = self.excerpt(Some(header.execution), &request.key);
        let changes = decide(&excerpt, Occasion::Request(request));
        self.write_queue(header.execution, request, &changes);
        if let Some(superseded) = changes.superseded {
            if let Some((_, row)) = self.permit_row(superseded) {
                row.superseded = true;
            }
            self.deliver(&cancel_message(header, &request.key, superseded));
        }
    }

    /// An execution ended: its row goes.
    pub(super) fn release_permit(&mut self, execution: ExecutionNo) {
        let Some((ticket, _)) = self.permit_row(execution) else { return };
        if let Some(row) = self.permits.remove(&ticket) {
            self.promote(&row.request.key, Occasion::Release);
        }
    }

    /// Promotes waiting rows of all keys.
    pub fn promote_all(&mut self) {
        self.permit_keys().iter().for_each(|key| self.promote(key, Occasion::Sweep));
    }

    /// Makes the place of an execution what its log says.
    pub(super) fn repair_permit(
        &mut self,
        execution: ExecutionNo,
        derived: Option<&DerivedPermit>,
    ) {
        let own = self.permit_row(execution).map(|(_, row)| Arc::clone(&row.request.key));
        if own.as_ref() != derived.map(|derived| &derived.request.key) {
            self.release_permit(execution);
        }
        let Some(DerivedPermit { request, admitted }) = derived else { return };
        let excerpt = self.excerpt(Some(execution), &request.key);
        let changes = decide(&excerpt, Occasion::Repair { admitted: *admitted });
        self.write_queue(execution, request, &changes);
        self.promote(&request.key, Occasion::Sweep);
    }

    fn promote(&mut self, key: &str, mut occasion: Occasion<'_>) {
        loop {
            let changes = decide(&self.excerpt(None, key), occasion);
            self.write_promoted(&changes.promoted);
            if !changes.may_promote_more() {
                return;
            }
            occasion = Occasion::Sweep;
        }
    }

    fn excerpt(&self, execution: Option<ExecutionNo>, key: &str) -> Excerpt {
        let own = self.permits.values().find(|row| Some(row.execution) == execution);
        let current = |row: &&PermitRow| !row.superseded;
        let waiting =
            self.permits.iter().filter(|(_, row)| *row.request.key == *key && !row.holding);
        let waiting = waiting.take(WAITING_MAX.into()).map(|(ticket, row)| WaitingRow {
            ticket: *ticket,
            execution: row.execution,
            limit: row.request.limit,
        });
        Excerpt {
            own: own.map(|row| row.holding),
            holding: self.queue(key).filter(|row| row.holding).count() as u64,
            waiting: waiting.collect(),
            oldest: self.queue(key).find(current).map(|row| row.execution),
            cancellable: self.queue(key).filter(current).count() as u64,
        }
    }

    fn write_queue(
        &mut self,
        execution: ExecutionNo,
        request: &PermitRequest,
        changes: &QueueChanges,
    ) {
        match changes.own {
            Some(RowChange::Insert { holding }) => {
                let ticket = self.permits.last_key_value().map_or(1, |(last, _)| last + 1);
                let (request, superseded) = (request.clone(), false);
                let row = PermitRow { execution, request, holding, superseded };
                self.permits.insert(ticket, row);
            }
            Some(RowChange::Give) => {
                if let Some((_, row)) = self.permit_row(execution) {
                    row.holding = true;
                }
            }
            None => {}
        }
        if changes.wakes {
            self.admit(execution);
        }
        self.write_promoted(&changes.promoted);
    }

    fn write_promoted(&mut self, promoted: &[WaitingRow]) {
        for row in promoted {
            if let Some(row) = self.permits.get_mut(&row.ticket) {
                row.holding = true;
            }
            self.admit(row.execution);
        }
    }

    /// Makes the control row of an execution that holds a permit ready, unless an instance owns or has
    /// quarantined it.
    fn admit(&mut self, execution: ExecutionNo) {
        if let Some(row) = self.control.get_mut(&execution)
            && row.control.owner.is_none()
            && row.wakes_from < Urgency::Resume
        {
            row.control.ready = true;
            row.control.held = None;
            row.wakes_from = Urgency::Ordinary;
        }
    }

    fn permit_row(&mut self, execution: ExecutionNo) -> Option<(i64, &mut PermitRow)> {
        let mut rows = self.permits.iter_mut();
        rows.find(|(_, row)| row.execution == execution).map(|(ticket, row)| (*ticket, row))
    }

    fn queue(&self, key: &str) -> impl Iterator<Item = &PermitRow> {
        self.permits.values().filter(move |row| *row.request.key == *key)
    }

    fn permit_keys(&self) -> Vec<Arc<str>> {
        let mut keys: Vec<_> =
            self.permits.values().map(|row| Arc::clone(&row.request.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The place of an execution.
    pub fn permit(&self, execution: ExecutionNo) -> Option<Permit> {
        let row = self.permits.values().find(|row| row.execution == execution)?;
        let key = &row.request.key;
        let before = self.queue(key).take_while(|other| other.execution != execution).count();
        Some(Permit { key: Arc::clone(key), holding: row.holding, before: before as u64 })
    }

    /// The queues of all keys, by key.
    pub fn permit_queues(&self) -> Vec<PermitQueue> {
        let queue = |key: Arc<str>| {
            let holders: Vec<_> = self.queue(&key).filter(|row| row.holding).collect();
            let waiting = self.queue(&key).find(|row| !row.holding);
            PermitQueue {
                holding: holders.len() as u64,
                limit_max: holders.iter().map(|row| row.request.limit).max().unwrap_or(0),
                last_holding: holders.last().map(|row| row.execution),
                first_waiting: waiting.map(|row| (row.execution, row.request.limit)),
                key,
            }
        };
        self.permit_keys().into_iter().map(queue).collect()
    }
}
