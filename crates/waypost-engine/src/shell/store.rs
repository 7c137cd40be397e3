//! The store thread: all that goes to the store, in order, appends together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info, warn};
use waypost_core::command::Refusal;
use waypost_core::event::FOLD_VERSION;
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::state::{End, State};
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Delivery, Heartbeat, History, Mail, Store, StoreError,
};

use super::{Damage, Inbox, Plans, fold};
use crate::config::Config;
use crate::driver::{Answer, EndSummary, Input, Loaded, Ticket};
use crate::panic_text;

/// Something for the store.
pub(crate) enum Work {
    Append(Append),
    Claim { limit: usize, only: Option<Vec<ExecutionId>> },
    Collect,
    Deliver { mail: Mail, ticket: Ticket },
    Hold { execution: ExecutionId, reason: String },
    Reload(ExecutionId),
    FindEnd(ExecutionId),
    ReserveNumbers,
    Stop,
}

/// First wait before a failed call is repeated; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

pub(crate) struct StoreThread {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) config: Config,
    pub(crate) instance: InstanceId,
    pub(crate) work: Arc<Inbox<Work>>,
    /// Appends handed over and not answered yet.
    pub(crate) outstanding: Arc<AtomicUsize>,
    pub(crate) engine: Arc<Inbox<Input>>,
    /// When to stop although the store does not answer.
    pub(crate) stop: Arc<Mutex<Option<Instant>>>,
}

/// Runs when the store thread ends, in whatever way. Where that is a panic, the engine cannot go on
/// and must say so instead of waiting for answers.
struct LastWords {
    engine: Arc<Inbox<Input>>,
    stop: Arc<Mutex<Option<Instant>>>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        *self.stop.lock() = Some(Instant::now());
        self.engine.push(Input::Drain);
    }
}

impl StoreThread {
    pub(crate) fn run(self) {
        let _last_words =
            LastWords { engine: Arc::clone(&self.engine), stop: Arc::clone(&self.stop) };
        let mut work = Vec::new();
        let mut heartbeat_at = Instant::now() + self.config.heartbeat_every.to_std();
        loop {
            self.work.take(&mut work, heartbeat_at);
            let mut appends = Vec::with_capacity(work.len());
            let mut others = Vec::new();
            for item in work.drain(..) {
                match item {
                    Work::Append(append) => appends.push(append),
                    other => others.push(other),
                }
            }
            for batch in appends.chunks(self.config.batch_frames_max) {
                self.append(batch);
            }
            let stop = others.iter().any(|item| matches!(item, Work::Stop));
            others.into_iter().for_each(|item| self.perform(item));
            if Instant::now() >= heartbeat_at || stop {
                heartbeat_at = Instant::now() + self.config.heartbeat_every.to_std();
                if let Err(error) = self.heartbeat(0, stop) {
                    warn!(%error, "heartbeat failed");
                }
            }
            if stop {
                return;
            }
        }
    }

    fn append(&self, batch: &[Append]) {
        let answers = self.until_done("append", || self.store.append(batch));
        self.outstanding.fetch_sub(batch.len(), Ordering::AcqRel);
        let Some(answers) = answers else { return };
        let ids = batch.iter().map(|append| append.header.execution);
        self.engine.push(Input::Appended(ids.zip(answers).collect()));
    }

    fn perform(&self, work: Work) {
        match work {
            Work::Append(_) => unreachable!("appends are taken out before"),
            Work::Stop => {}
            Work::Claim { limit, only } => self.claim(limit, only),
            Work::Collect => {
                match self.store.collect(self.instance, self.config.claim_batch) {
                    Ok(mail) if mail.is_empty() => {}
                    Ok(mail) => self.engine.push(Input::Mail(mail)),
                    Err(error) => warn!(%error, "the inbox cannot be read"),
                }
                self.engine.push(Input::Collected);
            }
            Work::Deliver { mail, ticket } => {
                let (execution, message) = (mail.execution, Arc::clone(&mail.message));
                let delivered =
                    self.until_done("deliver", || self.store.deliver(std::slice::from_ref(&mail)));
                let Some(delivered) = delivered else { return };
                let answer = match delivered.first() {
                    Some(Delivery::Accepted { .. } | Delivery::Duplicate) => {
                        Answer::Accepted(message)
                    }
                    Some(Delivery::Ended) => match self.find_end(execution) {
                        Some(Answer::Ended(end)) => Answer::Refused(Refusal::Ended(end.status)),
                        _ => Answer::Unknown,
                    },
                    Some(Delivery::Unknown) | None => Answer::Unknown,
                };
                self.engine.push(Input::Delivered { execution, ticket, answer });
            }
            Work::Hold { execution, reason } => self.hold(execution, &reason),
            Work::Reload(execution) => {
                if let Some(loaded) = self.reload(execution) {
                    self.engine.push(Input::Reloaded(Box::new(loaded)));
                }
            }
            Work::FindEnd(execution) => {
                if let Some(answer) = self.find_end(execution) {
                    self.engine.push(Input::EndFound { execution, answer });
                }
            }
            Work::ReserveNumbers => {
                let numbers = self.config.numbers_at_once;
                let numbers = self.until_done("heartbeat", || self.heartbeat(numbers, false));
                if let Some(numbers) = numbers {
                    self.engine.push(Input::Numbers(numbers));
                }
            }
        }
    }

