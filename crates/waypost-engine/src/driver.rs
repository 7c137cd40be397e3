//! The driver: the synchronous heart of the engine.
//!
//! ```text
//!                      ┌──────────────────────── Driver::step(now) ────────────────────────┐
//!   Input ────────────▶│ route to mailboxes ─▶ decide, one frame an execution ─▶ hold back │──▶ Output
//!   submissions        │        ▲                                         effects, replies │   appends
//!   commit answers     │        └───────── effects of what was committed ◀────────┘         │   tasks
//!   reports, mail      └───────────────────────────────────────────────────────────────────┘   replies
//! ```
//!
//! It owns the live executions, their mailboxes and timers. It has no clock, thread, channel or
//! I/O: the shell carries inputs and outputs, and a simulator can do so instead. At most one append
//! per execution is in flight; commands that come meanwhile wait and are decided together. Effects
//! and replies are held back until the commit that they follow from.

mod admission;
mod answer;
mod children;
mod claims;
mod drivers;
mod ends;
mod fetching;
mod following;
mod ids;
mod io;
mod leaving;
mod live;
mod measures;
mod output;
mod posting;
mod remote;
mod requests;
mod routes;
mod running;
mod sharing;
mod slots;
mod stopwatch;
mod suspicion;
mod taking;
mod wheel;

use std::collections::VecDeque;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use waypost_core::command::{Command, Env};
use waypost_core::event::WAITS_LOG_FORMAT;
use waypost_core::expr::Contents;
use waypost_core::id::{AppendId, ExecutionId, ExecutionNo, InstanceId};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::slot::SlotCounts;
use waypost_core::time::{Now, Timestamp};

pub use children::{Emits, FoundChild, LaunchOrder};
pub use drivers::Drivers;
pub(crate) use drivers::{driver_family, least};
pub use io::{Answer, Committed, EndSummary, Input, Loaded};
pub use io::{ControlRequest, Look, OfferOrder, Outgoing, Output, Start, StartRequest, StoreWork};
pub use io::{TaskOrder, TaskWork, Ticket};
pub(crate) use live::panic_text;
use live::{Broken, Decided, Letter, Live, Round};
pub use measures::{AttemptEnd, Measures, Queue};
pub use remote::TaskReport;
pub use remote::{DEAD, FORGOTTEN};
pub(crate) use routes::route;
pub(crate) use sharing::DRIVERS_MAX;
pub use stopwatch::Stopwatch;
pub use suspicion::Suspicion;

use crate::config::Config;
use crate::tokens::TokenIssuer;

/// See the module.
pub struct Driver {
    config: Config,
    instance: InstanceId,
    sibling: sharing::Sibling,
    live: HashMap<ExecutionNo, Live>,
    admission: admission::Admission,
    /// Executions with something in their mailbox and nothing in flight, in order of arrival.
    ready: VecDeque<ExecutionNo>,
    wheel: wheel::Wheel,
    slots: slots::Slots,
    remote: remote::Remote,
    /// Verifies the tokens of remote attempts.
    issuer: TokenIssuer,
    ends: ends::EndWatchers,
    adopted: HashSet<ExecutionNo>,
    /// Executions to be started, which wait for numbers.
    launches: VecDeque<children::PendingLaunch>,
    /// Executions whose place in a queue the store rejected, and how many hold the permits.
    rejected: HashMap<ExecutionNo, u64>,
    /// The newest log format that every live instance reads.
    readable: u16,
    claims: claims::Claims,
    /// Executions with many bytes of stored signals that stay in memory for more of them.
    staying: HashSet<ExecutionNo>,
    suspects: suspicion::Suspects,
    /// Bytes of the frames that are on their way to the store.
    in_flight_bytes: usize,
    /// Requests that are on their way into inboxes.
    delivering: usize,
    draining: bool,
    /// Executions that close their attempts as handed over, and have not committed that yet.
    handing_over: HashSet<ExecutionNo>,
    /// The time of the step: the store's, or a little before.
    now: Timestamp,
    /// The store's time, or a little after.
    now_max: Timestamp,
    laps: stopwatch::Laps,
    /// Of the step.
    measures: measures::Measures,
    /// Of the step.
    outputs: Vec<Output>,
    ids: ids::Ids,
}

impl Driver {
    /// A driver with nothing to do. `seed` is the source of its ids, `issuer` verifies the tokens of
    /// this cluster.
    pub fn new(config: Config, instance: InstanceId, seed: u128, issuer: TokenIssuer) -> Self {
        Self::with(config, instance, seed, issuer, sharing::Sibling::alone())
    }

