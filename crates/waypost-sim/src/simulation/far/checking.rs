//! Invariants of remote attempts in every log.

use std::sync::Arc;

use waypost_core::event::{Event as LogEvent, FailureEnd, NodeEvent, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_engine::driver::{DEAD, FORGOTTEN};

use crate::simulation::Simulation;

impl Simulation {
    /// A take-over leaves remote attempts alone: only their worker, time or a person ends them.
    pub(in crate::simulation) fn check_left_alone(
        &mut self,
        execution: ExecutionNo,
        events: &[LogEvent],
    ) {
        let taken_over =
            events.iter().any(|event| matches!(event, LogEvent::Run(RunEvent::Owned { .. })));
        let by_a_person = events.iter().any(|event| {
            matches!(
                event,
                LogEvent::Run(
                    RunEvent::PauseRequested { now: true, .. } | RunEvent::Quarantined { .. }
                )
            )
        });
        let Some(log) = self.auditor.logs.get(&execution).filter(|_| taken_over) else { return };
        let (Some(plan), Some(state)) = (log.check.plan(), log.check.state()) else { return };
        let lost = events.iter().find_map(|event| {
            let LogEvent::Node(NodeEvent::Failed {
                node,
                failure,
                end: FailureEnd::Abandoned(_),
                ..
            }) = event
            else {
                return None;
            };
            if *failure.message == *DEAD {
                return None; // its worker was missed twice, for other attempts, in the same step
            }
            let before = state.get(state.find(plan, node)?)?;
            let token = before.token.filter(|_| before.remote.is_some())?;
            (!self.far.given_up.contains(&token)).then(|| Arc::clone(node))
        });
        if let Some(node) = lost.filter(|_| !by_a_person) {
            let what = format!("a take-over of x{} gave up {node}, which runs", execution.0);
            self.fail("remote", what);
        }
    }

    /// No attempt is abandoned as forgotten while its worker has it.
    pub(in crate::simulation) fn check_not_forgotten(
        &mut self,
        execution: ExecutionNo,
        events: &[LogEvent],
    ) {
        let Some(log) = self.auditor.logs.get(&execution) else { return };
        let (Some(plan), Some(state)) = (log.check.plan(), log.check.state()) else { return };
        let had = events.iter().find_map(|event| {
            let LogEvent::Node(NodeEvent::Failed {
                node,
                failure,
                end: FailureEnd::Abandoned(_),
                ..
            }) = event
            else {
                return None;
            };
            let token = state
                .get(state.find(plan, node)?)?
                .token
                .filter(|_| *failure.message == *FORGOTTEN)?;
            let has = self.far.workers.iter().any(|worker| worker.tasks.contains_key(&token));
            has.then(|| Arc::clone(node))
        });
        if let Some(node) = had {
            let what = format!("{node} of x{} is given up, and its worker has it", execution.0);
            self.fail("remote", what);
        }
    }
}
