//! Attempts in progress. The same attempt may be delivered under several tokens, because it was offered
//! again while its first start was on its way. It runs once, and each delivery reports the outcome:
//!
//! ```text
//!   token A ─ start ─ committed ──▶ handler ──▶ outcome ─┬─▶ report of A
//!   token B ─ start ─ committed ──────── waits ──────────┴─▶ report of B
//! ```
//!
//! The outcome is kept while any of the deliveries is in progress; after that see `finished`.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::delivery::Outcome;
use super::finished::Attempt;

/// See the module.
#[derive(Default)]
pub(super) struct InHand {
    attempts: Mutex<HashMap<Attempt, SharedAttempt>>,
}

struct SharedAttempt {
    deliveries: usize,
    making: Arc<Making>,
}

impl InHand {
    /// Registers one more delivery of this attempt, until the returned guard is dropped.
    pub(super) fn hold(&self, attempt: &Attempt) -> HeldAttempt<'_> {
        let mut attempts = self.attempts.lock();
        let fresh = || SharedAttempt { deliveries: 0, making: Arc::default() };
        let shared = attempts.entry(attempt.clone()).or_insert_with(fresh);
        shared.deliveries += 1;
        let making = Arc::clone(&shared.making);
        HeldAttempt { in_hand: self, attempt: attempt.clone(), making }
    }
}

/// A delivery's part in an attempt.
pub(super) struct HeldAttempt<'a> {
    in_hand: &'a InHand,
    attempt: Attempt,
    pub(super) making: Arc<Making>,
}

impl Drop for HeldAttempt<'_> {
    fn drop(&mut self) {
        let mut attempts = self.in_hand.attempts.lock();
        let Some(shared) = attempts.get_mut(&self.attempt) else { return };
        shared.deliveries -= 1;
        if shared.deliveries == 0 {
            attempts.remove(&self.attempt);
        }
    }
}

/// An attempt, which runs once.
#[derive(Default)]
pub(super) struct Making {
    has_begun: AtomicBool,
    /// Cancelled when any of its deliveries is cancelled.
    cancel: CancellationToken,
    outcome: OnceCell<Outcome>,
}

impl Making {
    /// Is there, or will there be, something to report?
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Is there something to report?
    pub(super) fn is_over(&self) -> bool {
        self.outcome.initialized()
    }

    /// Runs the attempt with `run`, unless another delivery does or did, and returns its outcome.
    /// `cancel` stops it, whichever delivery runs it; an attempt that is cancelled by now does not
    /// start.
    pub(super) async fn make<F: Future<Output = Outcome>>(
        &self,
        cancel: &CancellationToken,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Outcome {
        let mut made = pin!(self.outcome.get_or_init(|| async {
            if self.cancel.is_cancelled() {
                return Outcome::Cancelled;
            }
            self.has_begun.store(true, Ordering::Relaxed);
            run(self.cancel.clone()).await
        }));
        // Cancel-safe: `made` is pinned outside, and awaited to its end.
        tokio::select! {
            biased;
            () = cancel.cancelled() => self.cancel.cancel(),
            outcome = &mut made => return outcome.clone(),
        }
        made.await.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> Attempt {
        Attempt { execution: "e".to_owned(), node: "n".to_owned(), attempt: 1 }
    }

    async fn never(_: CancellationToken) -> Outcome {
        unreachable!("it is made by another one, or not at all")
    }

    #[tokio::test]
    async fn attempt_with_two_tokens_is_cancelled_and_reported_under_both() {
        let (in_hand, idle) = (InHand::default(), CancellationToken::new());
        let (first, second) = (in_hand.hold(&attempt()), in_hand.hold(&attempt()));
        assert!(!second.making.has_begun());
        let until_stopped = async |cancel: CancellationToken| {
            cancel.cancelled().await;
            Outcome::Cancelled
        };
        let stopped = CancellationToken::new();
        let waits = async {
            assert!(second.making.has_begun() && !second.making.is_over());
            stopped.cancel();
            second.making.make(&stopped, never).await
        };
        // In this order: the second comes when the first has begun.
        let both = async { tokio::join!(biased; first.making.make(&idle, until_stopped), waits) };
        assert_eq!(both.await, (Outcome::Cancelled, Outcome::Cancelled));
        drop(first);
        let third = in_hand.hold(&attempt());
        assert!(third.making.is_over(), "for as long as any is in hand");
        drop((second, third));
        assert!(in_hand.attempts.lock().is_empty());
    }

    #[tokio::test]
    async fn attempt_cancelled_before_start_does_not_run() {
        let in_hand = InHand::default();
        let (held, stopped) = (in_hand.hold(&attempt()), CancellationToken::new());
        stopped.cancel();
        assert_eq!(held.making.make(&stopped, never).await, Outcome::Cancelled);
        assert!(!held.making.has_begun());
    }
}
