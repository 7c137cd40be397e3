//! Callers that await the end of an execution, in memory or not.

use foldhash::HashMap;
use waypost_core::id::ExecutionNo;
use waypost_core::time::Timestamp;

use super::Driver;
use super::io::{Answer, Output, StoreWork, Ticket};
use crate::room::shrink;

/// Ends that are looked up at once: each is an execution to be read.
const ENDS_AT_ONCE: usize = 64;

/// The callers that await ends. A caller stays when its execution leaves memory.
#[derive(Default)]
pub(super) struct EndWatchers {
    tickets: HashMap<ExecutionNo, Vec<Ticket>>,
    /// When to look next for executions that other instances have ended.
    look_at: Timestamp,
    looked_for: Option<ExecutionNo>,
}

impl EndWatchers {
    pub(super) fn watch(&mut self, execution: ExecutionNo, ticket: Ticket) {
        self.tickets.entry(execution).or_default().push(ticket);
    }

    /// The callers that await this end; they are answered now.
    pub(super) fn take(&mut self, execution: ExecutionNo) -> Vec<Ticket> {
        self.tickets.remove(&execution).unwrap_or_default()
    }

    pub(super) fn is_awaited(&self, execution: ExecutionNo) -> bool {
        self.tickets.contains_key(&execution)
    }

    pub(super) fn forget(&mut self, execution: ExecutionNo, ticket: Ticket) {
        if let Some(waiting) = self.tickets.get_mut(&execution) {
            waiting.retain(|other| *other != ticket);
            if waiting.is_empty() {
                self.tickets.remove(&execution);
            }
        }
    }

    pub(super) fn shrink(&mut self) {
        shrink!(self.tickets);
    }
}

impl Driver {
    /// A caller awaits an end. If the execution is not in memory, it may have ended already.
    pub(super) fn await_end(&mut self, execution: ExecutionNo, ticket: Ticket) {
        self.ends.watch(execution, ticket);
        if !self.live.contains_key(&execution) {
            self.outputs.push(Output::Store(StoreWork::FindEnd(execution)));
        }
    }

    /// Looks up ends that other instances have recorded, a few at a time and in turn. An execution
    /// in memory ends here.
    pub(super) fn look_for_ends(&mut self) {
        let now = self.now;
        let ends = &mut self.ends;
        if !self.config.among_others || now < ends.look_at || ends.tickets.is_empty() {
            return;
        }
        ends.look_at = now.plus(self.config.poll_every);
        let remote = |id: &&ExecutionNo| !self.live.contains_key(id);
        let mut awaited: Vec<_> = ends.tickets.keys().filter(remote).copied().collect();
        awaited.sort_unstable();
        let next = awaited.partition_point(|id| Some(*id) <= ends.looked_for);
        let turn = awaited.iter().cycle().skip(next).take(awaited.len().min(ENDS_AT_ONCE));
        for execution in turn {
            ends.looked_for = Some(*execution);
            self.outputs.push(Output::Store(StoreWork::FindEnd(*execution)));
        }
    }

    pub(super) fn end_found(&mut self, execution: ExecutionNo, answer: &Answer) {
        self.adopted.remove(&execution);
        let tickets = self.ends.take(execution);
        self.answer_all(tickets, answer);
    }
}
