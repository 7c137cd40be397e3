//! Queues of concurrency keys, with two instances at them.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use waypost_core::permits::PermitRequest;
use waypost_core::plan::ConcurrencyPolicy;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::store::{Append, Appended, ControlChange, Store};
use waypost_postgres::PostgresStore;

use crate::support::{Database, append, claimed, everything, instance, is_committed, numbers, two};

fn request(key: &str, limit: u32, policy: ConcurrencyPolicy) -> PermitRequest {
    PermitRequest { key: key.into(), limit, policy }
}

/// A first frame that is queued.
fn birth(hand: &mut Hand, request: &PermitRequest) -> Append {
    let held = ControlChange::Held { reason: "waits".to_owned(), next_due: None };
    hand.next(2).control(held).permit(request.clone()).into()
}

fn hands(store: &PostgresStore, number: u128, count: u32) -> Vec<Hand> {
    let me = instance(store, number);
    numbers(store, me, count).into_iter().map(|execution| Hand::new(execution, me)).collect()
}

/// Two instances start, claim and end executions of a few keys. The limit holds at all times, and in the end
/// all executions had their turn.
#[test]
fn the_limit_holds_between_two_instances() {
    const EACH: u32 = 60;
    const LIMIT: u32 = 2;
    let database = Database::new();
    let stores = two(&database);
    let together = Barrier::new(2);
    let ended: Vec<usize> = thread::scope(|scope| {
        let workers: Vec<_> = stores
            .iter()
            .zip(1..)
            .map(|(store, number)| {
                let (together, watcher) = (&together, database.intruder());
                scope.spawn(move || {
                    let mut mine = hands(store, number, EACH);
                    let me = mine[0].instance;
                    together.wait();
                    for (at, chunk) in mine.chunks_mut(4).enumerate() {
                        let keys = [format!("k{}", at % 3), format!("k{}", (at + 1) % 3)];
                        let batch: Vec<Append> = chunk
                            .iter_mut()
                            .zip(keys.iter().cycle())
                            .map(|(hand, key)| {
                                birth(hand, &request(key, LIMIT, ConcurrencyPolicy::Queue))
                            })
                            .collect();
                        let outcomes = store.append(&batch).unwrap();
                        assert!(outcomes.iter().all(is_committed), "{outcomes:?}");
                        let over = "SELECT count(*) FROM (SELECT key FROM permits WHERE holding \
                                    GROUP BY key HAVING count(*) > 2) AS k";
                        assert_eq!(watcher.number(over), 0, "more hold a permit than may");
                    }
                    together.wait();
                    let mut ended = 0;
                    loop {
                        // Renewed, however long all of this takes.
                        assert_eq!(instance(store, number), me);
                        let claims = store.claim(&everything(me)).unwrap();
                        for history in &claims.claimed {
                            let mut hand = Hand::of(history);
                            let permit =
                                history.control.as_ref().and_then(|row| row.permit.as_ref());
                            assert!(permit.is_some_and(|permit| permit.holding), "{permit:?}");
                            let last = hand.next(1).control(ControlChange::Ended);
                            assert!(is_committed(&append(store, last)));
                            ended += 1;
                        }
                        if watcher.number("SELECT count(*) FROM control") == 0 {
                            return ended;
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(ended.iter().sum::<usize>(), EACH as usize * 2);
    let intruder = database.intruder();
    assert_eq!(intruder.number("SELECT count(*) FROM permits"), 0);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(intruder.number(deadlocks), 0);
}

/// Of many starts at once under a key that takes one, one is accepted and nothing is left of the others.
#[test]
fn only_one_is_accepted_where_there_is_room_for_one() {
    let database = Database::new();
    let stores = two(&database);
    let together = Barrier::new(2);
    let strict = request("k", 1, ConcurrencyPolicy::Reject);
    let outcomes: Vec<Appended> = thread::scope(|scope| {
        let starters: Vec<_> = stores
            .iter()
            .zip(1..)
            .map(|(store, number)| {
                let (together, strict) = (&together, &strict);
                scope.spawn(move || {
                    let mut mine = hands(store, number, 10);
                    together.wait();
                    let batch: Vec<Append> =
                        mine.iter_mut().map(|hand| birth(hand, strict)).collect();
                    store.append(&batch).unwrap()
                })
            })
            .collect();
        starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
    });
    let mut counts: HashMap<bool, usize> = HashMap::new();
    for outcome in &outcomes {
        let accepted = is_committed(outcome);
        assert!(accepted || *outcome == Appended::Rejected { holding: 1 }, "{outcome:?}");
        *counts.entry(accepted).or_default() += 1;
    }
    assert_eq!((counts[&true], counts[&false]), (1, 19));
    let intruder = database.intruder();
    for table in ["frames", "control", "permits"] {
        assert_eq!(intruder.number(&format!("SELECT count(*) FROM {table}")), 1, "{table}");
    }
}

/// An instance died after the frame that released a permit, before it promoted the next row.
#[test]
fn sweep_after_lost_promotion_gives_the_permit() {
    let database = Database::new();
    let store = database.open();
    let mut line = hands(&store, 1, 3);
    let me = line[0].instance;
    let queue = request("k", 1, ConcurrencyPolicy::Queue);
    let batch: Vec<Append> = line.iter_mut().map(|hand| birth(hand, &queue)).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    assert_eq!(claimed(&store, me), [line[0].execution]);
    let first = line[0].execution.0;
    database.intruder().run(&format!(
        "DELETE FROM permits WHERE execution = {first}; DELETE FROM control WHERE execution = {first}"
    ));
    assert_eq!(claimed(&database.open(), me), [line[1].execution]);
}

/// Keys come and go with the executions that use them; they must not pile up.
#[test]
fn keys_without_rows_are_deleted() {
    let database = Database::new();
    let store = database.open();
    let mut all = hands(&store, 1, 20);
    let births: Vec<Append> = all
        .iter_mut()
        .enumerate()
        .map(|(at, hand)| birth(hand, &request(&format!("user-{at}"), 1, ConcurrencyPolicy::Queue)))
        .collect();
    assert!(store.append(&births).unwrap().iter().all(is_committed));
    let intruder = database.intruder();
    assert_eq!(intruder.number("SELECT count(*) FROM permit_keys"), 20);
    let batch: Vec<Append> =
        all.iter_mut().map(|hand| hand.next(1).control(ControlChange::Ended).into()).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    assert_eq!(intruder.number("SELECT count(*) FROM permit_keys"), 0);
    // Nor do those stay whose frames are not inserted, since they were before.
    store.append(&births).unwrap();
    assert_eq!(intruder.number("SELECT count(*) FROM permit_keys"), 0);
}

/// 1. An instance reads the queue in order to promote an execution that another instance owns.
/// 2. The owner appends a frame with which the execution goes back to its place.
/// 3. The first instance promotes the row. No other statement would make the execution ready.
#[test]
fn promotion_of_execution_given_up_meanwhile_makes_it_ready() {
    let database = Database::new();
    let store = database.open();
    let mut line = hands(&store, 1, 2);
    let queue = request("k", 1, ConcurrencyPolicy::Queue);
    let batch: Vec<Append> = line.iter_mut().map(|hand| birth(hand, &queue)).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    let (first, second) = (line[0].execution.0, line[1].execution.0);
    let (intruder, promoter) = (database.intruder(), database.intruder());
    let me = line[0].instance.0;
    intruder.run(&format!(
        "DELETE FROM permits WHERE execution = {first}; DELETE FROM control WHERE execution = {first};
         UPDATE control SET owner = '{me}', ready = false WHERE execution = {second}"
    ));
    // The statement itself, held up once it has its snapshot.
    let all = "unnest($1::int8[], $2::int8[]) AS p (execution, ticket)";
    let held_up = "(SELECT execution, ticket, pg_advisory_xact_lock(1) FROM permits OFFSET 0) \
                   AS p (execution, ticket)";
    let promote = include_str!("../../queries/permit_promote.sql");
    assert!(promote.contains(all));
    intruder.run("BEGIN; SELECT pg_advisory_xact_lock(1)");
    thread::scope(|scope| {
        scope.spawn(|| promoter.run(&promote.replace(all, held_up)));
        intruder.wait_until(
            "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
        );
        intruder.run(&format!(
            "UPDATE control SET owner = NULL, held = 'in the queue' WHERE execution = {second}; COMMIT"
        ));
    });
    let let_in = "SELECT count(*) FROM permits JOIN control USING (execution) \
                  WHERE holding AND ready AND held IS NULL";
    assert_eq!(intruder.number(let_in), 1);
}

/// 1. An instance reads that a row's turn has come.
/// 2. The execution leaves the queue and joins it again, at the end.
/// 3. The instance promotes the row that it has read, which is gone.
#[test]
fn promotion_of_execution_that_joined_again_gives_nothing() {
    let database = Database::new();
    let store = database.open();
    let mut line = hands(&store, 1, 3);
    let queue = request("k", 1, ConcurrencyPolicy::Queue);
    let batch: Vec<Append> = line.iter_mut().map(|hand| birth(hand, &queue)).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    let second = line[1].execution.0;
    let intruder = database.intruder();
    let ticket = intruder.number(&format!("SELECT ticket FROM permits WHERE execution = {second}"));
    let end = line[1].next(1).control(ControlChange::Ended);
    assert!(is_committed(&append(&store, end)));
    assert!(is_committed(&store.append(&[birth(&mut line[1], &queue)]).unwrap()[0]));
    let promote = include_str!("../../queries/permit_promote.sql");
    intruder.run(&format!(
        "PREPARE promote (int8[], int8[]) AS {promote};
         EXECUTE promote ('{{{second}}}', '{{{ticket}}}')"
    ));
    assert_eq!(intruder.number("SELECT count(*) FROM permits WHERE holding"), 1);
}

/// More executions wait behind one with a small limit than a store reads at once. When its turn comes, all
/// of them get their permits.
#[test]
fn release_before_many_with_room_promotes_all() {
    const MANY: u32 = 40;
    let database = Database::new();
    let store = database.open();
    let mut line = hands(&store, 1, MANY + 2);
    let mut queue = |range: std::ops::Range<usize>, limit| {
        let request = request("k", limit, ConcurrencyPolicy::Queue);
        let batch: Vec<Append> = line[range].iter_mut().map(|hand| birth(hand, &request)).collect();
        assert!(store.append(&batch).unwrap().iter().all(is_committed));
    };
    queue(0..2, 1);
    queue(2..42, 100);
    let holding = "SELECT count(*) FROM permits WHERE holding";
    let intruder = database.intruder();
    assert_eq!(intruder.number(holding), 1);
    let end = line[0].next(1).control(ControlChange::Ended);
    assert!(is_committed(&append(&store, end)));
    assert_eq!(intruder.number(holding), i64::from(MANY) + 1);
}
