//! Fires beside changes of their triggers, deploys, and fires of other instances.

use std::thread;

use waypost_core::id::DefinitionHash;
use waypost_core::time::Millis;
use waypost_core::trigger::{ItemKey, TriggerCursor, TriggerKindName, WindowMode};
use waypost_ports::conformance::rig::Hand;
use waypost_ports::store::{Append, Appended, NewDefinition, Store, StoreError, TakenName};
use waypost_ports::triggers::{
    Advance, Arrival, Arrived, Fire, FiresRequest, GROUPS_MAX, NewTrigger, TRIGGERS_MAX,
    TriggerChange, TriggerClaim, TriggerRow, Triggers,
};
use waypost_postgres::PostgresStore;

use crate::support::{Database, instance, is_committed, numbers, two};

fn definition(content: &str, names: &[&str]) -> NewDefinition {
    let trigger = |name: &&str| NewTrigger {
        name: (*name).into(),
        kind: TriggerKindName::Event,
        timing: [0; 32],
        cursor: TriggerCursor::None,
        next_due: None,
        enabled: true,
        topics: vec!["t".into()],
        throttle: None,
        ends: None,
    };
    NewDefinition {
        name: "flow".into(),
        hash: DefinitionHash::of(content.as_bytes()),
        canonical: content.into(),
        make_current: true,
        triggers: names.iter().map(trigger).collect(),
        paused: false,
    }
}

fn deploy(store: &PostgresStore, content: &str, names: &[&str]) {
    store.define(&definition(content, names)).unwrap();
}

fn row(store: &PostgresStore, name: &str) -> TriggerRow {
    store.trigger("flow", name).unwrap().unwrap()
}

