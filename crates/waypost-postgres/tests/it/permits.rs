//! Queues of concurrency keys, with two instances at them.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use waypost_ports::conformance::rig::Hand;
use waypost_ports::store::{Append, Appended, ControlChange, PermitPolicy, PermitRequest, Store};
use waypost_postgres::PostgresStore;

use crate::support::{Database, append, claimed, everything, instance, is_committed, numbers, two};

fn request(key: &str, limit: u32, policy: PermitPolicy) -> PermitRequest {
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

/// Two instances start, claim and end executions of a few keys. Never do more hold a permit than may, and
/// in the end everybody had his turn.
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
                                birth(hand, &request(key, LIMIT, PermitPolicy::Queue))
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
    let strict = request("k", 1, PermitPolicy::Reject);
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

/// Somebody died after the frame that gave a permit back, before the next was let in.
#[test]
fn a_sweep_lets_in_who_was_forgotten() {
    let database = Database::new();
    let store = database.open();
    let mut line = hands(&store, 1, 3);
    let me = line[0].instance;
    let queue = request("k", 1, PermitPolicy::Queue);
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
fn keys_that_nobody_waits_for_are_forgotten() {
    let database = Database::new();
    let store = database.open();
    let mut all = hands(&store, 1, 20);
    let births: Vec<Append> = all
        .iter_mut()
        .enumerate()
        .map(|(at, hand)| birth(hand, &request(&format!("user-{at}"), 1, PermitPolicy::Queue)))
        .collect();
    assert!(store.append(&births).unwrap().iter().all(is_committed));
    let intruder = database.intruder();
    assert_eq!(intruder.number("SELECT count(*) FROM permit_keys"), 20);
    let batch: Vec<Append> =
        all.iter_mut().map(|hand| hand.next(1).control(ControlChange::Ended).into()).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    assert_eq!(intruder.number("SELECT count(*) FROM permit_keys"), 0);
    // Nor do those stay for which nothing goes in, since it had before.
    store.append(&births).unwrap();
    assert_eq!(intruder.number("SELECT count(*) FROM permit_keys"), 0);
}

/// Somebody gives an execution up, back into its line, after whoever lets it in has seen that it is owned,
/// and before he has locked it: then nobody else would make it ready.
#[test]
fn who_was_given_up_meanwhile_is_let_in_and_made_ready() {
    let database = Database::new();
    let store = database.open();
    let mut line = hands(&store, 1, 2);
    let queue = request("k", 1, PermitPolicy::Queue);
    let batch: Vec<Append> = line.iter_mut().map(|hand| birth(hand, &queue)).collect();
    assert!(store.append(&batch).unwrap().iter().all(is_committed));
    let (first, second) = (line[0].execution.0, line[1].execution.0);
    let (intruder, promoter) = (database.intruder(), database.intruder());
    let me = line[0].instance.0;
    intruder.run(&format!(
        "DELETE FROM permits WHERE execution = {first}; DELETE FROM control WHERE execution = {first};
         UPDATE control SET owner = '{me}', ready = false WHERE execution = {second}"
    ));
    // The statement itself, held up once it sees what it sees.
    let all = "unnest($1::int8[]) AS k (id)";
    let held_up = "(SELECT id, pg_advisory_xact_lock(1) FROM permit_keys OFFSET 0) AS k (id)";
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
