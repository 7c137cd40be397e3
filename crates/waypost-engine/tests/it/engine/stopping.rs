//! Stopping: running attempts may end, everything else is handed over, and no caller waits for ever.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent};
use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::{ControlRequest, EngineError, Requested, StartRequest};
use waypost_ports::store::StoreError;

use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// Has not ended, although other threads were given every chance to end it.
async fn still_waits(future: &mut Pin<&mut impl Future>) -> bool {
    for _ in 0..200 {
        if futures_util::poll!(future.as_mut()).is_ready() {
            return false;
        }
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    }
    true
}

#[tokio::test]
async fn stop_awaits_running_attempts_and_another_engine_does_the_rest() {
    let lab = Lab::new();
    let first = lab.engine();
    let started = lab.start(&first, "a handler hold; b needs a").await;
    let execution = started.execution;
    let held = lab.held().await;
    let stop = first.stop(LONG);
    tokio::pin!(stop);
    assert!(futures_util::poll!(&mut stop).is_pending());
    assert!(futures_util::poll!(std::pin::pin!(first.over())).is_pending(), "something runs");
    let late = first.start(lab.request("x")).await.err().unwrap();
    assert!(matches!(late, EngineError::Stopping));
    held.complete();
    stop.await;
    first.over().await;
    assert!(started.ended().await.is_none(), "another instance continues it");

    let second = lab.engine();
    let end = second.adopt(execution).ended().await.unwrap();
    assert_eq!(end.status, Status::Completed);
    assert_eq!(lab.count("NodeCompleted"), 2, "a was not made again");
}

