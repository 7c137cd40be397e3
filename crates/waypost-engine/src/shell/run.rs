//! An engine thread: feeds one driver and carries out its outputs.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::Token;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::mirror::Mirror;
use waypost_ports::store::{Append, Store};

use super::lanes::Order;
use super::store::append_inline;
use super::{LocalWorker, Mirrored, Shared, TasksOrder, ownership};
use crate::driver::{Answer, Committed, Driver, Input, Output, Queue, StoreWork, TaskWork, Ticket};
use crate::metrics::DriverGauges;
use crate::room::{release_freed_memory, shrink};
use crate::{Observer, panic_text};

/// Longest sleep of the engine thread: bounds the effect of a clock that jumps.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// How often the queue is walked for the metrics.
const QUEUE_LOOKED_AT_EVERY: Millis = Millis::from_secs(1);

/// How often memory of a burst is released.
const SHRUNK_EVERY: Millis = Millis::from_secs(10);

/// How long after a drain's deadline attempts that still run may be closed as handed over. Where the
/// store does not take that in time, they count as lost.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Questions {
    next: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    questions: HashMap<Ticket, Question>,
    /// Have the engine threads ended, so that there will be no answers?
    closed: bool,
}

struct Question {
    asker: Asker,
    /// The place in the queue that it takes until it is answered, whether or not the caller stays.
    _permit: Option<OwnedSemaphorePermit>,
}

enum Asker {
    Waits(oneshot::Sender<Answer>),
    /// Called on an engine thread, so it must be quick.
    Called(Box<dyn FnOnce(Answer) + Send>),
}

impl Questions {
    /// A question, with the place in the queue that it takes. After [`close`](Self::close) its
    /// answer is [`Answer::Draining`], at once: it was not taken. One that is never answered may
    /// have been.
    pub(crate) fn ask(
        &self,
        permit: Option<OwnedSemaphorePermit>,
    ) -> (Ticket, oneshot::Receiver<Answer>) {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open.lock();
        if open.closed {
            drop(sender.send(Answer::Draining));
        } else {
            let asker = Asker::Waits(sender);
            open.questions.insert(ticket, Question { asker, _permit: permit });
        }
        (ticket, receiver)
    }

    /// As [`ask`](Self::ask), with a callback that is always called: with [`Answer::Draining`] if
    /// the engine threads have ended.
    pub(crate) fn ask_then(
        &self,
        permit: OwnedSemaphorePermit,
        call: impl FnOnce(Answer) + Send + 'static,
    ) -> Option<Ticket> {
        let mut open = self.open.lock();
        if open.closed {
            drop(open);
            call(Answer::Draining);
            return None;
        }
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        let asker = Asker::Called(Box::new(call));
        open.questions.insert(ticket, Question { asker, _permit: Some(permit) });
        Some(ticket)
    }

    fn answer(&self, ticket: Ticket, answer: Answer) {
        let question = self.open.lock().questions.remove(&ticket);
        match question.map(|question| question.asker) {
            // The caller may be gone; what was answered is durable anyway.
            Some(Asker::Waits(sender)) => drop(sender.send(answer)),
            Some(Asker::Called(call)) => call(answer),
            None => {}
        }
    }

    /// The caller is gone. Returns whether the question was still open.
    pub(crate) fn forget(&self, ticket: Ticket) -> bool {
        self.open.lock().questions.remove(&ticket).is_some()
    }

    fn shrink(&self) {
        let mut open = self.open.lock();
        shrink!(open.questions);
    }

    /// Ends all open questions without an answer.
    fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        let questions = std::mem::take(&mut open.questions);
        drop(open);
        for question in questions.into_values() {
            if let Asker::Called(call) = question.asker {
                call(Answer::Draining);
            }
        }
    }
}

/// Runs when an engine thread ends, in whatever way: no caller waits for it for ever.
pub(crate) struct EngineThreadGuard {
    shared: Arc<Shared>,
    /// Did it end by itself, and not by a panic, or because it could not be started?
    in_order: bool,
}

impl EngineThreadGuard {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), in_order: false }
    }
}

