//! Circuit breakers, as the attempts of one instance meet them.
//!
//! ```text
//!   attempt ─▶ enter ── what the store said a second ago, or now ──▶ pass, probe ──▶ handler ──▶ report
//!                 │                                                                             │
//!                 └── wait: Outcome::Blocked, no slot is held meanwhile      a failure, a probe's end
//! ```
//!
//! The store has the state that all instances share. It is asked once a second per key, and gets a report of every failure
//! and of the end of every probe; what succeeds costs nothing.
//!
//! A breaker can only count calls that have ended. Were a thousand attempts to begin at once, all would be
//! under way before the first one fails. So a closed breaker has a window, per instance: as many calls may
//! be under way that are younger than a second as the window is wide. It begins at `failures`, grows with
//! every call that is answered or lasts a second, as a connection's window does in TCP's slow start, and
//! shrinks with every failure.

mod book;
#[cfg(test)]
mod tests;

pub use book::{
    BREAKER_CROWDED_MAX, BREAKER_PROBATION, BreakerBook, BreakerEntry, BreakerPass, breaker_hold,
};

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use waypost_core::breaker::{
    BreakerCause, BreakerChange, BreakerEvidence, BreakerHold, BreakerPolicy, BreakerRef,
};
use waypost_core::command::Outcome;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::breakers::BreakerAnswer;
use waypost_ports::store::{Store, StoreError};

use super::Shared;

/// Keys that are remembered; beyond that, those that are not in use are forgotten.
const KEYS_MAX: usize = 1_000;

/// The breakers of one engine.
pub(crate) struct BreakerGate {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    keys: Mutex<HashMap<Arc<str>, Arc<KeyGate>>>,
}

/// The breaker of one key, as this instance knows it.
struct KeyGate {
    book: Mutex<BreakerBook>,
    /// From when on the book counts time.
    since: Instant,
    /// There may be room in the window, or the breaker has opened.
    changed: Notify,
    /// Held while the store is asked, so that one attempt asks for all. A Tokio mutex, since it is held
    /// across that call.
    asking: tokio::sync::Mutex<()>,
}

/// A call under way. Dropping it makes room for another.
struct Pass {
    gate: Arc<KeyGate>,
    pass: BreakerPass,
}

impl BreakerGate {
    pub(crate) fn new(store: Arc<dyn Store>, shared: Arc<Shared>) -> Self {
        Self { store, shared, keys: Mutex::default() }
    }

    /// Makes an attempt if its breaker lets it pass, and reports its end.
    pub(crate) async fn guard(
        &self,
        of: BreakerRef,
        timeout: Option<Millis>,
        cancel: &CancellationToken,
        attempt: impl Future<Output = Outcome>,
    ) -> Outcome {
        let gate = self.gate(&of);
        let mut pass = match self.enter(&gate, &of, timeout, cancel).await {
            Some(Ok(pass)) => pass,
            Some(Err(hold)) => {
                self.shared.metrics.breaker_waits_total.add(1);
                return Outcome::Blocked(Box::new(hold));
            }
            None => return Outcome::Cancelled,
        };
        tokio::pin!(attempt);
        // Cancel-safe: it is pinned outside.
        let outcome = match tokio::time::timeout(BREAKER_PROBATION, &mut attempt).await {
            Ok(outcome) => outcome,
            Err(_) => {
                pass.comes_of_age();
                attempt.await
            }
        };
        self.report(&of, pass, BreakerEvidence::of(&outcome)).await;
        outcome
    }

