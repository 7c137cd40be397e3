//! Fires: what an execution begins with, in the commit of its first frame.

use waypost_core::id::ExecutionNo;
use waypost_core::permits::PermitRequest;
use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::time::Millis;
use waypost_core::trigger::ItemKey;

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig, START};
use super::triggers::{
    at, change, claim, cursor, deploy, event, history, one, pause, row, schedule, settle, settled,
    settlement, version,
};
use crate::store::{Append, Appended, ControlChange, Idempotency, Store, TakenName};
use crate::triggers::{
    Advance, Fire, FireOutcome, FireRow, ITEM_KEPT, LAST_FIRED_STEP, TriggerRow, Triggers,
};

/// A fire of an item that moves no cursor.
pub(super) fn fire(row: &TriggerRow, item: &str) -> Fire {
    Fire {
        at: row.at(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        nominal: None,
        advance: None,
        group: None,
    }
}

/// A fire that moves the cursor.
fn advancing(row: &TriggerRow, item: &str, after: i64) -> Fire {
    let next_due = Some(at(after + 1_000));
    let advance = Advance { seq: row.seq, cursor: cursor(after), next_due };
    Fire { nominal: Some(at(after)), advance: Some(advance), ..fire(row, item) }
}

/// The first frame of an execution of this id, which begins with a fire.
pub(super) fn first_frame(hand: &mut Hand, key: &str, fire: Fire) -> Draft {
    let mut draft = hand.create(key, "flow");
    let submission = draft.0.side.submission.as_mut();
    submission.expect("a first frame has names").fire = Some(Box::new(fire));
    draft
}

/// Appends the first frame of a new execution that begins with a fire.
pub(super) fn start<B: StoreUnderTest>(
    rig: &Rig<B>,
    key: &str,
    fire: Fire,
) -> (ExecutionNo, Appended) {
    let mut hand = rig.hand(ONE);
    (hand.execution, rig.append(first_frame(&mut hand, key, fire)))
}

fn started<B: StoreUnderTest>(rig: &Rig<B>, key: &str, fire: Fire) -> ExecutionNo {
    let (execution, outcome) = start(rig, key, fire);
    assert!(matches!(outcome, Appended::Committed { .. }), "{outcome:?}");
    execution
}

fn is_absent<B: StoreUnderTest>(rig: &Rig<B>, execution: ExecutionNo) -> bool {
    rig.store().load(execution).expect("the load is answered").is_none()
}

fn duplicate(execution: ExecutionNo) -> Appended {
    Appended::Duplicate { execution, taken: TakenName::Item }
}

fn permit(policy: ConcurrencyPolicy) -> PermitRequest {
    PermitRequest { key: "k".into(), limit: 1, policy }
}

pub fn fire_stores_the_item_and_the_cursor_with_the_frame<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    claim(rig);
    rig.advance(5);
    let execution = started(rig, "k", advancing(&before, "it's", 10));
    rig.reopen();
    let after = row(rig, "flow", "every");
    assert_eq!((after.seq, after.revision), (before.seq + 1, before.revision));
    assert_eq!((after.cursor, after.next_due), (cursor(10), Some(at(1_010))));
    assert_eq!(after.last_fired_at, Some(at(5)));
    let stored = history(rig, before.number);
    let expected = FireRow {
        place: stored[0].place,
        item: fire(&before, "it's").item,
        label: "it's".into(),
        at: at(5),
        nominal: Some(at(10)),
        outcome: FireOutcome::Started,
        reason: None,
        execution: Some(execution),
    };
    assert_eq!(stored, [expected]);
    rig.advance(1_005);
    assert_eq!(claim(rig).triggers.len(), 1, "its claim has ended");
}

