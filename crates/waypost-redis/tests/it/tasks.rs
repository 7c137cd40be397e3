//! Offers, takes, withdrawals and depths, as long as nothing goes wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use waypost_core::time::Millis;
use waypost_ports::relay::{Relay, Relayed};
use waypost_ports::tasks::Tasks;
use waypost_redis::{Limits, Redis, RedisConfig, RedisRelay, RedisTasks};

use crate::support::{
    Instance, KEY, NONE, World, connect, instance, offer, offer_id, wait_for_reason,
};

#[test]
fn each_task_is_given_to_one_taker_the_oldest_first() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    let offers: Vec<_> = (1..=10).map(|attempt| offer("h", attempt)).collect();
    a.tasks.offer(&offers).unwrap();
    assert_eq!(a.take("other", 5), NONE);
    assert_eq!(b.take("h", 3), [1, 2, 3]);
    assert_eq!(a.take("h", 3), [4, 5, 6]);
    let taken = b.tasks.take(&["h".into()], 100).unwrap();
    assert_eq!(taken, offers[6..]);
    assert_eq!(a.take("h", 3), NONE);
    assert_eq!(world.store.waiting(), NONE, "nothing had to go beneath");
}

#[test]
fn the_oldest_of_several_handlers_come_first() {
    let world = World::new();
    let a = world.instance(1);
    for attempt in 1..=6 {
        let handler = if attempt % 2 == 0 { "even" } else { "odd" };
        a.tasks.offer(&[offer(handler, attempt)]).unwrap();
        // Entries are ordered by the server's milliseconds.
        let now = world.server.command(&["TIME"]);
        crate::support::eventually("the next millisecond", || {
            format!("{:?}", world.server.command(&["TIME"])) != format!("{now:?}")
        });
    }
    let both: Vec<Arc<str>> = vec!["even".into(), "odd".into(), "none".into()];
    let take = |limit| {
        let taken = a.tasks.take(&both, limit).unwrap();
        taken.iter().map(|offer| offer.id.attempt).collect::<Vec<_>>()
    };
    assert_eq!(take(1).len(), 1);
    assert_eq!(take(4).len(), 4);
    assert_eq!(take(4).len(), 1);
    assert_eq!(take(4), NONE);
}

#[test]
fn repeated_offers_do_not_pile_up() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    for _ in 0..5 {
        a.tasks.offer(&[offer("h", 1), offer("h", 2)]).unwrap();
        b.tasks.offer(&[offer("h", 1)]).unwrap();
    }
    assert_eq!(world.number(&["XLEN", "waypost:tasks:{h}"]), 2);
    assert_eq!(a.take("h", 10), [1, 2]);
    // Taken, and not begun, says its owner.
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(b.take("h", 10), [1]);
    // Acknowledged, and offered again: its taker lost it.
    a.tasks.acknowledge();
    b.tasks.acknowledge();
    assert_eq!(world.number(&["XLEN", "waypost:tasks:{h}"]), 0);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(b.take("h", 10), [1]);
}

#[test]
fn taken_task_is_acknowledged_a_second_later() {
    let world = World::new();
    let a = world.instance(1);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(a.take("h", 1), [1]);
    assert_eq!(world.number(&["XLEN", "waypost:tasks:{h}"]), 1);
    world.clock.advance(Millis(1_000));
    crate::support::eventually("the entry is gone", || {
        world.number(&["XLEN", "waypost:tasks:{h}"]) == 0
            && world.number(&["EXISTS", "waypost:offered:{h}"]) == 0
    });
}

#[test]
fn withdraw_removes_waiting_tasks_and_keeps_taken_ones() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    a.tasks.offer(&[offer("h", 1), offer("h", 2), offer("g", 3)]).unwrap();
    assert_eq!(b.take("h", 1), [1]);
    a.tasks.withdraw(&[offer_id(1), offer_id(2), offer_id(3), offer_id(4)]).unwrap();
    assert_eq!(b.take("h", 10), NONE);
    assert_eq!(b.take("g", 10), NONE);
    assert_eq!(world.number(&["XLEN", "waypost:tasks:{h}"]), 1, "the one that was taken");
    a.tasks.offer(&[offer("h", 2)]).unwrap();
    assert_eq!(b.take("h", 10), [2], "it can be offered anew");
}

#[test]
fn depths_count_tasks_that_are_not_taken() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    a.tasks.offer(&(1..=5).map(|attempt| offer("h", attempt)).collect::<Vec<_>>()).unwrap();
    world.store.offer(&[offer("h", 6), offer("g", 7)]).unwrap();
    let depths = |of: &Instance| {
        let depths = of.tasks.depths().unwrap();
        depths.iter().map(|one| (one.handler.to_string(), one.waiting)).collect::<Vec<_>>()
    };
    let expect = |h| vec![("g".to_owned(), 1), ("h".to_owned(), h)];
    assert_eq!(depths(&a), expect(6));
    assert_eq!(b.tasks.take(&["h".into()], 2).unwrap().len(), 2);
    assert_eq!(depths(&a), expect(4));
    assert_eq!(depths(&b), expect(4));
    crate::support::eventually("the oldest gets older", || {
        a.tasks.depths().unwrap()[1].oldest > Millis(20)
    });
}

