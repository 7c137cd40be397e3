//! Triggers: each item starts one execution, whoever dies meanwhile and whatever people change.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waypost_core::event::{Event, RunEvent};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Fired, Payload, TriggerCursor};
use waypost_engine::triggers::{
    BackfillRequest, FireResult, Occurrence, POLL_BACKOFF, RewindTo, is_trigger_endpoint,
};
use waypost_ports::outbox::{MessageClaim, MessageResult, Outbox};
use waypost_ports::triggers::{Arrival, FireOutcome, TriggerState, Triggers, WindowRule};

use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};
use crate::support::triggers::{TRIGGER, WORKFLOW};
use crate::support::world::START;

const HOUR: u64 = 3_600_000;

fn every(ms: u64, fields: &Value) -> Value {
    let mut trigger = fields.clone();
    let spec = trigger["schedule"].as_object_mut().unwrap();
    spec.insert("every".to_owned(), ms.into());
    trigger
}

/// Fires every second.
fn each_second() -> Value {
    every(1_000, &json!({ "schedule": {} }))
}

/// What an execution knows of its fire.
fn fired(lab: &Lab, execution: ExecutionNo) -> Fired {
    match lab.find(execution, "RunCreated") {
        Some(Event::Run(RunEvent::Created(created))) => *created.trigger.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn ok(result: FireResult) -> &'static str {
    match result {
        FireResult::Started(_) => "started",
        FireResult::Known(_) => "known",
        FireResult::Filtered => "filtered",
        FireResult::Dead { .. } => "dead",
        FireResult::Rejected { .. } => "rejected",
        FireResult::Stale => "stale",
        FireResult::Retry { .. } => "retry",
    }
}

#[tokio::test]
async fn two_runners_start_one_execution_for_each_time() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "o = output(${{ trigger.at }})");
    let (one, two) = (lab.instance(), lab.instance());
    for _ in 0..20 {
        lab.clock.advance(Millis(1_000));
        tokio::join!(one.run_due(), two.run_due());
    }
    let fires = lab.fires();
    let times: BTreeSet<Option<Timestamp>> = fires.iter().map(|fire| fire.nominal).collect();
    assert_eq!((fires.len(), times.len()), (20, 20));
    assert_eq!(lab.count("RunCreated"), 20);
    let last = fired(&lab, *lab.started().last().unwrap());
    assert_eq!(
        (last.at, last.previous_at),
        (START.plus(Millis(20_000)), Some(START.plus(Millis(19_000))))
    );
}

#[tokio::test]
async fn runners_that_race_for_one_row_start_one_execution() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let (one, two) = (lab.instance(), lab.instance());
    lab.clock.advance(Millis(1_000));
    let row = lab.trigger();
    let TriggerCursor::Schedule(cursor) = &row.cursor else { panic!() };
    let advance = waypost_ports::triggers::Advance {
        seq: row.seq,
        cursor: TriggerCursor::Schedule(cursor.clone()),
        next_due: None,
    };
    let time = Occurrence::of_time(START.plus(Millis(1_000)));
    let fire = |instance: &crate::support::triggers::Instance| {
        let (firing, row) = (instance.runner.firing.clone(), row.clone());
        let (time, advance) = (time.clone(), Some(advance.clone()));
        async move { ok(firing.fire(&row, &time, advance, None).await.unwrap()) }
    };
    let (first, second) = tokio::join!(fire(&one), fire(&two));
    assert_eq!(BTreeSet::from([first, second]), BTreeSet::from(["started", "known"]));
    // Another item on the old cursor.
    let time = Occurrence::of_time(START.plus(Millis(2_000)));
    let late = one.runner.firing.fire(&row, &time, Some(advance.clone()), None).await.unwrap();
    assert_eq!((ok(late), lab.count("RunCreated")), ("stale", 1));
}