pub fn fire_ends_failures_and_a_plain_one_keeps_the_claim<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let mut failed = settlement(&before, -1_000, Vec::new());
    (failed.failures, failed.failure) = (3, Some("down".into()));
    assert!(settle(rig, &failed));
    let failing = row(rig, "flow", "every");
    assert_eq!(claim(rig).triggers.len(), 1);
    started(rig, "a", fire(&failing, "a"));
    let after = row(rig, "flow", "every");
    assert_eq!(after, TriggerRow { last_fired_at: Some(START), ..failing.clone() });
    assert_eq!(claim(rig).triggers.len(), 0, "its claim has not ended");
    started(rig, "b", advancing(&failing, "b", -1_000));
    let after = row(rig, "flow", "every");
    assert_eq!((after.failures, after.failure), (0, None));
    assert_eq!(claim(rig).triggers.len(), 1, "its claim has ended, and it is due");
}

pub fn time_of_the_last_fire_is_written_in_steps<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let last = |rig: &Rig<B>| row(rig, "flow", "every").last_fired_at;
    started(rig, "a", fire(&before, "a"));
    rig.advance(LAST_FIRED_STEP.0 - 1);
    started(rig, "b", fire(&before, "b"));
    assert_eq!(last(rig), Some(START));
    rig.advance(1);
    started(rig, "c", fire(&before, "c"));
    assert_eq!(last(rig), Some(START.plus(LAST_FIRED_STEP)));
}

pub fn item_fires_once<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let first = started(rig, "a", fire(&before, "x"));
    let (second, outcome) = start(rig, "b", fire(&before, "x"));
    assert_eq!(outcome, duplicate(first));
    assert!(is_absent(rig, second));
    // Its id is free.
    let third = started(rig, "b", fire(&before, "y"));
    // The same id with the same item: the item is looked at first.
    let (_, outcome) = start(rig, "b", fire(&before, "x"));
    assert_eq!(outcome, duplicate(first));
    // Another trigger has items of its own.
    deploy(rig, &version("other", 1, vec![schedule("every", 0)]));
    started(rig, "c", fire(&row(rig, "other", "every"), "x"));
    let known: Vec<_> = history(rig, before.number).into_iter().map(|row| row.execution).collect();
    assert_eq!(known, [Some(first), Some(third)]);
}

pub fn item_outlives_its_execution<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let mut hand = rig.hand(ONE);
    rig.commit(first_frame(&mut hand, "a", fire(&before, "x")));
    rig.commit(hand.next(1).control(ControlChange::Ended));
    rig.reopen();
    assert_eq!(start(rig, "b", fire(&before, "x")).1, duplicate(hand.execution));
}

pub fn repeated_first_frame_with_a_fire_is_committed<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let mut hand = rig.hand(ONE);
    let frame: Append = first_frame(&mut hand, "a", advancing(&before, "x", 10)).into();
    let at = rig.commit(frame.clone());
    rig.advance(10);
    assert_eq!(rig.append(frame.clone()), Appended::Committed { at });
    let moved = row(rig, "flow", "every");
    change(rig, moved.at(), &pause()).expect("it is at this revision");
    assert_eq!(rig.append(frame.again()), Appended::Committed { at });
    assert_eq!(history(rig, before.number).len(), 1);
}

pub fn known_item_of_a_paused_trigger_gets_its_execution<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let first = started(rig, "a", fire(&before, "x"));
    let paused = change(rig, before.at(), &pause()).expect("it is at this revision");
    for at in [&before, &paused] {
        assert_eq!(start(rig, "b", fire(at, "x")).1, duplicate(first));
    }
}

pub fn item_that_started_nothing_is_settled<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    assert!(settle(rig, &settlement(&before, 10, vec![settled("x", FireOutcome::Filtered)])));
    let (execution, outcome) = start(rig, "a", fire(&before, "x"));
    assert_eq!(outcome, Appended::ItemSettled(FireOutcome::Filtered));
    assert!(is_absent(rig, execution));
}

