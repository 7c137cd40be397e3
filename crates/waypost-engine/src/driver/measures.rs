//! What a step of the driver measured: plain numbers, which the shell publishes. Nothing here has a
//! clock but the step's time.

use std::time::Duration;

use waypost_core::event::{Event, FailureEnd, NodeEvent, RunEvent};
use waypost_core::failure::kind;
use waypost_core::id::ExecutionId;
use waypost_core::slot::SlotCounts;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};

use super::Driver;
use super::live::Live;

/// The counts of the last step, and the spans that ended in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measures {
    /// Executions whose first frame is durable.
    pub started: u64,
    pub ended: Vec<Status>,
    /// Attempts that ended, in the order of [`AttemptEnd::NAMES`].
    pub attempts: [u64; AttemptEnd::NAMES.len()],
    /// Executions whose last owner was gone.
    pub takeovers: u64,
    pub quarantined: u64,
    /// Frames that were fenced: another frame was in their place.
    pub fenced: u64,
    pub claimed: u64,
    /// Those of them of which a copy was at hand, so that their logs were not read.
    pub copied: u64,
    /// Executions that turned out to belong to another instance.
    pub lost: Vec<ExecutionId>,
    pub offers_repeated: u64,
    pub reports_refused: u64,
    /// Tokens that attempts reported as used: of requests, and of replies.
    pub tokens: [u64; 2],
    /// What they cost, in millionths.
    pub cost: u64,
    /// Attempts that budgets have no room for.
    pub reservations_refused: u64,
    /// Executions that were paused for that.
    pub budget_pauses: u64,
    /// How long each execution occupied the driver: to be created, to decide its mailbox, or to act on
    /// a commit.
    pub decided: Vec<Duration>,
    /// From the moment an attempt might start to the order to run it.
    pub schedule_to_start: Vec<Millis>,
    /// From a due time to the step that acts upon it.
    pub timer_lateness: Vec<Millis>,
    /// From a worker's report to the commit of what follows from it.
    pub report_to_commit: Vec<Millis>,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptEnd {
    Completed,
    /// It failed; there may be another.
    Failed,
    /// It took too long, and there is no other.
    TimedOut,
    /// It was lost through no fault of its node.
    Abandoned,
    Cancelled,
    /// Its process or worker was stopped in order, and gave it back.
    HandedOver,
}

impl AttemptEnd {
    /// Their names on a page of metrics, in the order of the variants.
    pub const NAMES: [&'static str; 6] =
        ["completed", "failed", "timed_out", "abandoned", "cancelled", "handed_over"];

    fn of(event: &Event, live: &Live) -> Option<Self> {
        match event {
            Event::Node(NodeEvent::Completed { .. }) => Some(Self::Completed),
            Event::Node(NodeEvent::Failed { failure, end, .. }) => Some(match end {
                FailureEnd::Abandoned(_) if failure.is_handed_over() => Self::HandedOver,
                FailureEnd::RetryAt(_) | FailureEnd::Final => Self::Failed,
                FailureEnd::TimedOut => Self::TimedOut,
                FailureEnd::Abandoned(_) => Self::Abandoned,
            }),
            // A node that was stopped before its first attempt had none.
            Event::Node(NodeEvent::Cancelled { node, .. }) => {
                let at = live.state.find(&live.plan, node);
                let had_one = at.is_none_or(|at| live.state.node(at).attempt > 0);
                had_one.then_some(Self::Cancelled)
            }
            _ => None,
        }
    }
}

/// The attempts that wait for a slot, or for a remote worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    pub depth: u64,
    pub oldest: Millis,
    /// How many have waited for longer than they should.
    pub too_long: u64,
    /// Executions in memory that have been SCHEDULED, with nothing handed off, for longer than that.
    pub scheduled_too_long: u64,
}

impl Queue {
    /// The queues of several drivers, as one.
    pub(crate) fn of_all(queues: &[Self]) -> Self {
        queues.iter().fold(Self::default(), |all, one| Self {
            depth: all.depth + one.depth,
            oldest: all.oldest.max(one.oldest),
            too_long: all.too_long + one.too_long,
            scheduled_too_long: all.scheduled_too_long + one.scheduled_too_long,
        })
    }
}