#[tokio::test]
async fn process_that_slept_for_three_days_fires_what_its_catch_up_says() {
    use FireOutcome::{Missed, Started};
    for (missed, expected) in [
        ("none", vec![(Missed, 1), (Started, 1)]),
        ("last", vec![(Missed, 1), (Started, 1)]),
        ("all", vec![(Missed, 1), (Started, 5)]),
    ] {
        let lab = Lab::new();
        let catch_up = json!({ "missed": missed, "window": "24h", "max": 5 });
        let trigger = every(HOUR, &json!({ "schedule": { "catchUp": catch_up } }));
        lab.deploy(&trigger, "a");
        let instance = lab.instance();
        lab.clock.advance(Millis(72 * HOUR));
        instance.run_due().await;
        assert_eq!(lab.outcomes(), expected, "{missed}");
        let left = lab.fires()[0].reason.clone().unwrap();
        let count = 73 - expected[1].1 - 1;
        assert!(left.starts_with(&format!("{count} times")), "{left}");
        let due = lab.trigger().next_due.unwrap();
        assert!(due > START.plus(Millis(72 * HOUR)) && due <= START.plus(Millis(73 * HOUR)));
        instance.run_due().await;
        assert_eq!(lab.outcomes(), expected);
    }
}

#[tokio::test]
async fn pause_between_preparing_and_commit_lets_nothing_start() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let instance = Arc::new(lab.instance());
    lab.clock.advance(Millis(1_000));
    let gate = lab.store.gate(Call::Append);
    let runner = Arc::clone(&instance);
    let firing = tokio::spawn(async move { runner.run_due().await });
    gate.reached().await;
    let paused = instance.control.pause(WORKFLOW, TRIGGER, Some("stop".into())).await.unwrap();
    assert_eq!(paused.state, TriggerState::Paused);
    gate.open();
    firing.await.unwrap();
    assert_eq!((lab.fires().len(), lab.count("RunCreated")), (0, 0));

    // Resuming it leaves out what passed meanwhile, unless it is to catch up.
    lab.clock.advance(Millis(10_000));
    instance.control.resume(WORKFLOW, TRIGGER, false).await.unwrap();
    instance.run_due().await;
    assert_eq!(lab.fires().len(), 0);
    lab.clock.advance(Millis(1_000));
    instance.run_due().await;
    assert_eq!(lab.fires().len(), 1);
    instance.control.pause(WORKFLOW, TRIGGER, None).await.unwrap();
    lab.clock.advance(Millis(5_000));
    instance.control.resume(WORKFLOW, TRIGGER, true).await.unwrap();
    instance.run_due().await;
    assert_eq!(lab.fires().len(), 6);
}

#[tokio::test]
async fn instance_that_dies_between_commit_and_reply_has_fired_once() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let (dying, other) = (Arc::new(lab.instance()), lab.instance());
    lab.clock.advance(Millis(1_000));
    lab.store.break_calls(&[Call::Append], &Fault::LosesReply);
    let runner = Arc::clone(&dying);
    let firing = tokio::spawn(async move { runner.run_due().await });
    lab.store.failures(1).await;
    firing.abort();
    drop(firing.await);
    lab.store.heal();
    other.run_due().await;
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 1)]);
    lab.clock.advance(Millis(1_000));
    other.run_due().await;
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 2)]);
}

#[tokio::test]
async fn waiting_time_fires_when_the_execution_before_ends_here() {
    let lab = Lab::new();
    let trigger = every(60_000, &json!({ "schedule": {}, "overlap": "queue" }));
    lab.deploy(&trigger, "h handler hold");
    let instance = lab.instance();
    lab.clock.advance(Millis(60_000));
    instance.run_due().await;
    let first = lab.held().await;
    lab.clock.advance(Millis(60_000));
    instance.run_due().await;
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 1)]);
    // From here on the clock stands still: nothing but the end of the first execution wakes the runner.
    let stop = CancellationToken::new();
    let running = tokio::spawn(instance.runner.run(stop.clone()));
    first.complete();
    lab.held().await.complete();
    stop.cancel();
    running.await.unwrap();
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 2)]);
}

#[tokio::test]
async fn time_that_cancels_the_execution_before_starts_after_its_end() {
    let lab = Lab::new();
    let trigger = every(60_000, &json!({ "schedule": {}, "overlap": "cancel-running" }));
    lab.deploy(&trigger, "h handler hold");
    let instance = lab.instance();
    for _ in 0..2 {
        lab.clock.advance(Millis(60_000));
        instance.run_due().await;
    }
    instance.engine().nudge();
    let first = lab.started()[0];
    lab.event(first, "RunCancelled").await;
    lab.clock.advance(Millis(1_000));
    instance.run_due().await;
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 2)]);
}