#[test]
fn overflow_waits_beneath_and_is_found_there() {
    let world = World::new();
    let limits = Limits { stream_entries_max: 3, entry_bytes_max: 8_192, ..world.config().limits };
    let config = RedisConfig { limits, ..world.config() };
    let redis = connect(&config);
    let a = world.instance_on(&redis, 1);
    a.tasks.offer(&(1..=5).map(|attempt| offer("h", attempt)).collect::<Vec<_>>()).unwrap();
    let mut large = offer("g", 6);
    large.body = vec![7; 5_000];
    a.tasks.offer(&[large.clone()]).unwrap();
    assert_eq!(world.store.waiting(), [4, 5, 6]);
    assert_eq!(a.take("h", 10), [1, 2, 3, 4, 5]);
    assert_eq!(a.tasks.take(&["g".into()], 1).unwrap(), [large]);
}

#[test]
fn the_store_beneath_is_left_alone_when_there_is_no_reason_to_look() {
    let world = World::new();
    let a = world.instance(1);
    let takes = || world.store.takes.load(Ordering::SeqCst);
    for _ in 0..50 {
        assert_eq!(a.take("h", 1), NONE);
    }
    assert_eq!(takes(), 1);
    world.clock.advance(Millis(1_000));
    // An instance whose Redis is out of reach has offered this.
    world.store.offer(&[offer("h", 1), offer("h", 2)]).unwrap();
    assert_eq!(a.take("h", 1), [1]);
    assert_eq!(a.take("h", 1), [2], "where there was one there may be more");
    assert_eq!(takes(), 3);
    world.clock.advance(Millis(10_000));
    for _ in 0..50 {
        assert_eq!(a.take("h", 1), NONE);
    }
    assert_eq!(takes(), 4);
}

#[test]
fn redis_sees_neither_what_a_task_says_nor_where_it_is_from() {
    let world = World::new();
    let a = world.instance(1);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    let dump = format!("{:?}", world.server.backup());
    for secret in ["a secret 1", "fetch"] {
        let bytes = format!("{:?}", secret.as_bytes());
        assert!(!dump.contains(bytes.trim_matches(['[', ']'])), "{secret}");
    }
}

#[test]
fn threads_end_with_the_last_handle() {
    let world = World::new();
    let clients = || {
        let info = crate::support::text(world.server.command(&["INFO", "clients"]));
        let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
        line.unwrap().parse::<u32>().unwrap()
    };
    let before = clients();
    let redis = world.connect();
    let tasks = RedisTasks::new(&redis, world.store.clone(), instance(1));
    assert!(clients() > before);
    drop(redis);
    tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(world.store.waiting(), NONE, "the other handle still works");
    drop(tasks);
    crate::support::eventually("the connections are closed", || clients() <= before);
}

#[test]
fn large_tasks_come_in_several_takes_and_in_time() {
    let world = World::new();
    let a = world.instance(1);
    let large = |attempt| {
        let mut offer = offer("h", attempt);
        offer.body = vec![7; 500_000];
        offer
    };
    for attempt in 1..=40 {
        a.tasks.offer(&[large(attempt)]).unwrap();
    }
    assert_eq!(world.store.waiting(), NONE);
    let first = a.take("h", 256);
    assert!(first.len() < 10, "{first:?}");
    let rest = std::iter::repeat_with(|| a.take("h", 256)).take_while(|taken| !taken.is_empty());
    let all: Vec<u32> = first.iter().copied().chain(rest.flatten()).collect();
    assert_eq!(all, (1..=40).collect::<Vec<_>>());
    assert_eq!(a.redis.counters().outages.get(), 0);
}

#[test]
fn a_user_that_may_touch_nothing_but_the_prefix_is_enough() {
    let world = World::new();
    // As the page about running a cluster says.
    let rules = "on >pw resetkeys ~team:* resetchannels &team:* -@all +@read +@write +@connection \
                 +publish +subscribe +unsubscribe +eval +evalsha +script|load +time \
                 +cluster|slots -@dangerous";
    let rules: Vec<&str> = rules.split_whitespace().collect();
    world.ok(&[&["ACL", "SETUSER", "limited"], &rules[..]].concat());
    let url = world.server.url().replace("redis://", "redis://limited:pw@");
    let config = RedisConfig { url, prefix: "team:".into(), ..world.config() };
    let redis = connect(&config);
    let a = world.instance_on(&redis, 1);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    a.tasks.sweep();
    assert_eq!(a.take("h", 1), [1]);
    a.tasks.record_presence(&crate::support::sign(1)).unwrap();
    a.tasks.acknowledge();
    a.tasks.withdraw(&[offer_id(1)]).unwrap();
    a.tasks.depths().unwrap();
    assert_eq!(redis.counters().fallbacks.get(), 0);
    let relay = RedisRelay::new(&redis, instance(1));
    relay.listen(instance(1), Arc::new(|_, answer| answer.committed()));
    crate::support::eventually("mail is answered", || {
        relay.send(instance(1), crate::relay::mail(1)).unwrap() == Relayed::Committed
    });
    let elsewhere = RedisConfig { prefix: "other:".into(), ..config };
    let redis = Redis::connect(&elsewhere, &KEY).unwrap();
    wait_for_reason(&redis, |reason| reason.contains("NOPERM"));
}
