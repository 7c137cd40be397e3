//! Open waits of all executions.

use waypost_core::id::{ExecutionId, WaitId};
use waypost_ports::query::{WaitRow, WaitsRequest};

use super::Reader;
use crate::problem::Problem;
use crate::wire;
use crate::wire::payload::Time;

/// The kinds of waits that lists can be filtered by.
pub const WAIT_KINDS: &[&str] = &["delay", "signal", "retry"];

/// Their names in rows, in the same order.
const STORED_KINDS: &[&str] = &["DELAY", "WAIT_EVENTS", "RETRY"];

impl Reader {
    /// A page of open waits, behind this one.
    pub fn waits(
        &self,
        kind: Option<&str>,
        behind: Option<WaitId>,
        request: WaitsRequest,
    ) -> Result<wire::WaitList, Problem> {
        let stored = WAIT_KINDS.iter().zip(STORED_KINDS).find(|(name, _)| Some(**name) == kind);
        let before = match behind {
            Some(wait) => Some((self.find(&wait.execution.0)?, wait.seq)),
            None => None,
        };
        let request = WaitsRequest { kind: stored.map(|(_, stored)| *stored), before, ..request };
        let page = self.backend.waits(&request)?;
        Ok(wire::WaitList {
            waits: page.rows.iter().map(listed).collect(),
            next: page.next.as_ref().map(id_of),
            as_of: wire::AsOf { at: page.lag.as_of.map(Time), frames_behind: page.lag.frames },
        })
    }
}

fn id_of(row: &WaitRow) -> String {
    WaitId { execution: ExecutionId(row.key.clone()), seq: row.seq }.to_string()
}

fn listed(row: &WaitRow) -> wire::ListedWait {
    let shown = STORED_KINDS.iter().zip(WAIT_KINDS).find(|(stored, _)| ***stored == *row.kind);
    wire::ListedWait {
        id: id_of(row),
        kind: shown.map_or_else(|| row.kind.to_string(), |(_, name)| (*name).to_owned()),
        execution: row.key.to_string(),
        workflow: row.workflow.to_string(),
        node: row.node.to_string(),
        since: Time(row.since),
        due: row.due.map(Time),
        signals: row.detail.signals.iter().map(ToString::to_string).collect(),
    }
}
