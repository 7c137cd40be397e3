//! Requests to executions wherever they are.

use std::sync::Arc;

use waypost_core::command::Refusal;
use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::{EngineError, Requested};
use waypost_ports::store::MailBody;

use crate::support::lab::Lab;

fn signal(name: &str) -> MailBody {
    MailBody::Signal { name: name.into(), body: Json::parse("1").unwrap() }
}

#[tokio::test]
async fn a_live_execution_does_it_at_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a: task | handler=hold; w: wait go <- a").await;
    let held = lab.held().await;
    let done = engine.request(started.execution, signal("go"), Some(Arc::from("ann"))).await;
    assert_eq!(done.unwrap(), Requested::Done(Status::Running));
    held.complete();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed, "the signal was kept");
}

#[tokio::test]
async fn a_parked_execution_is_woken() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "w: wait go; o: out nodes.w.output <- w").await;
    lab.event(started.execution, "RunPaused").await;
    let accepted = engine.request(started.execution, signal("go"), None).await.unwrap();
    assert_eq!(accepted, Requested::Accepted);
    assert_eq!(started.ended().await.unwrap().output, Some(Json::parse("1").unwrap()));
}

#[tokio::test]
async fn an_ended_and_an_unknown_execution_refuse() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a: task").await;
    let execution = started.execution;
    started.ended().await.unwrap();
    let late = engine.request(execution, MailBody::Resume, None).await.unwrap_err();
    assert!(matches!(late, EngineError::Refused(Refusal::Ended(Status::Completed))), "{late:?}");
    let unknown = engine.request(ExecutionId(4711), MailBody::Resume, None).await.unwrap_err();
    assert!(matches!(unknown, EngineError::Unknown), "{unknown:?}");
}

#[tokio::test]
async fn a_request_that_changes_nothing_is_refused() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a: task | handler=hold").await;
    let held = lab.held().await;
    let refused = engine.request(started.execution, MailBody::Resume, None).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused(Refusal::NotPaused)), "{refused:?}");
    held.complete();
    started.ended().await.unwrap();
}

/// Signals race with executions that park: each is answered, none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_signal_is_lost_to_an_execution_that_parks() {
    let lab = Lab::new();
    let engine = lab.engine();
    for _ in 0..300 {
        let started = lab.start(&engine, "w: wait go; v: wait go <- w; a: task <- v").await;
        for _ in 0..2 {
            engine.request(started.execution, signal("go"), None).await.unwrap();
        }
        assert_eq!(started.ended().await.unwrap().status, Status::Completed);
    }
}

/// A cancellation races with the end: whoever wins, the caller is told, and the log agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_at_the_moment_of_completion_is_answered() {
    let lab = Lab::new();
    let engine = lab.engine();
    for _ in 0..300 {
        let started = lab.start(&engine, "a: task; b: task <- a").await;
        let cancel = MailBody::Cancel { reason: None };
        let answer = engine.request(started.execution, cancel, None).await;
        let status = started.ended().await.unwrap().status;
        match answer {
            Ok(Requested::Done(_) | Requested::Accepted) => {}
            Err(EngineError::Refused(Refusal::Ended(of))) => {
                assert_eq!((of, status), (Status::Completed, Status::Completed));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_pause_holds_until_the_resumption() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a: task | handler=hold; b: task <- a").await;
    let held = lab.held().await;
    let pause = MailBody::Pause { now: true };
    engine.request(started.execution, pause, None).await.unwrap();
    held.cancel.cancelled().await;
    lab.event(started.execution, "RunPaused").await;
    let resumed = engine.request(started.execution, MailBody::Resume, None).await.unwrap();
    assert_eq!(resumed, Requested::Accepted);
    let again = lab.held().await;
    assert_eq!((again.task.attempt, &again.task.idempotency_key), (2, &held.task.idempotency_key));
    again.complete();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}
