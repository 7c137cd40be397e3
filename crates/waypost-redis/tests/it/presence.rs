//! Workers: who is alive, and what they are to stop.

use std::sync::atomic::Ordering;

use waypost_core::id::Token;
use waypost_core::time::Millis;
use waypost_ports::tasks::{Hand, Holds, SignOfLife, Tasks};

use crate::support::{World, alive, sign, worker};

#[test]
fn sign_of_life_is_forwarded_beneath_less_often() {
    let world = World::new();
    let a = world.instance(1);
    let hears = || world.store.hears.load(Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), []);
    }
    assert_eq!(hears(), 1);
    world.clock.advance(Millis(5_000));
    a.tasks.record_presence(&sign(1)).unwrap();
    assert_eq!(hears(), 2);
    a.tasks.record_presence(&SignOfLife { leaving: true, ..sign(1) }).unwrap();
    assert_eq!(hears(), 3);
    assert_eq!(alive(&a.tasks, &[worker(1)]), []);
}

#[test]
fn redis_is_asked_first_and_the_store_for_the_rest() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    a.tasks.record_presence(&sign(1)).unwrap();
    let looks = || world.store.looks.load(Ordering::SeqCst);
    assert_eq!(alive(&b.tasks, &[worker(1)]), [worker(1)]);
    assert_eq!(looks(), 0);
    assert_eq!(alive(&b.tasks, &[worker(2), worker(1)]), [worker(1)]);
    assert_eq!(looks(), 1);
}

#[test]
fn tasks_in_hand_are_stored_beneath_only() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    let sent_ago = Millis(3);
    let tokens = [Token(0xfeed_beef_fade)].into();
    let says = SignOfLife { hand: Some(Hand { tokens, sent_ago }), ..sign(1) };
    a.tasks.record_presence(&says).unwrap();
    a.tasks.record_presence(&sign(2)).unwrap();
    let asked = [(1, 0xfeed_beef_fade), (2, 5), (1, 5), (3, 5)];
    let asked = asked.map(|(number, token)| (worker(number), Token(token)));
    let holds = [Holds::Yes, Holds::Unsaid, Holds::No { sent_ago }, Holds::Gone];
    assert_eq!(b.tasks.who_holds(&asked).unwrap(), holds);
    // Whom Redis knows to be alive lives, whatever the store beneath has forgotten, or is away.
    world.store.record_presence(&SignOfLife { leaving: true, ..sign(1) }).unwrap();
    assert_eq!(b.tasks.who_holds(&asked[..1]).unwrap(), [Holds::Unsaid]);
    world.store.broken.store(true, Ordering::SeqCst);
    assert_eq!(b.tasks.who_holds(&asked[..3]).unwrap(), [Holds::Unsaid; 3]);
    assert!(
        b.tasks.who_holds(&asked).is_err(),
        "the store is away, and Redis does not know one of them"
    );
}

#[test]
fn flushing_makes_no_living_worker_look_dead() {
    let world = World::new();
    let a = world.instance(1);
    for number in 1..=20 {
        a.tasks.record_presence(&sign(number)).unwrap();
    }
    let all: Vec<_> = (1..=20).map(worker).collect();
    for _ in 0..10 {
        world.server.flush_all();
        assert_eq!(alive(&a.tasks, &all), all);
    }
}

#[test]
fn a_sign_of_life_that_cannot_be_believed_is_looked_up_beneath() {
    let world = World::new();
    let a = world.instance(1);
    a.tasks.record_presence(&sign(1)).unwrap();
    let key = |number| a.redis.keys().worker(worker(number));
    // Copied to a worker that was never there.
    world.ok(&["COPY", &key(1), &key(2)]);
    world.ok(&["SET", &key(3), "{\"at\":0}"]);
    world.ok(&["RPUSH", &key(4), "x"]);
    let all: Vec<_> = (1..=4).map(worker).collect();
    assert_eq!(alive(&a.tasks, &all), [worker(1)]);
    assert_eq!(a.redis.counters().repaired.get(), 3);
    assert_eq!(world.number(&["EXISTS", &key(2), &key(3), &key(4)]), 0);
    // Kept beyond its time by another client.
    world.ok(&["PERSIST", &key(1)]);
    world.clock.advance(Millis(600_000));
    a.tasks.record_presence(&SignOfLife { leaving: true, ..sign(1) }).unwrap();
    a.tasks.record_presence(&sign(5)).unwrap();
    world.ok(&["PERSIST", &key(5)]);
    world.store.record_presence(&SignOfLife { leaving: true, ..sign(5) }).unwrap();
    world.clock.advance(Millis(61_000));
    assert_eq!(alive(&a.tasks, &[worker(5)]), []);
}

