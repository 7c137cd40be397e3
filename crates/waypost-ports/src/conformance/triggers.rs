//! Triggers: what deploys register, claims, changes by people, settlements, lists.

use std::sync::Arc;

use waypost_core::json::Json;
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemKey, PollCursor, ScheduleCursor, TriggerCursor, TriggerKindName};

use super::StoreUnderTest;
use super::rig::{Rig, START, new_definition};
use crate::outbox::{NewEndpoint, Outbox};
use crate::store::{NewDefinition, Store, StoreError};
use crate::triggers::rules::ends_endpoint;
use crate::triggers::{
    Advance, ClaimedTriggers, DeadFire, DeadFireRow, DeadFiresRequest, EndsWanted, FireOutcome,
    FireRow, FiresRequest, NewTrigger, SettledFire, Settlement, TriggerAt, TriggerChange,
    TriggerClaim, TriggerNo, TriggerRow, TriggerState, Triggers,
};

pub(super) const LEASE: Millis = Millis::from_secs(30);

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp(START.0 + millis)
}

pub(super) fn cursor(after: i64) -> TriggerCursor {
    TriggerCursor::Schedule(ScheduleCursor {
        after: at(after),
        waiting: vec![at(after + 1)],
        previous: Some(at(after - 1)),
        reached: None,
        backfilled: None,
        backfills: Vec::new(),
    })
}

/// A schedule that is due after so many milliseconds.
pub(super) fn schedule(name: &str, due: i64) -> NewTrigger {
    NewTrigger {
        name: name.into(),
        kind: TriggerKindName::Schedule,
        timing: [1; 32],
        cursor: cursor(0),
        next_due: Some(at(due)),
        enabled: true,
        topics: Vec::new(),
        throttle: None,
        ends: None,
    }
}

pub(super) fn event(name: &str, topics: &[&str]) -> NewTrigger {
    NewTrigger {
        kind: TriggerKindName::Event,
        cursor: TriggerCursor::None,
        next_due: None,
        topics: topics.iter().map(|&topic| topic.into()).collect(),
        ..schedule(name, 0)
    }
}

/// A version of a workflow with these triggers.
pub(super) fn version(workflow: &str, content: u32, triggers: Vec<NewTrigger>) -> NewDefinition {
    NewDefinition { triggers, ..new_definition(workflow, &format!("{workflow} {content}")) }
}

pub(super) fn deploy<B: StoreUnderTest>(rig: &Rig<B>, new: &NewDefinition) -> u32 {
    rig.store().define(new).expect("the definition is kept").definition.version
}

pub(super) fn row<B: StoreUnderTest>(rig: &Rig<B>, workflow: &str, name: &str) -> TriggerRow {
    let row = rig.store().trigger(workflow, name).expect("the trigger is answered");
    row.expect("the trigger is known")
}

/// A schedule that was due at the start.
pub(super) fn one<B: StoreUnderTest>(rig: &Rig<B>) -> TriggerRow {
    deploy(rig, &version("flow", 1, vec![schedule("every", 0)]));
    row(rig, "flow", "every")
}

pub(super) fn claim<B: StoreUnderTest>(rig: &Rig<B>) -> ClaimedTriggers {
    claim_with(rig, &TriggerClaim::any(100, LEASE))
}

pub(super) fn claim_with<B: StoreUnderTest>(
    rig: &Rig<B>,
    request: &TriggerClaim,
) -> ClaimedTriggers {
    rig.store().claim_triggers(request).expect("the claim is answered")
}

pub(super) fn names(claimed: &ClaimedTriggers) -> Vec<&str> {
    claimed.triggers.iter().map(|row| &*row.name).collect()
}

pub(super) fn change<B: StoreUnderTest>(
    rig: &Rig<B>,
    at: TriggerAt,
    change: &TriggerChange,
) -> Option<TriggerRow> {
    rig.store().change_trigger(at, change).expect("the change is answered")
}

pub(super) fn pause() -> TriggerChange {
    TriggerChange::Pause { reason: Some("it's \"enough\"".into()) }
}

fn resume(after: i64, due: i64) -> TriggerChange {
    TriggerChange::Resume { cursor: cursor(after), next_due: Some(at(due)) }
}

pub(super) fn settled(item: &str, outcome: FireOutcome) -> SettledFire {
    SettledFire {
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        nominal: Some(at(7)),
        outcome,
        reason: Some("why's".into()),
        dead: (outcome == FireOutcome::Dead).then(|| DeadFire { payload: "{\"a\":1}".into() }),
    }
}