fn fire(row: &TriggerRow, item: &str) -> Fire {
    Fire {
        at: row.at(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        nominal: None,
        advance: None,
        group: None,
    }
}

fn advancing(row: &TriggerRow, item: &str) -> Fire {
    let advance = Advance { seq: row.seq, cursor: TriggerCursor::None, next_due: None };
    Fire { advance: Some(advance), ..fire(row, item) }
}

/// The first frame of a new execution of this id.
fn frame(store: &PostgresStore, number: u128, key: &str, fire: Fire) -> Append {
    let one = instance(store, number);
    let mut hand = Hand::new(numbers(store, one, 1)[0], one);
    let mut draft = hand.create(key, "flow");
    draft.0.side.submission.as_mut().unwrap().fire = Some(Box::new(fire));
    draft.into()
}

fn append(store: &PostgresStore, frame: &Append) -> Appended {
    store.append(std::slice::from_ref(frame)).unwrap().remove(0)
}

fn fires(store: &PostgresStore, row: &TriggerRow) -> usize {
    let request = FiresRequest { trigger: row.number, outcome: None, before: None, limit: 10_000 };
    store.fires(&request).unwrap().rows.len()
}

fn pause() -> TriggerChange {
    TriggerChange::Pause { reason: None }
}

/// 1. A fire takes its item, and its frame waits for a name that another transaction holds.
/// 2. A person pauses the trigger.
/// 3. The frame is committed; only then is the pause answered.
/// 4. A fire that was prepared before starts nothing any more.
#[test]
fn pause_is_answered_after_fires_under_way_and_fences_later_ones() {
    let database = Database::new();
    let store = database.open();
    deploy(&store, "1", &["hook"]);
    let before = row(&store, "hook");
    let intruder = database.intruder();
    intruder.run("BEGIN; INSERT INTO submissions (execution, key) VALUES (999999, 'held')");
    let first = frame(&store, 1, "held", fire(&before, "x"));
    let second = frame(&store, 1, "other", fire(&before, "y"));
    thread::scope(|scope| {
        let appending = scope.spawn(|| append(&store, &first));
        intruder.wait_for_waiters("writers", 1);
        let pausing = scope.spawn(|| {
            let paused = store.change_trigger(before.at(), &pause()).unwrap();
            (paused.is_some(), fires(&store, &before))
        });
        intruder.wait_for_waiters("api", 1);
        intruder.run("ROLLBACK");
        assert!(is_committed(&appending.join().unwrap()));
        assert_eq!(pausing.join().unwrap(), (true, 1), "the fire came before the answer");
    });
    assert_eq!(append(&store, &second), Appended::Stale);
    assert_eq!(fires(&store, &before), 1);
}

/// A fire that waits for the lock of a change sees the trigger as it is after that.
#[test]
fn fire_that_waits_for_a_change_is_stale() {
    let database = Database::new();
    let store = database.open();
    deploy(&store, "1", &["hook"]);
    let before = row(&store, "hook");
    let intruder = database.intruder();
    for (item, fire) in [("x", fire(&before, "x")), ("y", advancing(&before, "y"))] {
        intruder.run(
            "BEGIN; SELECT FROM triggers FOR UPDATE; UPDATE triggers SET revision = revision + 1",
        );
        let frame = frame(&store, 1, item, fire);
        thread::scope(|scope| {
            let appending = scope.spawn(|| append(&store, &frame));
            intruder.wait_for_waiters("writers", 1);
            intruder.run("COMMIT");
            assert_eq!(appending.join().unwrap(), Appended::Stale);
        });
        intruder.run("UPDATE triggers SET revision = revision - 1");
    }
    assert_eq!(fires(&store, &before), 0);
}

/// A deploy that retires a trigger waits for its fires, and a deploy that is still open holds up later ones.
#[test]
fn deploy_is_answered_after_fires_under_way() {
    let database = Database::new();
    let store = database.open();
    deploy(&store, "1", &["a", "b"]);
    let (a, b) = (row(&store, "a"), row(&store, "b"));
    let intruder = database.intruder();
    intruder.run("BEGIN; INSERT INTO submissions (execution, key) VALUES (999999, 'held')");
    let first = frame(&store, 1, "held", fire(&b, "x"));
    let second = frame(&store, 1, "other", fire(&a, "y"));
    thread::scope(|scope| {
        let appending = scope.spawn(|| append(&store, &first));
        intruder.wait_for_waiters("writers", 1);
        let deploying = scope.spawn(|| {
            deploy(&store, "2", &["a"]);
            fires(&store, &b)
        });
        intruder.wait_for_waiters("api", 1);
        // It has the lock of the first trigger, and waits for that of the second one.
        let waiting = scope.spawn(|| append(&store, &second));
        intruder.wait_for_waiters("writers", 2);
        intruder.run("ROLLBACK");
        assert!(is_committed(&appending.join().unwrap()));
        assert_eq!(deploying.join().unwrap(), 1);
        assert_eq!(waiting.join().unwrap(), Appended::Stale);
    });
}

/// Two instances fire the same item: the second waits for the first.
#[test]
fn item_that_two_instances_fire_at_once_starts_one_execution() {
    let database = Database::new();
    let stores = two(&database);
    deploy(&stores[0], "1", &["hook"]);
    let before = row(&stores[0], "hook");
    let intruder = database.intruder();
    intruder.run("BEGIN; INSERT INTO submissions (execution, key) VALUES (999999, 'held')");
    let first = frame(&stores[0], 1, "held", fire(&before, "x"));
    let second = frame(&stores[1], 2, "other", fire(&before, "x"));
    thread::scope(|scope| {
        let winning = scope.spawn(|| append(&stores[0], &first));
        intruder.wait_for_waiters("writers", 1);
        let losing = scope.spawn(|| append(&stores[1], &second));
        intruder.wait_for_waiters("writers", 2);
        intruder.run("ROLLBACK");
        assert!(is_committed(&winning.join().unwrap()));
        let execution = first.header.execution;
        let taken = TakenName::Item;
        assert_eq!(losing.join().unwrap(), Appended::Duplicate { execution, taken });
    });
    assert_eq!(fires(&stores[0], &before), 1);
}

/// The frame of the first is refused, so that the item is free for the second, which has waited for it.
#[test]
fn item_of_a_refused_frame_is_free_for_another_instance() {
    let database = Database::new();
    let stores = two(&database);
    deploy(&stores[0], "1", &["hook"]);
    let before = row(&stores[0], "hook");
    let intruder = database.intruder();
    intruder.run("BEGIN; INSERT INTO submissions (execution, key) VALUES (999999, 'held')");
    let first = frame(&stores[0], 1, "held", fire(&before, "x"));
    let second = frame(&stores[1], 2, "other", fire(&before, "x"));
    thread::scope(|scope| {
        let refused = scope.spawn(|| append(&stores[0], &first));
        intruder.wait_for_waiters("writers", 1);
        let winning = scope.spawn(|| append(&stores[1], &second));
        intruder.wait_for_waiters("writers", 2);
        intruder.run("COMMIT");
        let taken = TakenName::Id;
        let refused = refused.join().unwrap();
        assert!(
            matches!(refused, Appended::Duplicate { taken: of, .. } if of == taken),
            "{refused:?}"
        );
        assert!(is_committed(&winning.join().unwrap()));
    });
    assert_eq!(fires(&stores[0], &before), 1);
}

#[test]
fn cursor_that_many_move_at_once_is_moved_by_one_at_a_time() {
    const EACH: usize = 30;
    let database = Database::new();
    let stores = two(&database);
    deploy(&stores[0], "1", &["every"]);
    let race = |store: &PostgresStore, number: u128| {
        let mut moved = 0;
        for round in 0..EACH {
            let before = row(store, "every");
            let item = format!("{number}-{round}");
            let first = frame(store, number, &item, advancing(&before, &item));
            match append(store, &first) {
                Appended::Committed { .. } => moved += 1,
                Appended::Stale => {}
                other => panic!("{other:?}"),
            }
        }
        moved
    };
    let moved: u64 = thread::scope(|scope| {
        let threads = [1, 2].map(|number| {
            let store = &stores[number as usize - 1];
            scope.spawn(move || race(store, number))
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(moved >= EACH as u64);
    let after = row(&stores[0], "every");
    assert_eq!((after.seq, fires(&stores[0], &after) as u64), (1 + moved, moved));
}

#[test]
fn triggers_that_are_due_are_claimed_by_one_instance() {
    let database = Database::new();
    let stores = two(&database);
    let names: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    deploy(&stores[0], "1", &names.iter().map(String::as_str).collect::<Vec<_>>());
    database.intruder().run("UPDATE triggers SET next_due = 1, claimable_at = 1");
    let work = |store: &PostgresStore| {
        let mut taken = Vec::new();
        loop {
            let request = TriggerClaim::any(7, Millis::from_secs(600));
            let claimed = store.claim_triggers(&request).unwrap();
            taken.extend(claimed.triggers.iter().map(|row| row.number));
            // Rows that the other one is about to claim are skipped, and are due no more after that.
            if claimed.next_due.is_none_or(|due| due > claimed.at) {
                break taken;
            }
        }
    };
    let mut taken = thread::scope(|scope| {
        let threads: Vec<_> = stores.iter().map(|store| scope.spawn(|| work(store))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(taken.len(), 50);
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 50);
}

/// Events of a few keys, by two instances at once; every event fires in one group.
#[test]
fn events_that_arrive_at_once_are_in_one_group_each() {
    const EACH: usize = 40;
    let database = Database::new();
    let stores = two(&database);
    deploy(&stores[0], "1", &["events"]);
    let before = row(&stores[0], "events");
    let rule = WindowMode::Batch { size: 5, wait: Millis(0) };
    let arrive = |store: &PostgresStore, number: usize| {
        for round in 0..EACH {
            let arrivals: Vec<Arrival> = ["a", "b", "c"]
                .map(|group| {
                    let label = format!("{group}-{number}-{round}");
                    let item = ItemKey { key: label.as_str().into(), incarnation: 0 }.digest();
                    let (at, payload) = (before.at(), "1".into());
                    let (group, label) = (group.into(), label.into());
                    Arrival { at, group, item, label, rule, payload }
                })
                .into();
            // In another order for each instance.
            let mut arrivals = arrivals;
            arrivals.rotate_left(number);
            assert_eq!(store.arrive(&arrivals).unwrap(), [Arrived::Held; 3]);
        }
    };
    thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            scope.spawn(move || arrive(store, number));
        }
    });
    let mut labels = Vec::new();
    loop {
        let groups = stores[0].claim_groups(50, Millis::from_secs(600)).unwrap();
        if groups.is_empty() {
            break;
        }
        for group in groups {
            assert!(group.payloads.len() <= 5);
            labels.extend(group.payloads.into_iter().map(|(_, label)| label));
        }
    }
    labels.sort();
    labels.dedup();
    assert_eq!(labels.len(), 2 * 3 * EACH);
}

#[test]
fn deploy_with_more_triggers_than_a_database_may_have_is_refused() {
    let database = Database::new();
    let store = database.open();
    deploy(&store, "1", &["a"]);
    let intruder = database.intruder();
    intruder.run(&format!(
        "INSERT INTO triggers (workflow, name, kind, version, definition, revision, seq, incarnation, state, cursor,
                               failures, topics, registered_at, timing, by_definition)
         SELECT 'many', convert_to(n::text, 'utf8'), 2, 1, definition, 1, 1, 0, 3, cursor, 0, topics, 0, timing, false
         FROM generate_series(2, {TRIGGERS_MAX}) AS n, triggers"
    ));
    deploy(&store, "2", &["a"]);
    let refused = store.define(&definition("3", &["a", "b"]));
    assert!(
        matches!(&refused, Err(StoreError::Refused(reason)) if reason.contains("100000 triggers")),
        "{refused:?}"
    );
    assert!(store.trigger("flow", "b").unwrap().is_none());
}

#[test]
fn event_that_would_begin_one_group_too_many_is_full() {
    let database = Database::new();
    let store = database.open();
    deploy(&store, "1", &["a"]);
    let row = row(&store, "a");
    let intruder = database.intruder();
    intruder.run(&format!(
        "INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at)
         SELECT {}, convert_to(n::text, 'utf8'), -n, 0, 0, 1, 1, 1::int8 << 50, 1::int8 << 50
         FROM generate_series(1, {}) AS n",
        row.number.0,
        GROUPS_MAX - 1
    ));
    let arrival = |group: &str, item: &str| Arrival {
        at: row.at(),
        group: group.into(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        rule: WindowMode::Batch { size: 100, wait: Millis(300_000) },
        payload: "1".into(),
    };
    let arrivals = [arrival("a", "1"), arrival("b", "2"), arrival("a", "3"), arrival("7", "4")];
    let arrived = store.arrive(&arrivals).unwrap();
    assert_eq!(arrived, [Arrived::Held, Arrived::Full, Arrived::Held, Arrived::Held]);
    // What found no room is not remembered: it may come again.
    intruder.run("DELETE FROM trigger_groups WHERE key = '9'");
    assert_eq!(store.arrive(&arrivals[1..2]).unwrap(), [Arrived::Held]);
}
