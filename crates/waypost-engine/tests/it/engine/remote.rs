//! Remote workers at an engine with its threads: polls that wait, tasks in their hands, reports.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use waypost_core::command::{Outcome, Refusal, Request};
use waypost_core::id::{ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::status::Status;
use waypost_engine::{Engine, EngineError, Polled, RemoteTask, Reported, TaskReport, WorkerPoll};
use waypost_ports::blobs::Blobs;
use waypost_ports::tasks::{Offer, OfferId, Tasks};

use crate::support::lab::Lab;

/// Far beyond what a test takes.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn poll(number: u128, max: usize) -> WorkerPoll {
    WorkerPoll {
        worker: WorkerId(Uuid::from_u128(number)),
        name: format!("worker {number}").into(),
        handlers: vec!["far".into()],
        capacity: 4,
        running: 0,
        max,
        leaving: false,
        tasks: None,
        public_key: None,
        key: None,
    }
}

pub(super) fn report(task: &RemoteTask, outcome: Outcome) -> TaskReport {
    TaskReport {
        execution: task.number,
        key: Some(task.execution.clone()),
        node: Arc::clone(&task.node),
        attempt: task.attempt,
        token: task.token,
        worker: WorkerId(Uuid::from_u128(1)),
        outcome,
    }
}

pub(super) fn done() -> Outcome {
    Outcome::Completed(Json::parse("5").unwrap())
}

pub(super) async fn one(engine: &Engine) -> RemoteTask {
    let mut polled = engine.poll(poll(1, 1), LONG).await.unwrap();
    assert_eq!((polled.tasks.len(), polled.cancel.len()), (1, 0));
    polled.tasks.remove(0)
}

#[tokio::test]
async fn a_worker_polls_starts_marks_and_completes() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab
        .start(&engine, "a = worker timeout 9s; b = output(${{ nodes.a.output }}) needs a")
        .await;
    let task = one(&engine).await;
    assert_eq!((&*task.node, &*task.handler, task.attempt), ("a", "far", 1));
    assert_eq!(task.number, started.execution);
    assert_eq!(Some(&task.execution), started.new.as_ref().map(|new| &new.key));
    assert_eq!(task.input.text(), r#"{"node":"a"}"#);
    for outcome in [Outcome::Started, Outcome::Checkpoint(Json::null().into()), done(), done()] {
        let reported = engine.report(report(&task, outcome)).await.unwrap();
        assert_eq!(reported, Reported::Committed);
    }
    let number = started.execution;
    let end = started.ended().await.unwrap();
    assert_eq!((end.status, end.output.unwrap().text()), (Status::Completed, "5"));
    assert_eq!(engine.report(report(&task, done())).await.unwrap(), Reported::Committed);
    let late = engine.report(report(&task, Outcome::Cancelled)).await;
    assert!(matches!(late, Err(EngineError::Refused(Refusal::Ended(Status::Completed)))));
    let rows = engine.workers().await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].alive, rows[0].sign.through), (true, engine.instance()));
    let forged = TaskReport { execution: ExecutionNo(number.0 + 1_000), ..report(&task, done()) };
    assert!(matches!(engine.report(forged).await, Err(EngineError::Unknown)));
    engine.stop(LONG).await;
}

#[tokio::test]
async fn waiting_polls_are_woken_by_offers_and_share_them() {
    let lab = Lab::new();
    let engine = lab.engine();
    let (first, second) = (engine.poll(poll(1, 1), LONG), engine.poll(poll(2, 5), LONG));
    let offers = async {
        lab.start(&engine, "a = worker; b = worker; c = worker").await;
    };
    let (first, second, ()) = tokio::join!(first, second, offers);
    let [first, second] = [first, second].map(|polled| polled.unwrap().tasks);
    let mut nodes: Vec<_> = first.iter().chain(&second).map(|task| &*task.node).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["a", "b", "c"]);
    assert_eq!(first.len(), 1);
    let tokens: std::collections::BTreeSet<Token> =
        first.iter().chain(&second).map(|task| task.token).collect();
    assert_eq!(tokens.len(), 3);
    engine.stop(LONG).await;
}

#[tokio::test]
async fn a_poll_ends_with_nothing_when_its_time_is_over() {
    let lab = Lab::new();
    let engine = lab.engine();
    let polled = engine.poll(poll(1, 1), Duration::ZERO).await.unwrap();
    assert_eq!(polled, Polled::default());
    let leaving = WorkerPoll { leaving: true, ..poll(1, 1) };
    assert_eq!(engine.poll(leaving, LONG).await.unwrap(), Polled::default(), "at once");
    assert!(!engine.workers().await.unwrap()[0].alive);
    lab.start(&engine, "a = worker").await;
    let other = WorkerPoll { handlers: vec!["other".into()], ..poll(2, 1) };
    assert_eq!(engine.poll(other, Duration::ZERO).await.unwrap(), Polled::default());
    assert_eq!(engine.poll(poll(3, 0), Duration::ZERO).await.unwrap(), Polled::default());
    engine.stop(LONG).await;
}

