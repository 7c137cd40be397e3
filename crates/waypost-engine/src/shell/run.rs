//! The engine thread: feeds the driver and carries out what it says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use waypost_core::id::Token;
use waypost_core::time::Timestamp;
use waypost_ports::clock::Clock;
use waypost_ports::store::{Append, Store};

use super::store::append_inline;
use super::{Inbox, Work, Worker};
use crate::Observer;
use crate::driver::{Answer, Driver, Input, Output, Ticket};

/// Longest sleep of the engine thread: bounds the effect of a clock that jumps.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Questions that wait for their answers.
#[derive(Default)]
pub(crate) struct Questions {
    next: AtomicU64,
    open: Mutex<HashMap<Ticket, oneshot::Sender<Answer>>>,
}

impl Questions {
    pub(crate) fn ask(&self) -> (Ticket, oneshot::Receiver<Answer>) {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        self.open.lock().insert(ticket, sender);
        (ticket, receiver)
    }

    fn answer(&self, ticket: Ticket, answer: Answer) {
        let sender = self.open.lock().remove(&ticket);
        // Nobody may be listening any more; the answer is durable all the same.
        if let Some(sender) = sender {
            drop(sender.send(answer));
        }
    }
}

pub(crate) struct EngineThread {
    pub(crate) driver: Driver,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Arc<Inbox<Input>>,
    pub(crate) work: Arc<Inbox<Work>>,
    pub(crate) outstanding: Arc<AtomicUsize>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) worker: Worker,
    pub(crate) observer: Option<Observer>,
    pub(crate) running: HashMap<Token, CancellationToken>,
    /// When to stop although something still runs.
    pub(crate) stop: Arc<Mutex<Option<Instant>>>,
}

impl EngineThread {
    pub(crate) fn run(mut self) {
        let (mut inputs, mut outputs, mut appends) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.inbox.take(&mut inputs, self.wake_at());
            self.forget_finished(&inputs);
            let now = self.clock.now();
            self.driver.step(now, &mut inputs, &mut outputs);
            self.carry(&mut outputs, &mut appends);
            self.commit(&mut inputs, &mut outputs, &mut appends);
            if self.is_over() {
                break;
            }
        }
        self.running.values().for_each(CancellationToken::cancel);
        self.work.push(Work::Stop);
    }

    fn wake_at(&self) -> Instant {
        let Timestamp(wake) = self.driver.next_wake();
        let wait = wake.saturating_sub(self.clock.now().0).max(0);
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
            match output {
                Output::Append(append) => appends.push(append),
                Output::Run(order) => {
                    let token = order.task.token;
                    self.running.insert(token, self.worker.start(order));
                }
                Output::CancelTask(token) => {
                    if let Some(cancel) = self.running.get(&token) {
                        cancel.cancel();
                    }
                }
                Output::Answer(ticket, answer) => self.questions.answer(ticket, answer),
                Output::Deliver { mail, ticket } => work.push(Work::Deliver { mail, ticket }),
                Output::Claim { limit, only } => work.push(Work::Claim { limit, only }),
                Output::Collect => work.push(Work::Collect),
                Output::ReserveNumbers => work.push(Work::ReserveNumbers),
                Output::Hold { execution, reason } => work.push(Work::Hold { execution, reason }),
                Output::Reload(execution) => work.push(Work::Reload(execution)),
                Output::FindEnd(execution) => work.push(Work::FindEnd(execution)),
                Output::Committed(committed) => {
                    if let Some(observer) = &self.observer {
                        observer(&committed);
                    }
                }
            }
        }
        if !work.is_empty() {
            self.work.extend(work);
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
            && let Some(appended) = append_inline(&*self.store, append)
        {
            inputs.push(Input::Appended(vec![(append.header.execution, appended)]));
            appends.clear();
            self.driver.step(self.clock.now(), inputs, outputs);
            self.carry(outputs, appends);
        }
        if !appends.is_empty() {
            self.outstanding.fetch_add(appends.len(), Ordering::AcqRel);
            self.work.extend(appends.drain(..).map(Work::Append));
        }
    }
}
