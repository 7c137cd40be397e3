//! People answer approvals: at once, when they are reminded, at the moment of expiry, two of them at
//! two processes, or never. One decision counts; reminders come in order, and not after it; and no
//! approval outlives its time.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use waypost_core::command::{ApprovalDecision, ApprovalVerdict, Request};
use waypost_core::event::{ApprovalWait, Event as LogEvent, NodeEvent, Wait};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::NodeStatus;
use waypost_core::time::Timestamp;
use waypost_engine::driver::ControlRequest;

use super::{Simulation, WorldEvent};
use crate::clock::START;
use crate::fault::Fault;
use crate::model::AskedDecision;
use crate::program::{APPROVER, DEPUTY};
use crate::random::Random;

/// Who may decide no approval that names its approvers.
const STRANGER: &str = "eve";
/// How much later than due an approval expires, and its people are reminded, once the faults are over.
const LATE_MS: u64 = 60_000;

/// The people who answer, with a stream of their own.
pub(super) struct Approvers {
    random: Random,
    /// When they first looked after the faults.
    calm_since: Option<u64>,
}

impl Approvers {
    pub(super) fn new(seed: &Random) -> Self {
        Self { random: seed.split("approvers"), calm_since: None }
    }
}

/// The open approvals, by the logs alone.
#[derive(Default)]
pub(super) struct OpenApprovals(BTreeMap<(ExecutionNo, Arc<str>), Asks>);

struct Asks {
    remind: Option<Timestamp>,
    escalate: Option<Timestamp>,
    /// When the last of its reminders was due.
    last: Timestamp,
}

impl OpenApprovals {
    /// Reads a frame; returns the first violation.
    pub(super) fn read(&mut self, execution: ExecutionNo, events: &[LogEvent]) -> Option<String> {
        events.iter().find_map(|event| {
            let LogEvent::Node(event) = event else { return None };
            let path = Arc::clone(event.node());
            let what = format!("x{}: {path}", execution.0);
            let key = (execution, path);
            match event {
                NodeEvent::Waiting { wait: Wait::Approval(approval), .. } => {
                    let ApprovalWait { remind, escalate, .. } = *approval.clone();
                    self.0.insert(key, Asks { remind, escalate, last: START });
                    None
                }
                NodeEvent::Reminded { escalated, .. } => {
                    let Some(open) = self.0.get_mut(&key) else {
                        return Some(format!("{what} reminds of an approval that is not open"));
                    };
                    let due = match escalated {
                        true => open.escalate.take(),
                        false => open.remind.take(),
                    };
                    let Some(due) = due else { return Some(format!("{what} reminds twice")) };
                    let in_order = open.last <= due;
                    open.last = due;
                    (!in_order).then(|| format!("{what} reminds out of order"))
                }
                _ => {
                    self.0.remove(&key);
                    None
                }
            }
        })
    }
}

impl Simulation {
    /// A frame asks people: some of them answer.
    pub(super) fn tempt_to_decide(&mut self, execution: ExecutionNo, events: &[LogEvent]) {
        if self.faults_over {
            return;
        }
        let asks = events.iter().filter_map(|event| match event {
            LogEvent::Node(NodeEvent::Waiting { wait: Wait::Approval(approval), .. }) => {
                Some(approval)
            }
            _ => None,
        });
        for approval in asks {
            let (mut inner, random) = (self.store.inner(), &mut self.approvers.random);
            let strikes = (0..4).any(|_| inner.weather.strikes_apart(Fault::Answers, random));
            drop(inner);
            if !strikes {
                continue;
            }
            let due = [approval.due, approval.remind, approval.escalate];
            let moments: Vec<u64> = due.into_iter().flatten().map(|at| at.since(START).0).collect();
            for _ in 0..random.between(1, 3) {
                let random = &mut self.approvers.random;
                let soon = random.below(5_000);
                // A little before it, or after.
                let after = match moments.is_empty() || random.percent(30) {
                    true => soon,
                    false => {
                        let at = random.pick(&moments) + random.below(60);
                        at.saturating_sub(self.truth.ms() + 30)
                    }
                };
                self.after(after, WorldEvent::Decide(execution));
            }
        }
    }