/// A settlement that moves the cursor of this row.
pub(super) fn settlement(row: &TriggerRow, after: i64, fires: Vec<SettledFire>) -> Settlement {
    let advance =
        Advance { seq: row.seq, cursor: cursor(after), next_due: Some(at(after + 1_000)) };
    Settlement {
        at: row.at(),
        advance: Some(advance),
        group: None,
        fires,
        failures: 0,
        failure: None,
        broken: None,
        cancel: Vec::new(),
    }
}

pub(super) fn settle<B: StoreUnderTest>(rig: &Rig<B>, settlement: &Settlement) -> bool {
    rig.store().settle_trigger(settlement).expect("the settlement is answered")
}

/// The whole history of a trigger, oldest first.
pub(super) fn history<B: StoreUnderTest>(rig: &Rig<B>, trigger: TriggerNo) -> Vec<FireRow> {
    let request = FiresRequest { trigger, outcome: None, before: None, limit: 1_000 };
    let page = rig.store().fires(&request).expect("the fires are answered");
    assert!(!page.more);
    page.rows.into_iter().rev().collect()
}

pub(super) fn dead<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<DeadFireRow> {
    let request = DeadFiresRequest { limit: 1_000, ..DeadFiresRequest::default() };
    rig.store().dead_fires(&request).expect("the dead letters are answered")
}

fn roster<B: StoreUnderTest>(rig: &Rig<B>) -> u64 {
    rig.store().roster_revision().expect("the revision is answered")
}

pub fn triggers_are_kept_exactly<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let poll = PollCursor {
        cursor: Json::parse("{\"since\":\"it's\"}").expect("it is JSON"),
        etag: Some("\"x\"".into()),
        dead_in_a_row: 3,
    };
    let poll = NewTrigger {
        kind: TriggerKindName::Poll,
        cursor: TriggerCursor::Poll(poll),
        ..schedule("it's a \"poll\"", 5)
    };
    let event = event("event", &["order.paid", "user's.*"]);
    let off = NewTrigger { enabled: false, ..schedule("off", 5) };
    let before = roster(rig);
    let new = version("flow's", 1, vec![poll.clone(), event.clone(), off.clone()]);
    let version = deploy(rig, &new);
    assert_ne!(roster(rig), before);
    rig.reopen();
    let expected = |new: &NewTrigger, state, next_due| TriggerRow {
        number: TriggerNo(0),
        workflow: "flow's".into(),
        name: Arc::clone(&new.name),
        kind: new.kind,
        version,
        definition: new_definition("", "flow's 1").hash,
        revision: 1,
        seq: 1,
        incarnation: 0,
        state,
        reason: None,
        cursor: new.cursor.clone(),
        next_due,
        failures: 0,
        failure: None,
        topics: new.topics.clone(),
        registered_at: START,
        last_fired_at: None,
    };
    for (new, state, next_due) in [
        (&poll, TriggerState::Active, Some(at(5))),
        (&event, TriggerState::Active, None),
        (&off, TriggerState::Paused, None),
    ] {
        let found = row(rig, "flow's", &new.name);
        let number = found.number;
        assert_eq!(found, TriggerRow { number, ..expected(new, state, next_due) });
    }
    assert_eq!(rig.store().trigger("flow's", "other").expect("it is answered"), None);
    assert_eq!(rig.store().trigger("flow", "event").expect("it is answered"), None);
}

pub fn deploy_keeps_the_cursor_unless_the_timing_changed<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let first = one(rig);
    assert!(settle(rig, &settlement(&first, 10, Vec::new())));
    let moved = row(rig, "flow", "every");
    let same = NewTrigger { cursor: cursor(50), next_due: Some(at(50)), ..schedule("every", 0) };
    let second = deploy(rig, &version("flow", 2, vec![same.clone()]));
    let kept = row(rig, "flow", "every");
    let expected = TriggerRow {
        version: second,
        definition: new_definition("", "flow 2").hash,
        revision: moved.revision + 1,
        ..moved
    };
    assert_eq!(kept, expected);
    let other = NewTrigger { timing: [2; 32], ..same };
    deploy(rig, &version("flow", 3, vec![other]));
    let anew = row(rig, "flow", "every");
    assert_eq!((anew.number, anew.state), (first.number, TriggerState::Active));
    assert_eq!((anew.cursor, anew.next_due), (cursor(50), Some(at(50))));
    assert!(anew.seq > kept.seq && anew.revision > kept.revision);
}

