//! Events that wait: in windows, and for the turn that a throttle gives them.

use std::sync::Arc;

use serde_json::json;
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Payload, WindowMode};
use waypost_engine::triggers::Occurrence;
use waypost_ports::triggers::{
    Arrival, Arrived, DueGroup, FireOutcome, GroupFence, TriggerRow, Triggers, WindowRule,
};

use super::{fired, ok};
use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};
use crate::support::triggers::{Instance, TRIGGER, WORKFLOW, throttle};

const BATCH: WindowRule = WindowMode::Batch { size: 10, wait: Millis(10_000) };

fn arrival(row: &TriggerRow, rule: WindowRule, id: u64) -> Arrival {
    let event = json!({ "id": id.to_string(), "type": "order.paid", "data": { "n": id } });
    let occurrence = Occurrence::of_event(&id.to_string(), &Json::from_value(&event));
    Arrival {
        at: row.at(),
        group: "g".into(),
        item: occurrence.item(row),
        label: occurrence.label,
        rule,
        payload: event.to_string().into(),
    }
}

/// What a server does with events of a throttle that may start: fires them.
fn permitted(row: &TriggerRow, arrival: &Arrival, arrived: Arrived) -> Option<DueGroup> {
    let Arrived::Permitted { seq } = arrived else { return None };
    let fence = GroupFence { group: Arc::clone(&arrival.group), seq };
    let payloads = vec![(Arc::clone(&arrival.payload), Arc::clone(&arrival.label))];
    let (row, at) = (Arc::new(row.clone()), Timestamp(0));
    Some(DueGroup { row, fence, first_at: at, last_at: at, payloads })
}

async fn arrive(instance: &Instance, row: &TriggerRow, limit: u32, ids: &[u64]) -> Vec<DueGroup> {
    let rule = WindowMode::Throttle(throttle(limit));
    let arrivals: Vec<_> = ids.iter().map(|id| arrival(row, rule, *id)).collect();
    let arrived = instance.runner.firing.arrive(arrivals.clone()).await.unwrap();
    let pairs = arrivals.iter().zip(arrived);
    pairs.filter_map(|(arrival, arrived)| permitted(row, arrival, arrived)).collect()
}

fn input(lab: &Lab, execution: ExecutionNo) -> u64 {
    let Some(Event::Run(RunEvent::Created(created))) = lab.find(execution, "RunCreated") else {
        panic!("{execution:?}")
    };
    created.input.to_value().unwrap()["n"].as_u64().unwrap()
}

/// What was started so far, and never more than the limit in the time of the throttle. It is
/// sorted: events that may start at the same time start in any order.
fn starts(lab: &Lab, limit: usize) -> Vec<u64> {
    let mut fires = lab.fires();
    fires.retain(|fire| fire.outcome == FireOutcome::Started);
    for (first, last) in fires.iter().zip(fires.iter().skip(limit)) {
        assert!(last.at.since(first.at) >= throttle(1).per, "{first:?} {last:?}");
    }
    let mut started: Vec<u64> = fires.iter().map(|fire| fire.label.parse().unwrap()).collect();
    started.sort_unstable();
    started
}

#[tokio::test]
async fn events_of_a_window_fire_together_once() {
    let lab = Lab::new();
    lab.deploy(&json!({ "event": {}, "batch": 10 }), "a");
    let (one, two) = (lab.instance(), lab.instance());
    let row = lab.trigger();
    let arrivals = [1, 2, 1].map(|id| arrival(&row, BATCH, id));
    lab.store.inner.arrive(&arrivals).unwrap();
    one.run_due().await;
    assert_eq!(lab.started().len(), 0);
    lab.clock.advance(Millis(10_000));
    tokio::join!(one.run_due(), two.run_due());
    let [execution] = lab.started()[..] else { panic!("{:?}", lab.fires()) };
    let Some(Event::Run(RunEvent::Created(created))) = lab.find(execution, "RunCreated") else {
        panic!()
    };
    let input = created.input.to_value().unwrap();
    assert_eq!(input["events"].as_array().unwrap().len(), 2);
    lab.clock.advance(Millis(60_000));
    one.run_due().await;
    assert_eq!(lab.started().len(), 1);
}