    fn with(
        config: Config,
        instance: InstanceId,
        seed: u128,
        issuer: TokenIssuer,
        sibling: sharing::Sibling,
    ) -> Self {
        // Where there are others, all slots are free, and each step borrows some.
        let slots = match sibling.is_alone() {
            true => slots::Slots::new(&config),
            false => slots::Slots::new(&Config { slots: 0, io_slots: 0, ..config.clone() }),
        };
        Self {
            remote: remote::Remote::default(),
            issuer,
            slots,
            claims: claims::Claims::default(),
            config,
            instance,
            sibling,
            live: HashMap::new(),
            admission: admission::Admission::default(),
            ready: VecDeque::new(),
            wheel: wheel::Wheel::default(),
            ends: ends::EndWatchers::default(),
            adopted: HashSet::new(),
            launches: VecDeque::new(),
            rejected: HashMap::new(),
            readable: u16::MAX,
            staying: HashSet::new(),
            suspects: suspicion::Suspects::default(),
            in_flight_bytes: 0,
            delivering: 0,
            draining: false,
            handing_over: HashSet::new(),
            now: Timestamp(i64::MIN),
            now_max: Timestamp(i64::MIN),
            laps: stopwatch::Laps::default(),
            measures: measures::Measures::default(),
            outputs: Vec::new(),
            ids: ids::Ids::new(seed),
        }
    }

    /// Takes inputs, at this time, and returns outputs.
    pub fn step(
        &mut self,
        now: impl Into<Now>,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Output>,
    ) {
        let Now { least: now, most } = now.into();
        (self.now, self.now_max) = (now, most.max(now));
        self.measures.clear();
        std::mem::swap(&mut self.outputs, outputs);
        inputs.drain(..).for_each(|input| self.take(input));
        while let Some((due, execution)) = self.wheel.pop_due(now) {
            self.measures.timer(due, now);
            self.post(execution, Letter::command(Command::Tick));
        }
        self.begin_sharing();
        self.number_launches();
        // First: a flood of submissions must not take the slots that queued attempts wait for.
        self.hand_out_slots();
        self.admit();
        // A promise that comes to nothing leaves its slot to the next in the queue, now: there may be
        // no other input for a while.
        loop {
            self.hand_out_slots();
            self.offer_due();
            if self.ready.is_empty() || !self.has_room_in_flight() {
                break;
            }
            self.laps.begin();
            while self.has_room_in_flight()
                && let Some(execution) = self.ready.pop_front()
            {
                self.decide(execution);
                self.end_lap();
            }
        }
        self.ask_to_doubt();
        self.watch_workers();
        self.ask_store();
        self.end_sharing();
        std::mem::swap(&mut self.outputs, outputs);
    }

    /// When `step` must be called even if nothing comes in.
    pub fn next_wake(&self) -> Timestamp {
        let never = Timestamp(i64::MAX);
        let ask = match self.draining {
            true if self.live.is_empty() => never,
            true => self.claims.next_look_at(),
            false => self.claims.next_at().min(self.remote_wake()),
        };
        ask.min(self.wheel.next_due().unwrap_or(never))
    }

    /// Are parked and owned executions copied to a mirror?
    pub fn has_mirror(&self) -> bool {
        self.config.contexts
    }

    /// Whose driver it is.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The executions in memory, which this instance owns.
    pub fn owned(&self) -> Vec<ExecutionId> {
        self.live.values().map(|live| live.state.created.key.clone()).collect()
    }

    /// Executions in memory.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Executions that it has, or accepts next.
    pub(crate) fn load(&self) -> usize {
        self.live.len() + self.admission.waiting()
    }

