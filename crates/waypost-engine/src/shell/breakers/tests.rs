use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::InstanceId;
use waypost_core::json::Json;
use waypost_ports::clock::SystemClock;
use waypost_ports::memory::MemoryStore;

use super::*;
use crate::config::Config;

/// A gate over a store that others may share, and a breaker that opens at three failures.
fn gate(store: &MemoryStore) -> Arc<BreakerGate> {
    let shared = Shared::new(InstanceId(Uuid::nil()), &Config::default(), Arc::new(SystemClock));
    Arc::new(BreakerGate::new(Arc::new(store.clone()), shared))
}

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(SystemClock))
}

fn of(cooldown: u64) -> BreakerRef {
    let policy =
        BreakerPolicy { failures: 3, period: Millis::from_secs(60), cooldown: Millis(cooldown) };
    BreakerRef { key: "k".into(), policy }
}

fn down() -> Outcome {
    Outcome::Failed(Failure::transient(kind::CONNECTION, "refused"))
}

async fn attempt(gate: &BreakerGate, of: BreakerRef, outcome: Outcome) -> Outcome {
    gate.guard(of, None, &CancellationToken::new(), async { outcome }).await
}

fn cause(outcome: Outcome) -> BreakerCause {
    match outcome {
        Outcome::Blocked(hold) => hold.cause,
        other => panic!("{other:?} was made"),
    }
}

#[tokio::test]
async fn breaker_opens_for_all_instances() {
    let store = store();
    let (here, there) = (gate(&store), gate(&store));
    for _ in 0..3 {
        assert_eq!(attempt(&here, of(60_000), down()).await, down());
    }
    let done = || Outcome::Completed(Json::null());
    let found = cause(attempt(&here, of(60_000), done()).await);
    assert!(matches!(found, BreakerCause::Open { failures: 3, .. }), "{found:?}");
    let found = cause(attempt(&there, of(60_000), done()).await);
    assert!(matches!(found, BreakerCause::Open { failures: 3, .. }), "{found:?}");
    assert_eq!(here.shared.metrics.breaker_waits_total.get(), 1);
}

#[tokio::test]
async fn breaker_that_closes_lets_attempts_pass() {
    let gate = gate(&store());
    for _ in 0..3 {
        attempt(&gate, of(1), down()).await;
    }
    // The cooldown is over at once, or within a moment: the next one that is made is the probe.
    let done = Outcome::Completed(Json::null());
    loop {
        match attempt(&gate, of(1), done.clone()).await {
            Outcome::Blocked(_) => tokio::task::yield_now().await,
            outcome => break assert_eq!(outcome, done),
        }
    }
    assert_eq!(gate.shared.metrics.breaker_probes_total.get(), 1);
    assert_eq!(attempt(&gate, of(1), done.clone()).await, done);
}

/// bug: a probe that was cancelled counted as answered for a second.
#[tokio::test]
async fn breaker_stays_half_open_when_its_probe_is_cancelled() {
    let gate = gate(&store());
    for _ in 0..3 {
        attempt(&gate, of(1), down()).await;
    }
    // The probe is stopped before it was answered.
    while let Outcome::Blocked(_) = attempt(&gate, of(1), Outcome::Cancelled).await {
        tokio::task::yield_now().await;
    }
    // The next attempt is the next probe, and while it is under way no other call is made.
    let done = Outcome::Completed(Json::null());
    let call = async {
        let found = cause(attempt(&gate, of(1), done.clone()).await);
        assert!(matches!(found, BreakerCause::Probing { .. }), "{found:?}");
        done.clone()
    };
    let end = gate.guard(of(1), None, &CancellationToken::new(), call).await;
    assert_eq!(end, done);
    assert_eq!(gate.shared.metrics.breaker_probes_total.get(), 2);
}

/// However many attempts begin at once: as many calls are made as it takes to open the breaker.
#[tokio::test]
async fn breaker_limits_calls_that_begin_before_the_first_one_fails() {
    let gate = gate(&store());
    let calls = Arc::new(AtomicU32::new(0));
    let mut attempts = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
        attempts.spawn(async move {
            let call = async {
                calls.fetch_add(1, Ordering::Relaxed);
                // All that may begin do so before this one ends.
                tokio::task::yield_now().await;
                down()
            };
            gate.guard(of(60_000), None, &CancellationToken::new(), call).await
        });
    }
    let ends = attempts.join_all().await;
    let blocked = ends.iter().filter(|end| matches!(end, Outcome::Blocked(_))).count();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(blocked, 497);
}

/// Calls that are answered widen the window, so that nothing is held up for long.
#[tokio::test]
async fn breaker_of_a_working_endpoint_lets_all_pass() {
    let gate = gate(&store());
    let done = || Outcome::Completed(Json::null());
    let mut attempts = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let gate = Arc::clone(&gate);
        attempts.spawn(async move { attempt(&gate, of(1_000), done()).await });
    }
    assert!(attempts.join_all().await.into_iter().all(|end| end == done()));
}

#[tokio::test]
async fn breaker_ignores_failures_that_are_answers() {
    let gate = gate(&store());
    let refused = Outcome::Failed(Failure::permanent(kind::HTTP, "answered 400"));
    for _ in 0..10 {
        assert_eq!(attempt(&gate, of(60_000), refused.clone()).await, refused);
    }
}

#[tokio::test]
async fn breaker_wait_ends_when_the_attempt_is_cancelled() {
    let gate = gate(&store());
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                let never = std::future::pending();
                gate.guard(of(1_000), None, &CancellationToken::new(), never).await
            })
        })
        .collect();
    while gate.keys.lock().values().all(|key| key.book.lock().young < 3) {
        tokio::task::yield_now().await;
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let end = gate.guard(of(1_000), None, &cancel, async { down() }).await;
    assert_eq!(end, Outcome::Cancelled);
    busy.iter().for_each(tokio::task::JoinHandle::abort);
}