impl Drop for EngineThreadGuard {
    fn drop(&mut self) {
        let shared = &self.shared;
        if !shared.ending.thread_ended() {
            if !self.in_order {
                // Without this driver's executions there is no engine.
                *shared.stop.lock() = Some(Instant::now());
                shared.inputs.push(Input::Drain);
            }
            return shared.inputs.push(Input::Wake);
        }
        shared.lanes.stop();
        shared.task_orders.push(TasksOrder::Stop);
        shared.questions.close();
        shared.over.cancel();
    }
}

pub(crate) struct EngineThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) guard: EngineThreadGuard,
    /// Which of the engine's drivers this is.
    pub(crate) at: usize,
    pub(crate) driver: Driver,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) mirror: Arc<dyn Mirror>,
    pub(crate) mirrored: Mirrored,
    /// May an append be made on this thread, where it is the only one?
    pub(crate) inline: bool,
    pub(crate) worker: LocalWorker,
    pub(crate) observer: Option<Observer>,
    pub(crate) queue_looked_at: Timestamp,
    pub(crate) shrunk_at: Timestamp,
    pub(crate) running: HashMap<Token, CancellationToken>,
    /// How many all engine threads have, for readers in other threads.
    pub(crate) attempts: Arc<AtomicU32>,
    /// What this thread's driver adds to the metrics.
    pub(crate) shown: DriverGauges,
    /// Was the driver asked to hand over what still runs, and until when is that awaited?
    pub(crate) hand_over_until: Option<Instant>,
}