    fn heartbeat(&self, numbers: u32, leaving: bool) -> Result<std::ops::Range<i64>, StoreError> {
        let heartbeat = Heartbeat { instance: self.instance, numbers, fold: FOLD_VERSION, leaving };
        self.store.heartbeat(&heartbeat).map(|renewal| renewal.numbers)
    }

    fn claim(&self, limit: usize, only: Option<Vec<ExecutionId>>) {
        let request = ClaimRequest { instance: self.instance, fold: FOLD_VERSION, limit, only };
        let claims = match self.store.claim(&request) {
            Ok(claims) => claims,
            Err(error) => {
                warn!(%error, "executions cannot be claimed");
                let loaded = Vec::new();
                self.engine.push(Input::Claimed { loaded, more: false, next_due: None });
                return;
            }
        };
        let mut loaded = Vec::with_capacity(claims.claimed.len());
        for history in claims.claimed {
            loaded.extend(self.load(history));
        }
        let (more, next_due) = (claims.more, claims.next_due);
        self.engine.push(Input::Claimed { loaded, more, next_due });
    }

    /// Folds what was claimed. What is claimed is owned, and nobody else will look after it: a store
    /// that does not answer is asked again, and what cannot be driven is set aside.
    fn load(&self, history: History) -> Option<Loaded> {
        let execution = history.execution;
        let mut next = Some(history);
        loop {
            match fold_guarded(next?, &self.plans, &*self.store) {
                Ok(loaded) => return Some(loaded),
                Err(Damage::Store(error)) => {
                    warn!(%execution, %error, "cannot be loaded; trying again");
                    if self.must_stop() {
                        return None;
                    }
                    std::thread::park_timeout(RETRY_MIN);
                    next = self.until_done("load", || self.store.load(execution))?;
                }
                Err(damage) => {
                    self.hold(execution, &damage.to_string());
                    return None;
                }
            }
        }
    }

    fn reload(&self, execution: ExecutionId) -> Option<Loaded> {
        let history = self.until_done("load", || self.store.load(execution))??;
        let owner = history.control.as_ref().and_then(|control| control.owner);
        if owner == Some(self.instance) { self.load(history) } else { None }
    }

    fn hold(&self, execution: ExecutionId, reason: &str) {
        error!(%execution, reason, "execution is set aside");
        if self.until_done("hold", || self.store.hold(execution, reason)).is_none() {
            error!(%execution, "execution was not set aside; its next owner will do so");
        }
    }

    /// How an execution ended, or that there is none; `None` while it lives.
    fn find_end(&self, execution: ExecutionId) -> Option<Answer> {
        let Some(history) = self.until_done("load", || self.store.load(execution))? else {
            return Some(Answer::Unknown);
        };
        if history.control.is_some() {
            return None;
        }
        let state = match fold_guarded(history, &self.plans, &*self.store) {
            Ok(loaded) => loaded.state,
            Err(damage) => {
                warn!(%execution, %damage, "the end of an execution cannot be read");
                return Some(Answer::Unknown);
            }
        };
        let State { status, end: Some(End { output, failure, .. }), .. } = state else {
            return None;
        };
        Some(Answer::Ended(EndSummary { status, output, failure }))
    }

    fn must_stop(&self) -> bool {
        self.stop.lock().is_some_and(|stop| Instant::now() >= stop)
    }

    /// Repeats a call, identically, until the store answers. Nothing is acknowledged meanwhile.
    /// `None` when the engine has to stop first.
    fn until_done<T>(
        &self,
        what: &'static str,
        mut call: impl FnMut() -> Result<T, StoreError>,
    ) -> Option<T> {
        let mut wait = RETRY_MIN;
        let mut failed = false;
        loop {
            match call() {
                Ok(value) => {
                    if failed {
                        info!(what, "the store answers again");
                    }
                    return Some(value);
                }
                Err(error) => {
                    if !failed {
                        warn!(what, %error, "the store does not answer; trying again");
                    }
                    failed = true;
                    if self.must_stop() {
                        error!(what, %error, "stopped before the store answered");
                        return None;
                    }
                    std::thread::park_timeout(wait);
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    }
}

/// [`fold`], where a log that makes it panic is damaged like any other: one execution must not take
/// the engine with it.
fn fold_guarded(history: History, plans: &Plans, store: &dyn Store) -> Result<Loaded, Damage> {
    catch_unwind(AssertUnwindSafe(|| fold(history, plans, store))).unwrap_or_else(|panic| {
        Err(Damage::Log(format!("reading it panicked: {}", panic_text(&*panic))))
    })
}

/// An append made by the engine thread itself, where it is the only one.
pub(crate) fn append_inline(store: &dyn Store, append: &Append) -> Option<Appended> {
    let mut answers = store.append(std::slice::from_ref(append)).ok()?;
    answers.pop()
}