pub fn fire_prepared_before_a_change_is_stale<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let paused = change(rig, before.at(), &pause()).expect("it is at this revision");
    let unknown =
        TriggerRow { number: crate::triggers::TriggerNo(paused.number.0 + 99), ..before.clone() };
    for row in [&before, &paused, &unknown] {
        let (execution, outcome) = start(rig, "a", fire(row, "x"));
        assert_eq!(outcome, Appended::Stale);
        assert!(is_absent(rig, execution));
    }
    assert_eq!(history(rig, before.number), []);
    let resume = crate::triggers::TriggerChange::Resume { cursor: cursor(0), next_due: None };
    let active = change(rig, paused.at(), &resume).expect("it is at this revision");
    started(rig, "a", fire(&active, "x"));
    deploy(rig, &version("flow", 2, vec![schedule("every", 0)]));
    assert_eq!(start(rig, "b", fire(&active, "y")).1, Appended::Stale);
}

pub fn fire_of_another_cursor_is_stale<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    started(rig, "a", advancing(&before, "x", 10));
    let (execution, outcome) = start(rig, "b", advancing(&before, "y", 20));
    assert_eq!(outcome, Appended::Stale);
    assert!(is_absent(rig, execution));
    assert_eq!(row(rig, "flow", "every").cursor, cursor(10));
    // A fire that moves no cursor does not mind.
    started(rig, "b", fire(&before, "y"));
}

pub fn refused_first_frame_leaves_nothing_of_its_fire<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let holder = rig.create("taken", "flow");
    let (_, outcome) = start(rig, "taken", advancing(&before, "x", 10));
    let taken = TakenName::Id;
    assert_eq!(outcome, Appended::Duplicate { execution: holder.execution, taken });
    let request = permit(ConcurrencyPolicy::Reject);
    let mut first = rig.hand(ONE);
    rig.commit(first.create("first", "flow").permit(request.clone()));
    let mut second = rig.hand(ONE);
    let refused = first_frame(&mut second, "second", advancing(&before, "x", 10)).permit(request);
    assert_eq!(rig.append(refused), Appended::Rejected { holding: 1 });
    // A frame in whose place another one is.
    let mut zombie = Hand::new(holder.execution, ONE);
    let fenced = first_frame(&mut zombie, "third", advancing(&before, "x", 10));
    assert_eq!(rig.append(fenced), Appended::Fenced);
    assert_eq!(row(rig, "flow", "every"), before);
    assert_eq!(history(rig, before.number), []);
    started(rig, "fourth", advancing(&before, "x", 10));
}

pub fn fire_may_ask_for_a_permit<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let request = permit(ConcurrencyPolicy::Queue);
    let mut hands = [rig.hand(ONE), rig.hand(ONE), rig.hand(ONE)];
    let mut batch: Vec<Append> = Vec::new();
    for (hand, item) in hands.iter_mut().zip(["x", "y", "x"]) {
        let key = hand.execution.0.to_string();
        let frame = first_frame(hand, &key, fire(&before, item)).permit(request.clone());
        batch.push(frame.into());
    }
    let outcomes = rig.append_all(&batch);
    assert!(
        outcomes[..2].iter().all(|it| matches!(it, Appended::Committed { .. })),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[2], duplicate(hands[0].execution));
    let again = rig.append_all(&batch);
    assert_eq!(again, outcomes);
    assert_eq!(history(rig, before.number).len(), 2);
}

pub fn idempotency_key_counts_after_the_item<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let idempotency = Some(Idempotency { key: "i".into(), digest: [1; 32] });
    let frame = |rig: &Rig<B>, key: &str, item: &str| {
        let mut draft = first_frame(&mut rig.hand(ONE), key, fire(&before, item));
        let names = draft.0.side.submission.as_mut().expect("a first frame has names");
        names.idempotency.clone_from(&idempotency.clone().map(Box::new));
        draft
    };
    let first = frame(rig, "a", "x");
    let execution = first.0.header.execution;
    rig.commit(first);
    assert_eq!(rig.append(frame(rig, "b", "x")), duplicate(execution));
    let taken = TakenName::SameSubmission;
    assert_eq!(rig.append(frame(rig, "b", "y")), Appended::Duplicate { execution, taken });
    assert_eq!(history(rig, before.number).len(), 1);
}