impl EngineThread {
    pub(crate) fn run(mut self) {
        let (mut inputs, mut outputs, mut appends) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.shared.inputs.of(self.at).take(&mut inputs, self.wake_at());
            self.shared.vitals.steps(self.at, &*self.shared.clock);
            self.forget_finished(&inputs);
            self.step(&mut inputs, &mut outputs);
            self.carry(&mut outputs, &mut appends);
            let running = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
            self.shown.attempts(running, &self.attempts);
            if self.driver.has_mirror() && self.mirrored.is_due() {
                self.mirrored.write(&*self.mirror, self.driver.instance(), &self.driver.owned());
            }
            self.commit(&mut inputs, &mut outputs, &mut appends);
            if self.is_over() {
                break;
            }
            self.hand_over_in_time();
        }
        self.running.values().for_each(CancellationToken::cancel);
        self.guard.in_order = true;
    }

    fn step(&mut self, inputs: &mut Vec<Input>, outputs: &mut Vec<Output>) {
        let (now, must_ask) = {
            let mut time = self.shared.time.lock();
            (time.now(&*self.shared.clock), time.must_ask(&*self.shared.clock))
        };
        if must_ask {
            self.shared.lanes.renewals.push(Order::Renew);
        }
        if !self.shared.lease.is_trusted(&*self.shared.clock) {
            // First: the other inputs may be a reason to start something.
            inputs.insert(0, Input::Lapsed);
        }
        let starts = inputs.iter().filter(|input| matches!(input, Input::Start(_))).count();
        self.driver.step(now, inputs, outputs);
        self.shared.inputs.stepped(self.at, starts, self.driver.load());
        self.shared.metrics.publish(&self.driver, &mut self.shown);
        ownership::log_lost(self.driver.instance(), &self.driver.measures().lost);
        if now.least.since(self.queue_looked_at) >= QUEUE_LOOKED_AT_EVERY {
            self.queue_looked_at = now.least;
            let mut queued = self.shared.queued.lock();
            queued.resize_with(self.shared.inputs.drivers(), Queue::default);
            queued[self.at] = self.driver.queue();
            self.shared.metrics.look_at(&Queue::of_all(&queued));
        }
        if now.least.since(self.shrunk_at) >= SHRUNK_EVERY {
            self.shrunk_at = now.least;
            self.driver.shrink();
            self.shared.questions.shrink();
            shrink!(self.running, outputs);
            if self.at == 0 {
                release_freed_memory();
            }
        }
    }

    fn wake_at(&self) -> Instant {
        let Timestamp(wake) = self.driver.next_wake();
        let now = self.shared.time.lock().now(&*self.shared.clock).least;
        let wait = wake.saturating_sub(now.0).max(0);
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0)).min(SLEEP_MAX);
        let wake = Instant::now() + wait;
        let stop = self.hand_over_until.or(*self.shared.stop.lock());
        stop.map_or(wake, |stop| wake.min(stop))
    }

    /// Have all drivers done everything before they end? Not before they drain, which follows right
    /// after the deadline is set: they reject what they will not take.
    fn is_over(&self) -> bool {
        if !self.driver.is_draining() || self.shared.stop.lock().is_none() {
            return false;
        }
        let (done, late) = match self.hand_over_until {
            None => (self.driver.is_quiet(), false),
            Some(until) => (self.driver.is_handed_over(), Instant::now() >= until),
        };
        self.shared.ending.is_over(self.at, done) || late
    }

    /// At the deadline of a drain, closes running attempts as handed over: they do not count as
    /// lost, and the next owner runs them again at once.
    fn hand_over_in_time(&mut self) {
        let due = self.shared.stop.lock().is_some_and(|deadline| Instant::now() >= deadline);
        if due && self.driver.is_draining() && self.hand_over_until.is_none() {
            self.hand_over_until = Some(Instant::now() + HAND_OVER_MAX);
            self.shared.inputs.send(self.at, Input::HandOver);
        }
    }

    fn forget_finished(&mut self, inputs: &[Input]) {
        for input in inputs {
            if let Input::Report { report, token_free: true, .. } = input {
                self.running.remove(&report.token);
            }
        }
    }

    fn carry(&mut self, outputs: &mut Vec<Output>, appends: &mut Vec<Append>) {
        let (mut work, mut orders) = (Vec::new(), Vec::new());
        let (mut contexts, mut ended, mut offered) = (Vec::new(), Vec::new(), Vec::new());
        for output in outputs.drain(..) {
            match output {
                Output::Store(StoreWork::Append(append)) => appends.push(append),
                Output::Store(other) => work.push(other),
                Output::Tasks(other) => {
                    if let TaskWork::Offer(order) = &other {
                        offered.push(order.task.execution.clone());
                    }
                    orders.push(TasksOrder::Perform(other));
                }
                Output::Run(order) => {
                    let token = order.task.token;
                    self.running.insert(token, self.worker.start(order));
                }
                Output::Cancel(token) => {
                    if let Some(cancel) = self.running.get(&token) {
                        cancel.cancel();
                    }
                }
                Output::Fetch { execution, wanted } => self.worker.fetch(execution, wanted),
                Output::Renew => self.shared.lanes.renewals.push(Order::Renew),
                Output::Forward { to, input } => self.shared.inputs.forward(self.at, to, &input),
                Output::Answer(ticket, answer) => self.shared.questions.answer(ticket, answer),
                Output::Committed(committed) => self.observe(&committed),
                Output::Keep(context) => contexts.push(*context),
                Output::Forget(key) => ended.push(key),
            }
        }
        self.shared.lanes.take_in(work);
        if !contexts.is_empty() {
            self.mirror.keep(contexts);
        }
        if !ended.is_empty() {
            self.mirror.forget(&ended);
        }
        if self.driver.has_mirror() {
            self.mirrored.offered(&*self.mirror, self.driver.instance(), offered);
        }
        if !orders.is_empty() {
            self.shared.task_orders.extend(orders);
        }
    }

    /// An observer that panics must not take the engine with it.
    fn observe(&self, committed: &Committed) {
        for event in committed.events.iter() {
            if let Event::Run(RunEvent::Quarantined { reason }) = event {
                warn!(execution = %committed.key, reason, "execution quarantined");
            }
        }
        let Some(observer) = &self.observer else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(committed))) {
            error!(execution = %committed.execution, panic = panic_text(&*panic), "an observer panicked");
        }
    }

    /// Commits here if one execution alone has something to commit and nothing else is under way (a
    /// hand-over to another thread costs as much as the commit); hands over otherwise.
    fn commit(
        &mut self,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Output>,
        appends: &mut Vec<Append>,
    ) {
        while let [append] = appends.as_slice()
            && self.inline
            && self.shared.inputs.of(self.at).is_empty()
            && let Some(appended) = append_inline(&*self.store, append, &self.shared)
        {
            inputs.push(Input::Appended(vec![(append.header.execution, appended)]));
            appends.clear();
            self.step(inputs, outputs);
            self.carry(outputs, appends);
        }
        if !appends.is_empty() {
            self.shared.outstanding.fetch_add(appends.len(), Ordering::AcqRel);
            let orders = appends.drain(..).map(|append| Order::Perform(StoreWork::Append(append)));
            self.shared.lanes.appends.extend(orders);
            shrink!(appends);
        }
    }
}
