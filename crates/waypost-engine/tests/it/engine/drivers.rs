//! Engines with several drivers, each on its thread.

use std::collections::BTreeSet;
use std::time::Duration;

use waypost_core::command::Request;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::{ControlRequest, Engine};

use crate::support::lab::Lab;

fn engine(lab: &Lab, drivers: u32, slots: u32) -> Engine {
    lab.engine_with(|parts| {
        (parts.config.drivers, parts.config.slots) = (drivers, slots);
        parts.config.id_block_size = 3;
    })
}

/// More executions than slots, on three threads: every freed slot is used by some driver, and none is
/// forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn drivers_with_few_slots_end_all_executions() {
    let lab = Lab::new();
    let engine = engine(&lab, 3, 2);
    let mut started = Vec::new();
    for at in 0..200 {
        let flow = if at % 2 == 0 {
            "a; b; c; d needs a, b, c"
        } else {
            "p = pass; q = pass; a needs p, q"
        };
        started.push(lab.start(&engine, flow).await);
    }
    let shares: BTreeSet<i64> = started.iter().map(|one| one.execution.0 % 3).collect();
    assert_eq!(shares.len(), 3);
    for one in started {
        assert_eq!(one.ended().await.unwrap().status, Status::Completed);
    }
    let metrics = engine.metrics();
    engine.stop(Duration::from_secs(60)).await;
    assert_eq!(metrics.executions_started_total.get(), 200);
    assert_eq!((metrics.executions_active.get(), metrics.slots_busy.get()), (0, 0));
}

#[tokio::test]
async fn requests_reach_executions_of_all_drivers() {
    let lab = Lab::new();
    let engine = engine(&lab, 2, 4);
    let mut started = Vec::new();
    for _ in 0..4 {
        started.push(lab.start(&engine, "h handler hold; w = signal(go); x needs h, w").await);
    }
    let held = [lab.held().await, lab.held().await, lab.held().await, lab.held().await];
    let shares: BTreeSet<i64> = started.iter().map(|one| one.execution.0 % 2).collect();
    assert_eq!(shares.len(), 2);
    for one in &started {
        let signal = Request::Signal { name: "go".into(), body: Json::null() };
        engine.request(ControlRequest::new(one.execution, signal)).await.unwrap();
    }
    held.into_iter().for_each(|one| one.complete());
    for one in started {
        assert_eq!(one.ended().await.unwrap().status, Status::Completed);
    }
}

#[tokio::test]
async fn stop_awaits_the_attempts_of_every_driver() {
    let lab = Lab::new();
    let first = engine(&lab, 3, 4);
    let mut started = Vec::new();
    for _ in 0..3 {
        started.push(lab.start(&first, "a handler hold; b needs a").await);
    }
    let [one, two, three] = [lab.held().await, lab.held().await, lab.held().await];
    let stop = first.stop(Duration::from_secs(60));
    tokio::pin!(stop);
    one.complete();
    two.complete();
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut stop).await.is_err());
    three.complete();
    stop.await;
    first.over().await;
    assert_eq!(lab.count("NodeCompleted"), 3);
    let second = engine(&lab, 2, 4);
    for one in started {
        let end = second.adopt(one.execution).ended().await.unwrap();
        assert_eq!(end.status, Status::Completed);
    }
    assert_eq!(lab.count("NodeCompleted"), 6, "no attempt was made again");
}
