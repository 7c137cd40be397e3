//! Open waits of all executions.

use serde::Deserialize;
use waypost_core::id::{ExecutionId, ExecutionNo, WaitId};
use waypost_ports::query::{EventsRequest, WaitRow, WaitsRequest};

use super::Reader;
use crate::problem::{Code, Problem};
use crate::wire;
use crate::wire::payload::Time;

/// The kinds of waits that lists can be filtered by.
pub const WAIT_KINDS: &[&str] =
    &["delay", "signal", "retry", "approval", "breaker", "async-operation"];

/// Their names in rows, in the same order.
const STORED_KINDS: &[&str] =
    &["DELAY", "WAIT_EVENTS", "RETRY", "APPROVAL", "BREAKER", "ASYNC_OPERATION"];

/// Events of one node after its wait that are looked at for its decision: a reminder, an escalation and
/// two for the end, and some in between where it is retried.
const DECISION_EVENTS_MAX: usize = 20;

/// A decision, in the output of its node.
#[derive(Debug, Deserialize)]
pub struct Decided {
    decision: String,
    /// Who decided; absent where time did.
    pub by: Option<String>,
    at: String,
}

impl Decided {
    /// The problem of a decision that came too late: it names the first one.
    pub fn problem(&self) -> Problem {
        let Self { decision, by, at } = self;
        let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let detail = format!("the approval was {decision}{by} at {at}");
        Problem::new(Code::AlreadyDecided, detail).hint("the first decision stands")
    }
}

/// The fields of events that a decision is found by.
#[derive(Deserialize)]
struct EventFields {
    output: Option<Decided>,
}

impl Reader {
    /// How a wait was decided; none where it never was.
    pub fn decided(&self, execution: ExecutionNo, wait: u64) -> Result<Option<Decided>, Problem> {
        let of_wait = EventsRequest {
            after: wait.saturating_sub(1),
            limit: 1,
            ..EventsRequest::all(execution)
        };
        let fields = |text: &str| serde_json::from_str::<EventFields>(text).ok();
        let opened = self.backend.events(&of_wait)?;
        let opened = opened.first().filter(|row| row.seq == wait && row.kind == "NodeWaiting");
        let Some(node) = opened.and_then(|row| row.node.clone()) else {
            return Ok(None);
        };
        let request = EventsRequest {
            node: Some(node),
            after: wait,
            limit: DECISION_EVENTS_MAX,
            ..EventsRequest::all(execution)
        };
        let after = self.backend.events(&request)?;
        let completed = after.iter().find(|row| row.kind == "NodeCompleted");
        Ok(completed.and_then(|row| fields(row.fields.text())?.output))
    }

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
        title: row.detail.title.as_deref().map(str::to_owned),
        breaker: row.detail.breaker.as_deref().map(str::to_owned),
        approvers: row.detail.approvers.iter().map(ToString::to_string).collect(),
    }
}
