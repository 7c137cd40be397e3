//! A checker's reads of triggers, and its repairs.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::time::Millis;
use waypost_core::trigger::{ItemKey, WindowMode};

use super::StoreUnderTest;
use super::fires::{fire, start};
use super::rig::Rig;
use super::triggers::{
    LEASE, at, change, claim, deploy, event, one, pause, row, schedule, settle, settled,
    settlement, version,
};
use crate::inspect::{
    HeldEvents, InspectTriggers, InspectedGroup, InspectedTrigger, NamedFire, TriggerRepair,
};
use crate::triggers::rules::StoredTrigger;
use crate::triggers::throttles::GroupRole;
use crate::triggers::{
    Arrival, Arrived, FireOutcome, StoredGroup, TriggerRow, TriggerState, Triggers,
};

fn inspected<B: StoreUnderTest>(rig: &Rig<B>, row: &TriggerRow) -> InspectedTrigger {
    let page = rig.store().stored_triggers(None, 100).expect("the page is answered");
    let found = page.rows.into_iter().find(|found| found.stored.row.number == row.number);
    found.expect("the trigger is known")
}

fn groups<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<InspectedGroup> {
    rig.store().stored_groups(None, 100).expect("the page is answered").groups
}

fn arrive<B: StoreUnderTest>(rig: &Rig<B>, row: &TriggerRow, rule: WindowMode, item: &str) {
    let arrival = Arrival {
        at: row.at(),
        group: "it's".into(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        rule,
        payload: format!("\"é{item}\"").into(),
    };
    let arrived = rig.store().arrive(&[arrival]).expect("the arrival is answered");
    assert_eq!(arrived, [Arrived::Held]);
}

fn repair<B: StoreUnderTest>(rig: &Rig<B>, seen: &TriggerRow, derived: StoredTrigger) -> bool {
    let repair = TriggerRepair { at: seen.at(), seq: seen.seq, derived };
    rig.store().repair_trigger(&repair).expect("the repair is answered")
}

pub fn rows_of_triggers_come_in_pages_as_they_are_stored<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let names = ["c", "a", "b"];
    let triggers = names.map(|name| schedule(name, 5)).to_vec();
    deploy(rig, &version("flow's", 1, triggers));
    rig.advance(7);
    claim(rig);
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = rig.store().stored_triggers(after, 2).expect("the page is answered");
        assert_eq!(page.at, at(7));
        let Some(last) = page.rows.last() else { break };
        assert!(page.rows.len() <= 2);
        after = Some(last.stored.row.number);
        found.extend(page.rows);
    }
    assert!(found.is_sorted_by_key(|found| found.stored.row.number));
    assert_eq!(found.len(), 3);
    for found in found {
        let row = row(rig, "flow's", &found.stored.row.name);
        assert_eq!(found.claimable_at, Some(at(7).plus(LEASE)));
        let (timing, by_definition) = ([1; 32], false);
        assert_eq!(found.stored, StoredTrigger { row, timing, by_definition });
    }
}

pub fn items_that_name_executions_are_found<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let row = one(rig);
    let started: Vec<ExecutionNo> =
        ["it's", "b", "c"].map(|item| start(rig, item, fire(&row, item)).0).to_vec();
    assert!(settle(rig, &settlement(&row, 0, vec![settled("none", FireOutcome::Filtered)])));
    let by_hand = rig.create("by hand", "flow").execution;
    let found = rig.store().fires_of(&[started[2], by_hand, started[0]]);
    let found: Vec<NamedFire> = found.expect("the items are answered");
    let items: Vec<_> = found.iter().map(|named| (named.execution, &*named.fire.label)).collect();
    assert_eq!(items, [(started[0], "it's"), (started[2], "c")]);
    for named in &found {
        assert_eq!(named.trigger, row.number);
        assert_eq!(named.names, Some(("flow".into(), "every".into())));
        assert_eq!(named.fire.execution, Some(named.execution));
        assert_eq!(named.fire.outcome, FireOutcome::Started);
    }
    assert_eq!(rig.store().fires_of(&[]).expect("the items are answered"), []);
}