impl Measures {
    /// Was there nothing?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Forgets the last step; keeps the memory of its lists.
    pub(super) fn clear(&mut self) {
        let mut kept = std::mem::take(self);
        kept.ended.clear();
        kept.lost.clear();
        kept.decided.clear();
        kept.schedule_to_start.clear();
        kept.timer_lateness.clear();
        kept.report_to_commit.clear();
        let Self { ended, lost, decided, schedule_to_start, .. } = kept;
        let lists = Self { ended, lost, decided, schedule_to_start, ..Self::default() };
        let Self { timer_lateness, report_to_commit, .. } = kept;
        *self = Self { timer_lateness, report_to_commit, ..lists };
    }

    pub(super) fn committed(&mut self, events: &[Event], live: &Live) {
        for event in events {
            self.spent(event, live);
            match event {
                Event::Run(RunEvent::Created(_)) => self.started += 1,
                Event::Run(RunEvent::Quarantined { .. }) => self.quarantined += 1,
                _ if event.is_end() => self.ended.push(live.state.status),
                _ => {
                    if let Some(end) = AttemptEnd::of(event, live) {
                        self.attempts[end as usize] += 1;
                    }
                }
            }
        }
    }

    /// What an event says about tokens and budgets.
    fn spent(&mut self, event: &Event, live: &Live) {
        match event {
            Event::Node(NodeEvent::Used(used)) => {
                self.tokens[0] = self.tokens[0].saturating_add(used.usage.input);
                self.tokens[1] = self.tokens[1].saturating_add(used.usage.output);
                self.cost = self.cost.saturating_add(used.cost.map_or(0, |cost| cost.0));
            }
            // A container may fail as one of its nodes did.
            Event::Node(NodeEvent::Failed { node, failure, .. })
                if failure.kind == kind::BUDGET_EXHAUSTED =>
            {
                let at = live.plan.locate(node);
                let is_metered = at.is_some_and(|at| live.plan.node(at).meter.is_some());
                self.reservations_refused += u64::from(is_metered);
            }
            Event::Run(RunEvent::BudgetExhausted { .. }) => {
                self.reservations_refused += 1;
                self.budget_pauses += 1;
            }
            _ => {}
        }
    }

    pub(super) fn timer(&mut self, due: Timestamp, now: Timestamp) {
        self.timer_lateness.push(now.since(due));
    }

    pub(super) fn attempt_begins(&mut self, scheduled: Timestamp, now: Timestamp) {
        self.schedule_to_start.push(now.since(scheduled));
    }

    pub(super) fn reports_landed(&mut self, reported: &[Timestamp], now: Timestamp) {
        self.report_to_commit.extend(reported.iter().map(|at| now.since(*at)));
    }
}

impl Driver {
    /// The measures of the last step.
    pub fn measures(&self) -> &Measures {
        &self.measures
    }

    /// Slots that are taken.
    pub fn slots_busy(&self) -> SlotCounts {
        self.slots.busy()
    }

    /// Attempts that remote workers make.
    pub fn running_remote(&self) -> usize {
        self.remote.running()
    }

    /// The state of the queue, of attempts that wait for a slot or for a remote worker. Walks all
    /// of it: not for every step.
    pub fn queue(&self) -> Queue {
        let mut queue = Queue::default();
        let here = self.slots.offers().filter(|offer| !self.remote.is_open(offer)).copied();
        for offer in here.chain(self.remote.waiting()) {
            let live = self.live.get(&offer.execution);
            if live.is_none_or(|live| !live.is_queued(offer.node, offer.attempt)) {
                continue; // it was cancelled, or the execution is gone
            }
            let age = self.now.since(offer.since);
            queue.depth += 1;
            queue.oldest = queue.oldest.max(age);
            queue.too_long += u64::from(age > self.config.queued_too_long);
        }
        let scheduled = self.live.values().filter(|live| live.state.status == Status::Scheduled);
        let ages = scheduled.map(|live| self.now.since(live.state.updated_at));
        let too_long = ages.filter(|age| *age > self.config.queued_too_long).count();
        queue.scheduled_too_long = u64::try_from(too_long).unwrap_or(u64::MAX);
        queue
    }
}