#[test]
fn cancellation_is_delivered_once_wherever_it_was_stored() {
    let world = World::new();
    let (owner, other) = (world.instance(1), world.instance(2));
    other.tasks.record_presence(&sign(1)).unwrap();
    let cancels = [(worker(1), Token(5)), (worker(1), Token(6)), (worker(2), Token(7))];
    assert_eq!(owner.tasks.cancel(&cancels).unwrap(), [sign(1).through]);
    assert_eq!(other.tasks.record_presence(&sign(1)).unwrap(), [Token(5), Token(6)]);
    world.clock.advance(Millis(10_000));
    assert_eq!(other.tasks.record_presence(&sign(1)).unwrap(), []);
    // Said again, since the answer may have been lost.
    owner.tasks.cancel(&[(worker(1), Token(5))]).unwrap();
    assert_eq!(other.tasks.record_presence(&sign(1)).unwrap(), [Token(5)]);
    // Flushed: the store beneath says it, within its interval.
    owner.tasks.cancel(&[(worker(1), Token(8))]).unwrap();
    world.server.flush_all();
    world.clock.advance(Millis(10_000));
    assert_eq!(other.tasks.record_presence(&sign(1)).unwrap(), [Token(8)]);
    // At once, where there is word of it.
    owner.tasks.cancel(&[(worker(1), Token(9))]).unwrap();
    world.server.flush_all();
    let thorough = SignOfLife { thorough: true, ..sign(1) };
    assert_eq!(other.tasks.record_presence(&sign(1)).unwrap(), []);
    assert_eq!(other.tasks.record_presence(&thorough).unwrap(), [Token(9)]);
}

#[test]
fn cancellation_from_redis_is_delivered_while_the_store_is_down() {
    let world = World::new();
    let a = world.instance(1);
    a.tasks.record_presence(&sign(1)).unwrap();
    world.store.broken.store(true, Ordering::SeqCst);
    a.tasks.cancel(&[(worker(1), Token(5))]).unwrap();
    assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), [Token(5)]);
    assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), []);
    assert_eq!(alive(&a.tasks, &[worker(1)]), [worker(1)]);
}

#[test]
fn forged_cancellation_is_not_delivered() {
    let world = World::new();
    let a = world.instance(1);
    let key = |number| a.redis.keys().cancels(worker(number));
    world.ok(&["HSET", &key(1), "x", "0123456789abcdef", "y", &"z".repeat(1_000)]);
    assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), []);
    assert_eq!(a.redis.counters().repaired.get(), 2);
    a.tasks.cancel(&[(worker(1), Token(5))]).unwrap();
    world.ok(&["COPY", &key(1), &key(2)]);
    world.store.record_presence(&sign(2)).unwrap();
    assert_eq!(a.tasks.record_presence(&sign(2)).unwrap(), [], "said to another worker");
    assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), [Token(5)]);
}

#[test]
fn people_see_the_latest_sign_of_life() {
    let world = World::new();
    let a = world.instance(1);
    a.tasks.record_presence(&sign(1)).unwrap();
    world.clock.advance(Millis(1_000));
    a.tasks.record_presence(&SignOfLife { running: 3, ..sign(1) }).unwrap();
    assert_eq!(world.store.hears.load(Ordering::SeqCst), 1, "the store beneath has the first");
    let rows = a.tasks.workers().unwrap();
    assert_eq!((rows[0].sign.running, rows[0].alive), (3, true));
    world.server.flush_all();
    assert_eq!(a.tasks.workers().unwrap()[0].sign.running, 1);
}
