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

mod answer;
mod claims;
mod ids;
mod io;
mod leaving;
mod live;
mod measures;
mod output;
mod remote;
mod requests;
mod slots;
mod suspicion;
mod taking;
mod wheel;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use waypost_core::command::{Command, Env, Outcome, Report};
use waypost_core::event::{Origin, RunCreated};
use waypost_core::id::{AppendId, ExecutionId, ExecutionNo, InstanceId, Token};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Now, Timestamp};
use waypost_ports::store::{Appended, Submission};

pub use io::{Answer, Committed, EndSummary, Input, Loaded};
pub use io::{ControlRequest, Look, OfferOrder, Outgoing, Output, Start, StoreWork};
pub use io::{TaskOrder, TaskWork, Ticket};
pub(crate) use live::panic_text;
use live::{Broken, Decided, Letter, Live};
pub use measures::{AttemptEnd, Measures, Queue};
pub use remote::TaskReport;
pub use remote::{DEAD, FORGOTTEN};
pub use suspicion::Suspicion;

use crate::config::{Config, Scope};
use crate::tokens::Mint;

/// See the module.
pub struct Driver {
    config: Config,
    instance: InstanceId,
    live: HashMap<ExecutionNo, Live>,
    /// Submissions that wait until there is room.
    backlog: VecDeque<Start>,
    /// Executions with something in their mailbox and nothing in flight, in order of arrival.
    ready: VecDeque<ExecutionNo>,
    wheel: wheel::Wheel,
    slots: slots::Slots,
    /// What is made remotely.
    remote: remote::Remote,
    /// Knows the tokens of what is made remotely.
    mint: Mint,
    /// Who wants to hear of an execution's end; outlives its stay in memory.
    waiting_for_end: HashMap<ExecutionNo, Vec<Ticket>>,
    /// When to look next for ends that others may have brought about, and after which execution.
    ends_at: Timestamp,
    ends_after: ExecutionNo,
    adopted: HashSet<ExecutionNo>,
    /// The newest fold that everybody alive reads.
    readable: u16,
    claims: claims::Claims,
    /// Those that keep many bytes of signals and stay in memory for more of them.
    staying: HashSet<ExecutionNo>,
    /// Suspects in memory that are in doubt: one, as a rule.
    doubted: HashSet<ExecutionNo>,
    /// Suspects with something to decide, while another one is in doubt.
    undecided: Vec<ExecutionNo>,
    /// What the store is to mark as in doubt after this step.
    doubting: Vec<ExecutionNo>,
    numbers: std::ops::Range<i64>,
    /// Requests that are on their way into inboxes.
    delivering: usize,
    draining: bool,
    /// Executions that close their attempts as handed over, and have not committed that yet.
    handing_over: HashSet<ExecutionNo>,
    /// The time of the step: the store's, or a little before.
    now: Timestamp,
    /// The store's time, or a little after.
    now_max: Timestamp,
    /// Of the step.
    measures: measures::Measures,
    ids: ids::Ids,
}

impl Driver {
    /// A driver with nothing to do. `seed` is where its ids come from, `mint` knows the tokens that
    /// this cluster gives out.
    pub fn new(config: Config, instance: InstanceId, seed: u128, mint: Mint) -> Self {
        Self {
            remote: remote::Remote::default(),
            mint,
            slots: slots::Slots::new(config.slots, config.lease),
            claims: claims::Claims::default(),
            config,
            instance,
            live: HashMap::new(),
            backlog: VecDeque::new(),
            ready: VecDeque::new(),
            wheel: wheel::Wheel::default(),
            waiting_for_end: HashMap::new(),
            ends_at: Timestamp(i64::MIN),
            ends_after: ExecutionNo(i64::MIN),
            adopted: HashSet::new(),
            readable: u16::MAX,
            staying: HashSet::new(),
            doubted: HashSet::new(),
            undecided: Vec::new(),
            doubting: Vec::new(),
            numbers: 0..0,
            delivering: 0,
            draining: false,
            handing_over: HashSet::new(),
            now: Timestamp(i64::MIN),
            now_max: Timestamp(i64::MIN),
            measures: measures::Measures::default(),
            ids: ids::Ids::new(seed),
        }
    }

