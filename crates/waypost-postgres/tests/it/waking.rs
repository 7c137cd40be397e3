//! Mail and ownership between two instances: no wake-up is lost, and nothing is given to two.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use waypost_core::command::Request;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::conformance::rig::{Hand, signal};
use waypost_ports::inspect::Inspect;
use waypost_ports::store::{
    Append, ClaimRequest, ControlChange, MailDelivery, MailOf, Share, Store,
};

use crate::support::{
    Database, append, claimed, everything, instance, is_committed, mail, start, two,
};

const PARKED: ControlChange = ControlChange::Parked { next_due: None };

/// One parks while the other sends. The second to commit sees the other, without a sweep.
#[test]
fn a_park_and_a_message_at_once_leave_it_ready() {
    const TIMES: u32 = 500;
    let database = Database::new();
    let [parker, sender] = two(&database);
    let one = instance(&parker, 1);
    // The first claim sweeps; what follows happens before the next one could.
    assert_eq!(claimed(&parker, one), []);
    let mut hands = start(&parker, one, TIMES);
    let together = Barrier::new(2);
    let executions: Vec<ExecutionNo> = hands.iter().map(|hand| hand.execution).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for hand in &mut hands {
                together.wait();
                assert!(is_committed(&append(&parker, hand.next(1).control(PARKED))));
            }
        });
        scope.spawn(|| {
            for execution in &executions {
                together.wait();
                let delivered = sender.deliver(&[mail(*execution, "m1", signal())]).unwrap();
                assert!(matches!(delivered[0], MailDelivery::Accepted { .. }), "{delivered:?}");
            }
        });
    });
    let asleep = "SELECT count(*) FROM control WHERE owner IS NULL AND NOT ready";
    assert_eq!(database.intruder().number(asleep), 0);
    assert_eq!(claimed(&sender, instance(&sender, 2)), executions);
}

/// A sender died between inserting mail and making its addressee ready.
#[test]
fn sweep_wakes_executions_whose_mail_did_not() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let mut hands = start(&store, one, 3);
    let batch: Vec<Append> = vec![
        hands[0].next(1).control(PARKED).into(),
        hands[1]
            .next(1)
            .control(ControlChange::Held { reason: "paused".into(), next_due: None })
            .into(),
    ];
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    store.hold(hands[2].execution, one, "damaged").unwrap();
    let intruder = database.intruder();
    for hand in &hands {
        intruder.run(&format!(
            "INSERT INTO inbox (execution, at, urgency, message, body) \
             VALUES ({}, 0, 0, 'm1', '\"resume\"')",
            hand.execution.0
        ));
    }
    assert_eq!(claimed(&database.open(), one), [hands[0].execution], "the others do not listen");
}

/// Mail that came while the last frame of its addressee was under way goes with the next sweep; the
/// inspect does not mind it before.
#[test]
fn a_sweep_discards_what_an_end_did_not_see() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let mut hands = start(&store, one, 2);
    let end: Append = hands[0].next(1).control(ControlChange::Ended).into();
    assert!(store.append(&[end]).unwrap().iter().all(is_committed));
    let intruder = database.intruder();
    let put = |execution: ExecutionNo, at: &str| {
        intruder.run(&format!(
            "INSERT INTO inbox (execution, at, urgency, message, body) \
             VALUES ({}, {at}, 0, 'm1', '\"resume\"')",
            execution.0
        ));
    };
    put(hands[0].execution, "waypost_now()");
    put(hands[1].execution, "waypost_now()");
    let left = |hand: &Hand| store.examine(&[hand.execution]).unwrap()[0].history.mail.len();
    assert_eq!((left(&hands[0]), left(&hands[1])), (0, 1));
    intruder.run("UPDATE inbox SET at = at - 60000");
    assert_eq!((left(&hands[0]), left(&hands[1])), (1, 1));
    claimed(&database.open(), one);
    assert_eq!((left(&hands[0]), left(&hands[1])), (0, 1));
}