pub fn version_that_does_not_become_current_registers_nothing<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let kept = NewDefinition { make_current: false, ..version("flow", 2, Vec::new()) };
    let revision = roster(rig);
    deploy(rig, &kept);
    deploy(rig, &version("other", 1, Vec::new()));
    assert_eq!(row(rig, "flow", "every"), before);
    assert_eq!(roster(rig), revision);
}

pub fn trigger_that_a_version_lacks_is_retired_and_counts_from_its_return<B: StoreUnderTest>(
    rig: &mut Rig<B>,
) {
    let first = one(rig);
    deploy(rig, &version("flow", 2, vec![schedule("new", 0)]));
    let retired = row(rig, "flow", "every");
    assert_eq!((retired.state, retired.next_due), (TriggerState::Retired, None));
    assert!(retired.revision > first.revision);
    assert_eq!(names(&claim(rig)), ["new"]);
    assert_eq!(change(rig, retired.at(), &resume(0, 0)), None);
    // Another deploy without it changes nothing about it.
    deploy(rig, &version("flow", 3, Vec::new()));
    assert_eq!(row(rig, "flow", "every"), retired);
    let back = NewTrigger { cursor: cursor(90), ..schedule("every", 99) };
    deploy(rig, &version("flow", 4, vec![back]));
    let back = row(rig, "flow", "every");
    assert_eq!((back.number, back.state), (first.number, TriggerState::Active));
    assert_eq!((back.cursor, back.next_due), (cursor(90), Some(at(99))));
    assert!(back.seq > retired.seq && back.revision > retired.revision);
}

pub fn pause_by_a_person_outlasts_deploys<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let paused = change(rig, before.at(), &pause()).expect("it is at this revision");
    assert_eq!((paused.state, paused.next_due), (TriggerState::Paused, None));
    assert_eq!(paused.reason.as_deref(), Some("it's \"enough\""));
    assert_eq!(change(rig, before.at(), &pause()), None, "its revision is another one");
    let other = NewTrigger { timing: [2; 32], ..schedule("every", 3) };
    deploy(rig, &version("flow", 2, vec![other]));
    let still = row(rig, "flow", "every");
    assert_eq!((still.state, still.next_due), (TriggerState::Paused, None));
    assert_eq!(still.reason, paused.reason);
    rig.reopen();
    let active = change(rig, still.at(), &resume(20, 30)).expect("it is at this revision");
    assert_eq!((active.state, active.reason.clone()), (TriggerState::Active, None));
    assert_eq!((active.cursor.clone(), active.next_due), (cursor(20), Some(at(30))));
    assert!(active.seq > still.seq);
    assert_eq!(row(rig, "flow", "every"), active);
}

pub fn trigger_paused_by_its_definition_is_activated_by_the_next<B: StoreUnderTest>(
    rig: &mut Rig<B>,
) {
    let off = NewTrigger { enabled: false, ..schedule("every", 0) };
    deploy(rig, &version("flow", 1, vec![off.clone()]));
    assert_eq!(row(rig, "flow", "every").state, TriggerState::Paused);
    let on = NewTrigger { cursor: cursor(40), ..schedule("every", 45) };
    deploy(rig, &version("flow", 2, vec![on.clone()]));
    let active = row(rig, "flow", "every");
    // The time for which it was off is not caught up.
    assert_eq!((active.state, active.cursor), (TriggerState::Active, cursor(40)));
    assert_eq!(active.next_due, Some(at(45)));
    deploy(rig, &version("flow", 3, vec![off]));
    assert_eq!(row(rig, "flow", "every").state, TriggerState::Paused);
    // What `--paused` pauses stays so, like what a person pauses.
    deploy(rig, &NewDefinition { paused: true, ..version("flow", 4, vec![on.clone()]) });
    assert!(row(rig, "flow", "every").reason.is_some());
    deploy(rig, &version("flow", 5, vec![on]));
    assert_eq!(row(rig, "flow", "every").state, TriggerState::Paused);
}

