//! Items of sources and of other executions.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::json::Json;
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::time::Millis;
use waypost_core::trigger::{Payload, TriggerCursor};
use waypost_engine::triggers::{ControlError, Occurrence, READ_BACKOFF, TRIGGER_DEPTH_MAX};
use waypost_ports::outbox::{MessageClaim, MessageResult, Outbox, is_trigger_endpoint};
use waypost_ports::triggers::{DeadFiresRequest, FireOutcome, Settlement, TriggerState, Triggers};

use super::{each_second, fired, ok};
use crate::support::lab::Lab;
use crate::support::store::Call;
use crate::support::triggers::{Instance, TRIGGER, WORKFLOW};
use crate::support::world::START;

#[tokio::test]
async fn item_that_cannot_start_is_a_dead_letter_that_is_fired_again_once() {
    let lab = Lab::new();
    let trigger = json!({ "poll": {}, "id": "order-${{ item.id }}" });
    lab.deploy(&trigger, "a");
    let instance = lab.instance();
    let mut taken = lab.request("a");
    taken.key = Some(ExecutionId("order-1".into()));
    instance.engine().start(taken).await.unwrap();
    let page = json!({ "items": [{ "id": 1 }, { "id": 2 }], "next": 7 });
    instance.source.pages.lock().push_back(Ok(page));
    // The definition of the request above is the current one now.
    lab.deploy(&trigger, "a");
    instance.run_due().await;
    assert_eq!(lab.started().len(), 1);
    let dead = lab.store.inner.dead_fires(&dead_letters()).unwrap();
    let [dead] = &dead[..] else { panic!("{dead:?}") };
    assert!(dead.reason.contains("order-1"), "{}", dead.reason);
    lab.deploy(&json!({ "poll": {}, "id": "again-${{ item.id }}" }), "a");
    let retry = || instance.control.retry_dead(WORKFLOW, TRIGGER, dead.id);
    assert_eq!(ok(&retry().await.unwrap()), "started");
    assert_eq!(ok(&retry().await.unwrap()), "known");
}

/// The letter is kept for longer than its item.
#[tokio::test]
async fn dead_letter_that_was_fired_again_starts_nothing_when_its_item_is_forgotten() {
    let lab = Lab::new();
    lab.deploy(&json!({ "poll": {}, "input": "${{ item.missing }}" }), "a");
    let instance = lab.instance();
    let page = json!({ "items": [{ "id": 1 }, { "id": 2 }], "next": 7 });
    instance.source.pages.lock().push_back(Ok(page));
    instance.run_due().await;
    let dead = lab.store.inner.dead_fires(&dead_letters()).unwrap();
    let [one, two] = &dead[..] else { panic!("{dead:?}") };
    lab.deploy(&json!({ "poll": {} }), "a");
    let retry = |id: i64| instance.control.retry_dead(WORKFLOW, TRIGGER, id);
    assert_eq!(ok(&retry(one.id).await.unwrap()), "started");
    lab.clock.advance(Millis(9 * 24 * 3_600_000));
    assert_eq!(ok(&retry(one.id).await.unwrap()), "known", "its item is still there");
    assert!(lab.store.inner.trim_triggers().unwrap() > 0);
    let refused = retry(one.id).await.map(|result| ok(&result)).unwrap_err();
    assert!(matches!(refused, ControlError::Invalid(_)), "{refused}");
    assert_eq!(lab.count("RunCreated"), 1);
    assert_eq!(ok(&retry(two.id).await.unwrap()), "started", "it was not fired again before");
}

fn dead_letters() -> DeadFiresRequest {
    DeadFiresRequest { limit: 100, ..Default::default() }
}

