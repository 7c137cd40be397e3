//! Redis gone, stalled, flushed, restarted, full, read-only: callers go on without it, at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use waypost_core::id::{ExecutionId, Token};
use waypost_core::time::Millis;
use waypost_ports::mirror::{Health, Mirror};
use waypost_ports::nudge::{Alone, Nudge, Nudges};
use waypost_ports::relay::{Relay, Relayed};
use waypost_ports::tasks::Tasks;
use waypost_redis::{Limits, Redis, RedisMirror, RedisNudges, RedisRelay};

use crate::relay::mail;
use crate::support::{
    KEY, NONE, PATIENCE, World, alive, connect, instance, offer, offer_id, sign, wait_for_reason,
    worker,
};

fn is_down(redis: &Redis) -> bool {
    matches!(redis.health(), Health::Down { .. })
}

#[test]
fn without_redis_everything_is_done_beneath() {
    let mut world = World::new();
    world.server.kill();
    let redis = Redis::connect(&world.config(), &KEY).unwrap();
    let a = world.instance_on(&redis, 1);
    assert!(is_down(&redis));
    a.tasks.offer(&[offer("h", 1), offer("h", 2), offer("h", 3)]).unwrap();
    a.tasks.withdraw(&[offer_id(2)]).unwrap();
    assert_eq!(a.tasks.depths().unwrap()[0].waiting, 2);
    for expected in [1, 3] {
        assert_eq!(a.take("h", 1), [expected]);
    }
    assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), []);
    a.tasks.cancel(&[(worker(1), Token(3))]).unwrap();
    assert_eq!(a.tasks.record_presence(&sign(1)).unwrap(), [Token(3)], "every sign goes beneath");
    assert_eq!(alive(&a.tasks, &[worker(1), worker(2)]), [worker(1)]);
    assert!(redis.counters().fallbacks.get() > 0);
    let Health::Down { reason, .. } = redis.health() else { panic!("up") };
    assert!(!reason.is_empty());
    // It comes late, and is used from then on.
    world.server.start_again();
    a.wait_until_up();
    a.tasks.offer(&[offer("h", 4)]).unwrap();
    assert_eq!(world.number(&["XLEN", "waypost:tasks:{h}"]), 1);
}

#[test]
fn flushing_at_any_moment_loses_nothing_that_is_offered_again() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    let mut open: Vec<u32> = (1..=200).collect();
    for round in 0.. {
        assert!(round < 500, "{} tasks are left", open.len());
        let offers: Vec<_> = open.iter().take(40).map(|attempt| offer("h", *attempt)).collect();
        a.tasks.offer(&offers).unwrap();
        if round % 3 == 0 {
            world.server.flush_all();
        }
        for taken in b.take("h", 7) {
            open.retain(|attempt| *attempt != taken);
        }
        if round % 5 == 0 {
            world.server.flush_all();
            world.ok(&["SCRIPT", "FLUSH"]);
        }
        b.tasks.acknowledge();
        if open.is_empty() {
            break;
        }
    }
    assert_eq!((a.redis.health(), b.redis.health()), (Health::Up, Health::Up));
    assert_eq!(a.redis.counters().outages.get(), 0);
}

#[test]
fn stopped_and_started_it_is_left_and_used_again() {
    let mut world = World::new();
    let a = world.instance(1);
    for round in 1..=3 {
        a.tasks.offer(&[offer("h", 10 * round)]).unwrap();
        world.server.stop();
        a.tasks.offer(&[offer("h", 10 * round + 1)]).unwrap();
        assert_eq!(a.take("h", 10), [10 * round + 1]);
        assert!(is_down(&a.redis));
        world.server.start_again();
        a.wait_until_up();
        assert_eq!(a.take("h", 10), [10 * round], "it was saved");
        a.tasks.acknowledge();
    }
    assert_eq!(a.redis.counters().outages.get(), 3);
}

#[test]
fn task_offered_beneath_in_an_outage_is_taken_afterwards() {
    let mut world = World::new();
    let a = world.instance(1);
    world.server.kill();
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    world.server.start_again();
    a.wait_until_up();
    // It was looked into a moment ago; in the minutes after an outage that is no reason not to.
    assert_eq!(a.take("h", 10), [1]);
    a.tasks.offer(&[offer("h", 2)]).unwrap();
    world.store.offer(&[offer("h", 3)]).unwrap();
    assert_eq!(a.take("h", 10), [2, 3]);
    world.clock.advance(Millis(200_000));
    assert_eq!(a.take("h", 10), NONE);
}