pub fn broken_trigger_goes_on_with_another_version<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let broken = Settlement { broken: Some("it's over".into()), ..settlement(&before, 10, vec![]) };
    let revision = roster(rig);
    assert!(settle(rig, &broken));
    assert_ne!(roster(rig), revision);
    let broken = row(rig, "flow", "every");
    assert_eq!((broken.state, broken.next_due), (TriggerState::Broken, None));
    assert_eq!(broken.reason.as_deref(), Some("it's over"));
    assert!(broken.revision > before.revision);
    deploy(rig, &version("flow", 1, vec![schedule("every", 0)]));
    assert_eq!(row(rig, "flow", "every").state, TriggerState::Broken);
    deploy(rig, &version("flow", 2, vec![schedule("every", 77)]));
    let active = row(rig, "flow", "every");
    assert_eq!((active.state, active.reason), (TriggerState::Active, None));
    assert_eq!((active.cursor, active.next_due), (cursor(10), Some(at(77))));
}

pub fn move_keeps_the_state_and_may_let_items_fire_again<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    let to =
        |again| TriggerChange::Move { seq: None, cursor: cursor(5), next_due: Some(at(6)), again };
    let moved = change(rig, before.at(), &to(true)).expect("it is at this revision");
    assert_eq!((moved.incarnation, moved.next_due), (1, Some(at(6))));
    assert!(moved.seq > before.seq && moved.revision > before.revision);
    let paused = change(rig, moved.at(), &pause()).expect("it is at this revision");
    let moved = change(rig, paused.at(), &to(false)).expect("it is at this revision");
    assert_eq!((moved.incarnation, moved.state), (1, TriggerState::Paused));
    assert_eq!((moved.cursor.clone(), moved.next_due), (cursor(5), None));
    assert_eq!(row(rig, "flow", "every"), moved);
}

/// A person's change and a fire move one cursor: the change must not undo what the fire did.
pub fn move_that_was_made_from_an_older_cursor_is_not_done<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let before = one(rig);
    assert!(settle(rig, &settlement(&before, 10, vec![])));
    let to = |seq| TriggerChange::Move {
        seq: Some(seq),
        cursor: cursor(5),
        next_due: Some(at(6)),
        again: false,
    };
    assert_eq!(change(rig, before.at(), &to(before.seq)), None);
    let there = row(rig, "flow", "every");
    assert_eq!((there.cursor.clone(), there.revision), (cursor(10), before.revision));
    let moved = change(rig, there.at(), &to(there.seq)).expect("it is at this seq");
    assert_eq!(moved.cursor, cursor(5));
}

/// A trigger that gets no ends though it is there would miss those between its deploy and its endpoint.
pub fn endpoint_of_a_trigger_of_ends_is_stored_with_it<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let wants = |workflow: &str| NewTrigger {
        kind: TriggerKindName::WorkflowEnded,
        cursor: TriggerCursor::None,
        next_due: None,
        throttle: None,
        ends: Some(EndsWanted {
            workflow: Some(workflow.into()),
            kinds: MessageKinds::default().with(MessageKind::Failed.into()),
        }),
        ..schedule("ends", 0)
    };
    let endpoints = || {
        let known = rig.store().endpoints().expect("the endpoints are answered");
        known.into_iter().map(|row| row.endpoint).collect::<Vec<_>>()
    };
    deploy(rig, &version("flow", 1, vec![schedule("every", 0), wants("it's")]));
    let of = row(rig, "flow", "ends");
    let known = endpoints();
    let [endpoint] = &known[..] else { panic!("{known:?}") };
    let expected = ends_endpoint(&of, &wants("it's").ends.expect("it wants some"));
    assert_eq!(*endpoint, NewEndpoint { secret: endpoint.secret.clone(), ..expected });
    // The same wish is the same endpoint; another one is one more.
    deploy(rig, &version("flow", 2, vec![wants("it's")]));
    assert_eq!(endpoints(), known);
    let second = row(rig, "flow", "ends");
    deploy(rig, &version("flow", 3, vec![wants("other")]));
    assert_eq!(endpoints().len(), 2);
    // The first version comes back before the endpoint that it had is deleted.
    let delete = |id: &str, at| rig.store().delete_endpoint_of(id, at).expect("it is answered");
    assert!(!delete(&known[0].id, second.at()));
    assert_eq!(endpoints().len(), 2);
    let third = row(rig, "flow", "ends");
    assert!(delete(&known[0].id, third.at()));
    assert!(!delete(&known[0].id, third.at()), "it is gone");
    assert_eq!(endpoints().len(), 1);
}

pub fn change_of_an_unknown_trigger_is_none<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let unknown = TriggerAt { trigger: TriggerNo(77), revision: 1 };
    assert_eq!(change(rig, unknown, &pause()), None);
    let fires: Result<_, StoreError> = rig.store().fired(TriggerNo(77), &[]);
    assert_eq!(fires.expect("it is answered"), []);
}