#[tokio::test]
async fn poll_fires_each_item_once_and_goes_on_from_its_cursor() {
    let lab = Lab::new();
    lab.deploy(&json!({ "poll": {}, "if": "item.id != 3" }), "a");
    let instance = lab.instance();
    let page = |ids: &[u64], next: u64, more: bool| {
        let items: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
        Ok(json!({ "items": items, "next": next, "more": more }))
    };
    instance.source.pages.lock().extend([page(&[1, 2], 5, true), page(&[2, 3], 6, false)]);
    instance.run_due().await;
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 2), (FireOutcome::Filtered, 1)]);
    lab.clock.advance(Millis(60_000));
    instance.source.pages.lock().push_back(page(&[1, 4], 7, false));
    instance.run_due().await;
    assert_eq!(lab.started().len(), 3);
    let requests = instance.source.requests.lock().clone();
    let expected = [r#"{"since":{}}"#, r#"{"since":{"at":5}}"#, r#"{"since":{"at":6}}"#];
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn poll_that_fails_waits_and_one_that_starts_nothing_breaks() {
    let lab = Lab::new();
    lab.deploy(&json!({ "poll": {}, "input": "${{ item.missing }}" }), "a");
    let instance = lab.instance();
    let failure = Failure { status: Some(503), ..Failure::transient(kind::HTTP, "not now") };
    instance.source.pages.lock().push_back(Err(failure));
    instance.run_due().await;
    let row = lab.trigger();
    assert_eq!((row.failures, row.state), (1, TriggerState::Active));
    assert!(row.next_due.unwrap().since(START) >= Millis(READ_BACKOFF.0 / 5 * 4));
    lab.clock.advance(Millis(10_000));
    let items: Vec<Value> = (0..50).map(|id| json!({ "id": id })).collect();
    instance.source.pages.lock().push_back(Ok(json!({ "items": items, "next": 1 })));
    instance.run_due().await;
    let row = lab.trigger();
    assert_eq!(row.state, TriggerState::Broken);
    assert!(row.reason.unwrap().starts_with("20 items in a row"), "the source is not drained");
    assert_eq!(lab.outcomes(), [(FireOutcome::Dead, 20)]);
    let TriggerCursor::Poll(cursor) = &row.cursor else { panic!() };
    assert_eq!(cursor.cursor.text(), "{}", "the page is read again when it is resumed");
}

/// Starts are stored one by one and dead items with the page: after the death of an instance, only the dead ones
/// of its page are new.
#[tokio::test]
async fn poisoned_page_of_an_instance_that_died_does_not_break_the_poll() {
    let lab = Lab::new();
    lab.deploy(&json!({ "poll": {}, "if": "item.n > 0" }), "a");
    let instance = lab.instance();
    start_every_other(&lab, &instance).await;
    instance.source.pages.lock().push_back(Ok(every_other_is_poisoned()));
    instance.run_due().await;
    assert_eq!(lab.trigger().state, TriggerState::Active);
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 30), (FireOutcome::Dead, 30)]);
    // Items of the page before are not between those that are new.
    let mut page = every_other_is_poisoned();
    let again = page["items"].as_array_mut().unwrap();
    again.extend((60..79).map(|id| json!({ "id": id })));
    instance.source.pages.lock().push_back(Ok(page));
    lab.clock.advance(Millis(60_000));
    instance.run_due().await;
    assert_eq!(lab.trigger().state, TriggerState::Broken, "one, and nineteen");
}

#[tokio::test]
async fn poisoned_page_that_two_instances_fire_at_once_does_not_break_the_poll() {
    let lab = Lab::new();
    lab.deploy(&json!({ "poll": {}, "if": "item.n > 0" }), "a");
    let (slow, other) = (Arc::new(lab.instance()), lab.instance());
    slow.source.pages.lock().push_back(Ok(every_other_is_poisoned()));
    let gate = lab.store.gate(Call::Append);
    let runner = Arc::clone(&slow);
    let firing = tokio::spawn(async move { runner.run_due().await });
    gate.reached().await;
    lab.store.heal();
    start_every_other(&lab, &other).await;
    gate.open();
    firing.await.unwrap();
    assert_eq!(lab.trigger().state, TriggerState::Active);
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 30), (FireOutcome::Dead, 30)]);
}

/// A page of 60 items, of which those with an odd id can start nothing.
fn every_other_is_poisoned() -> Value {
    json!({ "items": (0..60).map(poisoned).collect::<Vec<_>>(), "next": 1 })
}

fn poisoned(id: u64) -> Value {
    if id.is_multiple_of(2) { json!({ "id": id, "n": 1 }) } else { json!({ "id": id }) }
}

/// Starts the good ones of that page, as an instance does that does not get to its end.
async fn start_every_other(lab: &Lab, instance: &Instance) {
    for id in (0..60).step_by(2) {
        let payload = Payload::item(&Json::from_value(&poisoned(id)), &Json::null());
        let item = Occurrence::new(&id.to_string(), payload);
        let fired = instance.runner.firing.fire(&lab.trigger(), &item, None, None).await.unwrap();
        assert_eq!(ok(&fired), "started");
    }
}

#[tokio::test]
async fn chain_of_triggers_ends_after_sixteen_executions() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let instance = lab.instance();
    let row = lab.trigger();
    let mut occurrence = Occurrence::new("deep", Payload::nothing());
    occurrence.depth = 17;
    let fire = async |occurrence: &Occurrence| {
        ok(&instance.runner.firing.fire(&row, occurrence, None, None).await.unwrap())
    };
    assert_eq!(fire(&occurrence).await, "dead");
    occurrence.depth = 16;
    assert_eq!(fire(&occurrence).await, "started");
    assert_eq!(fire(&occurrence).await, "known");
    instance.control.pause(WORKFLOW, TRIGGER, None).await.unwrap();
    assert_eq!(fire(&Occurrence::new("late", Payload::nothing())).await, "stale");
}

