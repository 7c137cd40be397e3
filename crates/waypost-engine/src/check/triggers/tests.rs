//! The rules about triggers, as tables: a row, a group or a start that is as it must be, one thing that is changed,
//! and what is found.

use std::collections::BTreeSet;
use std::sync::Arc;

use waypost_core::check::Invariant;
use waypost_core::flow;
use waypost_core::id::ExecutionNo;
use waypost_core::plan::Plan;
use waypost_core::schedule::{Schedule, ScheduleSpec};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{
    Backfill, EventTrigger, ItemDigest, Overlap, PollCursor, ScheduleCursor, ScheduleTrigger,
    StreamCursor, StreamSource, StreamStart, StreamTrigger, Trigger, TriggerCursor, TriggerKind,
    TriggerKindName, WorkflowEndedTrigger,
};
use waypost_ports::inspect::{HeldEvents, InspectedGroup, InspectedTrigger, NamedFire};
use waypost_ports::triggers::rules::{StoredTrigger, ends_endpoint};
use waypost_ports::triggers::throttles::GroupRole;
use waypost_ports::triggers::{
    FireOutcome, FireRow, ITEM_KEPT, StoredGroup, TriggerNo, TriggerRow, TriggerState,
};

use super::rules::{CurrentVersion, RowSeen, TriggerFault, group_faults};
use super::starts::{Begun, BegunByTrigger, start_fault};
use crate::triggers::{CLAIM_LEASE, ends_wanted};

/// The store's time.
const NOW: Timestamp = Timestamp(1_000_000_000);
const MINUTE: Millis = Millis(60_000);

/// After the store's time.
fn at(millis: i64) -> Timestamp {
    Timestamp(NOW.0 + millis)
}

fn schedule() -> TriggerKind {
    let spec = ScheduleSpec {
        every: Some(MINUTE),
        offset: Some(Millis(NOW.0.cast_unsigned() % MINUTE.0)),
        ..ScheduleSpec::default()
    };
    let schedule = Schedule::compile(&spec).unwrap();
    TriggerKind::Schedule(Box::new(ScheduleTrigger { spec, schedule, overlap: Overlap::Queue }))
}

fn event() -> TriggerKind {
    let types = vec!["order.*".into()];
    TriggerKind::Event(Box::new(EventTrigger { types, source: None, window: None }))
}

fn ended() -> TriggerKind {
    let ended = WorkflowEndedTrigger { workflow: "other".into(), statuses: Vec::new() };
    TriggerKind::WorkflowEnded(Box::new(ended))
}

fn stream() -> TriggerKind {
    TriggerKind::Stream(Box::new(StreamTrigger {
        source: StreamSource::Redis { source: "shop".into(), stream: "orders".into() },
        every: Millis::from_secs(1),
        key: None,
        from: StreamStart::Beginning,
    }))
}

/// A row and all that it is compared with, as it is right after the deploy of its workflow.
struct Deployed {
    row: InspectedTrigger,
    current: Option<CurrentVersion>,
    endpoints: BTreeSet<Arc<str>>,
    roster: u64,
    latest: Option<Timestamp>,
}

impl Deployed {
    fn new(kind: TriggerKind) -> Self {
        let trigger = Arc::new(Trigger {
            name: "t".into(),
            description: None,
            node: None,
            enabled: true,
            condition: None,
            input: None,
            id: None,
            labels: Vec::new(),
            kind,
        });
        let registration = trigger.registration("flow", NOW);
        let mut plan: Plan = flow::plan("a");
        let row = TriggerRow {
            number: TriggerNo(7),
            workflow: "flow".into(),
            name: "t".into(),
            kind: trigger.kind_name(),
            version: 2,
            definition: plan.hash,
            revision: 3,
            seq: 4,
            incarnation: 0,
            state: TriggerState::Active,
            reason: None,
            cursor: registration.cursor,
            next_due: registration.next_due,
            failures: 0,
            failure: None,
            topics: registration.topics,
            registered_at: NOW,
            last_fired_at: None,
        };
        let wanted = ends_wanted(&trigger.kind);
        let endpoints = wanted.map(|wanted| ends_endpoint(&row, &wanted).id).into_iter().collect();
        plan.triggers.push(trigger);
        let current = CurrentVersion { version: 2, hash: plan.hash, plan: Ok(Arc::new(plan)) };
        let claimable_at = row.next_due;
        let stored = StoredTrigger { row, timing: registration.timing, by_definition: false };
        let row = InspectedTrigger { stored, claimable_at };
        Self { row, current: Some(current), endpoints, roster: 3, latest: None }
    }

