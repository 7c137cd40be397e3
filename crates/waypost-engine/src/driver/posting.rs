//! Letters to the executions in memory, and answers to callers.

use waypost_core::command::{Command, Report};
use waypost_core::id::ExecutionNo;

use super::Driver;
use super::io::{Answer, Output, Ticket};
use super::live::{Letter, Live};

impl Driver {
    pub(super) fn post(&mut self, execution: ExecutionNo, letter: Letter) {
        if let Some(live) = self.live.get_mut(&execution) {
            live.receive(letter);
            self.enqueue(execution);
        }
    }

    /// Queues an execution to decide its mailbox, if it may.
    pub(super) fn enqueue(&mut self, execution: ExecutionNo) {
        if self.live.get_mut(&execution).is_some_and(Live::becomes_ready) {
            self.ready.push_back(execution);
        }
    }

    pub(super) fn report(&mut self, execution: ExecutionNo, report: Report) {
        self.post(execution, Letter::command(Command::Report(report)));
    }

    pub(super) fn answer_all(
        &mut self,
        tickets: impl IntoIterator<Item = Ticket>,
        answer: &Answer,
    ) {
        let answers = tickets.into_iter().map(|ticket| Output::Answer(ticket, answer.clone()));
        self.outputs.extend(answers);
    }
}