    /// Takes in what has come, at this time, and puts out what must be done.
    pub fn step(
        &mut self,
        now: impl Into<Now>,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Output>,
    ) {
        let Now { least: now, most } = now.into();
        (self.now, self.now_max) = (now, most.max(now));
        self.measures.clear();
        for input in inputs.drain(..) {
            self.take(now, input, outputs);
        }
        while let Some((due, execution)) = self.wheel.pop_due(now) {
            self.measures.timer(due, now);
            self.post(execution, Letter::command(Command::Tick));
        }
        self.admit(now, outputs);
        // A promise that comes to nothing leaves its slot to the next in the queue, now: there may be
        // no other input for a while.
        loop {
            self.hand_out_slots(now);
            self.offer_due(outputs);
            if self.ready.is_empty() {
                break;
            }
            while let Some(execution) = self.ready.pop_front() {
                self.decide(now, execution, outputs);
            }
        }
        self.ask_to_doubt(outputs);
        self.watch_workers(outputs);
        self.ask_store(now, outputs);
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

    /// Are copies made of what is parked and owned?
    pub fn has_mirror(&self) -> bool {
        self.config.contexts
    }

    /// Whose driver it is.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// What is in memory, and so owned.
    pub fn owned(&self) -> Vec<ExecutionId> {
        self.live.values().map(|live| live.state.created.key.clone()).collect()
    }

    /// Executions in memory.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    fn take(&mut self, now: Timestamp, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Start(start) if self.draining => {
                outputs.push(Output::Answer(start.ticket, Answer::Draining));
            }
            Input::Start(start) => self.backlog.push_back(start),
            Input::Appended(answers) => {
                for (execution, appended) in answers {
                    self.appended(execution, appended, outputs);
                }
            }
            Input::Report { execution, report, token_free } => {
                self.slots.give_back(u32::from(token_free));
                if let Some(live) = self.live.get_mut(&execution) {
                    live.reported.push(now);
                }
                self.report(execution, report);
            }
            Input::TaskReport { report, ticket, only_here } => {
                self.task_report(report, ticket, only_here, outputs);
            }
            Input::WorkersSeen { asked, seen, serving } => {
                self.workers_seen(&asked, seen.as_deref(), &serving);
            }
            Input::Request { request, ticket } => self.request(request, ticket, outputs),
            Input::Mail(mail) => mail.into_iter().for_each(|mail| self.mail(mail)),
            Input::Claimed { loaded, copied, more, next_due, at, answered } => {
                let alone = loaded.iter().any(|one| one.suspicion.is_alone());
                let free = self.doubted.is_empty() && !alone;
                self.claims.answered(now, (loaded.len(), more, free), next_due, &self.config);
                if answered {
                    self.claims.is_answered();
                } else if !is_planted(Bug::ClaimForgotten) {
                    self.claims.unanswered();
                }
                self.measures.copied += copied;
                self.measures.claimed += u64::try_from(loaded.len()).unwrap_or(0);
                loaded.into_iter().for_each(|loaded| self.claimed(loaded, Some(at), outputs));
            }
            Input::Held => self.measures.quarantined += 1,
            Input::Reloaded(loaded) => self.claimed(*loaded, None, outputs),
            Input::Delivered { execution, ticket, answer } => {
                self.delivered(execution, ticket, answer, outputs);
            }
            Input::Doubted { executions, owned } => self.marked(&executions, &owned, outputs),
            Input::Collected { whole } => self.claims.collected(now, whole, &self.config),
            Input::Numbers(numbers) => {
                self.numbers = numbers;
                self.claims.numbers_came();
            }
            Input::AwaitEnd { execution, ticket } => self.await_end(execution, ticket, outputs),
            Input::EndFound { execution, answer } => self.end_found(execution, &answer, outputs),
            Input::Reopen(retry) => self.reopen(*retry, outputs),
            Input::Forget { execution, ticket } => self.forget(execution, ticket),
            Input::Adopt(execution) => {
                self.adopted.insert(execution);
                self.claims.nudge(now);
            }
            Input::Nudge => self.claims.nudge(now),
            Input::MailWaits => self.claims.look_for_mail(now),
            Input::Renewed { until } => self.renewed(until, outputs),
            Input::Readable(fold) => self.readable = fold,
            Input::Lapsed => self.slots.lapsed(),
            Input::Drain => {
                self.draining = true;
                self.slots.drop_kept();
                let tickets = self.backlog.drain(..).map(|start| start.ticket);
                outputs.extend(tickets.map(|ticket| Output::Answer(ticket, Answer::Draining)));
            }
            Input::HandOver => self.hand_over(),
        }
    }

    /// Places in memory that are free and not kept for what is being claimed. What waits for workers
    /// elsewhere has places of its own: a handler that nobody serves must not keep everybody else out.
    fn room(&self) -> usize {
        let remote = self.remote.executions_waiting().min(self.config.remote_max);
        let here = self.live.len().saturating_sub(remote);
        self.config.active_max.saturating_sub(here + self.claims.places())
    }

    /// Accepts submissions while there is room in memory and there are numbers to give. Where a
    /// claim was put off for lack of room, it has its turn first: a flood of submissions must not
    /// starve what waits in the store.
    fn admit(&mut self, now: Timestamp, outputs: &mut Vec<Output>) {
        if self.claims.is_crowded_out() {
            return;
        }
        while self.room() > 0 && !self.numbers.is_empty() && !self.backlog.is_empty() {
            let execution = ExecutionNo(self.numbers.start);
            self.numbers.start += 1;
            // A store that lost its latest commits may hand out numbers a second time.
            if !self.live.contains_key(&execution)
                && let Some(start) = self.backlog.pop_front()
            {
                self.start(now, execution, start, outputs);
            }
        }
    }

    fn start(
        &mut self,
        now: Timestamp,
        execution: ExecutionNo,
        start: Start,
        outputs: &mut Vec<Output>,
    ) {
        let key = start.key.clone().unwrap_or_else(|| self.ids.key(now));
        let submission = Submission { key: key.clone(), idempotency: start.idempotency.clone() };
        let created = RunCreated {
            key,
            workflow: Arc::clone(&start.plan.workflow),
            version: start.version,
            definition: start.plan.hash,
            input: start.input,
            labels: start.labels,
            deadline: start.plan.timeout.map(|span| self.now_max.plus(span)),
            origin: Origin { message: None, actor: start.actor },
        };
        if let Some(ticket) = start.await_end {
            self.waiting_for_end.entry(execution).or_default().push(ticket);
        }
        if self.config.scope == Scope::Adopted {
            self.adopted.insert(execution);
        }
        let env = self.env(now);
        let (mut live, decision) = Live::create(start.plan, execution, created, &env);
        self.slots.take(live::runs_in(&decision.effects));
        let ids = (self.instance, AppendId(self.ids.uuid()));
        outputs.push(live.append_first(
            now,
            ids,
            decision,
            (submission, start.ticket),
            &self.config,
        ));
        self.live.insert(execution, live);
    }

    /// Puts a letter into a live execution's mailbox.
    fn post(&mut self, execution: ExecutionNo, letter: Letter) {
        if let Some(live) = self.live.get_mut(&execution) {
            live.receive(letter);
            self.enqueue(execution);
        }
    }

    /// Has an execution decide what is in its mailbox, if it may.
    fn enqueue(&mut self, execution: ExecutionNo) {
        if let Some(live) = self.live.get_mut(&execution)
            && live.may_decide()
            && !live.queued
            && !live.mailbox.is_empty()
        {
            live.queued = true;
            self.ready.push_back(execution);
        }
    }

    fn report(&mut self, execution: ExecutionNo, report: Report) {
        self.post(execution, Letter::command(Command::Report(report)));
    }

    /// Promises free slots to attempts that wait for one; each is taken when its start is decided.
    fn hand_out_slots(&mut self, now: Timestamp) {
        while !self.draining
            && let Some(offer) = self.slots.next_offer(now)
        {
            if let Some(live) = self.live.get_mut(&offer.execution) {
                live.promised.push(offer);
                self.slots.promise();
                let start = Command::Start { node: offer.node, attempt: offer.attempt };
                self.post(offer.execution, Letter::command(start));
            }
        }
    }

    /// The lease is confirmed: what was kept back may begin, where it is still to be made.
    fn renewed(&mut self, until: Timestamp, outputs: &mut Vec<Output>) {
        for order in self.slots.renewed(self.now, until) {
            // It may have been given up by a frame that is still on its way.
            let token = order.task.token;
            let live = self.live.get(&order.execution);
            if live.is_some_and(|live| live.running_tokens().any(|running| running == token))
                || is_planted(Bug::KeptBackRunsAnyway)
            {
                self.run(order, outputs);
            } else {
                self.slots.give_back(1);
            }
        }
    }

    /// Has an attempt made, as soon as that is safe.
    fn run(&mut self, order: TaskOrder, outputs: &mut Vec<Output>) {
        if self.slots.are_safe(self.now) {
            self.measures.attempt_begins(order.since, self.now);
            outputs.push(Output::Run(order));
        } else if self.draining {
            self.slots.give_back(1);
        } else {
            self.slots.keep_back(order);
        }
    }

    /// Has an attempt stopped. One that was kept back has not begun and never will.
    fn stop_task(&mut self, token: Token, outputs: &mut Vec<Output>) {
        match self.slots.take_kept(token) {
            None => outputs.push(Output::Cancel(token)),
            Some(TaskOrder { execution, task, .. }) => {
                self.slots.give_back(1);
                let (node, attempt, outcome) = (task.path, task.attempt, Outcome::Cancelled);
                let worker = None;
                self.report(execution, Report { node, attempt, token, worker, outcome });
            }
        }
    }

    fn decide(&mut self, now: Timestamp, execution: ExecutionNo, outputs: &mut Vec<Output>) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        live.queued = false;
        if !live.may_decide() || self.is_put_in_doubt(execution) {
            return;
        }
        let mut env = self.env(now);
        let ids = (self.instance, AppendId(self.ids.uuid()));
        let Some(live) = self.live.get_mut(&execution) else { return };
        let time = live.not_before_parent(Now { least: env.now, most: env.now_max });
        (env.now, env.now_max) = (time.least, time.most);
        live.starting = std::mem::take(&mut live.promised);
        self.slots.withdraw_promises(live.starting.len());
        if !self.draining {
            env.slots = self.slots.available(now);
        }
        live.may_stay = self.staying.contains(&execution) || self.staying.len() < live::STAYING_MAX;
        let decided = live.decide(&env, ids, self.draining, &self.config, outputs);
        match live.stays_until {
            Some(_) => self.staying.insert(execution),
            None => self.staying.remove(&execution),
        };
        self.measures.refused(std::mem::take(&mut live.reports_refused));
        match decided {
            Ok(Decided::Appended { started }) => {
                self.slots.take(started);
            }
            Ok(Decided::Nothing(flight)) => {
                if live.mailbox.is_empty() && flight.evaluations.is_empty() {
                    self.settled(execution);
                }
                self.follow_up(execution, *flight, outputs);
            }
            Err(Broken { reason, tickets }) => {
                self.drop_live(execution, outputs);
                outputs.push(Output::Store(StoreWork::Hold { execution, reason }));
                outputs.extend(tickets.into_iter().map(|t| Output::Answer(t, Answer::Moved)));
            }
        }
    }

    fn appended(&mut self, execution: ExecutionNo, appended: Appended, outputs: &mut Vec<Output>) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        let Some(flight) = live.landed() else { return };
        match appended {
            Appended::Committed { at } => {
                self.measures.committed(flight.events(), live);
                self.measures.reports_landed(flight.reported(), self.now);
                self.measures.takeovers += u64::from(std::mem::take(&mut live.orphaned));
                let flight = live.committed(at, flight, outputs);
                if !live.suspicion.doubt {
                    self.settled(execution);
                }
                self.follow_up(execution, flight, outputs);
            }
            Appended::Fenced => {
                self.measures.fenced += 1;
                if !flight.is_first() {
                    self.measures.lost.push(live.state.created.key.clone());
                }
                self.refused(execution, &flight, &Answer::Moved, outputs);
                // Where this was a take-over that came too late, its claim still stands: nobody
                // else will look after the execution.
                let forgets = is_planted(Bug::LostReplyIsFailure);
                if !flight.is_first() && !self.draining && !forgets {
                    outputs.push(Output::Store(StoreWork::Reload(execution)));
                }
            }
            Appended::Duplicate { execution: existing, same } => {
                self.refused(execution, &flight, &Answer::Exists { existing, same }, outputs);
            }
            Appended::Rejected { holding } => {
                self.refused(execution, &flight, &Answer::Rejected { holding }, outputs);
            }
            Appended::Poisoned { reason } => {
                let answer = Answer::Poisoned(reason.clone());
                self.refused(execution, &flight, &answer, outputs);
                if !flight.is_first() {
                    outputs.push(Output::Store(StoreWork::Hold { execution, reason }));
                }
            }
        }
    }

    /// A frame that did not go in: nothing that it decided has happened. Its slots are free, and
    /// whoever asked for it is told; where it was the first, there is no execution to wait for.
    fn refused(
        &mut self,
        execution: ExecutionNo,
        flight: &live::Landed,
        answer: &Answer,
        outputs: &mut Vec<Output>,
    ) {
        self.slots.give_back(flight.slots());
        let mut tickets = flight.tickets();
        if flight.is_first() {
            self.adopted.remove(&execution);
            tickets.extend(self.waiting_for_end.remove(&execution).into_iter().flatten());
        }
        outputs.extend(tickets.into_iter().map(|ticket| Output::Answer(ticket, answer.clone())));
        self.drop_live(execution, outputs);
    }

    /// What follows from a commit, or from a decision that had nothing to commit: effects, the end,
    /// or leaving memory.
    fn follow_up(
        &mut self,
        execution: ExecutionNo,
        flight: live::Flight,
        outputs: &mut Vec<Output>,
    ) {
        for (token, worker) in flight.cancelled {
            match worker {
                None => self.stop_task(token, outputs),
                Some(worker) => self.stop_remote(worker, token, outputs),
            }
        }
        self.follow_remote(execution, &flight.started_remote, outputs);
        self.slots.give_back(u32::try_from(flight.never_ran.len()).unwrap_or(0));
        if flight.end.is_some() || flight.parked {
            self.withdraw_all(execution, outputs);
        }
        if let Some(end) = &flight.end {
            self.ended(execution, end, outputs);
            return;
        }
        if flight.parked {
            if let Some(live) = self.remove(execution) {
                if live.claimed_again && !self.draining {
                    outputs.push(Output::Store(StoreWork::Reload(execution)));
                }
                self.claims.parked(live.state.next_due(), &self.config);
                self.is_queued(&live.state);
                if live.mail_waits || !live.mailbox.is_empty() {
                    // Mail that came while the park was in flight has made it ready.
                    self.claims.nudge(self.now);
                }
                let moved = live.into_tickets().into_iter();
                outputs.extend(moved.map(|ticket| Output::Answer(ticket, Answer::Moved)));
            }
            return;
        }
        if self.live.get(&execution).is_some_and(|live| live.handed_over) {
            // The next owner goes on with it: nothing of it may begin here any more.
            self.drop_live(execution, outputs);
            return;
        }
        flight.runs.into_iter().for_each(|order| self.run(order, outputs));
        for offer in flight.offers {
            match self.live.get(&execution).is_some_and(|live| live.is_foreign(offer.node)) {
                true => self.offer_remote(offer),
                false => self.slots.offer(offer),
            }
        }
        if !self.draining {
            for (node, attempt) in flight.evaluations {
                self.post(execution, Letter::command(Command::Evaluate { node, attempt }));
            }
        }
        for report in flight.never_ran {
            self.report(execution, report);
        }
        let Some(live) = self.live.get_mut(&execution) else { return };
        if live.mailbox.is_empty() {
            match live.next_due() {
                // It came due while the frame was in flight.
                Some(due) if due <= self.now => {
                    self.measures.timer(due, self.now);
                    self.post(execution, Letter::command(Command::Tick));
                }
                due => {
                    let due = due.filter(|_| !is_planted(Bug::TimerNeverArmed));
                    self.wheel.arm(execution, due);
                }
            }
        } else {
            self.enqueue(execution);
        }
    }

    /// It is over: it leaves memory, and whoever awaited its end hears of it.
    fn ended(&mut self, execution: ExecutionNo, end: &EndSummary, outputs: &mut Vec<Output>) {
        let live = self.remove(execution);
        if let Some(live) = live.as_ref().filter(|live| live.was_loaded && self.config.contexts) {
            outputs.push(Output::Forget(live.state.created.key.clone()));
        }
        if live.as_ref().is_some_and(|live| live.state.place.is_some()) {
            // The next in the queue is ready, and need not wait until somebody happens to look.
            self.claims.nudge(self.now);
        }
        let late = live.map(Live::into_tickets);
        self.adopted.remove(&execution);
        let tickets = self.waiting_for_end.remove(&execution).into_iter().chain(late).flatten();
        outputs.extend(tickets.map(|t| Output::Answer(t, Answer::Ended(end.clone()))));
    }

    /// Forgets an execution that somebody else owns now. Its tasks are told to stop.
    fn drop_live(&mut self, execution: ExecutionNo, outputs: &mut Vec<Output>) {
        if let Some(live) = self.remove(execution) {
            for token in live.running_tokens().collect::<Vec<_>>() {
                self.stop_task(token, outputs);
            }
            let moved = live.into_tickets().into_iter();
            outputs.extend(moved.map(|ticket| Output::Answer(ticket, Answer::Moved)));
        }
    }

    /// Takes an execution out of memory.
    fn remove(&mut self, execution: ExecutionNo) -> Option<Live> {
        self.wheel.arm(execution, None);
        self.remote.forget(execution);
        self.handing_over.remove(&execution);
        self.staying.remove(&execution);
        self.settled(execution);
        let live = self.live.remove(&execution)?;
        self.slots.withdraw_promises(live.promised.len());
        Some(live)
    }

    fn ask_store(&mut self, now: Timestamp, outputs: &mut Vec<Output>) {
        if self.numbers.is_empty() && self.claims.wants_numbers() {
            outputs.push(Output::Store(StoreWork::ReserveNumbers));
        }
        if self.slots.wants_renewal(now) {
            outputs.push(Output::Renew);
        }
        // What is in memory is driven to the last: somebody may want to cancel what still runs.
        self.claims.ask_for_mail(now, &self.live, &self.config, outputs);
        if self.draining {
            return;
        }
        self.look_for_ends(now, outputs);
        let only = match self.config.scope {
            Scope::All => None,
            Scope::Adopted => {
                let mut ids: Vec<_> =
                    self.adopted.iter().filter(|id| !self.live.contains_key(id)).copied().collect();
                ids.sort_unstable();
                Some(ids)
            }
        };
        let (room, suspects) = (self.room(), self.doubted.is_empty());
        self.claims.ask(now, (room, suspects), only, &self.live, &self.config, outputs);
    }

    fn env(&mut self, now: Timestamp) -> Env {
        let entropy = self.ids.random();
        let slots = if self.draining { 0 } else { self.slots.available(now) };
        Env { now, now_max: self.now_max, instance: self.instance, slots, entropy }
    }
}
