//! The fence: whatever two instances do at the same moment, a log has one history. The cases are those in
//! which a unique key alone would let a zombie in.

use std::thread;

use uuid::Uuid;
use waypost_core::frame::FrameHeader;
use waypost_ports::conformance::rig::{Draft, Hand};
use waypost_ports::store::{Append, Appended, ControlChange, Store, StoreError};
use waypost_postgres::PostgresStore;

use crate::support::{Database, append, check_chain, instance, is_committed, start, two};

/// Inserts a frame as another store would, inside of a transaction that the test ends.
fn insert(header: &FrameHeader) -> String {
    format!(
        "INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum, \
         append_id, instance, requires, body) VALUES ({}, {}, {}, waypost_place(), waypost_now(), 0, {}, \
         0, '{}', '{}', 1, '')",
        header.execution.0,
        header.first_seq,
        header.last_seq,
        header.epoch,
        header.append_id.0,
        header.instance.0
    )
}

/// Two stores, and an execution that instance 1 owns.
fn scene(database: &Database) -> ([std::sync::Arc<PostgresStore>; 2], Hand) {
    let stores = two(database);
    instance(&stores[1], 2);
    let one = instance(&stores[0], 1);
    let hand = start(&stores[0], one, 1).remove(0);
    (stores, hand)
}

fn takeover(hand: &Hand) -> Hand {
    let mut taker = hand.clone();
    taker.instance.0 = Uuid::from_u128(2);
    taker.epoch = 2;
    taker
}

#[test]
fn a_zombie_that_sent_two_frames_gets_neither_in() {
    for length in [1, 3] {
        let database = Database::new();
        let ([old, new], hand) = scene(&database);
        let mut zombie = hand.clone();
        let frames = [zombie.next(1), zombie.next(1)];
        let mut taker = takeover(&hand);
        assert!(is_committed(&append(&new, taker.next(length).control(ControlChange::Owned))));
        for frame in frames {
            assert_eq!(append(&old, frame), Appended::Fenced);
        }
        check_chain(&old, hand.execution);
    }
}

/// The takeover has been written and not committed when the zombie's batch comes.
#[test]
fn only_the_fenced_frame_of_a_mixed_batch_is_refused() {
    let database = Database::new();
    let ([old, _], contested) = scene(&database);
    let mut others = start(&old, contested.instance, 2);
    let intruder = database.intruder();
    let theirs: Append = takeover(&contested).next(2).into();
    intruder.run(&format!("BEGIN; {}", insert(&theirs.header)));
    let [left, right] = &mut others[..] else { panic!("two were started") };
    let batch: Vec<Append> =
        vec![left.next(1).into(), contested.frame(1).into(), right.next(3).into()];
    let outcomes = thread::scope(|scope| {
        let appending = scope.spawn(|| old.append(&batch).unwrap());
        intruder.wait_for_waiters("writers", 1);
        intruder.run("COMMIT");
        appending.join().unwrap()
    });
    assert!(is_committed(&outcomes[0]) && is_committed(&outcomes[2]), "{outcomes:?}");
    assert_eq!(outcomes[1], Appended::Fenced);
}

/// The reply is lost while the first call is still at work; the repeat waits for it to end, either way.
#[test]
fn a_repeat_waits_for_the_first_to_end() {
    let database = Database::new();
    let ([old, new], mut hand) = scene(&database);
    let intruder = database.intruder();
    for end in ["COMMIT", "ROLLBACK"] {
        let frame: Append = hand.next(1).into();
        intruder.run(&format!("BEGIN; {}", insert(&frame.header)));
        let outcomes = thread::scope(|scope| {
            let repeating = scope.spawn(|| old.append(std::slice::from_ref(&frame)).unwrap());
            intruder.wait_for_waiters("writers", 1);
            intruder.run(end);
            repeating.join().unwrap()
        });
        assert!(is_committed(&outcomes[0]), "{end}: {outcomes:?}");
        assert_eq!(new.append(&[frame]).unwrap(), outcomes, "and once more");
        check_chain(&new, hand.execution);
    }
}

#[test]
fn a_lost_suffix_is_not_built_upon() {
    let database = Database::new();
    let ([old, _], mut hand) = scene(&database);
    for _ in 0..3 {
        assert!(is_committed(&append(&old, hand.next(1))));
    }
    let intruder = database.intruder();
    intruder.run(&format!(
        "DELETE FROM frames WHERE execution = {} AND first_seq > 2",
        hand.execution.0
    ));
    assert_eq!(append(&old, hand.next(1)), Appended::Fenced);
}