#[tokio::test]
async fn stop_without_grace_hands_over_running_attempts() {
    let lab = Lab::new();
    let first = lab.engine();
    let started = lab.start(&first, "a handler hold; b needs a").await;
    let lost = lab.held().await;
    first.stop(Duration::ZERO).await;
    lost.cancel.cancelled().await;
    let second = lab.engine();
    let again = lab.held().await;
    assert_eq!((lost.task.attempt, again.task.attempt), (1, 2));
    assert_eq!(lost.task.idempotency_key, again.task.idempotency_key);
    assert_ne!(lost.task.token, again.task.token);
    match lab.find(started.execution, "NodeFailed") {
        Some(Event::Node(NodeEvent::Failed { failure, .. })) => {
            assert_eq!(failure.kind, "handed_over")
        }
        other => panic!("{other:?}"),
    }
    again.complete();
    assert_eq!(second.adopt(started.execution).ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn an_engine_that_is_dropped_loses_nothing() {
    let lab = Lab::new();
    let first = lab.engine();
    let started = lab.start(&first, "d = delay(1s); a needs d").await;
    drop(first);
    let second = lab.engine();
    let ended = second.adopt(started.execution).ended();
    tokio::pin!(ended);
    let end = loop {
        // Another one goes through: by then the second engine has looked at the time.
        lab.pass(&second, 1_000);
        lab.start(&second, "b").await.ended().await.unwrap();
        if let Poll::Ready(end) = futures_util::poll!(&mut ended) {
            break end;
        }
    };
    assert_eq!(end.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn a_stop_while_the_store_fails_returns() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold; b needs a").await;
    let execution = started.execution;
    let held = lab.held().await;
    let down = Fault::Fails(StoreError::Unavailable("down".to_owned()));
    let calls = [Call::Append, Call::Heartbeat, Call::Claim, Call::Read, Call::Deliver];
    lab.store.break_calls(&calls, &down);
    let failed = lab.store.failures(2);
    held.complete();
    failed.await;
    engine.stop(Duration::from_millis(50)).await;
    assert!(started.ended().await.is_none());

    // Its last heartbeat was lost: the next engine has to wait for the lease to end.
    lab.store.heal();
    lab.clock.advance(waypost_ports::store::LEASE);
    let second = lab.engine();
    let ended = second.adopt(execution);
    lab.held().await.complete();
    assert_eq!(ended.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn a_second_stop_shortens_the_first_and_both_await_the_end() {
    let lab = Lab::new();
    let engine = lab.engine();
    lab.start(&engine, "a handler hold").await;
    let held = lab.held().await;
    let patient = engine.stop(LONG);
    tokio::pin!(patient);
    assert!(futures_util::poll!(&mut patient).is_pending());
    tokio::join!(patient, engine.stop(Duration::ZERO));
    held.cancel.cancelled().await;
    let second = lab.engine();
    assert_eq!(lab.held().await.task.attempt, 2, "handed over at once");
    drop(second);
}

/// Submissions in the queue, requests and awaited ends: callers that still wait when the engine is
/// gone get an answer.
#[tokio::test]
async fn callers_of_a_stopped_engine_are_answered() {
    let lab = Lab::new();
    let engine = lab.engine_with(|parts| parts.config.active_max = 1);
    let first = lab.start(&engine, "a handler hold").await;
    let _held = lab.held().await;
    let in_queue = engine.start(lab.request("b"));
    tokio::pin!(in_queue);
    assert!(futures_util::poll!(&mut in_queue).is_pending());
    engine.stop(Duration::ZERO).await;
    assert!(matches!(in_queue.await.err(), Some(EngineError::Stopping)));
    assert!(first.ended().await.is_none());
    let request = engine
        .request(ControlRequest::new(
            waypost_core::id::ExecutionNo(1),
            Request::Resume { reason: None },
        ))
        .await;
    assert!(matches!(request, Err(EngineError::Stopping)));
    assert!(engine.adopt(waypost_core::id::ExecutionNo(1)).ended().await.is_none());
}

/// A store that panics is a bug of the store; its callers must hear of it and not hang.
#[tokio::test]
async fn a_store_that_panics_ends_the_engine_and_not_its_callers() {
    for call in [Call::Append, Call::Deliver] {
        let lab = Lab::new();
        let engine = lab.engine();
        let waiting = lab.start(&engine, "w = signal(go)").await;
        lab.event(waiting.execution, "RunPaused").await;
        let over = engine.over();
        tokio::pin!(over);
        assert!(still_waits(&mut over).await, "it works");
        lab.store.break_calls(&[call], &Fault::Panics);
        let refused = match call {
            Call::Append => engine.start(lab.request("a")).await.err(),
            _ => engine
                .request(ControlRequest::new(waiting.execution, Request::Resume { reason: None }))
                .await
                .err(),
        };
        assert!(matches!(refused, Some(EngineError::Unanswered)), "{refused:?}");
        assert!(waiting.ended().await.is_none());
        over.await;
        engine.stop(LONG).await;
    }
}

/// A sender whose request was refused would send its signal again, and it would count twice.
#[tokio::test]
async fn bug_a_stop_refused_a_request_that_went_into_an_inbox() {
    for lanes in [0, 2] {
        let lab = Lab::new();
        let engine = lab.engine_with(|parts| parts.config.append_lanes = lanes);
        lab.store.first_claim().await;
        let parked = lab.start(&engine, "w = signal(go)").await;
        lab.event(parked.execution, "RunPaused").await;
        let gate = lab.store.gate(Call::Deliver);
        let signal = Request::Signal { name: "go".into(), body: Json::null() };
        let request = engine.request(ControlRequest::new(parked.execution, signal));
        tokio::pin!(request);
        assert!(futures_util::poll!(&mut request).is_pending());
        gate.reached().await;
        let stop = engine.stop(LONG);
        tokio::pin!(stop);
        assert!(futures_util::poll!(&mut stop).is_pending());
        assert!(still_waits(&mut request).await, "{lanes} lanes");
        gate.open();
        let answer = request.await;
        assert!(matches!(answer, Ok(Requested::Accepted { .. })), "{lanes} lanes: {answer:?}");
        stop.await;
    }
}

/// The store may take it after all, so the answer is not a refusal.
#[tokio::test]
async fn submission_unanswered_at_the_stop_is_reported_as_unanswered() {
    let lab = Lab::new();
    let engine = lab.engine_with(|parts| parts.config.append_lanes = 2);
    lab.store.first_claim().await;
    let keyed =
        || StartRequest { key: Some(ExecutionId("mine".into())), ..lab.request("w = signal(go)") };
    let gate = lab.store.gate(Call::Append);
    let start = engine.start(keyed());
    tokio::pin!(start);
    assert!(futures_util::poll!(&mut start).is_pending());
    gate.reached().await;
    let stop = engine.stop(Duration::ZERO);
    tokio::pin!(stop);
    assert!(futures_util::poll!(&mut stop).is_pending());
    let answer = start.await.err();
    assert!(matches!(answer, Some(EngineError::Unanswered)), "{answer:?}");
    gate.open();
    stop.await;
    let again = lab.engine().start(keyed()).await.err();
    assert!(matches!(again, Some(EngineError::IdTaken(_))), "it was taken: {again:?}");
}

/// A process that left before its last heartbeat was stored would make the others wait for its lease.
#[tokio::test]
async fn bug_stop_after_a_dropped_stop_did_not_wait() {
    let lab = Lab::new();
    let engine = lab.engine();
    let gate = lab.store.gate(Call::Leave);
    tokio::select! { // the first is dropped, as by a second signal
        () = engine.stop(LONG) => panic!("it has not left"),
        () = gate.reached() => {}
    }
    let second = engine.stop(Duration::ZERO);
    tokio::pin!(second);
    assert!(still_waits(&mut second).await);
    gate.open();
    second.await;
}