    /// People decide one of the approvals of an execution that are open, or were a moment ago.
    pub(super) fn decide_any(&mut self, execution: ExecutionNo) {
        if self.faults_over {
            return;
        }
        let open = self.open_approvals(execution);
        let Some((wait, _)) = (!open.is_empty()).then(|| self.approvers.random.pick(&open).clone())
        else {
            return;
        };
        let people = if self.approvers.random.percent(50) { 2 } else { 1 };
        for _ in 0..people {
            let random = &mut self.approvers.random;
            let by = match random.below(10) {
                0..=5 => APPROVER,
                6..=8 => DEPUTY,
                _ => STRANGER,
            };
            self.decide(execution, wait, by);
        }
        // One who does not know that it was decided.
        if self.approvers.random.percent(40) {
            self.decide(execution, wait, APPROVER);
        }
    }

    fn decide(&mut self, execution: ExecutionNo, wait: u64, by: &'static str) {
        let random = &mut self.approvers.random;
        let verdict = match random.percent(60) {
            true => ApprovalVerdict::Approved,
            false => ApprovalVerdict::Rejected,
        };
        let serial = random.next();
        let comment = format!("decision {serial:020}");
        let asked = AskedDecision { wait, branch: verdict.branch(), by, comment: comment.clone() };
        self.people.done_to.entry(execution).or_default().decisions.push(asked);
        let decision = ApprovalDecision {
            verdict,
            approver: by.into(),
            link: false,
            comment: Some(comment),
            form: Json::from_value(&json!({ "serial": serial })),
        };
        let decision = Box::new(decision);
        self.ask(execution, Request::Decide { wait, decision }, None);
    }

    /// A decision that was done is the one that the log has.
    pub(super) fn check_decided(&mut self, request: &ControlRequest) {
        let ControlRequest { execution, request: Request::Decide { wait, decision }, .. } = request
        else {
            return;
        };
        let comment = decision.comment.as_deref().unwrap_or_default();
        if self.failovers == 0 && !self.log_holds(*execution, comment) {
            let by = &decision.approver;
            let what = format!(
                "{by} decided wait {wait} of x{}, and the log does not have it",
                execution.0
            );
            self.fail("approval.decided-once", what);
        }
    }

    /// The approvals of an execution that wait, by the event that opened them.
    fn open_approvals(&self, execution: ExecutionNo) -> Vec<(u64, ApprovalWait)> {
        let Some(state) = self.auditor.state(execution) else { return Vec::new() };
        let open = state.nodes().filter_map(|(_, node)| match &node.wait {
            Some(Wait::Approval(approval)) if node.status == NodeStatus::Waiting => {
                Some((node.wait_seq, (**approval).clone()))
            }
            _ => None,
        });
        open.collect()
    }

    /// After the faults: what has a time happens by itself, and people decide the rest.
    pub(super) fn care_for_approvals(&mut self, execution: ExecutionNo) {
        let now = self.ms();
        let calm_since = *self.approvers.calm_since.get_or_insert(now);
        let moves = self.auditor.state(execution).is_some_and(waypost_core::state::State::moves);
        for (wait, approval) in self.open_approvals(execution) {
            let times = [approval.due, approval.remind, approval.escalate];
            let Some(next) = times.into_iter().flatten().min() else {
                self.decide(execution, wait, APPROVER);
                continue;
            };
            let next = next.since(START).0.max(calm_since);
            if moves && now > next + LATE_MS {
                let what = format!("x{} still waits for a decision: {approval:?}", execution.0);
                return self.fail("approval.in-time", what);
            }
        }
    }
}
