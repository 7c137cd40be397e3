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

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use waypost_core::breaker::{
    BreakerCause, BreakerChange, BreakerEvidence, BreakerHold, BreakerPolicy, BreakerRef,
    BreakerVerdict,
};
use waypost_core::command::Outcome;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::breakers::BreakerAnswer;
use waypost_ports::store::{Store, StoreError};

use super::Shared;

/// How long an answer of the store is believed: so late may an instance learn what others know.
const BELIEVED: Duration = Duration::from_secs(1);
/// How old a call is that no longer counts against the window.
const PROBATION: Duration = Duration::from_secs(1);
/// How long an attempt holds its slot while it waits for room in the window. Shorter than the time after
/// which an attempt counts as silent.
const CROWDED_MAX: Duration = Duration::from_secs(2);
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
    flow: Mutex<Flow>,
    /// There may be room in the window, or the breaker has opened.
    changed: Notify,
    /// Held while the store is asked, so that one attempt asks for all. A Tokio mutex, since it is held
    /// across that call.
    asking: tokio::sync::Mutex<()>,
}

struct Flow {
    /// Calls under way that count against the window.
    young: u32,
    window: u32,
    known: StoreAnswer,
}

enum StoreAnswer {
    Nothing,
    Closed { until: Instant },
    Held { until: Instant, hold: BreakerHold },
}

enum Look {
    Pass(Pass),
    Wait(BreakerHold),
    Crowded,
    Ask,
}

/// A call under way. Dropping it makes room for another.
struct Pass {
    gate: Arc<KeyGate>,
    probe: Option<u64>,
    young: bool,
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
        let outcome = match tokio::time::timeout(PROBATION, &mut attempt).await {
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
            let flow =
                Flow { young: 0, window: of.policy.failures.max(1), known: StoreAnswer::Nothing };
            let (flow, changed) = (Mutex::new(flow), Notify::new());
            Arc::new(KeyGate { flow, changed, asking: tokio::sync::Mutex::default() })
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
        let patience = tokio::time::sleep(CROWDED_MAX);
        tokio::pin!(patience);
        loop {
            let changed = gate.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that a change after it is not missed.
            changed.as_mut().enable();
            match gate.look() {
                Look::Pass(pass) => return Some(Ok(pass)),
                Look::Wait(hold) => return Some(Err(hold)),
                // All are cancel-safe.
                Look::Crowded => tokio::select! {
                    () = changed => {}
                    () = &mut patience => {
                        return Some(Err(self.hold(of, BreakerCause::Crowded)));
                    }
                    () = cancel.cancelled() => return None,
                },
                Look::Ask => {
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
        let until = now.plus(of.policy.poll());
        BreakerHold { key: Arc::clone(&of.key), until, spread: of.policy.spread(), cause }
    }

    /// Reports the end of a call, and then makes room for others: they must know of a failure first.
    async fn report(&self, of: &BreakerRef, mut pass: Pass, evidence: BreakerEvidence) {
        let (gate, probe, policy) = (Arc::clone(&pass.gate), pass.probe, of.policy);
        let change = match (evidence, probe) {
            (BreakerEvidence::Failed(message), probe) => {
                gate.flow.lock().shrink(&policy);
                BreakerChange::Failed { policy, probe, message }
            }
            (BreakerEvidence::Answered, Some(probe)) => BreakerChange::Answered { probe },
            (BreakerEvidence::Nothing, Some(probe)) => BreakerChange::Unused { probe },
            (BreakerEvidence::Answered, None) => return pass.comes_of_age(),
            (BreakerEvidence::Nothing, None) => return,
        };
        match self.call(&of.key, change).await {
            Ok(answer) => drop(gate.learn(answer, &policy)),
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
    fn look(self: &Arc<Self>) -> Look {
        let mut flow = self.flow.lock();
        let now = Instant::now();
        match &flow.known {
            StoreAnswer::Held { until, hold } if now < *until => Look::Wait(hold.clone()),
            StoreAnswer::Closed { until } if now < *until => {
                if flow.young >= flow.window {
                    return Look::Crowded;
                }
                flow.young += 1;
                Look::Pass(Pass { gate: Arc::clone(self), probe: None, young: true })
            }
            StoreAnswer::Nothing | StoreAnswer::Held { .. } | StoreAnswer::Closed { .. } => {
                Look::Ask
            }
        }
    }

    fn is_known(&self) -> bool {
        match self.flow.lock().known {
            StoreAnswer::Nothing => false,
            StoreAnswer::Closed { until } | StoreAnswer::Held { until, .. } => {
                Instant::now() < until
            }
        }
    }

    /// Takes an answer of the store. An attempt that asked, and is the probe, gets its pass.
    fn learn(self: &Arc<Self>, answer: BreakerAnswer, policy: &BreakerPolicy) -> Option<Pass> {
        let now = Instant::now();
        let mut flow = self.flow.lock();
        let (known, probe) = match answer.verdict {
            BreakerVerdict::Pass => (StoreAnswer::Closed { until: now + BELIEVED }, None),
            BreakerVerdict::Ask => (StoreAnswer::Nothing, None),
            BreakerVerdict::Wait(hold) => {
                flow.window = policy.failures.max(1);
                let left = hold.until.since(answer.at).to_std();
                (StoreAnswer::Held { until: now + left.min(BELIEVED), hold }, None)
            }
            BreakerVerdict::Probe(number) => {
                flow.window = policy.failures.max(1);
                flow.young += 1;
                (StoreAnswer::Nothing, Some(number))
            }
        };
        flow.known = known;
        drop(flow);
        self.changed.notify_waiters();
        probe.map(|_| Pass { gate: Arc::clone(self), probe, young: true })
    }
}

impl Flow {
    /// A failure narrows the window, the less the more of them the breaker allows.
    fn shrink(&mut self, policy: &BreakerPolicy) {
        let less = self.window.div_ceil(policy.failures.max(1));
        self.window = self.window.saturating_sub(less).max(1);
    }
}

impl Pass {
    /// The call was answered, or has lasted a while: it makes room for itself and for another one.
    fn comes_of_age(&mut self) {
        if std::mem::take(&mut self.young) {
            let mut flow = self.gate.flow.lock();
            flow.young = flow.young.saturating_sub(1);
            flow.window = flow.window.saturating_add(1);
            drop(flow);
            self.gate.changed.notify_waiters();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.young {
            let mut flow = self.gate.flow.lock();
            flow.young = flow.young.saturating_sub(1);
            drop(flow);
            self.gate.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