    fn gate(&self, of: &BreakerRef) -> Arc<KeyGate> {
        let mut keys = self.keys.lock();
        if keys.len() >= KEYS_MAX {
            keys.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        let gate = keys.entry(Arc::clone(&of.key)).or_insert_with(|| {
            let (book, changed) = (Mutex::new(BreakerBook::new(&of.policy)), Notify::new());
            let since = Instant::now();
            Arc::new(KeyGate { book, since, changed, asking: tokio::sync::Mutex::default() })
        });
        Arc::clone(gate)
    }

    /// `None` if the attempt was cancelled while it waited for room.
    async fn enter(
        &self,
        gate: &Arc<KeyGate>,
        of: &BreakerRef,
        timeout: Option<Millis>,
        cancel: &CancellationToken,
    ) -> Option<Result<Pass, BreakerHold>> {
        let patience = tokio::time::sleep(BREAKER_CROWDED_MAX);
        tokio::pin!(patience);
        loop {
            let changed = gate.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that a change after it is not missed.
            changed.as_mut().enable();
            match gate.enter() {
                BreakerEntry::Pass(pass) => return Some(Ok(gate.pass(pass))),
                BreakerEntry::Wait(hold) => return Some(Err(hold)),
                // All are cancel-safe.
                BreakerEntry::Crowded => tokio::select! {
                    () = changed => {}
                    () = &mut patience => {
                        return Some(Err(self.hold(of, BreakerCause::Crowded)));
                    }
                    () = cancel.cancelled() => return None,
                },
                BreakerEntry::Ask => {
                    let _one_at_a_time = gate.asking.lock().await;
                    if gate.is_known() {
                        continue;
                    }
                    let ask = BreakerChange::Ask { policy: of.policy, timeout };
                    match self.call(&of.key, ask).await {
                        Ok(answer) => {
                            if let Some(pass) = gate.learn(answer, &of.policy) {
                                self.shared.metrics.breaker_probes_total.add(1);
                                return Some(Ok(pass));
                            }
                        }
                        Err(error) => {
                            tracing::warn!(key = %of.key, %error, "a circuit breaker could not be asked");
                            return Some(Err(self.hold(of, BreakerCause::Unknown)));
                        }
                    }
                }
            }
        }
    }

    /// A wait that the store did not ask for.
    fn hold(&self, of: &BreakerRef, cause: BreakerCause) -> BreakerHold {
        let now: Timestamp = self.shared.time.lock().now(&*self.shared.clock).most;
        breaker_hold(of, now, cause)
    }

    /// Reports the end of a call, and then makes room for others: they must know of a failure first.
    async fn report(&self, of: &BreakerRef, mut pass: Pass, evidence: BreakerEvidence) {
        let gate = Arc::clone(&pass.gate);
        let Some(change) = pass.end(evidence, of.policy) else { return };
        match self.call(&of.key, change).await {
            Ok(answer) => drop(gate.learn(answer, &of.policy)),
            Err(error) => {
                self.shared.metrics.breaker_reports_lost_total.add(1);
                tracing::warn!(key = %of.key, %error, "the end of a call was not reported to its circuit breaker");
            }
        }
    }

    async fn call(
        &self,
        key: &Arc<str>,
        change: BreakerChange,
    ) -> Result<BreakerAnswer, StoreError> {
        let (store, key) = (Arc::clone(&self.store), Arc::clone(key));
        let called = tokio::task::spawn_blocking(move || store.change_breaker(&key, &change)).await;
        called.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }
}

impl KeyGate {
    fn enter(&self) -> BreakerEntry {
        self.book.lock().enter(self.since.elapsed())
    }

    fn is_known(&self) -> bool {
        self.book.lock().is_known(self.since.elapsed())
    }

    fn learn(self: &Arc<Self>, answer: BreakerAnswer, policy: &BreakerPolicy) -> Option<Pass> {
        let pass = self.book.lock().learn(self.since.elapsed(), answer, policy);
        self.changed.notify_waiters();
        pass.map(|pass| self.pass(pass))
    }

    fn pass(self: &Arc<Self>, pass: BreakerPass) -> Pass {
        Pass { gate: Arc::clone(self), pass }
    }
}

impl Pass {
    /// The call was answered, or has lasted a while: it makes room for itself and for another one.
    fn comes_of_age(&mut self) {
        let has_room = self.gate.book.lock().come_of_age(&mut self.pass);
        if has_room {
            self.gate.changed.notify_waiters();
        }
    }

    /// The call has ended: what to report.
    fn end(&mut self, evidence: BreakerEvidence, policy: BreakerPolicy) -> Option<BreakerChange> {
        let change = self.gate.book.lock().end(&mut self.pass, evidence, policy);
        if change.is_none() {
            self.gate.changed.notify_waiters();
        }
        change
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let has_room = self.gate.book.lock().leave(&mut self.pass);
        if has_room {
            self.gate.changed.notify_waiters();
        }
    }
}
