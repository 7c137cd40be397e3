//! The loop of the trigger runner, in virtual time: what is slow or breaks keeps nothing else waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::time::Millis;
use waypost_engine::triggers::SOURCES_MAX;
use waypost_ports::source::{PageRequest, PageSource, SourcePage};
use waypost_ports::triggers::FireOutcome;

use super::each_second;
use crate::support::lab::Lab;
use crate::support::store::{Call, TestStore};
use crate::support::triggers::until;

/// A source with a bug: its first read panics, and others never answer.
#[derive(Default)]
struct PanicsOnce(AtomicUsize);

impl PageSource for PanicsOnce {
    fn read(&self, _: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>> {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "a bug of the source");
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn trigger_whose_turn_panicked_is_read_again_when_its_claim_ends() {
    let lab = Lab::new();
    lab.deploy(&json!({ "poll": {} }), "a");
    let mut instance = lab.instance();
    let source = Arc::new(PanicsOnce::default());
    instance.runner.pages = Arc::clone(&source) as Arc<dyn PageSource>;
    let stop = CancellationToken::new();
    let running = tokio::spawn(instance.runner.run(stop.clone()));
    until(|| source.0.load(Ordering::SeqCst) == 1).await;
    lab.clock.advance(Millis(31_000));
    until(|| source.0.load(Ordering::SeqCst) == 2).await;
    stop.cancel();
    running.await.unwrap();
}

/// A source that never answers.
#[derive(Default)]
struct Hangs(AtomicUsize);

impl PageSource for Hangs {
    fn read(&self, _: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn schedule_fires_while_more_polls_hang_than_may_be_read_at_once() {
    let lab = Lab::new();
    for number in 0..150 {
        lab.deploy_as(&format!("poll {number}"), &json!({ "poll": number }), "a");
    }
    // Their first reads are spread over their period.
    lab.clock.advance(Millis(60_000));
    let mut instance = lab.instance();
    let source = Arc::new(Hangs::default());
    instance.runner.pages = Arc::clone(&source) as Arc<dyn PageSource>;
    let (stop, wakeups) = (CancellationToken::new(), instance.runner.wakeups.clone());
    let running = tokio::spawn(instance.runner.run(stop.clone()));
    until(|| source.0.load(Ordering::SeqCst) == SOURCES_MAX).await;
    lab.deploy(&each_second(), "a");
    for fires in 1..4 {
        lab.clock.advance(Millis(1_000));
        wakeups.wake();
        until(|| lab.fires().len() == fires).await;
    }
    assert_eq!(source.0.load(Ordering::SeqCst), SOURCES_MAX);
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn build_that_cannot_read_a_definition_leaves_its_times_to_others() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let old = lab.instance_of(|_| Err("a field of a newer build".to_owned()));
    let new = lab.instance();
    for fires in 1..=100 {
        lab.clock.advance(Millis(1_000));
        old.run_due().await;
        new.run_due().await;
        assert_eq!(lab.outcomes(), [(FireOutcome::Started, fires)]);
    }
}

/// The endpoints of ends cannot be kept in order for as long as a definition is being read.
#[tokio::test]
async fn schedule_fires_and_the_runner_stops_while_endpoints_are_kept_in_order() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "h handler hold");
    lab.deploy_as("after", &json!({ "ended": "flow" }), "a");
    let mut instance = lab.instance();
    let slow = TestStore::new(lab.store.inner.clone());
    let gate = slow.gate(Call::Definition);
    instance.runner.ends.firing.store = Arc::new(slow);
    let (stop, wakeups) = (CancellationToken::new(), instance.runner.wakeups.clone());
    let running = tokio::spawn(instance.runner.run(stop.clone()));
    gate.reached().await;
    lab.clock.advance(Millis(1_000));
    wakeups.wake();
    lab.held().await.complete();
    stop.cancel();
    running.await.unwrap();
    gate.open();
}
