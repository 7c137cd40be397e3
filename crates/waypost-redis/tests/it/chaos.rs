//! Everything at once: an owner that offers what is open, takers, and a network and a server that
//! fail in every way between any two calls.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use waypost_core::time::Millis;
use waypost_ports::tasks::Tasks;
use waypost_redis::{Config, Limits, Redis};
use waypost_testbed::{Direction, Mode, Proxy};

use crate::support::{Instance, KEY, PATIENCE, World, alive, offer, sign, worker};

const TASKS: u32 = 120;

/// What can happen between two calls; `round` chooses.
fn harm(world: &World, proxies: &[Proxy], round: usize) {
    let proxy = &proxies[round % proxies.len()];
    match round % 11 {
        0 => proxy.cut(),
        1 => world.server.flush_all(),
        2 => proxy.set_both(&Mode::Stall),
        3 => world.ok(&["SCRIPT", "FLUSH"]),
        4 => proxy.set(Direction::ToClient, Mode::Swallow),
        5 => world.spoil("waypost:tasks:{h}"),
        6 => proxy.refuse(),
        7 => world.spoil("waypost:offered:{h}"),
        8 => proxy.set(Direction::ToServer, Mode::SwallowAfter(round)),
        9 => world.ok(&["XADD", "waypost:tasks:{h}", "*", "i", "x", "b", "y"]),
        _ => world.ok(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]),
    }
}

fn heal(proxies: &[Proxy]) {
    for proxy in proxies {
        // What was swallowed in part leaves nonsense behind: such a connection is of no use.
        proxy.cut();
        proxy.set_both(&Mode::Pass);
        proxy.accept();
    }
}

fn through(world: &World, proxy: &Proxy, number: u128) -> Instance {
    let limits = Limits {
        response: Duration::from_millis(250),
        backoff_max: Duration::from_millis(100),
        stale_after: Millis(0),
        ..world.config().limits
    };
    let url = world.server.url_through(proxy.port());
    let redis = Redis::connect(&Config { url, limits, ..world.config() }, &KEY).unwrap();
    assert!(redis.wait_until_up(PATIENCE));
    world.instance_on(&redis, number)
}

#[test]
fn no_task_is_lost_and_nobody_is_held_up() {
    let world = World::new();
    let proxies: Vec<Proxy> = (0..3).map(|_| Proxy::start(world.server.port())).collect();
    let all: Vec<Instance> =
        proxies.iter().zip(1..).map(|(proxy, number)| through(&world, proxy, number)).collect();
    let (owner, takers) = all.split_first().unwrap();
    let mut open: BTreeSet<u32> = (1..=TASKS).collect();
    let mut longest = Duration::ZERO;
    let mut round = 0;
    while !open.is_empty() {
        assert!(round < 400, "{} tasks were never taken", open.len());
        if round < 44 {
            harm(&world, &proxies, round);
        } else if round == 44 {
            heal(&proxies);
        }
        let mut timed = |call: &mut dyn FnMut()| {
            let begun = Instant::now();
            call();
            longest = longest.max(begun.elapsed());
        };
        let offers: Vec<_> = open.iter().take(30).map(|attempt| offer("h", *attempt)).collect();
        timed(&mut || owner.tasks.offer(&offers).unwrap());
        for taker in takers {
            timed(&mut || {
                for taken in taker.take("h", 1) {
                    open.remove(&taken);
                }
            });
            timed(&mut || drop(taker.tasks.hear(&sign(1)).unwrap()));
            timed(&mut || taker.tasks.acknowledge());
        }
        timed(&mut || assert_eq!(alive(&owner.tasks, &[worker(1)]), [worker(1)]));
        if round < 44 && round % 4 == 3 {
            heal(&proxies);
            for one in &all {
                one.wait_until_up();
            }
        }
        world.clock.advance(Millis(1_000));
        round += 1;
    }
    // Several times what one command may take, for a machine that does other things as well.
    assert!(longest < Duration::from_millis(1_500), "a call took {longest:?}");
    let outages: u64 = all.iter().map(|one| one.redis.counters().outages.get()).sum();
    assert!(outages >= 10, "{outages}: hardly anything happened");
}

#[test]
fn a_take_whose_answer_was_lost_is_claimed() {
    let world = World::new();
    let proxy = Proxy::start(world.server.port());
    let direct = Proxy::start(world.server.port());
    let (deaf, other) = (through(&world, &proxy, 1), through(&world, &direct, 2));
    other.tasks.offer(&[offer("h", 1)]).unwrap();
    proxy.set(Direction::ToClient, Mode::Swallow);
    assert_eq!(deaf.take("h", 1), crate::support::NONE, "redis gave it, and nobody heard");
    assert_eq!(other.take("h", 1), crate::support::NONE);
    assert_eq!(other.tasks.sweep(), 1);
    assert_eq!(other.take("h", 1), [1]);
}
