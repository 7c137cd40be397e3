//! The engine thread: feeds the driver and carries out what it says.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::error;
use waypost_core::id::Token;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::Clock;
use waypost_ports::store::{Append, Store};

use super::store::{Order, append_inline};
use super::{Inbox, StoreTime, Work, Worker};
use crate::driver::{Answer, Committed, Driver, Input, Output, Ticket};
use crate::metrics::EngineMetrics;
use crate::{Observer, panic_text};

/// Longest sleep of the engine thread: bounds the effect of a clock that jumps.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// How often the queue is walked for the metrics.
const QUEUE_LOOKED_AT_EVERY: Millis = Millis::from_secs(1);

/// Questions that wait for their answers.
#[derive(Default)]
pub(crate) struct Questions {
    next: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    questions: HashMap<Ticket, Question>,
    /// Is there nobody left who could answer?
    closed: bool,
}

struct Question {
    sender: oneshot::Sender<Answer>,
    /// The place in line that it takes until it is answered, whether or not the caller stays.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Questions {
    /// A question, with the place in line that it takes. After [`close`](Self::close) it has no
    /// answer, and the receiver says so at once.
    pub(crate) fn ask(
        &self,
        permit: Option<OwnedSemaphorePermit>,
    ) -> (Ticket, oneshot::Receiver<Answer>) {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open.lock();
        if !open.closed {
            open.questions.insert(ticket, Question { sender, _permit: permit });
        }
        (ticket, receiver)
    }

    fn answer(&self, ticket: Ticket, answer: Answer) {
        let question = self.open.lock().questions.remove(&ticket);
        // Nobody may be listening any more; the answer is durable all the same.
        if let Some(question) = question {
            drop(question.sender.send(answer));
        }
    }

    /// The caller has gone away. Says whether the question was still open.
    pub(crate) fn forget(&self, ticket: Ticket) -> bool {
        self.open.lock().questions.remove(&ticket).is_some()
    }

    /// Tells everybody who waits that there will be no answer.
    fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        open.questions.clear();
    }
}

/// Runs when the engine thread ends, in whatever way: nobody waits for it for ever.
struct LastWords {
    questions: Arc<Questions>,
    work: Arc<Inbox<Order>>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        self.work.push(Order::Stop);
        self.questions.close();
    }
}

pub(crate) struct EngineThread {
    pub(crate) driver: Driver,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) time: Arc<Mutex<StoreTime>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Arc<Inbox<Input>>,
    pub(crate) work: Arc<Inbox<Order>>,
    pub(crate) outstanding: Arc<AtomicUsize>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) worker: Worker,
    pub(crate) observer: Option<Observer>,
    pub(crate) metrics: Arc<EngineMetrics>,
    /// When the queue was last walked for the metrics.
    pub(crate) queue_looked_at: Timestamp,
    pub(crate) running: HashMap<Token, CancellationToken>,
    /// When to stop although something still runs.
    pub(crate) stop: Arc<Mutex<Option<Instant>>>,
}

impl EngineThread {
    pub(crate) fn run(mut self) {
        let _last_words =
            LastWords { questions: Arc::clone(&self.questions), work: Arc::clone(&self.work) };
        let (mut inputs, mut outputs, mut appends) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.inbox.take(&mut inputs, self.wake_at());
            self.forget_finished(&inputs);
            self.step(&mut inputs, &mut outputs);
            self.carry(&mut outputs, &mut appends);
            self.commit(&mut inputs, &mut outputs, &mut appends);
            if self.is_over() {
                break;
            }
        }
        self.running.values().for_each(CancellationToken::cancel);
    }

    fn step(&mut self, inputs: &mut Vec<Input>, outputs: &mut Vec<Output>) {
        let now = self.now();
        self.driver.step(now, inputs, outputs);
        self.metrics.publish(&self.driver);
        if now.since(self.queue_looked_at) >= QUEUE_LOOKED_AT_EVERY {
            self.queue_looked_at = now;
            self.metrics.look_at(&self.driver.queue());
        }
    }

    fn now(&self) -> Timestamp {
        self.time.lock().now(&*self.clock)
    }

    fn wake_at(&self) -> Instant {
        let Timestamp(wake) = self.driver.next_wake();
        let wait = wake.saturating_sub(self.now().0).max(0);
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0)).min(SLEEP_MAX);
        let wake = Instant::now() + wait;
        self.stop.lock().map_or(wake, |stop| wake.min(stop))
    }

    fn is_over(&self) -> bool {
        match *self.stop.lock() {
            Some(deadline) => self.driver.is_quiet() || Instant::now() >= deadline,
            None => false,
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
        let mut work = Vec::new();
        for output in outputs.drain(..) {
            match Work::of(output) {
                Ok(Work::Append(append)) => appends.push(append),
                Ok(other) => work.push(Order::Perform(other)),
                Err(Output::Run(order)) => {
                    let token = order.task.token;
                    self.running.insert(token, self.worker.start(order));
                }
                Err(Output::CancelTask(token)) => {
                    if let Some(cancel) = self.running.get(&token) {
                        cancel.cancel();
                    }
                }
                Err(Output::Renew) => work.push(Order::Renew),
                Err(Output::Answer(ticket, answer)) => self.questions.answer(ticket, answer),
                Err(Output::Committed(committed)) => self.observe(&committed),
                Err(other) => unreachable!("{other:?} is for the store"),
            }
        }
        if !work.is_empty() {
            self.work.extend(work);
        }
    }

    /// An observer that panics must not take the engine with it.
    fn observe(&self, committed: &Committed) {
        let Some(observer) = &self.observer else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(committed))) {
            error!(execution = %committed.execution, panic = panic_text(&*panic), "an observer panicked");
        }
    }

    /// Commits here where one execution alone has something to commit and nothing else is going on
    /// (a hand-over to another thread costs as much as the commit); hands over otherwise.
    fn commit(
        &mut self,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Output>,
        appends: &mut Vec<Append>,
    ) {
        while let [append] = appends.as_slice()
            && self.outstanding.load(Ordering::Acquire) == 0
            && self.inbox.is_empty()
            && let Some(appended) = append_inline(&*self.store, append, &self.metrics)
        {
            inputs.push(Input::Appended(vec![(append.header.execution, appended)]));
            appends.clear();
            self.step(inputs, outputs);
            self.carry(outputs, appends);
        }
        if !appends.is_empty() {
            self.outstanding.fetch_add(appends.len(), Ordering::AcqRel);
            let orders = appends.drain(..).map(|append| Order::Perform(Work::Append(append)));
            self.work.extend(orders);
        }
    }
}
