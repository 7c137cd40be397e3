//! What triggers do without an execution: claims, settlements; lists of triggers, items and dead letters.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Millis;
use waypost_core::trigger::TriggerKindName;

use super::StoreUnderTest;
use super::rig::{ONE, Rig, START};
use super::triggers::{
    LEASE, at, change, claim, claim_with, cursor, dead, deploy, event, history, names, one, pause,
    row, schedule, settle, settled, settlement, version,
};
use crate::triggers::{
    DEAD_FIRE_KEPT, DEAD_FIRES_MAX, DeadFireRow, DeadFireState, DeadFiresRequest, FireOutcome,
    FireRow, FiresRequest, ITEM_KEPT, NewTrigger, Settlement, TriggerChange, TriggerClaim,
    TriggerNo, TriggerRow, TriggerState, Triggers, TriggersRequest,
};

pub fn due_triggers_are_claimed_once_until_the_claim_ends<B: StoreUnderTest>(rig: &mut Rig<B>) {
    assert_eq!(claim(rig).next_due, None);
    let triggers = vec![schedule("b", -10), schedule("a", -20), schedule("later", 40_000)];
    deploy(rig, &version("flow", 1, triggers));
    let first = claim_with(rig, &TriggerClaim::any(1, LEASE));
    assert_eq!((names(&first), first.at), (vec!["a"], START));
    assert_eq!(first.next_due, Some(at(-10)));
    let second = claim(rig);
    assert_eq!(names(&second), ["b"]);
    assert_eq!(second.next_due, Some(START.plus(LEASE)));
    assert_eq!(names(&claim(rig)), [""; 0]);
    rig.advance(LEASE.0);
    assert_eq!(names(&claim(rig)), ["b", "a"], "their claims end at once: by number");
    rig.advance(10_000);
    let third = claim(rig);
    assert_eq!(names(&third), ["later"]);
    assert_eq!(third.next_due, Some(START.plus(LEASE).plus(LEASE)));
}

/// What an instance cannot work on now is left to others: it names it, or gives it back.
pub fn claim_leaves_out_what_it_names_and_what_is_given_back_is_claimed_at_once<B>(rig: &mut Rig<B>)
where
    B: StoreUnderTest,
{
    let poll = NewTrigger { kind: TriggerKindName::Poll, ..schedule("poll", 0) };
    deploy(rig, &version("flow", 1, vec![schedule("one", 0), schedule("two", 0), poll]));
    let [one, two] = ["one", "two"].map(|name| row(rig, "flow", name));
    let schedules = TriggerClaim {
        only: Some(TriggerKindName::Schedule),
        except: vec![two.number],
        ..TriggerClaim::any(10, LEASE)
    };
    let claimed = claim_with(rig, &schedules);
    assert_eq!(names(&claimed), ["one"]);
    let others_are_due = claimed.next_due.is_none_or(|due| due <= claimed.at);
    assert!(!others_are_due, "what it may not take is not counted");
    assert_eq!(names(&claim_with(rig, &schedules)), [""; 0]);
    rig.store().release_trigger(one.number, one.seq + 1).expect("the call is answered");
    assert_eq!(names(&claim_with(rig, &schedules)), [""; 0], "its cursor has not moved");
    rig.store().release_trigger(one.number, one.seq).expect("the call is answered");
    let mut claimed = claim(rig).triggers;
    claimed.sort_by_key(|row| Arc::clone(&row.name));
    assert_eq!(claimed.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["one", "poll", "two"]);
}

pub fn settlement_moves_the_cursor_and_ends_the_claim<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    assert_eq!(names(&claim(rig)), ["every"]);
    let failed = Settlement {
        failures: 2,
        failure: Some("it's down".into()),
        ..settlement(&before, -900, Vec::new())
    };
    assert!(settle(rig, &failed));
    let after = row(rig, "flow", "every");
    assert_eq!((after.seq, after.revision), (before.seq + 1, before.revision));
    assert_eq!((after.cursor.clone(), after.next_due), (cursor(-900), Some(at(100))));
    assert_eq!((after.failures, after.failure.as_deref()), (2, Some("it's down")));
    rig.advance(100);
    assert_eq!(names(&claim(rig)), ["every"], "it is due again, and nothing claims it");
    // Without an advance, the claim stays.
    let fires = vec![settled("x", FireOutcome::Filtered)];
    assert!(settle(rig, &Settlement { advance: None, ..settlement(&after, 0, fires) }));
    assert_eq!(row(rig, "flow", "every"), after);
    assert_eq!(names(&claim(rig)), [""; 0]);
}

