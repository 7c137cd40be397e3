//! Triggers: each item starts one execution, although instances die and people change the trigger.

mod items;
mod runner;
mod streams;
mod successes;
mod windows;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Fired, ScheduleCursor, TriggerCursor};
use waypost_engine::triggers::{BackfillRequest, ControlError, FireResult, Occurrence, RewindTo};
use waypost_ports::triggers::{Advance, FireOutcome, ITEM_KEPT, TriggerState};

use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};
use crate::support::triggers::{Instance, TRIGGER, WORKFLOW};
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

fn ok(result: &FireResult) -> &'static str {
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
    let (after, next_due) = (START.plus(Millis(1_000)), Some(START.plus(Millis(2_000))));
    let cursor = TriggerCursor::Schedule(ScheduleCursor { after, ..cursor.clone() });
    let advance = Advance { seq: row.seq, cursor, next_due };
    let time = Occurrence::of_time(after);
    let fire = |instance: &Instance| {
        let (firing, row) = (instance.runner.firing.clone(), row.clone());
        let (time, advance) = (time.clone(), Some(advance.clone()));
        async move { ok(&firing.fire(&row, &time, advance, None).await.unwrap()) }
    };
    let (first, second) = tokio::join!(fire(&one), fire(&two));
    assert_eq!(BTreeSet::from([first, second]), BTreeSet::from(["started", "known"]));
    // Another item on the old cursor.
    let time = Occurrence::of_time(START.plus(Millis(2_000)));
    let late = one.runner.firing.fire(&row, &time, Some(advance.clone()), None).await.unwrap();
    assert_eq!((ok(&late), lab.count("RunCreated")), ("stale", 1));
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

/// What fired is remembered for some days: a backfill beyond them would fire times twice.
#[tokio::test]
async fn backfill_of_times_that_may_have_fired_is_refused() {
    let lab = Lab::new();
    lab.deploy(&every(HOUR, &json!({ "schedule": {} })), "a");
    let instance = lab.instance();
    lab.clock.advance(Millis(30 * 24 * HOUR));
    let now = START.plus(Millis(30 * 24 * HOUR));
    let backfill = async |from, to, again| {
        let request = BackfillRequest { from, to, again, rate: 1, dry_run: true };
        instance.control.backfill(WORKFLOW, TRIGGER, request).await
    };
    let (later, kept) = (START.plus(Millis(5 * HOUR)), now.minus(ITEM_KEPT));
    let refused = backfill(START, later, false).await.expect_err("it had been deployed then");
    assert!(matches!(refused, ControlError::Invalid(_)), "{refused}");
    for (from, to, again) in [
        (START, later, true),
        (START.minus(Millis(5 * HOUR)), START, false),
        (kept, kept.plus(Millis(5 * HOUR)), false),
    ] {
        assert_eq!(backfill(from, to, again).await.unwrap().times.len(), 5, "{from}");
    }
    // Times before the deploy, once a backfill fires them.
    let (from, to) = (START.minus(Millis(5 * HOUR)), START);
    let request = BackfillRequest { from, to, again: false, rate: 100, dry_run: false };
    instance.control.backfill(WORKFLOW, TRIGGER, request).await.unwrap();
    let refused = backfill(from, to, false).await.expect_err("they are backfilled already");
    assert!(matches!(refused, ControlError::Invalid(_)), "{refused}");
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

#[tokio::test]
async fn rewind_to_now_by_a_clock_that_is_ahead_goes_on_from_now() {
    let lab = Lab::new();
    lab.deploy(&each_second(), "a");
    let control = &lab.instance().control;
    let rewind = async |ms| {
        let to = RewindTo::Time(START.plus(Millis(ms)));
        control.rewind(WORKFLOW, TRIGGER, &to, false).await
    };
    let row = rewind(5_000).await.unwrap();
    let TriggerCursor::Schedule(cursor) = &row.cursor else { panic!() };
    assert_eq!(cursor.after, START);
    let refused = rewind(HOUR).await.expect_err("the schedule would stand still");
    assert!(matches!(refused, ControlError::Invalid(_)), "{refused}");
}
