//! Submissions: they wait in a backlog until there is room in memory and a number for them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use waypost_core::event::{Origin, RunCreated};
use waypost_core::id::{AppendId, ExecutionNo};
use waypost_ports::store::Submission;

use super::Driver;
use super::io::{Answer, Start, Ticket};
use super::live::{Live, Round};
use super::sharing;
use crate::config::Scope;
use crate::room::shrink;

#[derive(Default)]
pub(super) struct Admission {
    backlog: VecDeque<Start>,
    numbers: Range<i64>,
}

impl Admission {
    pub(super) fn push(&mut self, start: Start) {
        self.backlog.push_back(start);
    }

    /// Rejects all waiting submissions; returns the tickets to answer.
    pub(super) fn close(&mut self) -> Vec<Ticket> {
        self.backlog.drain(..).map(|start| start.ticket).collect()
    }

    pub(super) fn refill(&mut self, numbers: Range<i64>) {
        self.numbers = numbers;
    }

    pub(super) fn is_out_of_numbers(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The next submission, with a number that it may have: not one in use. A store that lost its latest commits may
    /// give out numbers a second time.
    fn next(&mut self, may_use: impl Fn(ExecutionNo) -> bool) -> Option<(ExecutionNo, Start)> {
        if self.backlog.is_empty() {
            return None;
        }
        let number = self.number(may_use)?;
        Some((number, self.backlog.pop_front()?))
    }

    /// A number for an execution that another one starts.
    pub(super) fn number(&mut self, may_use: impl Fn(ExecutionNo) -> bool) -> Option<ExecutionNo> {
        self.numbers.by_ref().map(ExecutionNo).find(|number| may_use(*number))
    }

    pub(super) fn waiting(&self) -> usize {
        self.backlog.len()
    }

    pub(super) fn shrink(&mut self) {
        shrink!(self.backlog);
    }
}

impl Driver {
    /// Takes a submission, unless it cannot be started here.
    pub(super) fn submit(&mut self, start: Start) {
        let (needs, readable) = (start.request.plan.requires(), self.readable);
        let refused = if self.draining {
            Answer::Draining
        } else if needs > readable {
            Answer::ClusterTooOld { needs, readable }
        } else {
            return self.admission.push(start);
        };
        self.answer_all([start.ticket], &refused);
    }

    /// Free places in memory, without those reserved for claims under way. Executions that wait for
    /// remote workers have places of their own: a handler without workers must not keep other
    /// executions out.
    pub(super) fn room(&self) -> usize {
        let remote = self.remote.executions_waiting().min(self.config.remote_max);
        let here = self.live.len().saturating_sub(remote);
        self.config.active_max.saturating_sub(here + self.claims.places())
    }

    /// Accepts submissions while there is room in memory and there are numbers left. Where a
    /// claim was put off for lack of room, it has its turn first: a flood of submissions must not
    /// starve what waits in the store.
    pub(super) fn admit(&mut self) {
        if self.claims.is_crowded_out() {
            return;
        }
        self.laps.begin();
        while self.room() > 0
            && self.has_room_in_flight()
            && let Some((execution, start)) = self
                .admission
                .next(|number| self.sibling.share.has(number) && !self.live.contains_key(&number))
        {
            self.start(execution, start);
            self.end_lap();
        }
    }

    fn start(&mut self, execution: ExecutionNo, start: Start) {
        let Start { request, ticket, await_end } = start;
        let key = request.key.unwrap_or_else(|| self.ids.key(self.now));
        let (fired, fire) = request.fire.map(|both| *both).unzip();
        let submission = Submission {
            key: key.clone(),
            idempotency: request.idempotency.map(Box::new),
            fire: fire.map(Box::new),
        };
        let created = RunCreated {
            key,
            workflow: Arc::clone(&request.plan.workflow),
            version: request.version,
            definition: request.plan.hash,
            input: request.input,
            labels: request.labels,
            deadline: request.plan.timeout.map(|span| self.now_max.plus(span)),
            origin: Origin { message: None, actor: request.actor },
            parent: None,
            trigger: fired.map(Box::new),
        };
        if let Some(watcher) = await_end {
            self.ends.watch(execution, watcher);
        }
        if self.config.scope == Scope::Adopted {
            self.adopted.insert(execution);
        }
        let mut env = self.env();
        env.contents = request.contents;
        let first = (created, request.signal);
        let (mut live, decision) = Live::create(request.plan, execution, first, &env);
        let round = Round {
            env,
            append_id: AppendId(self.ids.uuid()),
            draining: self.draining,
            decide_max: self.config.decide_max.to_std(),
            may_stay: false,
            config: &self.config,
            slots: &self.slots,
            laps: &self.laps,
        };
        self.outputs.push(live.append_first(&round, decision, (submission, ticket)));
        self.in_flight_bytes += live.in_flight_bytes();
        self.live.insert(execution, live);
    }

    /// May more be decided before the store has committed what is on its way? If not, an answer of the
    /// store brings the next step.
    pub(super) fn has_room_in_flight(&self) -> bool {
        let max = sharing::part(self.config.in_flight_bytes_max, self.sibling.share).max(1);
        self.in_flight_bytes < max
    }
}