pub fn settlement_of_another_seq_or_revision_stores_nothing<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let fires = || vec![settled("x", FireOutcome::Dead)];
    assert!(settle(rig, &settlement(&before, 10, Vec::new())));
    let moved = row(rig, "flow", "every");
    assert!(!settle(rig, &settlement(&before, 20, fires())), "the cursor has moved");
    let paused = change(rig, moved.at(), &pause()).expect("it is at this revision");
    assert!(!settle(rig, &settlement(&moved, 20, fires())), "it was paused");
    assert!(!settle(rig, &settlement(&paused, 20, fires())), "it is paused");
    let unknown = TriggerNo(paused.number.0 + 1_000);
    assert!(!settle(rig, &settlement(&TriggerRow { number: unknown, ..moved }, 20, fires())));
    assert_eq!(row(rig, "flow", "every"), paused);
    assert_eq!((history(rig, paused.number), dead(rig)), (Vec::new(), Vec::new()));
}

pub fn settled_items_are_remembered_with_their_reasons<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let outcomes =
        [FireOutcome::Filtered, FireOutcome::Skipped, FireOutcome::Missed, FireOutcome::Dead];
    let fires: Vec<_> = outcomes.iter().map(|it| settled(it.name(), *it)).collect();
    assert!(settle(rig, &settlement(&before, 10, fires.clone())));
    rig.advance(5);
    rig.reopen();
    let moved = row(rig, "flow", "every");
    // A known item stays as it is.
    let again =
        vec![settled("dead", FireOutcome::Filtered), settled("filtered", FireOutcome::Dead)];
    assert!(settle(rig, &settlement(&moved, 20, again)));
    let stored = history(rig, before.number);
    assert_eq!(stored.len(), fires.len());
    for (row, fire) in stored.iter().zip(&fires) {
        let expected = FireRow {
            place: row.place,
            item: fire.item,
            label: Arc::clone(&fire.label),
            at: START,
            nominal: fire.nominal,
            outcome: fire.outcome,
            reason: fire.reason.clone(),
            execution: None,
        };
        assert_eq!(*row, expected);
    }
    let items = [fires[3].item, settled("new", FireOutcome::Dead).item, fires[0].item];
    let known = rig.store().fired(before.number, &items).expect("the items are answered");
    assert_eq!(known, [Some(stored[3].clone()), None, Some(stored[0].clone())]);
    let letters = dead(rig);
    let expected = DeadFireRow {
        id: letters[0].id,
        trigger: before.number,
        item: fires[3].item,
        label: "dead".into(),
        at: START,
        reason: "why's".into(),
        payload: "{\"a\":1}".into(),
        state: DeadFireState::Dead,
    };
    assert_eq!(letters, [expected]);
}

pub fn item_that_is_settled_twice_at_once_is_stored_as_the_first<B: StoreUnderTest>(
    rig: &mut Rig<B>,
) {
    let trigger = one(rig);
    let twice = |item, outcomes: [FireOutcome; 2]| outcomes.map(|outcome| settled(item, outcome));
    let mut fires = twice("a", [FireOutcome::Filtered, FireOutcome::Dead]).to_vec();
    fires.extend(twice("b", [FireOutcome::Dead, FireOutcome::Dead]));
    assert!(settle(rig, &settlement(&trigger, 0, fires)));
    let outcomes: Vec<_> =
        history(rig, trigger.number).into_iter().map(|fire| (fire.label, fire.outcome)).collect();
    assert_eq!(outcomes, [("a".into(), FireOutcome::Filtered), ("b".into(), FireOutcome::Dead)]);
    let letters: Vec<_> = dead(rig).into_iter().map(|letter| letter.label).collect();
    assert_eq!(letters, ["b".into()], "one for each item that is dead");
}

pub fn settlement_cancels_executions<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let running = rig.start(ONE);
    let gone = ExecutionNo(running.execution.0 + 1_000);
    let cancel = vec![(running.execution, "it's late".into()), (gone, "".into())];
    assert!(settle(rig, &Settlement { cancel, ..settlement(&before, 10, Vec::new()) }));
    let mail = rig.load(running.execution).mail;
    assert_eq!(mail.len(), 1);
    let expected = crate::triggers::rules::cancel_mail(
        before.number,
        before.seq + 1,
        running.execution,
        "it's late",
    );
    assert_eq!(mail[0], expected);
}

