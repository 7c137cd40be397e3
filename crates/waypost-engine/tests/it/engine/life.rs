//! Executions from the outside: start them, await them, many of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::driver::Committed;
use waypost_engine::{EngineError, Observer};
use waypost_ports::store::Idempotency;

use crate::support::lab::Lab;

#[tokio::test]
async fn an_execution_is_started_and_awaited() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a; o = output(${{ nodes.a.output }}) needs a").await;
    assert_eq!(started.new.as_ref().map(|new| new.status), Some(Status::Running));
    let end = started.ended().await.unwrap();
    assert_eq!((end.status, end.output), (Status::Completed, Some(Json::parse("\"a\"").unwrap())));
}

#[tokio::test]
async fn late_callers_receive_the_end() {
    let lab = Lab::new();
    let engine = lab.engine();
    let mut request = lab.request("o = output(7)");
    request.idempotency = Some(Idempotency { key: "k".into(), digest: [7; 32] });
    let first = engine.start(request).await.unwrap();
    let execution = first.execution;
    first.ended().await.unwrap();

    let mut again = lab.request("o = output(7)");
    again.idempotency = Some(Idempotency { key: "k".into(), digest: [7; 32] });
    let second = engine.start(again).await.unwrap();
    assert_eq!((second.execution, second.new.as_ref()), (execution, None));
    assert_eq!(second.ended().await.unwrap().output, Some(Json::parse("7").unwrap()));

    let mut other = lab.request("o = output(8)");
    other.idempotency = Some(Idempotency { key: "k".into(), digest: [8; 32] });
    let refused = engine.start(other).await.err().unwrap();
    assert!(matches!(refused, EngineError::IdempotencyKeyTaken(of) if of == execution));

    assert_eq!(engine.adopt(execution).ended().await.unwrap().status, Status::Completed);
    let unknown = engine.adopt(waypost_core::id::ExecutionNo(4711));
    assert!(unknown.ended().await.is_none());
}

#[tokio::test]
async fn a_key_names_one_execution() {
    let lab = Lab::new();
    let engine = lab.engine();
    let keyed = || {
        let mut request = lab.request("a");
        request.key = Some(ExecutionId("mine".into()));
        request
    };
    let first = engine.start(keyed()).await.unwrap();
    let refused = engine.start(keyed()).await.err().unwrap();
    assert!(matches!(refused, EngineError::IdTaken(of) if of == first.execution));
}

#[tokio::test]
async fn a_long_delay_ends_when_its_time_has_come() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "d = delay(10h); a needs d").await;
    lab.event(started.execution, "RunPaused").await;
    lab.pass(&engine, 36_000_000);
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}

/// Far more submissions than may be in memory at once: callers wait in the queue, and at no moment are
/// more executions alive, or more handlers at work, than allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_executions_go_through_a_narrow_door() {
    const COUNT: usize = 10_000;
    const ACTIVE: usize = 20;
    let (live, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let lab = Lab::new();
    let engine = lab.engine_with(|parts| {
        parts.config.active_max = ACTIVE;
        parts.config.backlog_max = 50;
        let (live, most) = (Arc::clone(&live), Arc::clone(&most));
        let observer: Observer = Arc::new(move |committed: &Committed| {
            for event in committed.events.iter() {
                if matches!(event, Event::Run(RunEvent::Created(_))) {
                    most.fetch_max(live.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                } else if event.is_end() {
                    live.fetch_sub(1, Ordering::SeqCst);
                }
            }
        });
        parts.observer = Some(observer);
    });
    let flow = lab.flow("a");
    let mut running: FuturesUnordered<_> = (0..COUNT)
        .map(|_| {
            let request = waypost_engine::StartRequest::new(Arc::clone(&flow), 1, Json::null());
            async { engine.start(request).await.unwrap().ended().await.unwrap().status }
        })
        .collect();
    let mut completed = 0;
    while let Some(status) = running.next().await {
        assert_eq!(status, Status::Completed);
        completed += 1;
    }
    assert_eq!(completed, COUNT);
    assert_eq!(lab.work.calls.load(Ordering::SeqCst), COUNT);
    assert!(most.load(Ordering::SeqCst) <= ACTIVE, "{} alive at once", most.load(Ordering::SeqCst));
    assert!(lab.work.running_max.load(Ordering::SeqCst) <= 4);
}

/// Callers who lose patience leave their submissions in the queue; the line must stay short all the same.
#[tokio::test]
async fn callers_that_leave_free_their_place_in_the_queue() {
    let lab = Lab::new();
    let engine = lab.engine_with(|parts| {
        parts.config.active_max = 1;
        parts.config.backlog_max = 2;
    });
    let first = lab.start(&engine, "a handler hold").await;
    let held = lab.held().await;
    for _ in 0..20 {
        let mut start = Box::pin(engine.start(lab.request("b")));
        assert!(futures_util::poll!(&mut start).is_pending());
    }
    held.complete();
    first.ended().await.unwrap();
    // A caller that comes now is behind all that are still in the queue.
    lab.start(&engine, "last").await.ended().await.unwrap();
    assert_eq!(lab.count("RunCreated"), 1 + 2 + 1);
}

#[tokio::test]
async fn panicking_observer_does_not_stop_the_engine() {
    let lab = Lab::new();
    let engine = lab.engine_with(|parts| {
        parts.observer = Some(Arc::new(|_: &Committed| panic!("an observer's bug")));
    });
    let end = lab.start(&engine, "a; b needs a").await.ended().await;
    assert_eq!(end.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn engine_publishes_its_metrics() {
    let lab = Lab::new();
    let engine = lab.engine();
    let metrics = engine.metrics();
    let started = lab.start(&engine, "a handler hold").await;
    let held = lab.held().await;
    assert_eq!((metrics.executions_active.get(), metrics.slots_busy.get()), (1, 1));
    held.complete();
    started.ended().await.unwrap();
    assert_eq!((metrics.executions_active.get(), metrics.slots_busy.get()), (0, 0));
    let ended = metrics.executions_ended_total.get("COMPLETED");
    let attempts = metrics.attempts_ended_total.get("completed");
    assert_eq!((metrics.executions_started_total.get(), ended, attempts), (1, 1, 1));
    for histogram in [&metrics.schedule_to_start_seconds, &metrics.report_to_commit_seconds] {
        assert_eq!(histogram.count(), 1);
    }
    assert_eq!(metrics.append_seconds.count(), 2);
    let mut page = String::new();
    metrics.render(&mut page);
    assert!(page.contains("\nwaypost_slots 4\n"), "{page}");
}
