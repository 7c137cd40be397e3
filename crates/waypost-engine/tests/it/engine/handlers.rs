//! What handlers may do to the engine: nothing.

use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent};
use waypost_core::limits::ABANDONED_MAX;
use waypost_core::status::Status;
use waypost_engine::ControlRequest;

use crate::support::lab::{Held, Lab};

const CANCEL: Request = Request::Cancel { reason: None };

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_stopped() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold timeout 1s").await;
    let held = lab.held().await;
    let execution = started.execution;
    let end = started.ended().await.unwrap();
    assert_eq!(end.status, Status::Failed);
    assert_eq!(end.failure.unwrap().kind, "timeout");
    assert!(held.cancel.is_cancelled());
    assert!(matches!(
        lab.find(execution, "NodeFailed"),
        Some(Event::Node(NodeEvent::Failed { attempt: 1, .. }))
    ));
}

#[tokio::test]
async fn a_cancellation_reaches_the_handler_that_runs() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold; b needs a").await;
    let held = lab.held().await;
    engine.request(ControlRequest::new(started.execution, CANCEL)).await.unwrap();
    held.cancel.cancelled().await;
    assert_eq!(started.ended().await.unwrap().status, Status::Cancelled);
}

/// Whichever of the two is seen first: the cancellation, or what the handler makes of it.
#[tokio::test]
async fn a_handler_that_is_quick_to_stop_has_not_failed() {
    let lab = Lab::new();
    let engine = lab.engine();
    for _ in 0..30 {
        let started = lab.start(&engine, "a handler hold").await;
        let execution = started.execution;
        let _held = lab.held().await;
        engine.request(ControlRequest::new(execution, CANCEL)).await.unwrap();
        assert_eq!(started.ended().await.unwrap().status, Status::Cancelled);
        assert!(lab.find(execution, "NodeCancelled").is_some());
        assert_eq!(lab.find(execution, "NodeFailed"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_cancellation_is_dropped() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler stubborn").await;
    let held = lab.held().await;
    engine.request(ControlRequest::new(started.execution, CANCEL)).await.unwrap();
    assert!(held.task.attempt == 1);
    assert_eq!(started.ended().await.unwrap().status, Status::Cancelled);
    // Its slot is free again.
    let engine_with_one = lab.engine_with(|parts| parts.config.slots = 1);
    for _ in 0..2 {
        let started = lab.start(&engine_with_one, "a handler stubborn").await;
        lab.held().await;
        engine_with_one.request(ControlRequest::new(started.execution, CANCEL)).await.unwrap();
        started.ended().await.unwrap();
    }
}

#[tokio::test]
async fn a_handler_that_panics_is_tried_again_and_then_quarantined() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler panic").await;
    let execution = started.execution;
    let quarantined = lab.event(execution, "RunQuarantined");
    tokio::pin!(quarantined);
    // The attempts are seconds apart, and the clock stands still.
    while futures_util::poll!(&mut quarantined).is_pending() {
        lab.pass(&engine, 20_000);
        lab.start(&engine, "b").await.ended().await.unwrap();
    }
    let lost = lab.count("NodeFailed");
    assert_eq!(lost, usize::try_from(ABANDONED_MAX).unwrap());
    let held = lab.control(execution).unwrap().held.unwrap();
    assert!(held.contains("a handler's bug"), "{held}");

    // A person gives it up.
    engine.request(ControlRequest::new(execution, CANCEL)).await.unwrap();
    assert_eq!(started.ended().await.unwrap().status, Status::Cancelled);
}

#[tokio::test]
async fn unknown_handler_fails_its_node_with_a_message() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler absent").await;
    let failure = started.ended().await.unwrap().failure.unwrap();
    assert_eq!(failure.kind, "no_handler");
    assert!(failure.message.contains("absent"), "{}", failure.message);
}

#[tokio::test]
async fn five_hundred_attempts_that_only_await_io_run_at_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    let fan: Vec<String> = (0..500).map(|at| format!("n{at} = call handler hold")).collect();
    let started = lab.start(&engine, &fan.join(";")).await;
    let mut open = Vec::new();
    for _ in 0..500 {
        open.push(lab.held().await);
    }
    let metrics = engine.metrics();
    assert_eq!((metrics.io_slots_busy.get(), metrics.slots_busy.get()), (500, 0));
    open.into_iter().for_each(Held::complete);
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}