pub fn trigger_with_too_many_dead_letters_is_broken<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let mut before = one(rig);
    let letters = usize::try_from(DEAD_FIRES_MAX).expect("it fits");
    let all: Vec<_> = (0..letters).map(|n| settled(&format!("{n}"), FireOutcome::Dead)).collect();
    let (most, last) = all.split_at(letters - 1);
    for fires in most.chunks(1_111) {
        assert!(settle(rig, &settlement(&before, 10, fires.to_vec())));
        before = row(rig, "flow", "every");
        assert_eq!(before.state, TriggerState::Active);
    }
    // A letter that a person has dealt with does not count.
    let letter = dead(rig)[0].id;
    let discarded = rig.store().settle_dead_fire(letter, DeadFireState::Discarded);
    assert!(discarded.expect("it is answered"));
    let without = |fires| Settlement { advance: None, ..settlement(&before, 10, fires) };
    assert!(settle(rig, &without(last.to_vec())));
    assert_eq!(row(rig, "flow", "every"), before);
    assert!(settle(rig, &without(vec![settled("another", FireOutcome::Dead)])));
    let broken = row(rig, "flow", "every");
    assert_eq!((broken.state, broken.next_due), (TriggerState::Broken, None));
    assert!(broken.revision > before.revision);
    assert!(broken.reason.is_some_and(|reason| reason.contains("dead letters")));
}

pub fn triggers_are_listed_filtered_and_paged<B: StoreUnderTest>(rig: &mut Rig<B>) {
    deploy(rig, &version("b", 1, vec![schedule("x", 0), event("y", &["order.*", "a.b"])]));
    deploy(rig, &version("a", 1, vec![schedule("z", 0), event("w", &["order.paid"])]));
    let list = |request: TriggersRequest| {
        let page = rig.store().triggers(&request).expect("the triggers are answered");
        let names = page.rows.iter().map(|row| format!("{}/{}", row.workflow, row.name));
        (names.collect::<Vec<_>>(), page.more)
    };
    let all = TriggersRequest { limit: 3, ..TriggersRequest::default() };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(list(all.clone()), (names(&["a/w", "a/z", "b/x"]), true));
    let after = Some(("b".into(), "x".into()));
    assert_eq!(list(TriggersRequest { after, ..all.clone() }), (names(&["b/y"]), false));
    let workflow = Some("b".into());
    assert_eq!(list(TriggersRequest { workflow, ..all.clone() }), (names(&["b/x", "b/y"]), false));
    let kind = Some(TriggerKindName::Event);
    assert_eq!(list(TriggersRequest { kind, ..all.clone() }), (names(&["a/w", "b/y"]), false));
    for (topic, expected) in [
        ("order.paid", vec!["a/w", "b/y"]),
        ("order.other", vec!["b/y"]),
        ("a.b", vec!["b/y"]),
        ("a.b.c", vec![]),
    ] {
        let topic = Some(topic.into());
        assert_eq!(list(TriggersRequest { topic, ..all.clone() }), (names(&expected), false));
    }
    let topic = Some("order.paid".into());
    let first = list(TriggersRequest { topic, limit: 1, ..all.clone() });
    assert_eq!(first, (names(&["a/w"]), true));
    change(rig, row(rig, "a", "z").at(), &pause()).expect("it is at this revision");
    let state = Some(TriggerState::Paused);
    assert_eq!(list(TriggersRequest { state, ..all }), (names(&["a/z"]), false));
}