#[test]
fn stalled_redis_delays_callers_by_its_timeout_only() {
    let mut world = World::with(Limits::default());
    let redis = world.connect();
    let a = world.instance_on(&redis, 1);
    let mirror = RedisMirror::new(&redis);
    let nudges = RedisNudges::new(&redis, Arc::new(Alone), instance(1));
    let relay = RedisRelay::new(&redis, instance(1));
    a.tasks.record_presence(&sign(1)).unwrap();
    a.wait_until_up();
    world.server.process().freeze();
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert!(is_down(&redis));

    let begun = Instant::now();
    for attempt in 2..100 {
        a.tasks.offer(&[offer("h", attempt)]).unwrap();
        mirror.owned(instance(1), &[ExecutionId("a".into())]);
        mirror.released(instance(1), &[ExecutionId("a".into())]);
        assert_eq!(mirror.contexts(&[ExecutionId("a".into())]), [None]);
        nudges.send(Nudge::Claimable);
        assert_eq!(relay.send(instance(2), mail(1)).unwrap(), Relayed::Unknown);
        a.tasks.cancel(&[(worker(1), Token(1))]).unwrap();
        assert_eq!(alive(&a.tasks, &[worker(1)]), [worker(1)]);
        a.tasks.record_presence(&sign(1)).unwrap();
    }
    assert_eq!(a.tasks.take(&["h".into()], 200).unwrap().len(), 99);
    let rest = begun.elapsed();
    // In turn, these would have taken minutes.
    assert!(rest < PATIENCE, "98 rounds without redis took {rest:?}");
    assert!(redis.counters().dropped.get() >= 196);

    world.server.process().thaw();
    a.wait_until_up();
    a.tasks.offer(&[offer("h", 100)]).unwrap();
    assert_eq!(a.take("h", 10).last(), Some(&100));
}

#[test]
fn many_callers_are_held_up_together_and_not_in_turn() {
    let limit = Duration::from_secs(2);
    let mut world = World::with(Limits { response: limit, ..Limits::default() });
    let a = world.instance(1);
    world.server.process().freeze();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for attempt in 0..16 {
            let tasks = &a.tasks;
            scope.spawn(move || tasks.offer(&[offer("h", attempt)]).unwrap());
        }
    });
    let took = begun.elapsed();
    assert!(took < 8 * limit, "{took:?}");
    assert_eq!(world.store.waiting().len(), 16);
    assert_eq!(a.redis.counters().outages.get(), 1, "noticed once");
}

#[test]
fn a_redis_that_cannot_be_written_to_counts_as_gone() {
    let world = World::new();
    let a = world.instance(1);
    world.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(world.store.waiting(), [1]);
    let Health::Down { reason, .. } = a.redis.health() else { panic!("up") };
    assert!(reason.contains("OOM"), "{reason}");
    world.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    a.wait_until_up();
    world.ok(&["REPLICAOF", "127.0.0.1", "1"]);
    a.tasks.offer(&[offer("h", 2)]).unwrap();
    assert!(is_down(&a.redis));
    world.ok(&["REPLICAOF", "NO", "ONE"]);
    a.wait_until_up();
    assert_eq!(a.take("h", 10), [1, 2]);
}

#[test]
fn wrong_password_is_reported_but_not_printed() {
    let server = waypost_testbed::Redis::start_with_password("right");
    let config = waypost_redis::RedisConfig::new(server.url().replace("right", "hunter2-is-wrong"));
    let redis = Redis::connect(&config, &KEY).unwrap();
    wait_for_reason(&redis, |reason| reason.contains("WRONGPASS") || reason.contains("assword"));
    let Health::Down { reason, .. } = redis.health() else { panic!("up") };
    assert!(!format!("{redis:?} {config:?} {reason}").contains("hunter2"));
    let right = connect(&waypost_redis::RedisConfig::new(server.url()));
    assert!(!format!("{right:?}").contains(":right@"));
}

#[test]
fn it_says_for_how_long_it_has_been_down() {
    let mut world = World::new();
    let redis = world.connect();
    let a = world.instance_on(&redis, 1);
    world.server.kill();
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert!(redis.wait_until_down(PATIENCE));
    world.clock.advance(Millis(90_000));
    let Health::Down { since, .. } = redis.health() else { panic!("up") };
    assert_eq!(since, Millis(90_000));
}