#[tokio::test]
async fn backfill_fires_past_times_that_have_not_fired() {
    let lab = Lab::new();
    lab.deploy(&every(HOUR, &json!({ "schedule": {} })), "a");
    let instance = lab.instance();
    lab.clock.advance(Millis(HOUR));
    instance.run_due().await;
    let due = lab.trigger().next_due;
    let now = START.plus(Millis(HOUR));
    let request = BackfillRequest {
        from: now.minus(Millis(6 * HOUR)),
        to: now.plus(Millis(HOUR)),
        again: false,
        rate: 2,
        dry_run: true,
    };
    let backfill = |request| instance.control.backfill(WORKFLOW, TRIGGER, request);
    let counted = backfill(request).await.unwrap();
    assert_eq!((counted.id, counted.times.len(), counted.row.seq), (None, 6, lab.trigger().seq));
    let accepted = backfill(BackfillRequest { dry_run: false, ..request }).await.unwrap();
    assert!(accepted.id.is_some());
    for (seconds, expected) in [(0, 3), (0, 3), (1, 5), (1, 6), (1, 6)] {
        lab.clock.advance(Millis(seconds * 1_000));
        instance.run_due().await;
        assert_eq!(lab.started().len(), expected);
    }
    let row = lab.trigger();
    let TriggerCursor::Schedule(cursor) = &row.cursor else { panic!() };
    assert!(cursor.backfills.is_empty());
    assert_eq!(row.next_due, due, "the schedule goes on as before");
}

#[tokio::test]
async fn item_that_cannot_start_is_a_dead_letter_that_is_fired_again_once() {
    let lab = Lab::new();
    let trigger = json!({ "poll": {}, "id": "order-${{ item.id }}" });
    lab.deploy(&trigger, "a");
    let instance = lab.instance();
    let mut taken = lab.request("a");
    taken.key = Some(waypost_core::id::ExecutionId("order-1".into()));
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
    assert_eq!(ok(retry().await.unwrap()), "started");
    assert_eq!(ok(retry().await.unwrap()), "known");
}

fn dead_letters() -> waypost_ports::triggers::DeadFiresRequest {
    waypost_ports::triggers::DeadFiresRequest { limit: 100, ..Default::default() }
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
    assert!(row.next_due.unwrap().since(START) >= Millis(POLL_BACKOFF.0 / 5 * 4));
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

#[tokio::test]
async fn events_of_a_window_fire_together_once() {
    let lab = Lab::new();
    lab.deploy(&json!({ "event": {}, "batch": 10 }), "a");
    let (one, two) = (lab.instance(), lab.instance());
    let row = lab.trigger();
    let arrival = |id: u64| {
        let event = json!({ "id": id.to_string(), "type": "order.paid" });
        let occurrence =
            Occurrence::new(&id.to_string(), Payload::event(&Json::from_value(&event)));
        Arrival {
            at: row.at(),
            group: "g".into(),
            item: occurrence.item(&row).digest(),
            label: occurrence.label,
            rule: WindowRule::Batch { size: 10, wait: Millis(10_000) },
            payload: event.to_string().into(),
        }
    };
    lab.store.inner.arrive(&[arrival(1), arrival(2), arrival(1)]).unwrap();
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

#[tokio::test]
async fn chain_of_triggers_ends_after_sixteen_executions() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let instance = lab.instance();
    let row = lab.trigger();
    let mut occurrence = Occurrence::new("deep", Payload::nothing());
    occurrence.depth = 17;
    let fire = async |occurrence: &Occurrence| {
        ok(instance.runner.firing.fire(&row, occurrence, None, None).await.unwrap())
    };
    assert_eq!(fire(&occurrence).await, "dead");
    occurrence.depth = 16;
    assert_eq!(fire(&occurrence).await, "started");
    assert_eq!(fire(&occurrence).await, "known");
    instance.control.pause(WORKFLOW, TRIGGER, None).await.unwrap();
    assert_eq!(fire(&Occurrence::new("late", Payload::nothing())).await, "stale");
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
        let request = MessageClaim { claim, limit: 10, lease: Millis::from_secs(60) };
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

#[tokio::test]
async fn rewind_that_lets_items_fire_again_starts_them_anew() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let instance = lab.instance();
    lab.clock.advance(Millis(3_000));
    instance.run_due().await;
    assert_eq!(lab.started().len(), 3);
    for (again, expected) in [(false, 3), (true, 6)] {
        let to = RewindTo::Time(START);
        instance.control.rewind(WORKFLOW, TRIGGER, &to, again).await.unwrap();
        instance.run_due().await;
        assert_eq!(lab.started().len(), expected, "again: {again}");
    }
}