pub fn fires_and_dead_letters_are_listed_in_pages<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let fires = (0..5).map(|n| {
        let outcome = if n % 2 == 0 { FireOutcome::Dead } else { FireOutcome::Skipped };
        settled(&n.to_string(), outcome)
    });
    assert!(settle(rig, &settlement(&before, 10, fires.collect())));
    let trigger = before.number;
    let list = |outcome, before, limit| {
        let request = FiresRequest { trigger, outcome, before, limit };
        rig.store().fires(&request).expect("the fires are answered")
    };
    let labels =
        |rows: &[FireRow]| rows.iter().map(|row| row.label.to_string()).collect::<String>();
    let page = list(None, None, 2);
    assert_eq!((labels(&page.rows), page.more), ("43".to_owned(), true));
    let rest = list(None, Some(page.rows[1].place), 3);
    assert_eq!((labels(&rest.rows), rest.more), ("210".to_owned(), false));
    let dead = list(Some(FireOutcome::Dead), None, 10);
    assert_eq!(labels(&dead.rows), "420");
    let letters = |request: DeadFiresRequest| {
        let request = DeadFiresRequest { limit: 2, ..request };
        rig.store().dead_fires(&request).expect("the dead letters are answered")
    };
    let first = letters(DeadFiresRequest { trigger: Some(trigger), ..Default::default() });
    let of =
        |rows: &[DeadFireRow]| rows.iter().map(|row| row.label.to_string()).collect::<String>();
    assert_eq!(of(&first), "42");
    let next = DeadFiresRequest { before: Some(first[1].id), ..Default::default() };
    assert_eq!(of(&letters(next)), "0");
    let other = DeadFiresRequest { trigger: Some(TriggerNo(trigger.0 + 9)), ..Default::default() };
    assert_eq!(letters(other), []);
    let retry = |id| rig.store().settle_dead_fire(id, DeadFireState::Retried);
    assert!(retry(first[0].id).expect("it is answered"));
    assert!(!retry(first[0].id).expect("it is answered"), "it was retried already");
    assert!(!retry(first[0].id + 1_000).expect("it is answered"));
    let state = Some(DeadFireState::Dead);
    assert_eq!(of(&letters(DeadFiresRequest { state, ..Default::default() })), "20");
    let id = Some(first[0].id);
    let one = letters(DeadFiresRequest { id, ..Default::default() });
    assert_eq!(one, [DeadFireRow { state: DeadFireState::Retried, ..first[0].clone() }]);
}

/// It may have been paused in the middle of a page, which it reads again.
pub fn items_of_a_paused_trigger_are_kept<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let trim = || rig.store().trim_triggers().expect("it is trimmed");
    assert!(settle(rig, &settlement(&before, 10, vec![settled("old", FireOutcome::Dead)])));
    let paused = change(rig, row(rig, "flow", "every").at(), &pause()).expect("it is known");
    rig.advance(ITEM_KEPT.0 + 1);
    assert_eq!(trim(), 0);
    let resumed = TriggerChange::Resume { cursor: before.cursor, next_due: None };
    change(rig, paused.at(), &resumed).expect("it is at this revision");
    assert_eq!(trim(), 1);
}

pub fn old_items_and_dead_letters_are_trimmed<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let trim = || rig.store().trim_triggers().expect("it is trimmed");
    assert!(settle(rig, &settlement(&before, 10, vec![settled("old", FireOutcome::Dead)])));
    rig.advance(ITEM_KEPT.0);
    let moved = row(rig, "flow", "every");
    assert!(settle(rig, &settlement(&moved, 20, vec![settled("new", FireOutcome::Skipped)])));
    assert_eq!(trim(), 0);
    rig.advance(1);
    assert_eq!(trim(), 1);
    let labels: Vec<_> = history(rig, before.number).into_iter().map(|row| row.label).collect();
    assert_eq!(labels, ["new".into()]);
    rig.advance(DEAD_FIRE_KEPT.0 - ITEM_KEPT.0);
    assert_eq!(trim(), 2);
    assert_eq!(dead(rig), []);
}

pub fn triggers_are_counted<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    deploy(rig, &version("other", 1, vec![schedule("a", 50), event("b", &["t"])]));
    let failed = Settlement {
        failures: 1,
        ..settlement(&before, -1_000, vec![settled("x", FireOutcome::Dead)])
    };
    assert!(settle(rig, &failed));
    change(rig, row(rig, "other", "b").at(), &pause()).expect("it is at this revision");
    rig.advance(300);
    let stats = rig.store().trigger_stats().expect("the counts are answered");
    let expected = [
        (TriggerKindName::Schedule, TriggerState::Active, 2),
        (TriggerKindName::Event, TriggerState::Paused, 1),
    ];
    assert_eq!(stats.triggers, expected);
    assert_eq!((stats.failing, stats.dead, stats.groups), (1, 1, 0));
    assert_eq!(stats.overdue, Millis(300));
}
