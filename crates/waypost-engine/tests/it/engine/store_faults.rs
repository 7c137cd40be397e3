//! A store that fails, forgets to answer, or gives back something else than it was given.

use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::flow;
use waypost_core::status::Status;
use waypost_engine::{ControlRequest, Plans};
use waypost_ports::store::StoreError;

use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};

fn full() -> Fault {
    Fault::Fails(StoreError::Full("no space is left".to_owned()))
}

#[tokio::test]
async fn full_store_acknowledges_nothing_until_it_has_space() {
    let lab = Lab::new();
    let engine = lab.engine();
    let running = lab.start(&engine, "a handler hold; b needs a").await;
    let held = lab.held().await;
    lab.store.break_calls(&[Call::Append, Call::Heartbeat], &full());
    held.complete();
    let start = engine.start(lab.request("c"));
    let request = engine.request(ControlRequest::new(
        running.execution,
        Request::Pause { now: false, reason: None },
    ));
    tokio::pin!(start, request);
    assert!(futures_util::poll!(&mut start).is_pending());
    assert!(futures_util::poll!(&mut request).is_pending());
    lab.store.failures(4).await;
    assert!(futures_util::poll!(&mut start).is_pending());
    assert!(futures_util::poll!(&mut request).is_pending());
    assert_eq!(lab.count("RunCreated"), 1);

    lab.store.heal();
    assert_eq!(start.await.unwrap().ended().await.unwrap().status, Status::Completed);
    request.await.unwrap();
    lab.event(running.execution, "RunPaused").await;
    engine
        .request(ControlRequest::new(running.execution, Request::Resume { reason: None }))
        .await
        .unwrap();
    assert_eq!(running.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_counts_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    lab.store.break_calls(&[Call::Append], &Fault::LosesReply);
    let start = engine.start(lab.request("a; b needs a"));
    tokio::pin!(start);
    assert!(futures_util::poll!(&mut start).is_pending());
    lab.store.failures(3).await;
    lab.store.heal();
    assert_eq!(start.await.unwrap().ended().await.unwrap().status, Status::Completed);
    assert_eq!((lab.count("RunCreated"), lab.count("NodeCompleted")), (1, 2));
}

#[tokio::test]
async fn damaged_log_quarantines_its_execution_only() {
    let lab = Lab::new();
    let engine = lab.engine();
    let damaged = lab.start(&engine, "w = signal(go)").await;
    let sound = lab.start(&engine, "w = signal(go)").await;
    for started in [&damaged, &sound] {
        lab.event(started.execution, "RunPaused").await;
    }
    lab.store.damage(damaged.execution);
    let go = Request::Signal { name: "go".into(), body: waypost_core::json::Json::null() };
    for started in [&damaged, &sound] {
        engine.request(ControlRequest::new(started.execution, go.clone())).await.unwrap();
    }
    assert_eq!(sound.ended().await.unwrap().status, Status::Completed);
    let held = lab.control(damaged.execution).unwrap().held.unwrap();
    assert!(held.contains("checksum"), "{held}");
}

/// An execution that makes the fold panic must be set aside like any damaged one.
#[tokio::test]
async fn log_that_panics_its_reader_quarantines_its_execution_only() {
    let lab = Lab::new();
    let poison = "w = signal(go); poison = pass needs w";
    let first = lab.engine();
    let poisoned = lab.start(&first, poison).await;
    let sound = lab.start(&first, "w = signal(go)").await;
    for started in [&poisoned, &sound] {
        lab.event(started.execution, "RunPaused").await;
    }
    first.stop(std::time::Duration::ZERO).await;
    let second = lab.engine_with(|parts| {
        parts.plans = Arc::new(Plans::new(Box::new(move |text| {
            assert!(text != poison, "a compiler's bug");
            flow::compile(text)
        })));
    });
    let ended = second.adopt(sound.execution);
    let go = Request::Signal { name: "go".into(), body: waypost_core::json::Json::null() };
    for started in [&poisoned, &sound] {
        second.request(ControlRequest::new(started.execution, go.clone())).await.unwrap();
    }
    assert_eq!(ended.ended().await.unwrap().status, Status::Completed);
    let held = lab.control(poisoned.execution).unwrap().held.unwrap();
    assert!(held.contains("a compiler's bug"), "{held}");
}

/// A claimed execution is owned: if it cannot be loaded just now, it must be loaded later, or no instance
/// ever would.
#[tokio::test]
async fn an_execution_that_could_not_be_loaded_at_once_is_loaded_later() {
    let lab = Lab::new();
    let first = lab.engine();
    let started = lab.start(&first, "w = signal(go)").await;
    lab.event(started.execution, "RunPaused").await;
    first.stop(std::time::Duration::ZERO).await;

    // A new engine does not know the plan yet and has to ask the store for it.
    let down = Fault::Fails(StoreError::Unavailable("down".to_owned()));
    lab.store.break_calls(&[Call::Definition], &down);
    let second = lab.engine();
    let ended = second.adopt(started.execution);
    let go = Request::Signal { name: "go".into(), body: waypost_core::json::Json::null() };
    let failures = lab.store.failures(2);
    second.request(ControlRequest::new(started.execution, go)).await.unwrap();
    failures.await;
    lab.store.heal();
    assert_eq!(ended.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn an_execution_that_could_not_be_held_at_once_is_held_later() {
    let lab = Lab::new();
    let engine = lab.engine();
    // It is a reconciliation. If it finds the execution before its park and is read after the damage,
    // it holds the execution, and the store thread repeats that while the request waits behind it.
    lab.store.first_claim().await;
    let damaged = lab.start(&engine, "w = signal(go)").await;
    lab.event(damaged.execution, "RunPaused").await;
    lab.store.damage(damaged.execution);
    lab.store.break_calls(&[Call::Hold], &full());
    let failures = lab.store.failures(2);
    let cancel = Request::Cancel { reason: None };
    engine.request(ControlRequest::new(damaged.execution, cancel)).await.unwrap();
    failures.await;
    lab.store.heal();
    // Behind the hold, in order.
    let unknown = engine.adopt(waypost_core::id::ExecutionNo(4711)).ended().await;
    assert!(unknown.is_none());
    assert!(lab.control(damaged.execution).unwrap().held.is_some());
}
