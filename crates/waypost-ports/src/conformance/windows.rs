//! Windows of triggers: events that wait in groups, flushes, and what becomes of events that cannot fire.

use std::sync::Arc;

use waypost_core::time::Millis;
use waypost_core::trigger::{ItemKey, WindowMode};

use super::StoreUnderTest;
use super::fires::{fire, first_frame, start};
use super::rig::{ONE, Rig, START};
use super::triggers::{
    LEASE, at, change, claim, dead, deploy, event, history, pause, row, schedule, settle, settled,
    settlement, version,
};
use crate::store::Appended;
use crate::triggers::{
    Arrival, Arrived, DueGroup, Fire, FireOutcome, GROUP_BYTES_MAX, GroupFence, NewTrigger,
    Settlement, TriggerChange, TriggerRow, TriggerState, Triggers,
};

const DEBOUNCE: WindowMode = WindowMode::Debounce { period: Millis(100), max: Millis(250) };
const BATCH: WindowMode = WindowMode::Batch { size: 3, wait: Millis(100) };

fn collector<B: StoreUnderTest>(rig: &Rig<B>) -> TriggerRow {
    deploy(rig, &version("flow", 1, vec![event("events", &["t"])]));
    row(rig, "flow", "events")
}

fn arrival(row: &TriggerRow, rule: WindowMode, group: &str, item: &str) -> Arrival {
    Arrival {
        at: row.at(),
        group: group.into(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        rule,
        payload: format!("\"{item}\"").into(),
    }
}

fn arrive<B: StoreUnderTest>(rig: &Rig<B>, arrivals: &[Arrival]) -> Vec<Arrived> {
    rig.store().arrive(arrivals).expect("the arrivals are answered")
}

fn hold<B: StoreUnderTest>(rig: &Rig<B>, row: &TriggerRow, rule: WindowMode, items: &[&str]) {
    for item in items {
        assert_eq!(arrive(rig, &[arrival(row, rule, "g", item)]), [Arrived::Held], "{item}");
    }
}

fn take<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<DueGroup> {
    rig.store().claim_groups(10, LEASE).expect("the claim is answered")
}

fn labels(group: &DueGroup) -> Vec<&str> {
    group.payloads.iter().map(|(_, label)| &**label).collect()
}

fn flush(group: &DueGroup, item: &str) -> Fire {
    Fire { group: Some(group.fence.clone()), ..fire(&group.row, item) }
}

fn is_committed(outcome: &Appended) -> bool {
    matches!(outcome, Appended::Committed { .. })
}

pub fn debounce_keeps_the_last_event_until_it_is_quiet<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    hold(rig, &row, DEBOUNCE, &["a"]);
    rig.advance(90);
    hold(rig, &row, DEBOUNCE, &["it's"]);
    assert_eq!(claim(rig).next_group, Some(at(190)));
    rig.advance(99);
    assert_eq!(take(rig), []);
    rig.advance(1);
    rig.reopen();
    let groups = take(rig);
    assert_eq!(groups.len(), 1);
    let payloads = vec![("\"it's\"".into(), "it's".into())];
    let fence = GroupFence { group: "g".into(), seq: groups[0].fence.seq };
    let expected =
        DueGroup { row: Arc::new(row.clone()), fence, first_at: START, last_at: at(90), payloads };
    assert_eq!(groups[0], expected);
    let outcomes: Vec<_> =
        history(rig, row.number).into_iter().map(|row| (row.label, row.outcome)).collect();
    let collected = |label: &str| (label.into(), FireOutcome::Collected);
    assert_eq!(outcomes, [collected("a"), collected("it's")]);
}

pub fn debounce_ends_at_its_limit<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    for item in ["a", "b", "c", "d"] {
        hold(rig, &row, DEBOUNCE, &[item]);
        rig.advance(80);
    }
    // The last of them came before the limit; now it is over.
    assert_eq!(claim(rig).next_group, Some(at(250)));
    let groups = take(rig);
    assert_eq!(labels(&groups[0]), ["d"]);
    assert_eq!(groups[0].first_at, START);
}

pub fn batch_is_due_when_it_is_full_or_old<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    hold(rig, &row, BATCH, &["a", "b"]);
    assert_eq!(take(rig), []);
    hold(rig, &row, BATCH, &["c", "d"]);
    let groups = take(rig);
    assert_eq!(groups.len(), 1);
    assert_eq!(labels(&groups[0]), ["a", "b", "c"]);
    rig.advance(100);
    let groups = take(rig);
    assert_eq!(groups.len(), 1, "the first one is claimed");
    assert_eq!(labels(&groups[0]), ["d"]);
}