/// Mail that was there when an execution was quarantined does not count, however often claims sweep.
#[test]
fn a_sweep_respects_what_was_quarantined() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let hand = start(&store, one, 1).remove(0);
    store.deliver(&[mail(hand.execution, "m1", Request::Resume { reason: None })]).unwrap();
    store.hold(hand.execution, one, "damaged").unwrap();
    assert_eq!(claimed(&database.open(), one), []);
    store.deliver(&[mail(hand.execution, "m2", Request::Resume { reason: None })]).unwrap();
    assert_eq!(claimed(&store, one), [hand.execution]);
}

/// Mail that cannot be read, as a newer version may leave it, concerns its addressee alone.
#[test]
fn unreadable_mail_does_not_delay_other_mail() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let mut hands = start(&store, one, 2);
    store.deliver(&[mail(hands[1].execution, "m1", signal())]).unwrap();
    database.intruder().run(&format!(
        "INSERT INTO inbox (execution, at, urgency, message, body) \
         VALUES ({}, 0, 0, 'm0', '\"unheard of\"')",
        hands[0].execution.0
    ));
    let collected = store.collect(MailOf::Owner(one, Share::ALL), 10).unwrap();
    assert_eq!(collected.len(), 1, "{collected:?}");
    assert_eq!(collected[0].execution, hands[1].execution);
    for hand in &mut hands {
        assert!(is_committed(&append(&store, hand.next(1).control(PARKED))));
    }
    let claims = store.claim(&everything(one)).unwrap();
    let readable = |at: usize| claims.claimed[at].frames.iter().all(|frame| frame.body.is_ok());
    assert_eq!(claims.claimed.len(), 2);
    assert!(!readable(0) && readable(1), "{claims:?}");
    store.hold(hands[0].execution, one, "its mail cannot be read").unwrap();
    assert_eq!(claimed(&database.open(), one), [], "it sleeps until other mail comes");
    assert_eq!(database.intruder().number("SELECT count(*) FROM inbox"), 2);
}

/// Mail for an execution that ends at the same time is refused or discarded, never left behind.
#[test]
fn mail_to_an_execution_that_ends_is_not_left_behind() {
    const TIMES: u32 = 100;
    let database = Database::new();
    let [owner, sender] = two(&database);
    let mut hands = start(&owner, instance(&owner, 1), TIMES);
    let executions: Vec<ExecutionNo> = hands.iter().map(|hand| hand.execution).collect();
    let together = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for hand in &mut hands {
                together.wait();
                assert!(is_committed(&append(&owner, hand.next(1).control(ControlChange::Ended))));
            }
        });
        scope.spawn(|| {
            for execution in &executions {
                together.wait();
                sender.deliver(&[mail(*execution, "m1", signal())]).unwrap();
            }
        });
    });
    // A message that was put there before the end, and looked after only then, is the one that could.
    for execution in &executions {
        let delivered = sender.deliver(&[mail(*execution, "m2", signal())]).unwrap();
        assert_eq!(delivered, [MailDelivery::Ended]);
    }
    assert_eq!(database.intruder().number("SELECT count(*) FROM inbox"), 0);
}

/// Two instances claim from one heap, at once, in small bites.
#[test]
fn everything_is_claimed_by_one_alone() {
    const EXECUTIONS: u32 = 200;
    let database = Database::new();
    let stores = two(&database);
    let owner = instance(&stores[0], 9);
    let mut hands = start(&stores[0], owner, EXECUTIONS);
    let due = ControlChange::Parked { next_due: Some(Timestamp(0)) };
    let batch: Vec<Append> =
        hands.iter_mut().map(|hand| hand.next(1).control(due.clone()).into()).collect();
    assert!(stores[0].append(&batch).unwrap().iter().all(is_committed));
    let together = Barrier::new(2);
    let mut all: Vec<ExecutionNo> = thread::scope(|scope| {
        let claimers: Vec<_> = stores
            .iter()
            .zip(1..)
            .map(|(store, number)| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    let mut mine = Vec::new();
                    loop {
                        // Renewed, however long all of this takes.
                        let me = instance(store, number);
                        let mut request = everything(me);
                        request.limit = 7;
                        let claims = store.claim(&request).unwrap();
                        if claims.claimed.is_empty() && !claims.more {
                            return mine;
                        }
                        for history in claims.claimed {
                            let mut hand = Hand::of(&history);
                            let owned = hand.next(1).control(ControlChange::Owned);
                            assert!(is_committed(&append(store, owned)));
                            mine.push(history.execution);
                        }
                    }
                })
            })
            .collect();
        claimers.into_iter().flat_map(|claimer| claimer.join().unwrap()).collect()
    });
    all.sort_unstable();
    let expected: Vec<ExecutionNo> = hands.iter().map(|hand| hand.execution).collect();
    assert_eq!(all, expected);
}