/// Sources and ids of events are texts of their senders.
#[tokio::test]
async fn group_fires_though_an_event_was_sent_under_its_key() {
    let lab = Lab::new();
    lab.deploy(&json!({ "event": {}, "batch": 10 }), "a");
    let (instance, row) = (lab.instance(), lab.trigger());
    for n in 0..50 {
        let forged = Occurrence::new(&format!("window {n} of g"), Payload::nothing());
        let settled = instance.runner.firing.settle(&row, &forged, FireOutcome::Dead, Some("no"));
        assert!(settled.await.unwrap());
    }
    lab.store.inner.arrive(&[arrival(&row, BATCH, 1)]).unwrap();
    lab.clock.advance(Millis(10_000));
    instance.run_due().await;
    assert_eq!(lab.started().len(), 1);
}

#[tokio::test]
async fn event_of_a_throttle_starts_as_one_without() {
    let lab = Lab::new();
    lab.deploy(&json!({ "event": {}, "throttle": 1 }), "a");
    let (instance, row) = (lab.instance(), lab.trigger());
    let permits = arrive(&instance, &row, 1, &[7, 8]).await;
    let [permit] = &permits[..] else { panic!("{permits:?}") };
    assert_eq!(ok(&instance.runner.firing.flush(permit).await.unwrap()), "started");
    // It was claimed and fired: there is nothing to fire again.
    assert_eq!(ok(&instance.runner.firing.flush(permit).await.unwrap()), "known");
    let [execution] = lab.started()[..] else { panic!("{:?}", lab.fires()) };
    assert_eq!(input(&lab, execution), 7);
    let fired = fired(&lab, execution).to_json().to_value().unwrap();
    assert_eq!(fired["key"], "7");
    assert_eq!(fired["event"], json!({ "id": "7", "type": "order.paid" }));
}

/// Instances die with events that may start, and with a commit whose answer was lost; others go on.
#[tokio::test]
async fn throttle_keeps_its_limit_although_instances_die() {
    const LIMIT: u32 = 2;
    let lab = Lab::new();
    let per = throttle(LIMIT).per;
    lab.deploy(&json!({ "event": {}, "throttle": LIMIT }), "a");
    let (dying, other, row) = (Arc::new(lab.instance()), lab.instance(), lab.trigger());
    // The instance dies before it fires what may start.
    assert_eq!(arrive(&dying, &row, LIMIT, &[1, 2, 3, 2, 4, 5, 6, 7]).await.len(), 2);
    other.run_due().await;
    assert_eq!(starts(&lab, 2), [0; 0], "it may be about to fire them");
    lab.clock.advance(Millis(30_000));
    other.run_due().await;
    assert_eq!(starts(&lab, 2), [1, 2]);
    lab.clock.advance(Millis(per.0 - 1));
    other.run_due().await;
    assert_eq!(starts(&lab, 2), [1, 2]);

    // The answer of its commit is lost, and it dies.
    lab.clock.advance(Millis(1));
    lab.store.break_calls(&[Call::Append], &Fault::LosesReply);
    let runner = Arc::clone(&dying);
    let firing = tokio::spawn(async move { runner.runner.run_due().await });
    lab.store.failures(1).await;
    firing.abort();
    drop(firing.await);
    lab.store.heal();
    other.run_due().await;
    lab.clock.advance(Millis(30_000));
    other.run_due().await;
    assert_eq!(starts(&lab, 2), [1, 2, 3, 4]);

    // A pause and a deploy lose nothing, and the new limit counts what has started.
    other.control.pause(WORKFLOW, TRIGGER, None).await.unwrap();
    lab.clock.advance(Millis(per.0 * 2));
    other.run_due().await;
    assert_eq!(starts(&lab, 2).len(), 4);
    other.control.resume(WORKFLOW, TRIGGER, false).await.unwrap();
    lab.deploy(&json!({ "event": {}, "throttle": 1 }), "a");
    for expected in [5, 6, 7] {
        tokio::join!(dying.run_due(), other.run_due());
        assert_eq!(starts(&lab, 2).last(), Some(&expected));
        lab.clock.advance(per);
    }
    other.run_due().await;
    assert_eq!(starts(&lab, 2).len(), 7);
}