    fn row(&mut self) -> &mut TriggerRow {
        &mut self.row.stored.row
    }

    fn cursor(&mut self) -> &mut ScheduleCursor {
        match &mut self.row().cursor {
            TriggerCursor::Schedule(cursor) => cursor,
            other => panic!("it is not a schedule: {other:?}"),
        }
    }

    /// Due, and claimable, at this time.
    fn due(&mut self, due: Option<Timestamp>) {
        (self.row().next_due, self.row.claimable_at) = (due, due);
    }

    fn enter(&mut self, state: TriggerState) {
        self.row().state = state;
        self.due(None);
    }

    /// The current version declares nothing.
    fn undeclare(&mut self) {
        let plan = flow::plan("b");
        self.current =
            Some(CurrentVersion { version: 3, hash: plan.hash, plan: Ok(Arc::new(plan)) });
    }

    fn seen(&self) -> RowSeen<'_> {
        RowSeen {
            row: &self.row,
            now: NOW,
            current: self.current.as_ref(),
            endpoints: &self.endpoints,
            roster: self.roster,
            latest: self.latest,
        }
    }
}

fn found(faults: &[TriggerFault]) -> Vec<(Invariant, bool)> {
    faults.iter().map(|fault| (fault.rule, fault.repairable)).collect()
}

