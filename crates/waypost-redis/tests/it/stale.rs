//! Tasks whose taker died, takers that are gone, and piles of both.

use waypost_core::time::Millis;
use waypost_ports::tasks::Tasks;
use waypost_redis::{Limits, RedisConfig};

use crate::support::{Instance, NONE, World, connect, offer};

fn impatient(world: &World, number: u128) -> Instance {
    let limits = Limits { stale_after: Millis(0), ..world.config().limits };
    world.instance_on(&connect(&RedisConfig { limits, ..world.config() }), number)
}

#[test]
fn task_of_a_dead_taker_is_taken_by_another() {
    let world = World::new();
    let (dead, alive) = (world.instance(1), impatient(&world, 2));
    dead.tasks.offer(&(1..=3).map(|attempt| offer("h", attempt)).collect::<Vec<_>>()).unwrap();
    assert_eq!(dead.take("h", 2), [1, 2]);
    drop(dead);
    // This instance does not know the handler yet: it reads it from Redis.
    assert_eq!(alive.tasks.sweep(), 2);
    assert_eq!(alive.redis.counters().stale_claimed.get(), 2);
    assert_eq!(alive.take("h", 10), [3, 1, 2]);
    alive.tasks.acknowledge();
    assert_eq!(world.number(&["XLEN", "waypost:tasks:{h}"]), 0);
    assert_eq!(world.number(&["EXISTS", "waypost:offered:{h}"]), 0);
}

#[test]
fn sweep_leaves_a_task_that_was_just_taken() {
    let world = World::new();
    let (a, b) = (world.instance(1), world.instance(2));
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(a.take("h", 1), [1]);
    assert_eq!(b.tasks.sweep(), 0);
    assert_eq!(b.take("h", 1), NONE);
}

#[test]
fn an_owner_that_offers_again_need_not_wait_for_the_scan() {
    let world = World::new();
    let (dead, owner) = (world.instance(1), impatient(&world, 2));
    owner.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(dead.take("h", 1), [1]);
    drop(dead);
    owner.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(owner.take("h", 10), [1]);
}

#[test]
fn a_late_acknowledgement_does_not_take_what_was_put_out_again() {
    let world = World::new();
    let (slow, quick) = (world.instance(1), impatient(&world, 2));
    quick.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(slow.take("h", 1), [1]);
    assert_eq!(quick.tasks.sweep(), 1);
    slow.tasks.acknowledge();
    quick.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(quick.take("h", 10), [1], "once, and not twice");
}

#[test]
fn takers_go_only_when_nothing_of_theirs_is_left() {
    let world = World::new();
    let a = impatient(&world, 1);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(a.take("h", 1), [1]);
    a.tasks.acknowledge();
    let script =
        include_str!("../../scripts/own.lua").to_owned() + include_str!("../../scripts/claim.lua");
    let claim = |idle: &str| {
        let stream = ["waypost:tasks:{h}", "waypost:offered:{h}", "takers"];
        let mut words = vec!["EVAL", &script, "2"];
        words.extend(stream);
        words.extend(["me", "99999999", "0-0", "10", idle, "60000"]);
        format!("{:?}", world.server.command(&words))
    };
    let takers = || {
        format!(
            "{:?}",
            world.server.command(&["XINFO", "CONSUMERS", "waypost:tasks:{h}", "takers"])
        )
    };
    let named = |name: &str| takers().contains(&format!("{:?}", name.as_bytes()));
    world.ok(&["XGROUP", "CREATECONSUMER", "waypost:tasks:{h}", "takers", "gone"]);
    world.ok(&["XADD", "waypost:tasks:{h}", "*", "i", "x", "b", "y"]);
    world.ok(&["XREADGROUP", "GROUP", "takers", "busy", "STREAMS", "waypost:tasks:{h}", ">"]);
    claim("999999");
    assert!(named("gone") && named("busy"));
    crate::support::eventually("the taker is forgotten", || {
        claim("1");
        !named("gone")
    });
    assert!(named("busy"), "its entry would be a ghost");
}

#[test]
fn a_mountain_of_pending_entries_is_worked_off() {
    const COUNT: i64 = 20_000;
    let world = World::new();
    let a = impatient(&world, 1);
    a.tasks.offer(&[offer("h", 1)]).unwrap();
    assert_eq!(a.take("h", 1), [1]);
    // Taken by several that are gone, and every tenth deleted since. In small steps: a server that
    // is busy for long counts as one that does not answer.
    let fill = "for i = 1, 500 do \
                local e = redis.call('XADD', KEYS[1], '*', 'i', 'x' .. i, 'b', 'y') \
                redis.call('XREADGROUP', 'GROUP', 'takers', ARGV[1], 'STREAMS', KEYS[1], '>') \
                if i % 10 == 0 then redis.call('XDEL', KEYS[1], e) end end";
    for step in 0..COUNT / 500 {
        world.ok(&["EVAL", fill, "1", "waypost:tasks:{h}", &format!("dead{step}")]);
    }
    a.wait_until_up();
    let claimed = a.tasks.sweep();
    assert!(claimed >= u64::try_from(COUNT / 10 * 9 - 1).unwrap(), "{claimed}");
    let pending =
        format!("{:?}", world.server.command(&["XPENDING", "waypost:tasks:{h}", "takers"]));
    assert!(pending.starts_with("Many([Number(0)"), "{pending}");
    // None of them was sealed by this cluster: all are taken, none is given out, all are gone.
    let taken = std::iter::repeat_with(|| {
        let taken = a.take("h", 256);
        (taken, world.number(&["XLEN", "waypost:tasks:{h}"]))
    });
    let taken: Vec<u32> =
        taken.take_while(|(_, left)| *left > 1).flat_map(|(taken, _)| taken).collect();
    assert!(taken.is_empty() || taken == [1], "{taken:?}");
}