/// The lease is renewed on a connection of its own: nothing that others wait for holds it up.
#[test]
fn a_busy_store_still_renews() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let intruder = database.intruder();
    intruder.run("BEGIN; LOCK TABLE frames, control IN ACCESS EXCLUSIVE MODE");
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..6 {
            let (store, stopped) = (&store, &stopped);
            scope.spawn(move || {
                drop(store.load(ExecutionNo(number)));
                assert!(stopped.load(Ordering::SeqCst), "it was not held up");
            });
        }
        database.intruder().wait_for_waiters("engine", 4);
        assert_eq!(instance(&store, 1), one);
        stopped.store(true, Ordering::SeqCst);
        intruder.run("ROLLBACK");
    });
}

/// Plans are made once. Those that were made while the inbox was empty must still look mail up one by one
/// when it is full.
#[test]
fn plans_made_for_an_empty_inbox_still_hold() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let mut hands = start(&store, one, 2);
    let intruder = database.intruder();
    intruder.run("ANALYZE");
    let go_through = |hand: &mut Hand, message: &str| {
        store.deliver(&[mail(hand.execution, message, signal())]).unwrap();
        assert_eq!(store.load(hand.execution).unwrap().unwrap().mail.len(), 1);
        let park = hand.next(1).consuming(&[message]).control(PARKED);
        assert!(is_committed(&append(&store, park)));
        assert!(!store.load(hand.execution).unwrap().unwrap().control.unwrap().ready);
    };
    let [first, second] = &mut hands[..] else { panic!("two were started") };
    go_through(first, "m1");
    intruder.run(
        "INSERT INTO inbox (execution, at, urgency, message, body) \
         SELECT 1000000 + n, 0, 0, 'm1', '\"resume\"' FROM generate_series(1, 30000) AS n",
    );
    go_through(second, "m2");
    // A connection tells what it has read when it ends.
    intruder.kill("%");
    let read = "SELECT (sum(t.seq_tup_read) + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes AS i \
                WHERE i.relname = 'inbox'))::int8 FROM pg_stat_user_tables AS t WHERE t.relname = 'inbox'";
    let read = intruder.number(read);
    assert!((1..1_000).contains(&read), "{read} rows were read");
}

/// Each start of a process leaves a row, which is deleted when it is of no use any more.
#[test]
fn instances_that_are_long_gone_are_forgotten() {
    let database = Database::new();
    let store = database.open();
    let [gone, owner, fresh] = [1, 2, 3].map(|number| instance(&store, number));
    start(&store, owner, 1);
    let intruder = database.intruder();
    let shift = |days: u32| {
        intruder.run(&format!(
            "UPDATE instances SET alive_until = alive_until - {days} * 86400000, \
             renewed_at = renewed_at - {days} * 86400000 WHERE id <> '{fresh}'"
        ));
    };
    let known = |instance: InstanceId| {
        intruder.number(&format!("SELECT count(*) FROM instances WHERE id = '{instance}'")) == 1
    };
    shift(2);
    // One that can claim nothing: what the second owns stays where it is.
    store.claim(&ClaimRequest { only: Some(Vec::new()), ..everything(fresh) }).unwrap();
    assert_eq!([known(gone), known(owner), known(fresh)], [false, true, true]);
}
