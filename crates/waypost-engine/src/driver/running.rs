//! Attempts on this instance: slots are promised, attempts start, wait for the lease and are
//! cancelled.

use waypost_core::command::{Command, Outcome, Report};
use waypost_core::id::{ExecutionNo, Token};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::Driver;
use super::io::{Answer, Output, TaskOrder, Ticket};
use super::live::Letter;
use super::slots::{Offer, SlotGrant};

impl Driver {
    /// Promises free slots to attempts that wait for one; each is taken when its start is decided.
    pub(super) fn hand_out_slots(&mut self) {
        while !self.draining {
            self.borrow_for_offers();
            let Some(promise) = self.slots.next_promise(self.now) else { return };
            let Offer { execution, node, attempt, .. } = promise.offer;
            if let Some(live) = self.live.get_mut(&execution) {
                live.promised.push_back(promise);
                self.post(execution, Letter::command(Command::Start { node, attempt }));
            }
        }
    }

    /// The lease is confirmed: attempts that waited for it start, unless they were given up
    /// meanwhile.
    pub(super) fn renewed(&mut self, until: Timestamp) {
        for (order, slot) in self.slots.renewed(self.now, until) {
            // A frame that is still in flight may have given it up.
            let token = order.task.token;
            let live = self.live.get(&order.execution);
            if live.is_some_and(|live| live.running_tokens().any(|running| running == token))
                || is_planted(Bug::KeptBackRunsAnyway)
            {
                self.run(order, slot);
            }
        }
    }

    /// Has an attempt made, as soon as that is safe.
    pub(super) fn run(&mut self, order: TaskOrder, slot: SlotGrant) {
        if self.slots.are_safe(self.now) {
            self.measures.attempt_begins(order.since, self.now);
            self.slots.began(order.task.token, slot);
            self.outputs.push(Output::Run(order));
        } else if !self.draining {
            self.slots.keep_back(order, slot);
        }
    }

    /// A report on an attempt that runs here; it may free the attempt's slot.
    pub(super) fn local_report(
        &mut self,
        execution: ExecutionNo,
        report: Report,
        token_free: bool,
    ) {
        if token_free {
            self.slots.ended(report.token);
        }
        if let Some(live) = self.live.get_mut(&execution) {
            live.reported.push(self.now);
        }
        self.report(execution, report);
    }

    /// A mark of an attempt that runs here. It is answered when it is committed or refused.
    pub(super) fn mark(&mut self, execution: ExecutionNo, report: Report, ticket: Ticket) {
        if self.live.contains_key(&execution) {
            let command = Command::Report(report);
            self.post(execution, Letter { command, ticket: Some(ticket), mail: None });
        } else {
            self.outputs.push(Output::Answer(ticket, Answer::NotHere));
        }
    }

    /// Stops an attempt. One that waits for a confirmed lease has not started and is dropped.
    pub(super) fn stop_task(&mut self, token: Token) {
        match self.slots.take_kept(token) {
            None => self.outputs.push(Output::Cancel(token)),
            Some(TaskOrder { execution, task, .. }) => {
                let (node, attempt, outcome) = (task.path, task.attempt, Outcome::Cancelled);
                let worker = None;
                self.report(execution, Report { node, attempt, token, worker, outcome });
            }
        }
    }
}
