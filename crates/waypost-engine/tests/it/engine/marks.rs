//! Marks of handlers that run in the engine's process.

use std::time::Duration;

use waypost_core::event::{Event, NodeEvent};
use waypost_core::json::Json;
use waypost_core::status::Status;

use crate::support::lab::Lab;
use crate::support::store::Call;

fn step(number: u32) -> Json {
    Json::from_value(&serde_json::json!({ "step": number }))
}

/// The marks in the log: attempt, number, data.
fn marks(events: &[Event]) -> Vec<(u32, u32, Json)> {
    let mark = |event: &Event| match event {
        Event::Node(NodeEvent::Checkpointed { attempt, number, data, .. }) => {
            (*attempt, *number, data.clone())
        }
        other => panic!("{other:?}"),
    };
    events.iter().map(mark).collect()
}

#[tokio::test]
async fn attempt_after_a_restart_continues_from_the_mark() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold").await;
    let execution = started.execution;
    let first = lab.held().await;
    assert_eq!(first.task.checkpoint, None);
    first.task.marks.record(step(1)).unwrap();
    lab.event(execution, "NodeCheckpointed").await;
    engine.stop(Duration::ZERO).await;

    let next = lab.engine();
    let adopted = next.adopt(execution);
    let second = lab.held().await;
    assert_eq!(second.task.checkpoint, Some(step(1)));
    // The attempt that was stopped has nothing to say any more.
    first.task.marks.record(step(2)).unwrap();
    second.complete();
    assert_eq!(adopted.ended().await.unwrap().status, Status::Completed);
    let attempt = first.task.attempt;
    assert_eq!(marks(&lab.all(execution, "NodeCheckpointed")), [(attempt, 1, step(1))]);
}

#[tokio::test]
async fn marks_that_come_faster_than_commits_replace_each_other() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold retry 2").await;
    let execution = started.execution;
    let first = lab.held().await;
    let gate = lab.store.gate(Call::Append);
    first.task.marks.record(step(1)).unwrap();
    gate.reached().await;
    for number in 2..=1_000 {
        first.task.marks.record(step(number)).unwrap();
    }
    gate.open();
    first.fail();
    lab.event(execution, "NodeFailed").await;
    lab.pass(&engine, 20_000);
    let second = lab.held().await;
    assert_eq!((second.task.attempt, &second.task.checkpoint), (2, &Some(step(1_000))));
    // The next attempt counts its marks anew.
    second.task.marks.record(step(1_001)).unwrap();
    second.fail();
    assert_eq!(started.ended().await.unwrap().status, Status::Failed);
    let expected = [(1, 1, step(1)), (1, 1_000, step(1_000)), (2, 1, step(1_001))];
    assert_eq!(marks(&lab.all(execution, "NodeCheckpointed")), expected);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_falls_silent_is_retried() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold heartbeat 30s retry 2").await;
    let execution = started.execution;
    let first = lab.held().await;
    first.cancel.cancelled().await;
    let failed = lab.event(execution, "NodeFailed").await;
    let Event::Node(NodeEvent::Failed { failure, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!((&*failure.kind, &*failure.message), ("timeout", "no sign of life for 30s"));
    lab.pass(&engine, 20_000);
    let second = lab.held().await;
    assert_eq!(second.task.attempt, 2);
    second.complete();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}