    fn take(&mut self, input: Input) {
        let now = self.now;
        match input {
            Input::Start(start) => self.submit(start),
            Input::Appended(answers) => {
                self.laps.begin();
                for (execution, appended) in answers {
                    self.appended(execution, appended);
                    self.end_lap();
                }
            }
            Input::Report { execution, report, token_free } => {
                self.local_report(execution, report, token_free);
            }
            Input::Mark { execution, report, ticket } => self.mark(execution, report, ticket),
            Input::TaskReport { report, ticket, only_here } => {
                self.task_report(report, ticket, only_here);
            }
            Input::WorkersSeen { asked, seen, serving, .. } => {
                self.workers_seen(&asked, seen.as_deref(), &serving);
            }
            Input::Request { request, ticket } => self.request(request, ticket),
            Input::Mail(mail) => mail.into_iter().for_each(|mail| self.mail(mail)),
            Input::Claimed { loaded, copied, more, next_due, at, answered, .. } => {
                let free = more && self.may_take_suspect_besides(&loaded);
                self.claims.answered(now, (loaded.len(), more, free), next_due, &self.config);
                if answered {
                    self.claims.count_answered();
                } else if !is_planted(Bug::ClaimForgotten) {
                    self.claims.count_unanswered();
                }
                self.measures.copied += copied;
                self.measures.claimed += u64::try_from(loaded.len()).unwrap_or(0);
                loaded.into_iter().for_each(|loaded| self.claimed(loaded, Some(at)));
                self.claims.took_claim(now);
            }
            Input::Fetched { execution, wanted, content } => {
                self.fetched(execution, wanted, content)
            }
            Input::Launched { execution, node, attempt, found } => {
                self.launched(execution, (node, attempt), found);
            }
            Input::Held => self.measures.quarantined += 1,
            Input::Reloaded(loaded) => self.claimed(*loaded, None),
            Input::Delivered { execution, ticket, answer } => {
                self.delivered(execution, ticket, answer);
            }
            Input::Doubted { executions, owned } => self.marked(&executions, &owned),
            Input::Collected { whole, .. } => self.claims.collected(now, whole, &self.config),
            Input::Numbers(numbers) => {
                self.admission.refill(numbers);
                self.claims.numbers_came();
            }
            Input::AwaitEnd { execution, ticket } => self.await_end(execution, ticket),
            Input::EndFound { execution, answer } => self.end_found(execution, &answer),
            Input::Reopen(retry) => self.reopen(*retry),
            Input::Forget { execution, ticket } => self.ends.forget(execution, ticket),
            Input::Adopt(execution) => {
                self.adopted.insert(execution);
                self.claims.nudge(now);
            }
            Input::Nudge => self.claims.nudge(now),
            Input::Wake => self.woken(),
            Input::MailWaits => self.claims.look_for_mail(now),
            Input::Renewed { until } => self.renewed(until),
            Input::Readable(fold) => self.readable = fold,
            Input::Lapsed => self.slots.lapsed(),
            Input::Drain => self.drain(),
            Input::HandOver => self.hand_over(),
        }
    }

    fn decide(&mut self, execution: ExecutionNo) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        live.leave_ready();
        if !live.may_decide() || self.is_put_in_doubt(execution) {
            return;
        }
        let divisor = self.time_divisor();
        let mut env = self.env();
        let append_id = AppendId(self.ids.uuid());
        let Some(live) = self.live.get_mut(&execution) else { return };
        let time = live.not_before_parent(Now { least: env.now, most: env.now_max });
        (env.now, env.now_max) = (time.least, time.most);
        live.starting.clear();
        if !self.draining {
            env.slots = self.slots.available_to(live.promised_slots(), self.now);
        }
        let decide_max = self.config.decide_max.to_std() / divisor;
        env.items_opened_max = env.items_opened_max.div_ceil(divisor.into());
        let stay = sharing::part(live::STAYING_MAX, self.sibling.share).max(1);
        let round = Round {
            env,
            append_id,
            draining: self.draining,
            decide_max,
            may_stay: self.staying.contains(&execution) || self.staying.len() < stay,
            config: &self.config,
            slots: &self.slots,
            laps: &self.laps,
        };
        let decided = live.decide(&round, &mut self.outputs);
        match live.stays_until {
            Some(_) => self.staying.insert(execution),
            None => self.staying.remove(&execution),
        };
        self.measures.reports_refused += std::mem::take(&mut live.reports_refused);
        match decided {
            Ok(Decided::Appended) => self.in_flight_bytes += live.in_flight_bytes(),
            Ok(Decided::Nothing(next)) => {
                if live.mailbox.is_empty() && next.evaluations.is_empty() {
                    self.settled(execution);
                }
                self.follow_up(execution, *next);
            }
            Err(Broken { reason, tickets }) => {
                self.drop_live(execution);
                self.outputs.push(Output::Store(StoreWork::Hold { execution, reason }));
                self.answer_all(tickets, &Answer::Moved);
            }
        }
    }

    fn env(&mut self) -> Env {
        let entropy = self.ids.random();
        let slots = match self.draining {
            true => SlotCounts::default(),
            false => self.slots.available(self.now),
        };
        let Config { items_opened_max, takers_max, map_results_bytes_max, .. } = self.config;
        let takers_max = (self.readable >= WAITS_LOG_FORMAT).then_some(takers_max);
        let Self { now, now_max, instance, .. } = *self;
        let contents = Contents::without_references();
        Env {
            now,
            now_max,
            instance,
            slots,
            entropy,
            items_opened_max,
            takers_max,
            map_results_bytes_max,
            contents,
        }
    }
}