pub fn arrivals_of_one_call_keep_their_order<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    let stale = TriggerRow { revision: 99, ..row.clone() };
    let arrivals = [
        arrival(&row, BATCH, "y", "1"),
        arrival(&row, BATCH, "x", "2"),
        arrival(&row, BATCH, "y", "1"),
        arrival(&stale, BATCH, "x", "3"),
        arrival(&row, BATCH, "x", "0"),
        arrival(&row, BATCH, "y", "4"),
        arrival(&row, BATCH, "y", "5"),
        arrival(&row, BATCH, "y", "6"),
    ];
    use Arrived::{Duplicate, Held, Stale};
    assert_eq!(arrive(rig, &arrivals), [Held, Held, Duplicate, Stale, Held, Held, Held, Held]);
    assert_eq!(labels(&take(rig)[0]), ["1", "4", "5"]);
    rig.advance(100);
    let mut rest: Vec<Vec<String>> = Vec::new();
    for group in take(rig) {
        rest.push(labels(&group).into_iter().map(ToOwned::to_owned).collect());
    }
    rest.sort();
    assert_eq!(rest, [vec!["2", "0"], vec!["6"]]);
}

pub fn item_arrives_once<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    hold(rig, &row, BATCH, &["a"]);
    let again = arrival(&row, BATCH, "other", "a");
    assert_eq!(arrive(rig, std::slice::from_ref(&again)), [Arrived::Duplicate]);
    let paused = change(rig, row.at(), &pause()).expect("it is at this revision");
    assert_eq!(arrive(rig, &[again]), [Arrived::Duplicate]);
    for row in [&row, &paused] {
        assert_eq!(arrive(rig, &[arrival(row, BATCH, "g", "b")]), [Arrived::Stale]);
    }
    let (_, outcome) = start(rig, "k", fire(&row, "a"));
    assert_eq!(outcome, Appended::ItemSettled(FireOutcome::Collected));
}

pub fn events_that_are_too_large_together_are_two_groups<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    let large = |item: &str| Arrival {
        payload: format!("\"{}\"", "x".repeat(GROUP_BYTES_MAX / 2)).into(),
        ..arrival(&row, BATCH, "g", item)
    };
    assert_eq!(arrive(rig, &[large("a"), large("b")]), [Arrived::Held, Arrived::Held]);
    let groups = take(rig);
    assert_eq!(groups.len(), 1, "the first one is due, since it takes no more");
    assert_eq!(labels(&groups[0]), ["a"]);
    rig.advance(100);
    assert_eq!(labels(&take(rig)[0]), ["b"]);
}

pub fn groups_are_claimed_once_until_the_claim_ends<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    let arrivals: Vec<_> =
        ["x", "y", "z"].iter().map(|group| arrival(&row, BATCH, group, group)).collect();
    arrive(rig, &arrivals);
    rig.advance(100);
    let some = |limit| rig.store().claim_groups(limit, LEASE).expect("the claim is answered");
    assert_eq!(some(2).len(), 2);
    assert_eq!(some(2).len(), 1);
    assert_eq!(some(2).len(), 0);
    assert_eq!(claim(rig).next_group, Some(at(100).plus(LEASE)));
    rig.advance(LEASE.0);
    assert_eq!(some(10).len(), 3);
}

pub fn flush_deletes_the_group_with_the_first_frame<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    hold(rig, &row, BATCH, &["a", "b", "c"]);
    let group = take(rig).remove(0);
    // What arrives now is for the next group.
    hold(rig, &row, BATCH, &["d"]);
    let mut hand = rig.hand(ONE);
    let frame = first_frame(&mut hand, "first", flush(&group, "first"));
    rig.commit(frame.clone());
    assert!(is_committed(&rig.append(frame)), "a repeat");
    let (_, outcome) = start(rig, "second", flush(&group, "second"));
    assert_eq!(outcome, Appended::Stale, "the group is gone");
    rig.reopen();
    rig.advance(LEASE.0);
    let rest = take(rig);
    assert_eq!(rest.len(), 1);
    assert_eq!(labels(&rest[0]), ["d"]);
    let (_, outcome) = start(rig, "third", flush(&rest[0], "third"));
    assert!(is_committed(&outcome), "{outcome:?}");
    rig.advance(LEASE.0);
    assert_eq!(take(rig), []);
    assert_eq!(claim(rig).next_group, None);
}