pub fn groups_are_inspected_with_what_they_hold<B: StoreUnderTest>(rig: &mut Rig<B>) {
    deploy(rig, &version("flow", 1, vec![event("events", &["t"])]));
    let trigger = row(rig, "flow", "events");
    let batch = WindowMode::Batch { size: 2, wait: Millis(100) };
    let debounce = WindowMode::Debounce { period: Millis(100), max: Millis(900) };
    arrive(rig, &trigger, batch, "a");
    arrive(rig, &trigger, batch, "b");
    rig.advance(10);
    assert_eq!(rig.store().claim_groups(10, LEASE).expect("the claim is answered").len(), 1);
    arrive(rig, &trigger, debounce, "c");
    rig.advance(10);
    arrive(rig, &trigger, debounce, "d");
    let found = groups(rig);
    let [full, open] = &*found else { panic!("there are two groups: {found:?}") };
    let bytes = "\"éa\"".len();
    let expected = InspectedGroup {
        number: full.number,
        role: GroupRole::Window,
        trigger: trigger.number,
        state: Some(TriggerState::Active),
        key: "it's".into(),
        seq: full.held.last,
        stored: StoredGroup {
            first_at: at(0),
            last_at: at(0),
            events: 2,
            bytes: 2 * bytes,
            due: at(0),
        },
        claimable_at: at(10).plus(LEASE),
        closed: true,
        paused: false,
        held: HeldEvents { count: 2, bytes: 2 * bytes as u64, last: full.seq, unknown: 0 },
    };
    assert_eq!(*full, expected);
    let stored = StoredGroup { first_at: at(10), last_at: at(20), events: 2, bytes, due: at(120) };
    let expected = InspectedGroup {
        number: open.number,
        seq: open.held.last,
        stored,
        claimable_at: at(120),
        closed: false,
        held: HeldEvents { count: 1, bytes: bytes as u64, last: open.seq, unknown: 0 },
        ..expected
    };
    assert_eq!(*open, expected);
    let page = rig.store().stored_groups(Some(full.number), 1).expect("the page is answered");
    assert_eq!((page.groups, page.at), (vec![open.clone()], at(20)));
    change(rig, trigger.at(), &pause());
    for group in groups(rig) {
        assert_eq!((group.state, group.paused), (Some(TriggerState::Paused), true));
    }
}

pub fn nothing_of_a_healthy_trigger_is_stray<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let trigger = one(rig);
    start(rig, "a", fire(&trigger, "a"));
    let dead = vec![settled("b", FireOutcome::Dead), settled("c", FireOutcome::Missed)];
    assert!(settle(rig, &settlement(&trigger, 0, dead)));
    deploy(rig, &version("windows", 1, vec![event("events", &["t"])]));
    let events = row(rig, "windows", "events");
    let batch = WindowMode::Batch { size: 5, wait: Millis(100) };
    arrive(rig, &events, batch, "d");
    let strays = || rig.store().trigger_strays().expect("the strays are answered");
    assert_eq!(strays(), [], "while an event waits");
    deploy(rig, &version("windows", 2, Vec::new()));
    assert_eq!(strays(), [], "its event is a dead letter");
}

pub fn repaired_trigger_has_the_derived_row_and_its_groups_follow<B: StoreUnderTest>(
    rig: &mut Rig<B>,
) {
    deploy(rig, &version("flow", 1, vec![event("events", &["t"])]));
    let trigger = row(rig, "flow", "events");
    arrive(rig, &trigger, WindowMode::Batch { size: 1, wait: Millis(100) }, "a");
    rig.advance(1);
    rig.store().claim_groups(10, LEASE).expect("the claim is answered");
    let mut derived = inspected(rig, &trigger).stored;
    derived.row.revision += 5;
    derived.row.topics = vec!["it's".into(), "u.*".into()];
    derived.row.next_due = Some(at(9));
    let roster = rig.store().roster_revision().expect("the revision is answered");
    assert!(repair(rig, &trigger, derived.clone()));
    rig.reopen();
    let found = inspected(rig, &trigger);
    assert_eq!((found.stored, found.claimable_at), (derived.clone(), Some(at(9))));
    let raised = rig.store().roster_revision().expect("the revision is answered");
    assert!(raised > roster && raised >= derived.row.revision, "{raised}");
    assert_eq!(groups(rig)[0].claimable_at, at(0), "its claim has ended");
    // A repair of what is not there any more changes nothing.
    let topics: Vec<Arc<str>> = vec!["other".into()];
    let mut other = derived.clone();
    other.row.topics = topics;
    assert!(!repair(rig, &trigger, other.clone()));
    let moved = TriggerRow { seq: derived.row.seq + 1, ..derived.row.clone() };
    assert!(!repair(rig, &moved, other));
    assert_eq!(inspected(rig, &trigger).stored, derived);
    let seen = derived.row.clone();
    derived.row.state = TriggerState::Paused;
    assert!(repair(rig, &seen, derived));
    assert!(groups(rig)[0].paused, "as its trigger is");
}