#[tokio::test]
async fn waiting_poll_returns_cancellations_at_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a = worker").await;
    let task = one(&engine).await;
    engine.report(report(&task, Outcome::Started)).await.unwrap();
    let cancel = waypost_engine::ControlRequest::new(
        started.execution,
        Request::Cancel { reason: Some("enough".to_owned()) },
    );
    let (polled, cancelled) = tokio::join!(engine.poll(poll(1, 3), LONG), engine.request(cancel));
    cancelled.unwrap();
    assert_eq!(polled.unwrap(), Polled { cancel: vec![task.token], ..Polled::default() });
    engine.report(report(&task, Outcome::Cancelled)).await.unwrap();
    assert_eq!(started.ended().await.unwrap().status, Status::Cancelled);
    engine.stop(LONG).await;
}

#[tokio::test]
async fn tasks_taken_for_a_dropped_poll_are_offered_again() {
    let lab = Lab::new();
    let engine = lab.engine();
    // Dropped while it waits: it must not swallow the task that comes later.
    {
        let waits = engine.poll(poll(1, 1), LONG);
        tokio::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
    }
    lab.start(&engine, "a = worker").await;
    assert_eq!(&*one(&engine).await.node, "a");
    engine.stop(LONG).await;
}

#[tokio::test]
async fn any_instance_hands_out_tasks_and_takes_reports() {
    let lab = Lab::new();
    let (owner, other) = (lab.engine(), lab.engine());
    let started = lab.start(&owner, "a = worker").await;
    let task = one(&other).await;
    let accepted = other.report(report(&task, Outcome::Started)).await.unwrap();
    assert_eq!(accepted, Reported::Accepted, "it lies in the inbox of its owner");
    lab.pass(&owner, 1_000);
    lab.event(started.execution, "NodeStarted").await;
    assert_eq!(other.report(report(&task, Outcome::Started)).await.unwrap(), Reported::Committed);
    let stranger = TaskReport { token: Token(1), ..report(&task, done()) };
    let stranger = other.report(stranger).await;
    assert!(matches!(stranger, Err(EngineError::Refused(Refusal::ForeignToken { .. }))));
    assert_eq!(owner.report(report(&task, done())).await.unwrap(), Reported::Committed);
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
    assert_eq!(other.report(report(&task, done())).await.unwrap(), Reported::Committed);
    owner.stop(LONG).await;
    other.stop(LONG).await;
}

#[tokio::test]
async fn a_forged_offer_is_dropped_and_counted() {
    let lab = Lab::new();
    let engine = lab.engine();
    let id = OfferId { execution: ExecutionNo(1), path: "a".into(), attempt: 1 };
    let owner = InstanceId(Uuid::from_u128(1));
    let forged = Offer { id, handler: "far".into(), owner, body: vec![b'x'; 100] };
    lab.tasks.offer(&[forged]).unwrap();
    assert_eq!(engine.depths().await.unwrap()[0].waiting, 1);
    assert_eq!(engine.poll(poll(1, 9), Duration::ZERO).await.unwrap(), Polled::default());
    assert_eq!(engine.metrics().tasks_broken_total.get(), 1);
    assert_eq!(engine.depths().await.unwrap(), []);
    engine.stop(LONG).await;
}

#[tokio::test]
async fn output_above_the_payload_limit_is_kept_as_a_blob_and_a_larger_mark_is_refused() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started =
        lab.start(&engine, r#"a = worker; o = output("${{ nodes.a.output }}") needs a"#).await;
    let task = one(&engine).await;
    let large = Json::parse(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX))).unwrap();
    let mark = engine.report(report(&task, Outcome::Checkpoint(large.clone().into()))).await;
    assert!(matches!(mark, Err(EngineError::TooLarge(_))));
    for _ in 0..2 {
        let output = Outcome::Completed(large.clone());
        assert_eq!(engine.report(report(&task, output)).await.unwrap(), Reported::Committed);
    }
    let end = started.ended().await.unwrap();
    let kept = end.output.unwrap().references().next().expect("a reference");
    let content = lab.blobs.get(&kept.digest, u64::MAX).unwrap();
    assert_eq!((end.status, &*content), (Status::Completed, large.text().as_bytes()));
    engine.stop(LONG).await;
}

#[tokio::test]
async fn stop_answers_waiting_polls() {
    let lab = Lab::new();
    let engine = lab.engine();
    let (polled, ()) = tokio::join!(engine.poll(poll(1, 1), LONG), engine.stop(LONG));
    assert!(matches!(polled, Ok(Polled { .. }) | Err(EngineError::Stopping)));
    assert!(matches!(engine.poll(poll(1, 1), LONG).await, Err(EngineError::Stopping)));
    let unknown = OfferId { execution: ExecutionNo(1), path: "a".into(), attempt: 1 };
    lab.tasks.withdraw(&[unknown]).unwrap();
}