pub fn refused_flush_leaves_the_group<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    rig.create("taken", "flow");
    hold(rig, &row, BATCH, &["a", "b", "c"]);
    let group = take(rig).remove(0);
    let (_, outcome) = start(rig, "taken", flush(&group, "x"));
    assert!(matches!(outcome, Appended::Duplicate { .. }), "{outcome:?}");
    rig.advance(LEASE.0);
    assert_eq!(take(rig), [group]);
}

pub fn settlement_deletes_its_group<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    hold(rig, &row, BATCH, &["a", "b", "c"]);
    let group = take(rig).remove(0);
    let fires = vec![settled("x", FireOutcome::Dead)];
    let settlement =
        Settlement { advance: None, group: Some(group.fence), ..settlement(&row, 0, fires) };
    assert!(settle(rig, &settlement));
    assert!(!settle(rig, &settlement), "the group is gone");
    assert_eq!(dead(rig).len(), 1);
    rig.advance(LEASE.0);
    assert_eq!(take(rig), []);
    assert_eq!(rig.store().trigger_stats().expect("the counts are answered").groups, 0);
}

pub fn groups_of_a_paused_trigger_wait<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = collector(rig);
    hold(rig, &row, BATCH, &["a", "b", "c"]);
    let paused = change(rig, row.at(), &pause()).expect("it is at this revision");
    assert_eq!((take(rig), claim(rig).next_group), (Vec::new(), None));
    assert_eq!(rig.store().trigger_stats().expect("the counts are answered").groups, 1);
    let resume = TriggerChange::Resume { cursor: paused.cursor.clone(), next_due: None };
    let active = change(rig, paused.at(), &resume).expect("it is at this revision");
    let groups = take(rig);
    assert_eq!(labels(&groups[0]), ["a", "b", "c"]);
    assert_eq!(*groups[0].row, active);
    // A deploy does not stand in the way.
    deploy(rig, &version("flow", 2, vec![event("events", &["t"])]));
    rig.advance(LEASE.0);
    assert_eq!(take(rig).len(), 1);
    deploy(
        rig,
        &version("flow", 3, vec![NewTrigger { enabled: false, ..event("events", &["t"]) }]),
    );
    rig.advance(LEASE.0);
    assert_eq!((take(rig), claim(rig).next_group), (Vec::new(), None));
    deploy(rig, &version("flow", 4, vec![event("events", &["t"])]));
    assert_eq!(take(rig).len(), 1);
}

pub fn events_of_a_window_that_a_deploy_takes_away_are_dead_letters<B: StoreUnderTest>(
    rig: &mut Rig<B>,
) {
    let row = collector(rig);
    hold(rig, &row, BATCH, &["a", "b"]);
    // The same window, of another version.
    deploy(rig, &version("flow", 2, vec![event("events", &["t"])]));
    assert_eq!(dead(rig), []);
    let other = NewTrigger { timing: [2; 32], ..event("events", &["t"]) };
    deploy(rig, &version("flow", 3, vec![other]));
    let letters = dead(rig);
    let mut labels: Vec<_> = letters.iter().map(|letter| &*letter.label).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["a", "b"]);
    rig.advance(LEASE.0);
    assert_eq!((take(rig), claim(rig).next_group), (Vec::new(), None));
}

pub fn events_of_a_retired_trigger_are_dead_letters<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row_before = collector(rig);
    hold(rig, &row_before, BATCH, &["a"]);
    hold(rig, &row_before, DEBOUNCE, &["b"]);
    rig.advance(1);
    deploy(rig, &version("flow", 2, vec![schedule("every", 0)]));
    assert_eq!(row(rig, "flow", "events").state, TriggerState::Retired);
    // The debounced event replaced the other one.
    let letters = dead(rig);
    assert_eq!(letters.len(), 1);
    assert_eq!((&*letters[0].label, &*letters[0].payload), ("b", "\"b\""));
    assert_eq!((letters[0].trigger, letters[0].at), (row_before.number, at(1)));
    let outcomes: Vec<_> =
        history(rig, row_before.number).into_iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [FireOutcome::Collected, FireOutcome::Dead]);
    rig.advance(LEASE.0);
    assert_eq!((take(rig), claim(rig).next_group), (Vec::new(), None));
}
