//! A store that many may write to at once: appends, errands and renewals go their own ways.

use std::time::Duration;

use waypost_core::command::Request;
use waypost_core::status::Status;
use waypost_engine::{ControlRequest, Engine};

use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};

/// An engine with several lanes, whose first claim is answered: it is a reconciliation, and may find what is
/// started meanwhile and give it back as forgotten. Where appends hang, that would go unnoticed.
async fn engine(lab: &Lab) -> Engine {
    let engine = lab.engine_with(|parts| parts.config.append_lanes = 2);
    lab.store.first_claim().await;
    engine
}

#[tokio::test]
async fn everything_is_done_as_with_one_lane() {
    let lab = Lab::new();
    let engine = engine(&lab).await;
    let mut started = Vec::new();
    for _ in 0..200 {
        started.push(lab.start(&engine, "a; b needs a; c needs a, b").await);
    }
    for execution in started {
        assert_eq!(execution.ended().await.unwrap().status, Status::Completed);
    }
    assert_eq!((lab.count("RunCreated"), lab.count("NodeCompleted")), (200, 600));
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_counts_once() {
    let lab = Lab::new();
    let engine = engine(&lab).await;
    lab.store.break_calls(&[Call::Append], &Fault::LosesReply);
    let start = engine.start(lab.request("a; b needs a"));
    tokio::pin!(start);
    assert!(futures_util::poll!(&mut start).is_pending());
    lab.store.failures(3).await;
    lab.store.heal();
    assert_eq!(start.await.unwrap().ended().await.unwrap().status, Status::Completed);
    assert_eq!((lab.count("RunCreated"), lab.count("NodeCompleted")), (1, 2));
}

/// While appends are not answered, the lease is renewed and mail is delivered all the same.
#[tokio::test]
async fn hanging_appends_do_not_delay_other_lanes() {
    let lab = Lab::new();
    let engine = engine(&lab).await;
    let parked = lab.start(&engine, "w = signal(go)").await;
    lab.event(parked.execution, "RunPaused").await;
    lab.store.break_calls(&[Call::Append], &Fault::LosesReply);
    let start = engine.start(lab.request("a"));
    tokio::pin!(start);
    assert!(futures_util::poll!(&mut start).is_pending());
    lab.store.failures(1).await;
    let signal = Request::Signal { name: "go".into(), body: waypost_core::json::Json::null() };
    engine.request(ControlRequest::new(parked.execution, signal)).await.unwrap();
    lab.store.heal();
    assert_eq!(start.await.unwrap().ended().await.unwrap().status, Status::Completed);
    assert_eq!(parked.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn an_instance_leaves_after_its_last_append() {
    let lab = Lab::new();
    let first = engine(&lab).await;
    let started = lab.start(&first, "a handler hold; b needs a").await;
    let held = lab.held().await;
    let stop = first.stop(Duration::from_secs(60));
    tokio::pin!(stop);
    assert!(futures_util::poll!(&mut stop).is_pending());
    held.complete();
    stop.await;
    let second = engine(&lab).await;
    let end = second.adopt(started.execution).ended().await.unwrap();
    assert_eq!(end.status, Status::Completed);
    assert_eq!(lab.count("NodeCompleted"), 2, "a was not made again");
}
