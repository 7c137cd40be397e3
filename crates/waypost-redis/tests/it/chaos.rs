//! Everything at once: an owner that offers what is open, takers, and a network and a server that
//! fail in every way between any two calls.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use waypost_core::time::Millis;
use waypost_ports::tasks::Tasks;
use waypost_redis::{Limits, RedisConfig};
use waypost_testbed::{Direction, Mode, Proxy, RedisReply};

use crate::support::{Instance, NONE, World, alive, connect, eventually, offer, sign, worker};

const TASKS: u32 = 120;
/// What one command may take.
const RESPONSE: Duration = Duration::from_millis(250);

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
        response: RESPONSE,
        backoff_max: Duration::from_millis(100),
        stale_after: Millis(0),
        ..world.config().limits
    };
    let url = world.server.url_through(proxy.port());
    world.instance_on(&connect(&RedisConfig { url, limits, ..world.config() }), number)
}

#[test]
fn chaos_loses_no_task_and_delays_no_caller() {
    let world = World::new();
    let proxies: Vec<Proxy> = (0..3).map(|_| Proxy::start(world.server.port())).collect();
    let all: Vec<Instance> =
        proxies.iter().zip(1..).map(|(proxy, number)| through(&world, proxy, number)).collect();
    let (owner, takers) = all.split_first().unwrap();
    let mut open: BTreeSet<u32> = (1..=TASKS).collect();
    let mut slow = 0;
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
            slow += u32::from(begun.elapsed() > 6 * RESPONSE);
        };
        let offers: Vec<_> = open.iter().take(30).map(|attempt| offer("h", *attempt)).collect();
        timed(&mut || owner.tasks.offer(&offers).unwrap());
        for taker in takers {
            timed(&mut || {
                for taken in taker.take("h", 1) {
                    open.remove(&taken);
                }
            });
            timed(&mut || drop(taker.tasks.record_presence(&sign(1)).unwrap()));
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
    // A machine that does other things as well may hold up some. In turn, hundreds would be.
    assert!(slow <= 10, "{slow} calls took several times what one command may take");
    let outages: u64 = all.iter().map(|one| one.redis.counters().outages.get()).sum();
    assert!(outages >= 10, "{outages}: hardly anything happened");
}

#[test]
fn a_take_whose_answer_was_lost_is_claimed() {
    let world = World::new();
    let proxy = Proxy::start(world.server.port());
    let deaf = through(&world, &proxy, 1);
    let limits = Limits { stale_after: Millis(0), ..world.config().limits };
    let other = world.instance_on(&connect(&RedisConfig { limits, ..world.config() }), 2);
    other.tasks.offer(&[offer("h", 1)]).unwrap();
    proxy.set(Direction::ToClient, Mode::Swallow);
    assert_eq!(deaf.take("h", 1), NONE, "redis gave it, and its answer was lost");
    eventually("it was given", || {
        let pending = world.server.command(&["XPENDING", "waypost:tasks:{h}", "takers"]);
        matches!(pending, RedisReply::Many(parts) if parts[0] == RedisReply::Number(1))
    });
    assert_eq!(other.take("h", 1), NONE);
    assert_eq!(other.tasks.sweep(), 1);
    assert_eq!(other.take("h", 1), [1]);
}