#[test]
fn a_zombie_from_before_the_archive_is_fenced() {
    let database = Database::new();
    let ([old, new], hand) = scene(&database);
    let zombie: Vec<Draft> = vec![hand.frame(1), hand.clone().next(2)];
    let mut taker = takeover(&hand);
    for _ in 0..5 {
        assert!(is_committed(&append(&new, taker.next(1))));
    }
    let intruder = database.intruder();
    intruder.run(&format!(
        "DELETE FROM frames WHERE execution = {} AND first_seq < 5",
        hand.execution.0
    ));
    for frame in zombie {
        assert_eq!(append(&old, frame), Appended::Fenced);
    }
    assert!(is_committed(&append(&new, taker.next(1))));
}

/// Two writers of overlapping batches, each in an order of its own. Unsorted, one in three would die of a
/// deadlock.
#[test]
fn overlapping_batches_do_not_deadlock() {
    const EXECUTIONS: u32 = 40;
    const ROUNDS: u64 = 40;
    let database = Database::new();
    let stores = two(&database);
    let one = instance(&stores[0], 1);
    let hands = start(&stores[0], one, EXECUTIONS);
    let parked = ControlChange::Parked { next_due: None };
    thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            let (mut hands, parked) = (hands.clone(), parked.clone());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // A shuffle by a prime: every round another order, and each store its own.
                    let mut batch: Vec<Append> = hands
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| (*at as u64 + round) % 3 != number as u64)
                        .map(|(_, hand)| hand.frame(1).control(parked.clone()).into())
                        .collect();
                    batch.sort_by_key(|append| {
                        (append.header.execution.0 * (7 + 4 * number as i64)) % 41
                    });
                    let outcomes = store.append(&batch).unwrap();
                    assert_eq!(outcomes.len(), batch.len());
                    // Who lost goes on from what there is.
                    for hand in &mut hands {
                        let history = store.load(hand.execution).unwrap().unwrap();
                        let last = history.frames.last().unwrap().header;
                        hand.parent = Some(last.as_parent());
                        hand.next_seq = last.last_seq + 1;
                    }
                }
            });
        }
    });
    hands.iter().for_each(|hand| check_chain(&stores[0], hand.execution));
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.intruder().number(deadlocks), 0);
}

#[test]
fn poisoned_frames_stand_alone() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let mut hands = start(&store, one, 50);
    let bad = [0, 17, 18, 49];
    let batch: Vec<Append> = hands
        .iter_mut()
        .enumerate()
        .map(|(at, hand)| {
            let Draft(mut append) = hand.next(1);
            if bad.contains(&at) {
                append.header.last_seq = 0;
            }
            append
        })
        .collect();
    for (at, outcome) in store.append(&batch).unwrap().iter().enumerate() {
        let poisoned = matches!(outcome, Appended::Poisoned { .. });
        assert_eq!(poisoned, bad.contains(&at), "{at}: {outcome:?}");
        assert!(poisoned || is_committed(outcome));
    }
}

/// Numbers that PostgreSQL cannot hold are refused before they are sent.
#[test]
fn append_with_unsendable_values_is_poisoned() {
    let database = Database::new();
    let store = database.open();
    let mut hand = start(&store, instance(&store, 1), 1).remove(0);
    let Draft(mut append) = hand.next(1);
    append.header.last_seq = u64::MAX;
    let outcomes = store.append(&[append]).unwrap();
    assert!(matches!(outcomes[0], Appended::Poisoned { .. }), "{outcomes:?}");
}

/// The database goes away while an append is at work: nothing is known, and the same again is right.
#[test]
fn an_append_whose_connection_dies_is_repeated() {
    let database = Database::new();
    let ([store, other], mut hand) = scene(&database);
    let intruder = database.intruder();
    let frame: Append = hand.next(1).control(ControlChange::Parked { next_due: None }).into();
    let rival: Append = takeover(&hand).frame(1).into();
    // A frame of another client, never committed, makes it wait.
    let mut in_the_way = rival.header;
    in_the_way.first_seq = frame.header.first_seq;
    in_the_way.last_seq = frame.header.last_seq;
    intruder.run(&format!("BEGIN; {}", insert(&in_the_way)));
    thread::scope(|scope| {
        let appending = scope.spawn(|| store.append(std::slice::from_ref(&frame)));
        intruder.wait_for_waiters("writers", 1);
        database.intruder().kill("writers");
        let lost = appending.join().unwrap();
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    });
    intruder.run("ROLLBACK");
    let first = store.append(std::slice::from_ref(&frame)).unwrap();
    assert!(is_committed(&first[0]), "{first:?}");
    database.intruder().kill("writers");
    assert_eq!(other.append(&[frame]).unwrap(), first, "the reply was lost");
}

/// A plain frame is one statement, whatever there is for others.
#[test]
fn a_plain_batch_is_one_statement() {
    let database = Database::new();
    let store = database.open();
    let mut hands = start(&store, instance(&store, 1), 100);
    let before = store.statements().writers;
    let batch: Vec<Append> = hands.iter_mut().map(|hand| hand.next(1).into()).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    assert_eq!(store.statements().writers - before, 1);
}