type RowCase = (&'static str, fn() -> TriggerKind, fn(&mut Deployed));

/// Rows in which nothing is wrong.
const SOUND_ROWS: &[RowCase] = &[
    ("a schedule", schedule, |_| {}),
    ("an event", event, |_| {}),
    ("a stream", stream, |_| {}),
    ("ends", ended, |_| {}),
    ("a schedule that works on what is due", schedule, |it| {
        it.cursor().after = at(-300_000);
        it.due(Some(at(1_000)));
    }),
    ("a schedule that looks earlier than it has to", schedule, |it| it.due(Some(at(-5)))),
    ("a schedule with times that wait", schedule, |it| {
        it.cursor().waiting.push(at(-60_000));
        it.due(Some(at(1_000)));
    }),
    ("a schedule that comes to its end", schedule, |it| {
        it.cursor().after = Timestamp(i64::MAX / 2);
        it.due(Some(at(-1)));
    }),
    ("a schedule that is claimed", schedule, |it| {
        it.row.claimable_at = Some(NOW.plus(CLAIM_LEASE))
    }),
    ("a schedule that has fired its last time", schedule, |it| it.latest = Some(NOW)),
    ("a schedule that was rewound", schedule, |it| {
        (it.cursor().after, it.cursor().reached) = (at(-600_000), Some(NOW));
        it.due(Some(at(1_000)));
        it.latest = Some(NOW);
    }),
    ("a paused one", schedule, |it| it.enter(TriggerState::Paused)),
    ("a broken one", stream, |it| it.enter(TriggerState::Broken)),
    ("a retired one", event, |it| {
        it.enter(TriggerState::Retired);
        it.undeclare();
    }),
    ("a retired one of a workflow that is gone", event, |it| {
        it.enter(TriggerState::Retired);
        it.current = None;
    }),
    ("an endpoint of something else beside it", ended, |it| {
        it.endpoints.insert("trigger-7-other".into());
    }),
];

#[test]
fn rules_about_rows_of_sound_triggers_find_nothing() {
    for (name, kind, change) in SOUND_ROWS {
        let mut deployed = Deployed::new(kind());
        change(&mut deployed);
        assert_eq!(deployed.seen().faults(), [], "{name}");
    }
}

type BadRow = (RowCase, Invariant, bool);

/// Rows with one fault: which it is, and whether it can be repaired.
const BAD_ROWS: &[BadRow] = &[
    (("never due", schedule, |it| it.due(None)), Invariant::TriggerDue, true),
    (("due too late", schedule, |it| it.due(Some(at(60_001)))), Invariant::TriggerDue, true),
    (
        ("due too late for what waits", schedule, |it| {
            it.cursor().waiting.push(at(-60_000));
            it.due(Some(at(60_000)));
        }),
        Invariant::TriggerDue,
        true,
    ),
    (
        ("due too late for a backfill", schedule, |it| {
            it.cursor().backfills.push(Backfill {
                id: 1,
                from: at(-600_000),
                to: NOW,
                again: false,
                rate: 10,
                fired: 0,
                known: 0,
                total: 9,
                not_before: NOW,
            });
            it.due(Some(at(60_000)));
        }),
        Invariant::TriggerDue,
        true,
    ),
    (("a stream that is never due", stream, |it| it.due(None)), Invariant::TriggerDue, true),
    (("an event that is due", event, |it| it.due(Some(at(60_000)))), Invariant::TriggerDue, true),
    (
        ("paused, and due", schedule, |it| {
            let due = it.row().next_due;
            it.enter(TriggerState::Paused);
            it.due(due);
        }),
        Invariant::TriggerDue,
        true,
    ),
    (("never taken", schedule, |it| it.row.claimable_at = None), Invariant::TriggerDue, true),
    (
        ("claimed for a day", schedule, |it| it.row.claimable_at = Some(at(86_400_000))),
        Invariant::TriggerDue,
        true,
    ),
    (
        ("taken without being due", event, |it| it.row.claimable_at = Some(NOW)),
        Invariant::TriggerDue,
        true,
    ),
    (
        ("other topics", event, |it| it.row().topics = vec!["user.*".into()]),
        Invariant::TriggerMatchesVersion,
        true,
    ),
    (
        ("another number of the version", event, |it| it.row().version = 1),
        Invariant::TriggerMatchesVersion,
        true,
    ),
    (
        ("a version that is not current", event, |it| {
            it.row().definition = flow::plan("other").hash;
        }),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("active, and not declared", schedule, Deployed::undeclare),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("retired, and declared", event, |it| it.enter(TriggerState::Retired)),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("another kind", event, |it| {
            it.row().kind = TriggerKindName::Webhook;
        }),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("the cursor of another kind", stream, |it| {
            let cursor = waypost_core::json::Json::null();
            let cursor = PollCursor { cursor, etag: None, dead_in_a_row: 0 };
            it.row().cursor = TriggerCursor::Poll(cursor);
        }),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("a cursor where there is none", event, |it| {
            it.row().cursor = TriggerCursor::Stream(StreamCursor::default());
        }),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("no current version", event, |it| it.current = None),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("a definition that this build cannot use", event, |it| {
            it.current.as_mut().unwrap().plan = Err("odd".to_owned());
        }),
        Invariant::TriggerMatchesVersion,
        false,
    ),
    (
        ("a cursor before what has fired", schedule, |it| {
            it.cursor().after = at(-600_000);
            it.due(Some(at(1_000)));
            it.latest = Some(NOW);
        }),
        Invariant::TriggerCursorHolds,
        false,
    ),
    (("no endpoint", ended, |it| it.endpoints.clear()), Invariant::TriggerEndpoint, true),
    (
        ("the endpoint of another workflow", ended, |it| {
            it.endpoints = ["trigger-7-other".into()].into();
        }),
        Invariant::TriggerEndpoint,
        true,
    ),
    (("a list that is behind", event, |it| it.roster = 2), Invariant::TriggerRoster, true),
];

#[test]
fn rules_about_rows_find_each_fault_and_derive_a_sound_row() {
    for ((name, kind, change), rule, repairable) in BAD_ROWS {
        let mut deployed = Deployed::new(kind());
        change(&mut deployed);
        assert_eq!(found(&deployed.seen().faults()), [(*rule, *repairable)], "{name}");
        if !repairable {
            continue;
        }
        let missing = deployed.seen().without_endpoint().is_some();
        assert_eq!(missing, *rule == Invariant::TriggerEndpoint, "{name}");
        let derived = deployed.seen().derived();
        let sound = Deployed::new(kind());
        assert_eq!(derived.row.revision, 4, "{name}");
        assert_eq!(derived.row.topics, sound.row.stored.row.topics, "{name}");
        // As a store writes it, and raises the revision of the list.
        deployed.row = InspectedTrigger { claimable_at: derived.row.next_due, stored: derived };
        (deployed.roster, deployed.endpoints) = (4, sound.endpoints);
        assert_eq!(deployed.seen().faults(), [], "{name}, repaired");
    }
}

/// A batch with two events that is not full.
fn group() -> InspectedGroup {
    let stored =
        StoredGroup { first_at: at(-100), last_at: at(-50), events: 2, bytes: 20, due: at(900) };
    InspectedGroup {
        number: 1,
        role: GroupRole::Window,
        trigger: TriggerNo(7),
        state: Some(TriggerState::Active),
        key: "k".into(),
        seq: 12,
        stored,
        claimable_at: at(900),
        closed: false,
        paused: false,
        held: HeldEvents { count: 2, bytes: 20, last: 12, unknown: 0 },
    }
}

#[test]
fn rules_about_groups_find_each_fault() {
    type Case = (&'static str, fn(&mut InspectedGroup), &'static [bool]);
    let cases: &[Case] = &[
        ("as it must be", |_| {}, &[]),
        ("a debounce, of which the last event is left", |it| it.held.count = 1, &[]),
        ("claimed", |it| (it.closed, it.claimable_at) = (true, NOW.plus(CLAIM_LEASE)), &[]),
        ("paused", |it| (it.state, it.paused) = (Some(TriggerState::Paused), true), &[]),
        (
            "older than items are kept",
            |it| {
                it.stored.first_at = NOW.minus(ITEM_KEPT);
                it.held.unknown = 2;
            },
            &[],
        ),
        (
            "the queue of a throttle in which no event waits",
            |it| (it.role, it.held) = (GroupRole::Queue, HeldEvents::default()),
            &[],
        ),
        (
            "the queue of a throttle whose trigger is active, paused",
            |it| (it.role, it.paused) = (GroupRole::Queue, true),
            &[true],
        ),
        ("of no trigger", |it| it.state = None, &[false]),
        (
            "of a retired trigger",
            |it| (it.state, it.paused) = (Some(TriggerState::Retired), true),
            &[false],
        ),
        ("another number of bytes", |it| it.held.bytes = 21, &[false]),
        ("more events than it counts", |it| it.held.count = 3, &[false]),
        ("another last event", |it| it.held.last = 11, &[false]),
        ("an event without an item", |it| it.held.unknown = 1, &[false]),
        ("nothing in it", |it| it.held = HeldEvents::default(), &[true]),
        ("paused, and its trigger is active", |it| it.paused = true, &[true]),
        ("not paused, and its trigger is", |it| it.state = Some(TriggerState::Broken), &[true]),
        ("taken too late", |it| it.claimable_at = at(901), &[true]),
        ("claimed for a day", |it| (it.closed, it.claimable_at) = (true, at(86_400_000)), &[true]),
    ];
    for (name, change, expected) in cases {
        let mut group = group();
        change(&mut group);
        let faults = group_faults(&group, NOW);
        let expected: Vec<_> =
            expected.iter().map(|repairable| (Invariant::TriggerGroups, *repairable)).collect();
        assert_eq!(found(&faults), expected, "{name}: {faults:?}");
    }
}

#[test]
fn rules_about_starts_find_each_contradiction() {
    let begun = |fired: bool, age: Millis| Begun {
        workflow: "flow".into(),
        at: NOW.minus(age),
        fired: fired.then(|| BegunByTrigger {
            name: "t".into(),
            label: "a time".into(),
            at: at(-7),
        }),
    };
    let fire = NamedFire {
        execution: ExecutionNo(9),
        trigger: TriggerNo(7),
        names: Some(("flow".into(), "t".into())),
        fire: FireRow {
            place: 1,
            item: ItemDigest([1; 32]),
            label: "a time".into(),
            at: at(-5),
            nominal: Some(at(-7)),
            outcome: FireOutcome::Started,
            reason: None,
            execution: Some(ExecutionNo(9)),
        },
    };
    let with = |change: fn(&mut NamedFire)| {
        let mut changed = fire.clone();
        change(&mut changed);
        vec![changed]
    };
    let (fired, by_hand) = (begun(true, Millis(5)), begun(false, Millis(5)));
    let cases = [
        ("as they must be", &fired, vec![fire.clone()], false),
        ("no time of a schedule", &fired, with(|it| it.fire.nominal = None), false),
        ("by hand", &by_hand, vec![], false),
        ("older than items are kept", &begun(true, ITEM_KEPT), vec![], false),
        ("no item", &fired, vec![], true),
        ("an item of an execution by hand", &by_hand, vec![fire.clone()], true),
        ("two items", &fired, vec![fire.clone(), fire.clone()], true),
        ("another time", &fired, with(|it| it.fire.nominal = Some(NOW)), true),
        ("another item", &fired, with(|it| it.fire.label = "another".into()), true),
        (
            "an item that was skipped",
            &fired,
            with(|it| it.fire.outcome = FireOutcome::Skipped),
            true,
        ),
        (
            "an item of another trigger",
            &fired,
            with(|it| it.names = Some(("flow".into(), "u".into()))),
            true,
        ),
        (
            "an item of another workflow",
            &fired,
            with(|it| it.names = Some(("other".into(), "t".into()))),
            true,
        ),
        ("an item of no trigger", &fired, with(|it| it.names = None), true),
    ];
    for (name, begun, fires, is_wrong) in cases {
        let fault = start_fault(begun, &fires, NOW);
        let found = fault.as_ref().map(|fault| (fault.rule, fault.repairable));
        let expected = is_wrong.then_some((Invariant::TriggerItemsOnce, false));
        assert_eq!(found, expected, "{name}: {fault:?}");
    }
}