#[tokio::test]
async fn end_of_a_chain_that_a_trigger_does_not_want_is_no_dead_letter() {
    let lab = Lab::new();
    let instance = lab.instance();
    let end = Payload::ended(&Json::from_value(&json!({ "workflow": "chain" })));
    let last = Occurrence { depth: TRIGGER_DEPTH_MAX + 1, ..Occurrence::new("x 1", end) };
    for (condition, flow, expected) in
        [("execution.workflow == 'mine'", "a", "filtered"), ("true", "b", "dead")]
    {
        lab.deploy(&json!({ "ended": "*", "if": condition }), flow);
        let fired = instance.control.firing.fire(&lab.trigger(), &last, None, None).await.unwrap();
        assert_eq!(ok(&fired), expected);
    }
}

/// A workflow that is started by its own end: what follows from one start.
#[tokio::test]
async fn ends_of_a_workflow_fire_once_each_until_the_chain_is_too_long() {
    let lab = Lab::new();
    lab.deploy(&json!({ "ended": WORKFLOW }), "o = output(${{ input.depth | default(0) }})");
    let instance = lab.instance();
    let ends = &instance.runner.ends;
    ends.reconcile().await.unwrap();
    ends.reconcile().await.unwrap();
    let outbox = &lab.store.inner;
    let endpoints = outbox.endpoints().unwrap();
    let [endpoint] = &endpoints[..] else { panic!("{endpoints:?}") };
    assert!(is_trigger_endpoint(&endpoint.endpoint.id));

    instance.engine().start(lab.request("a")).await.unwrap().ended().await.unwrap();
    lab.deploy(&json!({ "ended": WORKFLOW }), "o = output(${{ input.status }})");
    let mut depths = Vec::new();
    loop {
        let claim = Uuid::new_v4();
        let (instance, lease) = (InstanceId(Uuid::from_u128(9)), Millis::from_secs(60));
        let request = MessageClaim { claim, instance, limit: 10, lease, for_triggers: true };
        let claimed = outbox.claim_messages(&request).unwrap().messages;
        let Some((message, endpoint)) = claimed.first() else { break };
        assert_eq!(claimed.len(), 1);
        for _ in 0..2 {
            let delivered = ends.deliver(message, endpoint).await;
            assert_eq!(delivered, Some(Delivered::Yes { status: 204 }));
        }
        let result = Delivered::Yes { status: 204 };
        let (name, took, jitter) = (message.name.clone(), Millis(1), Jitter::NONE);
        outbox.settle_messages(claim, &[MessageResult { name, result, took, jitter }]).unwrap();
        let started = lab.started();
        if let Some(last) = started.get(depths.len()) {
            lab.event(*last, "RunCompleted").await;
            depths.push(fired(&lab, *last).depth);
        }
    }
    assert_eq!(depths, (1..=16).collect::<Vec<u32>>());
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 16), (FireOutcome::Dead, 1)]);

    // Without the trigger its endpoint goes.
    lab.deploy(&each_second(), "a");
    ends.reconcile().await.unwrap();
    assert!(outbox.endpoints().unwrap().is_empty());
}

/// A pause is a decision of a person that they are not caught up; here there was none.
#[tokio::test]
async fn end_stays_pending_while_its_trigger_is_broken() {
    let lab = Lab::new();
    lab.deploy(&json!({ "ended": WORKFLOW }), "a");
    let instance = lab.instance();
    let (ends, outbox) = (&instance.runner.ends, &lab.store.inner);
    ends.reconcile().await.unwrap();
    instance.engine().start(lab.request("a")).await.unwrap().ended().await.unwrap();
    // The definition of the request is the current one now.
    lab.deploy(&json!({ "ended": WORKFLOW }), "a");
    let broken = Settlement {
        at: lab.trigger().at(),
        advance: None,
        group: None,
        fires: Vec::new(),
        failures: 0,
        failure: None,
        broken: Some("10000 dead letters".into()),
        cancel: Vec::new(),
    };
    assert!(outbox.settle_trigger(&broken).unwrap());
    let (instance_id, lease) = (InstanceId(Uuid::from_u128(9)), Millis::from_secs(60));
    let claim = Uuid::new_v4();
    let request =
        MessageClaim { claim, instance: instance_id, limit: 10, lease, for_triggers: true };
    let claimed = outbox.claim_messages(&request).unwrap().messages;
    let [(message, endpoint)] = &claimed[..] else { panic!("{claimed:?}") };
    assert_eq!(ends.deliver(message, endpoint).await, None);
    assert!(lab.fires().is_empty());
    instance.control.resume(WORKFLOW, TRIGGER, false).await.unwrap();
    let delivered = Some(Delivered::Yes { status: 204 });
    assert_eq!(ends.deliver(message, endpoint).await, delivered);
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 1)]);
}