pub fn fires_of_a_batch_go_in_beside_each_other<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    deploy(rig, &version("events", 1, vec![event("e", &["t"])]));
    let event = row(rig, "events", "e");
    let stale = TriggerRow { revision: 99, ..event.clone() };
    rig.create("taken", "flow");
    let fires = [
        ("a", fire(&event, "1")),
        ("b", fire(&event, "1")),
        ("c", fire(&stale, "2")),
        ("taken", fire(&event, "3")),
        ("d", fire(&before, "x")),
        ("e", advancing(&before, "y", 10)),
        ("f", advancing(&before, "z", 20)),
    ];
    let mut hands: Vec<Hand> = fires.iter().map(|_| rig.hand(ONE)).collect();
    let mut batch: Vec<Append> = Vec::new();
    for (hand, (key, fire)) in hands.iter_mut().zip(&fires) {
        batch.push(first_frame(hand, key, fire.clone()).into());
    }
    let mut plain = rig.hand(ONE);
    batch.push(plain.create("plain", "flow").into());
    batch.push(plain.next(1).into());
    let outcomes = rig.append_all(&batch);
    let went_in = |outcome: &Appended| matches!(outcome, Appended::Committed { .. });
    let in_order: Vec<bool> = outcomes.iter().map(went_in).collect();
    assert_eq!(in_order, [true, false, false, false, true, true, false, true, true]);
    assert_eq!(outcomes[1], duplicate(hands[0].execution));
    assert_eq!((&outcomes[2], &outcomes[6]), (&Appended::Stale, &Appended::Stale));
    assert!(matches!(outcomes[3], Appended::Duplicate { taken: TakenName::Id, .. }));
    assert_eq!(history(rig, event.number).len(), 1);
    assert_eq!(history(rig, before.number).len(), 2);
    assert_eq!(row(rig, "flow", "every").cursor, cursor(10));
}

pub fn unfinished_executions_of_a_trigger_are_found<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let mut hands: Vec<Hand> = (0..5).map(|_| rig.hand(ONE)).collect();
    for hand in &mut hands {
        let item = hand.execution.0.to_string();
        rig.commit(first_frame(hand, &item, fire(&before, &item)));
    }
    rig.create("other", "flow");
    let open = |rig: &Rig<B>, limit| {
        rig.store().open_executions(before.number, limit).expect("they are answered")
    };
    let numbers: Vec<_> = hands.iter().map(|hand| hand.execution).collect();
    assert_eq!(open(rig, 10), numbers);
    for at in [0, 2] {
        rig.commit(hands[at].next(1).control(ControlChange::Ended));
    }
    assert_eq!(open(rig, 2), [numbers[1], numbers[3]]);
    assert_eq!(open(rig, 10), [numbers[1], numbers[3], numbers[4]]);
}

pub fn item_of_an_unfinished_execution_is_kept<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let mut hand = rig.hand(ONE);
    rig.commit(first_frame(&mut hand, "a", fire(&before, "x")));
    rig.advance(ITEM_KEPT.0 + 1);
    assert_eq!(rig.store().trim_triggers().expect("it is trimmed"), 0);
    rig.commit(hand.next(1).control(ControlChange::Ended));
    assert_eq!(rig.store().trim_triggers().expect("it is trimmed"), 1);
    let (_, outcome) = start(rig, "b", fire(&before, "x"));
    assert!(matches!(outcome, Appended::Committed { .. }), "{outcome:?}");
    assert_eq!(claim(rig).at, START.plus(ITEM_KEPT).plus(Millis(1)));
}
